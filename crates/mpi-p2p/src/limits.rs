//! Every limit, budget and time of the engine, with its unit.

use std::ops::Range;
use std::time::Duration;

/// Unexpected bytes in one process above which peers are told to announce instead of sending.
pub const UNEXPECTED_MARK_BYTES: u64 = 64 << 20;
/// What a kept message costs beside its body, in bytes: its place, its key and the way to it. A flood of
/// tiny messages holds mostly this.
pub const KEPT_MESSAGE_BYTES: u64 = 144;
/// Largest body of an eager message that any peer may send, unless the transport allows more.
pub const EAGER_FRAME_MAX_BYTES: u64 = 4 << 20;
/// Largest message, in bytes.
pub const MESSAGE_MAX_BYTES: u64 = 1 << 62;
/// Messages up to this size to oneself are copied at once; above, the send waits for its receive.
pub const SELF_EAGER_MAX_BYTES: usize = 64 << 10;
/// Non-contiguous data is packed and pulled in pieces of at most this size.
pub const PIECE_MAX_BYTES: usize = 256 << 10;
/// Non-contiguous data goes in frames of this size through a transport that copies at once: the receiver unpacks one
/// while the sender packs the next.
pub const PACKED_FRAME_BYTES: usize = 8 << 10;
/// Header contexts (communicator id times four plus plane) lie below this.
pub const CONTEXT_MAX: u32 = 1 << 20;
/// Ranks in one communicator.
pub const RANKS_MAX: u32 = 1 << 24;
/// Entries that one search of a matching queue passes over before the queue is hashed.
pub const HASH_AFTER_STEPS: u32 = 32;
/// Bytes of an unexpected message up to which they are kept beside its key.
pub const KEPT_BESIDE_KEY_BYTES: usize = 64;
/// Messages delivered by one poll of one backend.
pub const POLL_BUDGET_MESSAGES: usize = 64;
/// A receive that waits on one peer polls everything else once in this many turns.
pub const POLL_OTHERS_TURNS: u32 = 64;
/// The same where each turn hands the processor over.
pub const POLL_OTHERS_YIELDS: u32 = 8;
/// Backends that were quiet lately are polled once in this many turns.
pub const POLL_QUIET_TURNS: u32 = 32;
/// The clock is read once in this many spins.
pub const CLOCK_TURNS: u32 = 64;
/// The same where each turn hands the processor over.
pub const CLOCK_YIELDS: u32 = 16;
/// Spinning before parking where every rank of the node has a processor.
pub const SPIN_TIME: Duration = Duration::from_micros(100);
/// A sleep that ended sooner than this was not worth it: the peer was busy for a moment, or another program had
/// its processor for a turn, and waking up takes long (docs/decisions/0038).
pub const SHORT_SLEEP: Duration = Duration::from_millis(4);
/// After such a sleep, spinning lasts this many times as long.
pub const SPIN_FACTOR_AFTER_SHORT_SLEEP: u32 = 40;
/// Who spins offers the processor to others this often: it may be a peer's, too.
pub const SPIN_YIELD_PERIOD: Duration = Duration::from_micros(200);
/// An offer of the processor that came back after such a time was taken by somebody who yields, too, and hence
/// probably by a peer: sooner, nobody wanted it; later, it was a program that knows nothing of us.
pub const SHARED_YIELD: Range<Duration> = Duration::from_nanos(800)..Duration::from_micros(400);
/// A spinning thread that shares its processor so offers it once in this many turns.
pub const SHARING_TURNS: u32 = 8;
/// Handing over the processor before parking where ranks outnumber processors.
pub const YIELD_TIME: Duration = Duration::from_millis(3);
/// A parked thread looks around at least this often.
pub const PARK_SLICE: Duration = Duration::from_millis(1000);
/// The same on a backend's futex word, which other threads of the process cannot change.
pub const PARK_SLICE_WORD: Duration = Duration::from_millis(200);
/// The same where other threads may complete what the sleeper waits for.
pub const PARK_SLICE_MIN: Duration = Duration::from_millis(2);
/// A thread that sleeps on memory shared with other processes looks around after this time at first,
pub const OUTSIDE_SLICE_MIN: Duration = Duration::from_millis(1);
/// and after twice as long each time, up to this.
pub const OUTSIDE_SLICE_MAX: Duration = Duration::from_millis(16);
/// A blocked operation is reported after this time.
pub const BLOCKED_REPORT_TIME: Duration = Duration::from_secs(30);
/// What a wait for so many operations waits for is written down for that report
pub const NOTE_MANY_OPERATIONS: usize = 1024;
/// no more often than this.
pub const NOTE_MANY_PERIOD: Duration = Duration::from_millis(500);
/// Unexpected messages named in such a report.
pub const BLOCKED_REPORT_MESSAGES: usize = 4;
/// Peers that a report on a receive from any source names; with more members it names none.
pub const BLOCKED_REPORT_PEERS: usize = 1024;
/// A receive from any rank connects with silent members of other worlds in a communicator of up to so many: in a larger
/// one it does not notice the end of those that nothing was exchanged with.
pub const CALLED_AT_ONCE_PEERS: usize = 1024;
/// The helper thread looks around this often while something needs service.
pub const HELPER_PERIOD: Duration = Duration::from_micros(500);
/// Where nothing has moved, it waits for this part of that time,
pub const HELPER_IDLE_PARTS: u32 = 32;
/// and no longer than this: what comes through memory has nothing that would wake it.
pub const HELPER_PERIOD_MAX: Duration = Duration::from_millis(2);
/// The helper thread looks this often for operations that have been awaited for too long.
pub const HELPER_REPORT_PERIOD: Duration = Duration::from_millis(100);
/// The same as the period while something may come at any time but nothing is under way; what comes by a
/// descriptor is served at once.
pub const HELPER_STANDING_PERIOD: Duration = Duration::from_millis(5);
/// The helper thread goes to sleep after this time without anything to serve.
pub const HELPER_LINGER: Duration = Duration::from_millis(20);
/// Attached-buffer space that each buffered message takes beside its data.
pub const BUFFERED_OVERHEAD_BYTES: usize = 64;
/// Eager sends above this size lend their memory where the transport takes that, rather than have it
/// copied when there is no room; synchronous ones are announced without data.
pub const LEND_ABOVE_BYTES: usize = 64 << 10;
/// The same for an immediate send that others came before since the last flush: the transport may
/// then send many in one call.
pub const LEND_IN_BURST_BYTES: usize = 16 << 10;
/// Polls for what a peer sent before it died, while each finds something.
pub const LAST_WORDS_TURNS: u32 = 4096;
/// Revocations that are kept for communicators not known yet: from each peer.
pub const EARLY_REVOCATIONS_MAX: usize = 1024;
/// Bytes of messages beside contexts that are kept until somebody asks for them.
pub const ASIDE_WAITING_MAX_BYTES: usize = 64 << 20;
/// What each of those costs beside its body, in bytes.
pub const EARLY_ASIDE_BYTES: usize = 64;
/// Most boards of a node that are told apart.
pub const BOARDS_MOST: u32 = 32;
/// Most ranks that meet on a board: each looks at the lines of all.
pub const BOARD_MAX_RANKS: usize = 64;
/// Ranks that are named of those that a collective operation waits for.
pub const ABSENT_SHOWN: usize = 8;
