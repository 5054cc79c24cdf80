//! Every bound of the wire formats, with its unit.

/// Longest body of a start-up frame, in bytes (kind byte included).
pub const STARTUP_FRAME_MAX_BYTES: usize = 1 << 20;
/// Longest body of a frame between the launcher and its daemons, in bytes: room for the whole
/// environment of a job.
pub const DAEMON_FRAME_MAX_BYTES: usize = 16 << 20;
/// Longest piece of a stream (output, input, control channel) in such a frame, in bytes.
pub const DAEMON_PIECE_MAX_BYTES: usize = 64 << 10;
/// Hosts in one job.
pub const HOSTS_MAX: usize = 16 << 10;
/// Programs, variables, or ranks of one host in one such frame.
pub const DAEMON_LIST_MAX: usize = 64 << 10;
/// Longest key of the key-value space, in bytes.
pub const KEY_MAX_BYTES: usize = 256;
/// Longest value of the key-value space, in bytes.
pub const VALUE_MAX_BYTES: usize = 256 << 10;
/// Longest text (reason, report, host name) in a start-up frame, in bytes.
pub const TEXT_MAX_BYTES: usize = 16 << 10;
/// Blocked calls (one per thread) that a report tells of.
pub const WAITS_MAX: usize = 256;
/// Peers that a blocked call names; of one that waits for more, none is named.
pub const WAIT_PEERS_MAX: usize = 1024;
/// Programs in one request to spawn.
pub const SPAWN_COMMANDS_MAX: usize = 4096;
/// Arguments of one program to spawn.
pub const SPAWN_WORDS_MAX: usize = 64 << 10;
/// Hints for one program to spawn.
pub const SPAWN_INFO_MAX: usize = 256;
/// Longest program, argument, directory or hint in a request to spawn, in bytes.
pub const SPAWN_WORD_MAX_BYTES: usize = 128 << 10;
/// Longest name of a port, in bytes (`MPI_MAX_PORT_NAME` less the terminating zero).
pub const PORT_MAX_BYTES: usize = 1023;
/// Longest published name, in bytes.
pub const NAME_MAX_BYTES: usize = 1024;
/// Longest job id, in bytes.
pub const JOB_MAX_BYTES: usize = 128;
/// Longest text that an abort message carries to a peer, in bytes.
pub const ABORT_TEXT_MAX_BYTES: usize = 1 << 10;
/// Longest line of PMI-1, in bytes, newline included.
pub const PMI1_LINE_MAX_BYTES: usize = 64 << 10;
/// Longest message of PMI-2, in bytes, without its six characters of length.
pub const PMI2_MESSAGE_MAX_BYTES: usize = 64 << 10;
/// Runs of a flattened datatype in one message of one-sided communication.
pub const RMA_RUNS_MAX: usize = 512;
/// Text of a failed one-sided operation, in bytes.
pub const RMA_FAULT_TEXT_MAX_BYTES: usize = 512;
