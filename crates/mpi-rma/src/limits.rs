//! Every limit, budget and time of one-sided communication, with its unit.

use std::time::Duration;

/// Largest message between processes that share no memory, in bytes; less where a transport takes less.
pub const MESSAGE_MAX_BYTES: usize = 32 << 10;
/// Operations of at most so many bytes are sent in one go, if all of them fit a message of
/// [`SMALL_MESSAGE_BYTES`].
pub const SMALL_MAX_BYTES: usize = 256;
/// Largest message of a small operation, in bytes.
pub const SMALL_MESSAGE_BYTES: usize = 1024;
/// Data under way to one target without its word that they are done, in bytes.
pub const IN_FLIGHT_MAX_BYTES: usize = 1 << 20;
/// Reads under way from one target.
pub const READS_IN_FLIGHT_MAX: usize = 64;
/// Requests of an origin that wait for its lock, in bytes.
pub const DEFERRED_MAX_BYTES: usize = 4 << 20;
/// Locks of a target's memory for operations that are no processor atomics.
pub const STRIPES: usize = 32;
/// Neighbouring bytes that one of them covers.
pub const STRIPE_BYTES: usize = 32 << 10;
/// Accumulates of at least so many touching bytes take locks and vector instructions instead of one
/// processor atomic per element; from the first on, so do all others on that memory.
pub const BULK_BYTES: usize = 1024;
/// Turns for which a held stripe is spun on before the processor is handed over.
pub const STRIPE_SPINS: u32 = 100;
/// Hand-overs after which it is asked whether the holder of a stripe lives.
pub const STRIPE_YIELDS: u32 = 1000;
/// A wait for memory of the node asks this rarely whether everybody lives.
pub const LIVENESS_PERIOD: Duration = Duration::from_millis(100);
/// Every rank's part of an allocated window starts at a multiple of this, in bytes.
pub const PART_ALIGN_BYTES: usize = 64;
/// Largest name of a window, in bytes.
pub const NAME_MAX_BYTES: usize = 128;
/// What a window costs beside its data, per rank, in bytes: less than this, on the heap and in front of the data together.
pub const OVERHEAD_MAX_BYTES: usize = 1024;
/// What stands in front of the data of a rank that shares no memory with others, in bytes. Ranks of a node have one head
/// together and each a seat, which is less.
pub const FRONT_ALONE_BYTES: usize = 384;
/// Copies of at least so much go up and down by turns.
pub const TURN_MIN_BYTES: usize = 32 << 10;
/// Bytes of such a copy that go one way in any case.
pub const TURN_BLOCK_BYTES: usize = 8 << 10;
/// Looks at a word that another process changes before the engine is entered and everything else is looked at too.
pub const FIRST_LOOKS: u32 = 64;
