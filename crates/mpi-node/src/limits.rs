//! Every limit and time of this crate, by name, with its unit.

use std::time::Duration;

/// Most ranks that one segment may hold.
pub const MAX_RANKS: u32 = 4096;
/// Size of a rank's inbox in bytes.
pub const INBOX_BYTES: usize = 64 * 1024;
/// Largest record of an inbox in bytes: half of it, so that any record fits an empty inbox
/// wherever its ends stand.
pub const INBOX_RECORD_BYTES: usize = INBOX_BYTES / 2;
/// Cells of a ring.
pub const RING_CELLS: usize = 256;
/// Body bytes of a ring while the node holds at most [`FEW_RANKS`].
pub const RING_BODY_BYTES_FEW: usize = 240 * 1024;
/// Body bytes of a ring beyond that.
pub const RING_BODY_BYTES_MANY: usize = 112 * 1024;
/// Up to so many ranks a node is small and its rings are long.
pub const FEW_RANKS: u32 = 16;
/// Most rings that lead into one rank; further peers stay with the inbox.
pub const RINGS_PER_RANK: usize = 48;
/// Slots in which a rank offers memory for cross-process copy.
pub const REGION_SLOTS: usize = 256;
/// Boards of a node.
pub const BOARDS: u32 = 4;
/// Bytes that a rank can stage beside what it publishes on a board, while the node holds at most [`FEW_RANKS`].
pub const STAGE_BYTES_FEW: usize = 64 * 1024;
/// The same beyond that.
pub const STAGE_BYTES_MANY: usize = 16 * 1024;
/// Pieces that a rank can feed to the others on a board before the first of them is done with. A power of two.
pub const FEED_PIECES: u64 = 32;
/// Turns that a thread spins on a held lock before it sleeps.
pub const LOCK_SPIN_TURNS: u32 = if cfg!(loom) { 1 } else { 100 };
/// Turns for which a thread that lets others in waits for one of them to enter.
pub const YIELD_TURNS: u32 = if cfg!(loom) { 1 } else { 1_000 };
/// Whoever waits for another process to make a segment anew looks this often whether it lives.
pub const CLEANING_LOOK_PERIOD: Duration = Duration::from_micros(200);
/// A blocked rank looks after so long whether its peers are alive.
pub const LIVENESS_PERIOD: Duration = Duration::from_millis(200);
/// Up to this length, in bytes, a copy by both sides is cut into two pieces.
pub const REGION_HALVES_BYTES: u64 = 128 * 1024;
/// By so much the taker's half is the larger, in bytes, since it begins earlier.
pub const REGION_HEAD_START_BYTES: u64 = 4096;
/// Below this length, in bytes, cutting costs more than it brings.
pub const REGION_PIECE_BYTES_LEAST: u64 = 8 * 1024;
/// Smallest piece of a longer copy, in bytes. A multiple of a page.
pub const REGION_PIECE_BYTES_MIN: u64 = 16 * 1024;
/// Largest piece.
pub const REGION_PIECE_BYTES_MAX: u64 = 512 * 1024;
/// The highest probability of a fault on purpose that ends a call to be made again: higher ones would never let it through.
pub const FAULT_PROBABILITY_MAX: f64 = 0.9;
/// Longest delay of a call on purpose.
pub const FAULT_DELAY_MAX: Duration = Duration::from_micros(500);
/// Longest time that a process stands still on purpose.
pub const FAULT_STALL_MAX: Duration = Duration::from_millis(400);
