//! What the simulated network does to those who use it.

use mpi_btl::Caps;

/// Behaviour of a [`Net`](crate::Net). Every chance is per mille; 0 switches the trouble off.
#[derive(Clone, Copy, Debug)]
pub struct SimConfig {
    /// Number of endpoints.
    pub endpoints: usize,
    /// Least time from send to delivery, in virtual nanoseconds.
    pub latency_ns: u64,
    /// Up to this much is added to every delivery, in virtual nanoseconds.
    pub jitter_ns: u64,
    /// Time that a thousand bytes occupy a link, in virtual nanoseconds.
    pub kilobyte_ns: u64,
    /// Time that the first message of a pair waits for its connection, in virtual nanoseconds.
    pub connect_ns: u64,
    /// Chance that a message, and all behind it, stalls.
    pub stall_per_mille: u32,
    /// How long a stall lasts, in virtual nanoseconds.
    pub stall_ns: u64,
    /// Messages that a link holds before it answers `Full`.
    pub queue_messages: usize,
    /// Bytes of body that a link holds before it answers `Full`; one message is always taken.
    pub queue_bytes: usize,
    /// Chance that a send is refused with `Full` though there is room.
    pub full_per_mille: u32,
    /// Chance that a message with `more` is held until the next flush.
    pub hold_per_mille: u32,
    /// Chance that a lent body stays lent (`Pending`) rather than being taken at once.
    pub pending_per_mille: u32,
    /// Deliver a body in random pieces rather than whole.
    pub pieces: bool,
    /// Chance that a `get` completes later rather than at once.
    pub get_pending_per_mille: u32,
    /// Chance that a `get` is refused with `Busy`.
    pub get_busy_per_mille: u32,
    /// The endpoints share boards, as ranks of one node do.
    pub boards: bool,
    /// With boards: the endpoints may copy from and to each other's memory.
    pub reach: bool,
    /// What the endpoints say they can do.
    pub caps: Caps,
}

impl SimConfig {
    /// A well-behaved network of `endpoints`: delay, and nothing else.
    pub fn calm(endpoints: usize) -> SimConfig {
        SimConfig {
            endpoints,
            latency_ns: 1_000,
            jitter_ns: 0,
            kilobyte_ns: 100,
            connect_ns: 0,
            stall_per_mille: 0,
            stall_ns: 0,
            queue_messages: usize::MAX,
            queue_bytes: usize::MAX,
            full_per_mille: 0,
            hold_per_mille: 0,
            pending_per_mille: 0,
            pieces: false,
            get_pending_per_mille: 0,
            get_busy_per_mille: 0,
            boards: false,
            reach: false,
            caps: Caps {
                inline_limit: 64,
                eager_limit: 4096,
                frame_limit: usize::MAX,
                get: false,
                lend: false,
                node: false,
            },
        }
    }

    /// A network of `endpoints` with every trouble at once, `get` and lending included. Limits are
    /// small, so that short tests reach them.
    pub fn rough(endpoints: usize) -> SimConfig {
        SimConfig {
            latency_ns: 500,
            jitter_ns: 5_000,
            connect_ns: 20_000,
            stall_per_mille: 20,
            stall_ns: 1_000_000,
            queue_messages: 16,
            queue_bytes: 64 << 10,
            full_per_mille: 50,
            hold_per_mille: 700,
            pending_per_mille: 700,
            pieces: true,
            get_pending_per_mille: 500,
            get_busy_per_mille: 50,
            caps: Caps {
                inline_limit: 64,
                eager_limit: 1024,
                frame_limit: 8 << 10,
                get: true,
                lend: true,
                node: false,
            },
            ..SimConfig::calm(endpoints)
        }
    }
}
