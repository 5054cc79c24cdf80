//! Every limit of this crate but those between algorithms, which are in `table.rs`. Bytes are packed bytes.

/// Tags that collectives take in turn; half of those below the ones that communicators are made under.
pub const TAGS: u32 = 1 << 29;
/// Tags of persistent collectives, which come after those.
pub const PERSISTENT_TAGS: u32 = 1 << 29;

/// Broadcast: piece of a pipelined message.
pub const BROADCAST_PIECE_BYTES: usize = 128 << 10;

/// Allreduce of two ranks: a half is exchanged in pieces of at least this size.
pub const ALLREDUCE_PIECE_BYTES: usize = 128 << 10;
/// Allreduce of two ranks: most pieces of a half.
pub const ALLREDUCE_PIECES_MAX: usize = 16;

/// Alltoall between two groups: largest block for which all messages are in flight at once; above, pair by pair.
pub const ALLTOALL_SCATTERED_MAX_BYTES: usize = 32 << 10;

/// Reduce and allreduce: largest vector that a blocking call works on without building a program. Twice this
/// much stands on the stack.
pub const SMALL_REDUCE_MAX_BYTES: usize = 1 << 10;
/// The same for allreduce, whose temporary for such a vector is no larger.
pub const TINY_REDUCE_MAX_BYTES: usize = 64;
/// Allreduce: largest vector that a blocking call works on without building a program. The temporary of a longer one
/// than above comes from the pool.
pub const SMALL_ALLREDUCE_MAX_BYTES: usize = 8 << 10;
/// Gather, scatter and alltoall: largest block that a blocking call moves without building a program.
pub const SMALL_BLOCK_MAX_BYTES: usize = 4 << 10;
/// Alltoall: most ranks for which a blocking call builds no program.
pub const SMALL_ALLTOALL_MAX_RANKS: usize = 16;

/// Collectives that could meet on a board before a team asks for one.
pub const BOARD_AFTER_MEETINGS: u32 = 16;
/// The same of those that reach into other ranks' memory.
pub const BOARD_AFTER_REACHES: u32 = 2;
/// Most bytes that a rank brings to a board.
pub const BOARD_BRING_MAX_BYTES: usize = 32;
/// Broadcast through memory that the ranks share: bytes of the line of a piece, with the message's length;
pub const FEED_LINE_BYTES: usize = BOARD_BRING_MAX_BYTES;
/// and the longest message that stands in the line itself.
pub const FEED_INLINE_MAX_BYTES: usize = FEED_LINE_BYTES - 8;
/// Allreduce on a board: most ranks, as each combines the operands of all;
pub const BOARD_ALLREDUCE_MAX_RANKS: usize = 32;
/// and the bytes of all operands, which stand on the stack.
pub const BOARD_ALLREDUCE_ALL_BYTES: usize = BOARD_BRING_MAX_BYTES * BOARD_ALLREDUCE_MAX_RANKS;
/// The same where little of it is needed.
pub const BOARD_ALLREDUCE_FEW_BYTES: usize = 128;

/// Over several nodes, allreduce: vector from which on several ranks of each node lead, each for a part of it.
pub const LEADERS_PARTS_MIN_BYTES: usize = 16 << 10;
/// Over several nodes, broadcast: message that goes from node to node in pieces from this size on.
pub const LEADERS_STREAM_MIN_BYTES: usize = 2 * BROADCAST_PIECE_BYTES;
/// Over several nodes, gather and scatter: largest block that a leader packs together with those of its node.
pub const LEADERS_BLOCK_MAX_BYTES: usize = 4 << 10;
/// Over several nodes, alltoall: largest block that goes packed by the leaders.
pub const LEADERS_ALLTOALL_MAX_BYTES: usize = 4 << 10;
/// Over several nodes, allgather: largest result that leaders pack; above, a ring that enters each node once.
pub const LEADERS_ALLGATHER_PACKED_MAX_BYTES: usize = 80 << 10;

/// Allreduce out of the others' memory: shorter vectors go by messages whatever the table says.
pub const DIRECT_LEAST_BYTES: usize = 256;
/// Allreduce out of the others' memory: what is fetched, combined and stored at once, so that it stays in the
/// processor's cache.
pub const DIRECT_PIECE_BYTES: usize = 32 << 10;
/// The same where each of many ranks fetches one from every other.
pub const DIRECT_PIECE_OF_MANY_BYTES: usize = 8 << 10;
