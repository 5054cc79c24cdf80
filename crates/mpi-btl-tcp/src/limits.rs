//! Every bound of this backend, with its unit.

use std::time::Duration;

/// Largest eager body unless `MPI_TCP_EAGER_BYTES` says otherwise.
pub const EAGER_LIMIT_BYTES: usize = 1 << 20;
/// Largest value that `MPI_TCP_EAGER_BYTES` may have.
pub const EAGER_LIMIT_MAX_BYTES: usize = 16 << 20;
/// A body up to this size goes as one packet with its header.
pub const INLINE_LIMIT_BYTES: usize = 1024;

/// Look-ahead buffer of a connection; its pages are touched only as far as traffic fills them.
pub const LOOK_AHEAD_BYTES: usize = 256 << 10;
/// First read after a long body: enough for the next header and a little, so that the next long
/// body is read in place rather than copied.
pub const SHORT_READ_BYTES: usize = 2 << 10;
/// A message up to this size is delivered whole; a longer one as soon as its header is there.
pub const WHOLE_BYTES: usize = 8 << 10;
/// Reads of one connection in one poll.
pub const READS_PER_POLL: usize = 4;
/// Up to this many connections are read one by one; above, readiness is asked for first.
pub const DIRECT_CONNECTIONS: usize = 2;
/// Reads of a connection that found something, without a sleep between them, after which its readiness is not watched
/// until somebody is about to sleep.
pub const ASIDE_AFTER_READS: u32 = 256;
/// Polls between two looks at the listener while no connection is being made.
pub const LISTENER_EVERY_POLLS: u32 = 64;
/// Readiness events taken at once.
pub const EVENTS: usize = 64;

/// Bodies from this size on are never held back.
pub const HOLD_LIMIT_BYTES: usize = 8 << 10;
/// Held messages of one peer are pushed out from this size on.
pub const COALESCE_BYTES: usize = 32 << 10;
/// The same where lent bodies wait: as much in one call costs the kernel far less than message by
/// message (docs/decisions/0020).
pub const COALESCE_LENT_BYTES: usize = 512 << 10;
/// Size of a buffer for messages that wait.
pub const QUEUE_BUFFER_BYTES: usize = 64 << 10;
/// Bytes that wait for one peer before it answers `Full` (lent bodies do not count).
pub const QUEUE_MAX_BYTES: usize = 1 << 20;
/// Pieces (buffers and lent bodies) that wait for one peer before it answers `Full`.
pub const QUEUE_MAX_PIECES: usize = 1024;
/// Buffers kept for later use.
pub const SPARE_BUFFERS: usize = 8;
/// Pieces handed to the kernel at once.
pub const GATHER_PIECES: usize = 64;
/// Bytes handed to the kernel at once: the longest eager message with its header. The kernel passes them
/// on while it still copies, so shorter pieces gain nothing (docs/decisions/0020); the bound is for the
/// time that a call may take.
pub const SEND_PIECE_BYTES: usize = (1 << 20) + (4 << 10);
/// Peers whose waiting messages are tried in one poll without a readiness call.
pub const DRAINS_PER_POLL: usize = 4;

/// A lone message of at least twice this length is sent in two pieces, this one first: the receiver
/// copies it while we send the rest (docs/decisions/0020).
pub const FIRST_PIECE_BYTES: usize = 32 << 10;

/// Header and body of a lone message up to this size are put together before they are sent.
pub const ONE_PIECE_BYTES: usize = 2 << 10;

/// Kernel buffers of a connection, each way, where the system allows that much.
pub const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// Where it allows less than this, the kernel's own tuning does better than a fixed size.
pub const SOCKET_BUFFER_MIN_BYTES: usize = 1 << 20;

/// Congestion control between processes of one host: every kernel has it, and it does not pace.
pub const LOCAL_CONGESTION_CONTROL: &[u8] = b"reno";

/// A connection that has not proved who it is by then is dropped.
pub const PROOF_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections without proof at any time.
pub const UNPROVEN_MAX: usize = 256;
/// When all of those are taken, one that waited this long makes room: a peer that polls needs far less,
/// and one that does not comes again.
pub const UNPROVEN_EVICT_AFTER: Duration = Duration::from_millis(50);
/// Dropped strangers are told of at most this often.
pub const STRANGERS_REPORT_PERIOD: Duration = Duration::from_secs(10);
/// Connections accepted in one poll.
pub const ACCEPTS_PER_POLL: usize = 16;
/// The listener rests this long after the process ran out of descriptors.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Connections that the kernel completes ahead of `accept`.
pub const LISTEN_BACKLOG: i32 = 4096;

/// A peer that cannot be reached is reported after this.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// An attempt that the peer closed before its reply is repeated after this.
pub const CONNECT_RETRY: Duration = Duration::from_millis(20);
/// Addresses of one peer; more are ignored.
pub const ADDRESSES_MAX: usize = 64;

/// Silence before the first keepalive probe.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// Time between two probes.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Probes without answer before the connection is given up.
pub const KEEPALIVE_PROBES: u32 = 3;
/// Unacknowledged data older than this ends the connection.
pub const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(30);

const _: () = assert!(WHOLE_BYTES + mpi_wire::HEADER_LEN <= LOOK_AHEAD_BYTES);
