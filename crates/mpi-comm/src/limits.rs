//! Every limit and timeout of this crate.

use std::time::Duration;

/// Largest number of communicators that a process can have at once.
pub const MAX_COMMUNICATORS: usize = 65_536;

/// Largest tag of a message (`MPI_TAG_UB`).
pub const TAG_UB: i32 = i32::MAX;

/// Longest name of a communicator, in bytes (`MPI_MAX_OBJECT_NAME` less the terminating zero).
pub const MAX_OBJECT_NAME_BYTES: usize = 127;

/// Longest key of an info object, in bytes.
pub const MAX_INFO_KEY_BYTES: usize = 255;

/// Longest value of an info object, in bytes.
pub const MAX_INFO_VALUE_BYTES: usize = 1_048_576;

/// After this time a finalize that cannot complete says what it waits for.
pub const FINALIZE_REPORT_AFTER: Duration = Duration::from_secs(10);

/// Before a rank ends the job because a peer is gone, it waits so long for the launcher, which knows
/// better what happened.
pub const PEER_FAILURE_GRACE: Duration = Duration::from_secs(1);

/// Time that the transports have, at the end, to get out what was sent.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a rank that ends the job gives to what it has printed; who holds the stream may never
/// let it go.
pub const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// Stack of the control thread, in bytes: it formats lines and calls the launcher.
pub const CONTROL_THREAD_STACK_BYTES: usize = 256 * 1024;
