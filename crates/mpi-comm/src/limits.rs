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

/// Processes that one call may spawn.
pub const SPAWN_PROCESSES_MAX: usize = 4096;

/// Longest wait for the connection of a world that was spawned and has started.
pub const SPAWN_CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest wait for the answer of the host of a port.
pub const PORT_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Addresses in the name of a port; so many fit into [`PORT_MAX_BYTES`](mpi_wire::limits::PORT_MAX_BYTES).
pub const PORT_ADDRESSES_MAX: usize = 16;

/// A connection to a port that has not proved itself by then is dropped.
pub const PORT_PROOF_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections to a port without proof at any time; others wait in the kernel.
pub const PORT_PENDING_MAX: usize = 64;

/// When all of those are taken, one that waited this long makes room.
pub const PORT_EVICT_AFTER: Duration = Duration::from_millis(20);

/// Dropped strangers at a port are told of at most this often.
pub const PORT_STRANGERS_PERIOD: Duration = Duration::from_secs(10);

/// Longest frame between the roots of two groups, in bytes.
pub const PORT_FRAME_MAX_BYTES: u64 = 256 << 20;

/// Bytes for which memory is taken at once while such a frame comes in.
pub const PORT_READ_BYTES: usize = 1 << 20;

/// Longest description of a group that connects with another, in bytes.
pub const GROUP_BLOB_MAX_BYTES: u64 = PORT_FRAME_MAX_BYTES;

/// Worlds that the members of a group that connects with another may be from.
pub const GROUP_JOBS_MAX: usize = 1024;

/// After this time a finalize that cannot complete says what it waits for.
pub const FINALIZE_REPORT_AFTER: Duration = Duration::from_secs(10);

/// Before a rank ends the job because a peer is gone, it waits so long for the launcher, which knows
/// better what happened.
pub const PEER_FAILURE_GRACE: Duration = Duration::from_secs(1);

/// Exit status of a job that an MPI error ended under the default error handler, whatever the error's class: no
/// number of a class, which would mean something else in the launcher's table of statuses.
pub const ERROR_EXIT_STATUS: i32 = 1;

/// A rank other than 0 that cannot initialise MPI leaves rank 0 so long to say why.
pub const START_FAILURE_GRACE: Duration = Duration::from_millis(500);

/// Time that the transports have, at the end, to get out what was sent.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a rank that ends the job gives to what it has printed; who holds the stream may never
/// let it go.
pub const FLUSH_TIMEOUT: Duration = Duration::from_millis(100);

/// Stack of the control thread, in bytes: it formats lines and calls the launcher.
pub const CONTROL_THREAD_STACK_BYTES: usize = 256 * 1024;
/// Time between the two looks by which a rank that polls is told from one that computes.
pub const POLLING_LOOK: std::time::Duration = std::time::Duration::from_millis(20);
/// Operations without a waiting call that are shown in words.
pub const OPEN_SHOWN: usize = 4;
