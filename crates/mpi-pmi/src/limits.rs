//! Every bound of the start-up protocols, with its unit.

use std::time::Duration;

/// Longest wait for an answer that the launcher gives by itself.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for an answer that needs other ranks to come (fence, a peer's value).
/// Setting: `MPI_PMI_TIMEOUT`, in seconds.
pub const PEERS_TIMEOUT: Duration = Duration::from_secs(600);
/// Name of the setting of [`PEERS_TIMEOUT`].
pub const PEERS_TIMEOUT_SETTING: &str = "MPI_PMI_TIMEOUT";
/// Largest world that any launcher may announce, in ranks.
pub const WORLD_MAX_RANKS: u32 = 1 << 24;
/// Bytes read from the launcher at once.
pub const READ_BYTES: usize = 16 << 10;
/// Events kept for a control thread that does not fetch them; later ones are dropped.
pub const EVENTS_MAX: usize = 1024;
/// Keys and values that one rank may publish, in bytes.
pub const KEYSPACE_PER_RANK_MAX_BYTES: usize = 1 << 20;
/// Questions about other ranks' values that one rank may have open.
pub const WAITING_PER_RANK_MAX: usize = 1 << 16;
/// Names that the processes of a job may have published at once.
pub const NAMES_MAX: usize = 4096;
/// Longest wait for the launcher that a process without one starts, until it answers.
pub const LAUNCHER_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Pieces into which a value is cut for a server that takes short ones.
pub const VALUE_PIECES_MAX: usize = 4096;
