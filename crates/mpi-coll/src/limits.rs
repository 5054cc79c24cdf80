//! Every limit of this crate: from which size on which algorithm is used. Bytes are packed bytes.
//!
//! The values are starting points from the literature cited at the algorithms; measured ones replace them.

/// Tags that collectives take in turn; half of those below the ones that communicators are made under.
pub const TAGS: u32 = 1 << 29;
/// Tags of persistent collectives, which come after those.
pub const PERSISTENT_TAGS: u32 = 1 << 29;

/// Broadcast: largest message sent whole down a binomial tree.
pub const BROADCAST_BINOMIAL_MAX_BYTES: usize = 12 << 10;
/// Broadcast: largest message that is scattered and gathered again; above, it is pipelined.
pub const BROADCAST_SCATTER_MAX_BYTES: usize = 512 << 10;
/// Broadcast: piece of a pipelined message.
pub const BROADCAST_PIECE_BYTES: usize = 128 << 10;

/// Reduce: largest vector reduced whole up a binomial tree.
pub const REDUCE_BINOMIAL_MAX_BYTES: usize = 8 << 10;

/// Allreduce: largest vector exchanged whole by recursive doubling.
pub const ALLREDUCE_DOUBLING_MAX_BYTES: usize = 2 << 10;
/// Allreduce: smallest vector that goes round a ring (commutative operations).
pub const ALLREDUCE_RING_MIN_BYTES: usize = 4 << 20;

/// Gather and scatter: largest block that goes over a binomial tree.
pub const GATHER_BINOMIAL_MAX_BYTES: usize = 2 << 10;
/// Gather and scatter: fewest ranks for which the tree pays.
pub const GATHER_BINOMIAL_MIN_RANKS: usize = 5;

/// Allgather: largest result gathered in a logarithmic number of rounds; above, round a ring.
pub const ALLGATHER_LOGARITHMIC_MAX_BYTES: usize = 80 << 10;

/// Alltoall: largest block that takes a logarithmic number of rounds.
pub const ALLTOALL_BRUCK_MAX_BYTES: usize = 256;
/// Alltoall: fewest ranks for which they pay.
pub const ALLTOALL_BRUCK_MIN_RANKS: usize = 8;
/// Alltoall: largest block for which all messages are in flight at once; above, pair by pair.
pub const ALLTOALL_SCATTERED_MAX_BYTES: usize = 32 << 10;

/// Reduce-scatter: largest vector halved recursively; above, pair by pair.
pub const REDUCE_SCATTER_HALVING_MAX_BYTES: usize = 512 << 10;

/// Reduce and allreduce: largest vector that a blocking call works on without building a program. Twice this
/// much stands on the stack.
pub const SMALL_REDUCE_MAX_BYTES: usize = 512;
/// Gather, scatter and alltoall: largest block that a blocking call moves without building a program.
pub const SMALL_BLOCK_MAX_BYTES: usize = 4 << 10;
/// Alltoall: most ranks for which a blocking call builds no program.
pub const SMALL_ALLTOALL_MAX_RANKS: usize = 16;
