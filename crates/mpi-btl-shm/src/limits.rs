//! Every limit of this backend, by name, with its unit.

use std::time::Duration;

/// Largest body sent at once, in bytes; longer messages are announced.
pub const EAGER_BYTES: usize = 8 * 1024;
/// Largest body of one frame in bytes: with the longest header it fits an inbox.
pub const FRAME_BYTES: usize = 32 * 1024 - 128;
/// Messages that a pair sends through the inbox before it claims a ring.
pub const MESSAGES_BEFORE_RING: u32 = 2;
/// Messages taken from one ring before the next has its turn.
pub const RING_BURST: usize = 32;
/// Turns for which a `get` waits for the owner's last piece before it answers "pending".
pub const LAST_PIECE_TURNS: u32 = 600;
/// Offers, from the oldest, that each poll looks at; of the others one per poll.
pub const OFFERS_PER_POLL: usize = 4;
/// From this length, in bytes, a sleeping owner is woken to help with the copy.
pub const WAKE_TO_HELP_BYTES: usize = 512 * 1024;
/// Bytes of messages from a peer not yet named that are set aside before the inbox waits.
pub const UNNAMED_BYTES: usize = 1 << 20;
/// Idle polls between two looks at the clock.
pub const IDLE_POLLS_PER_CLOCK: u32 = 256;
/// A waiting rank looks after so long whether its peers live.
pub const LIVENESS_PERIOD: Duration = mpi_node::limits::LIVENESS_PERIOD;

const _: () = {
    assert!(FRAME_BYTES + mpi_wire::HEADER_LEN + 64 <= mpi_node::limits::INBOX_RECORD_BYTES);
    assert!(EAGER_BYTES <= FRAME_BYTES);
    assert!(FRAME_BYTES + mpi_wire::HEADER_LEN <= mpi_node::limits::RING_BODY_BYTES_MANY / 8 * 3 - 64);
};
