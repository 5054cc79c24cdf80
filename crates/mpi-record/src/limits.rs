//! Every bound of this crate, with its unit.

/// Most peers of a rank that are counted one by one, each way for itself (messages, put, got); the traffic with
/// others is counted together.
pub const PEERS_MAX: usize = 512;
/// Bins of a rank's timeline.
pub const TIMELINE_BINS: usize = 512;
/// Width of a bin at the start, as a power of two of ticks: a fraction of a millisecond. It doubles
/// whenever the job outgrows the timeline.
pub const TIMELINE_BIN_SHIFT: u32 = 20;
/// Classes of message sizes: empty, then one per power of two.
pub const SIZE_CLASSES: usize = 48;
/// Events of a rank that wait for the launcher at most, where few ranks share the memory.
pub const EVENTS_MAX: usize = 1 << 16;
/// The same where many do.
pub const EVENTS_MIN: usize = 1 << 12;
/// Memory for the events of all ranks, in bytes; [`EVENTS_MIN`] may exceed it.
pub const EVENTS_BYTES: usize = 128 << 20;
/// Copies below this size are not timed: reading the clock would cost as much, in bytes.
pub const TIMED_COPY_BYTES: usize = 8 << 10;
/// Copies from this size on are timed in any case; smaller ones where their operation is.
pub const LONG_COPY_BYTES: usize = 64 << 10;
/// So many calls of each operation are timed from beginning to end, each for itself.
pub const EXACT_CALLS: u64 = 64;
/// Of further ones, one in so many, which then stands for all of them as far as they are short.
pub const SAMPLE_CALLS: u32 = 64;
/// Looks for a message where it will come in that make a turn: each is one line of memory.
pub const LOOKS_PER_MESSAGE_TURN: u32 = 64;
/// Looks for anything else that make a turn: each is a poll of the transports.
pub const LOOKS_PER_TURN: u32 = 16;
/// A call that has waited for so many turns is long, and timed from there: a microsecond or two.
pub const LONG_WAIT_TURNS: u32 = 8;
/// Operations that are told apart.
pub const OPS_MAX: usize = 96;
/// Algorithms that are told apart.
pub const ALGORITHMS_MAX: usize = 32;

/// The table for `--show-config`.
pub fn table() -> Vec<(&'static str, String)> {
    vec![
        ("mpi-record PEERS_MAX", PEERS_MAX.to_string()),
        ("mpi-record TIMELINE_BINS", TIMELINE_BINS.to_string()),
        ("mpi-record SIZE_CLASSES", SIZE_CLASSES.to_string()),
        ("mpi-record EVENTS_MAX", EVENTS_MAX.to_string()),
        ("mpi-record EVENTS_MIN", EVENTS_MIN.to_string()),
        ("mpi-record EVENTS_BYTES", EVENTS_BYTES.to_string()),
        ("mpi-record TIMED_COPY_BYTES", TIMED_COPY_BYTES.to_string()),
        ("mpi-record LONG_COPY_BYTES", LONG_COPY_BYTES.to_string()),
        ("mpi-record EXACT_CALLS", EXACT_CALLS.to_string()),
        ("mpi-record SAMPLE_CALLS", SAMPLE_CALLS.to_string()),
        ("mpi-record LONG_WAIT_TURNS", LONG_WAIT_TURNS.to_string()),
    ]
}
