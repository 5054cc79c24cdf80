//! Every bound and period of the launcher, with its unit.

use std::time::Duration;

/// Most ranks that one machine runs.
pub const RANKS_MAX: usize = 4096;
/// Most ranks of a job on several machines.
pub const RANKS_OF_A_JOB_MAX: usize = 1 << 20;
/// Hosts that each host starts, unless `--fan-out` says otherwise.
pub const FAN_OUT: u32 = 16;
/// A host that is not heard from for so long is lost, unless `--silence` says otherwise.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Words of life go each way so often within the time of [`SILENCE`].
pub const PINGS_PER_SILENCE: u32 = 5;
/// How long the daemon of a host may take to answer for the first time.
pub const DAEMON_START: Duration = Duration::from_secs(15);
/// How long hosts are waited for with `--wait-hosts`, unless it says otherwise.
pub const HOSTS_WAIT: Duration = Duration::from_secs(300);
/// The longest that `--wait-hosts` takes, in seconds.
pub const HOSTS_WAIT_MAX_SECONDS: usize = 86400;
/// One attempt to reach a host may take so long.
pub const HOST_PROBE: Duration = Duration::from_secs(15);
/// From an attempt that failed to the next one.
pub const HOST_PROBES_APART: Duration = Duration::from_secs(1);
/// How often is looked how attempts went.
pub const HOST_PROBE_LOOK: Duration = Duration::from_millis(20);
/// Attempts that run at once.
pub const HOST_PROBES_AT_ONCE: usize = 32;
/// Bytes of an attempt's complaints that are read.
pub const HOST_PROBE_WORDS_BYTES: usize = 4096;
/// Hosts that cannot be reached and are named; of the others their number is told.
pub const HOSTS_LISTED_MAX: usize = 16;
/// How long daemons may take to end at the end of the job.
pub const DAEMON_END: Duration = Duration::from_secs(3);
/// Output of one host that may be on its way to the launcher, in bytes.
pub const HOST_WINDOW_BYTES: u64 = 1 << 20;
/// Input of one rank that may be on its way to it, in bytes.
pub const INPUT_WINDOW_BYTES: u64 = 256 << 10;
/// Bytes towards a host that may wait before it counts as stuck.
pub const LINK_WAITING_MAX_BYTES: usize = 64 << 20;
/// What may stand before the greeting of a daemon (a shell's start-up files print it), in bytes.
pub const PREAMBLE_MAX_BYTES: usize = 64 << 10;
/// Open files per host that the launcher reaches itself.
pub const OPEN_FILES_PER_HOST: u64 = 3;
/// Open files that the launcher needs besides those of the ranks.
pub const OPEN_FILES_OWN: u64 = 32;
/// Open files that the launcher needs per rank: its two outputs, its control channel, its input, its two files
/// in `--output-dir`.
pub const OPEN_FILES_PER_RANK: u64 = 6;

/// Failures that come within this time after the first count as simultaneous: the lowest rank
/// among them gives the status, so that it is the same from run to run.
pub const SIMULTANEOUS: Duration = Duration::from_millis(20);
/// From the terminate signal to the kill signal after a failure.
pub const KILL_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// From the terminate signal to the kill signal after SIGINT or SIGTERM.
pub const KILL_AFTER_SIGNAL: Duration = Duration::from_secs(3);
/// How long a killed process may take to be gone before it is named and left.
pub const GONE_AFTER_KILL: Duration = Duration::from_secs(5);
/// How long ranks may take to say what they wait for.
pub const REPORTS: Duration = Duration::from_secs(1);
/// Least time from a picture that ranks ask for by reporting unasked to the next one; it doubles
/// each time.
pub const PICTURES_APART: Duration = Duration::from_secs(30);

/// How often events are taken from the ranks for `--trace`.
pub const EVENTS_TAKEN_EVERY: Duration = Duration::from_millis(20);
/// How often a daemon passes on what the ranks of its host have written down, where no events are wanted.
pub const FAR_RECORDS_EVERY: Duration = Duration::from_millis(250);
/// Bytes towards the launcher that may wait before a daemon keeps records back.
pub const FAR_RECORDS_WAITING_MAX_BYTES: usize = 4 << 20;
/// How often `--top` draws.
pub const VIEW_DRAWN_EVERY: Duration = Duration::from_millis(500);

/// A part of a line that nothing follows is shown after this time.
pub const PARTIAL_LINE_SHOWN: Duration = Duration::from_millis(50);
/// Lines of others wait this long for the end of a part of a line that is shown already.
pub const PARTIAL_LINE_HOLDS: Duration = Duration::from_secs(1);
/// A line longer than this is passed on in parts, in bytes.
pub const LINE_MAX_BYTES: usize = 1 << 20;
/// Output waiting for a slow reader above which ranks are no longer read, in bytes.
pub const OUTPUT_WAITING_MAX_BYTES: usize = 4 << 20;
/// Bytes that a pipe which polls writable takes without blocking (PIPE_BUF of Linux).
pub const PIPE_WRITE_BYTES: usize = 4096;
/// Bytes read at once from a rank or from standard input.
pub const READ_BYTES: usize = 64 << 10;
/// How long the end of the job waits for a reader of the launcher's output that does not read.
pub const FLUSH_AT_END: Duration = Duration::from_secs(10);
/// Standard input on a terminal that belongs to another job is looked at again after this time.
pub const BACKGROUND_INPUT: Duration = Duration::from_millis(500);
/// Bytes towards a rank's control channel that may wait before the rank counts as stuck.
pub const CONTROL_WAITING_MAX_BYTES: usize = 16 << 20;

/// The table for `--show-config`.
pub fn table() -> Vec<(&'static str, String)> {
    macro_rules! of {
        ($prefix:literal, $($path:path),* $(,)?) => {
            vec![$((concat!($prefix, stringify!($path)), format!("{:?}", $path))),*]
        };
    }
    let mut all = of!(
        "mpiexec ",
        RANKS_MAX,
        RANKS_OF_A_JOB_MAX,
        FAN_OUT,
        SILENCE,
        PINGS_PER_SILENCE,
        HOSTS_WAIT,
        HOSTS_WAIT_MAX_SECONDS,
        HOST_PROBE,
        HOST_PROBES_APART,
        HOST_PROBE_LOOK,
        HOST_PROBES_AT_ONCE,
        HOST_PROBE_WORDS_BYTES,
        HOSTS_LISTED_MAX,
        DAEMON_START,
        DAEMON_END,
        HOST_WINDOW_BYTES,
        INPUT_WINDOW_BYTES,
        LINK_WAITING_MAX_BYTES,
        PREAMBLE_MAX_BYTES,
        OPEN_FILES_PER_HOST,
        SIMULTANEOUS,
        KILL_AFTER_FAILURE,
        KILL_AFTER_SIGNAL,
        GONE_AFTER_KILL,
        REPORTS,
        PICTURES_APART,
        EVENTS_TAKEN_EVERY,
        FAR_RECORDS_EVERY,
        FAR_RECORDS_WAITING_MAX_BYTES,
        VIEW_DRAWN_EVERY,
        PARTIAL_LINE_SHOWN,
        PARTIAL_LINE_HOLDS,
        LINE_MAX_BYTES,
        OUTPUT_WAITING_MAX_BYTES,
        PIPE_WRITE_BYTES,
        READ_BYTES,
        FLUSH_AT_END,
        BACKGROUND_INPUT,
        CONTROL_WAITING_MAX_BYTES,
        OPEN_FILES_OWN,
        OPEN_FILES_PER_RANK,
    );
    all.extend(mpi_record::limits::table());
    use mpi_pmi::limits as pmi;
    all.extend(of!(
        "mpi-pmi ",
        pmi::ANSWER_TIMEOUT,
        pmi::PEERS_TIMEOUT,
        pmi::WORLD_MAX_RANKS,
        pmi::READ_BYTES,
        pmi::EVENTS_MAX,
        pmi::KEYSPACE_PER_RANK_MAX_BYTES,
        pmi::WAITING_PER_RANK_MAX,
        pmi::NAMES_MAX,
        pmi::LAUNCHER_START_TIMEOUT,
        pmi::VALUE_PIECES_MAX,
    ));
    use mpi_wire::limits as wire;
    all.extend(of!(
        "mpi-wire ",
        wire::STARTUP_FRAME_MAX_BYTES,
        wire::DAEMON_FRAME_MAX_BYTES,
        wire::DAEMON_PIECE_MAX_BYTES,
        wire::DAEMON_LIST_MAX,
        wire::HOSTS_MAX,
        wire::KEY_MAX_BYTES,
        wire::VALUE_MAX_BYTES,
        wire::TEXT_MAX_BYTES,
        wire::SPAWN_COMMANDS_MAX,
        wire::SPAWN_WORDS_MAX,
        wire::SPAWN_INFO_MAX,
        wire::SPAWN_WORD_MAX_BYTES,
        wire::PORT_MAX_BYTES,
        wire::NAME_MAX_BYTES,
        wire::JOB_MAX_BYTES,
        wire::ABORT_TEXT_MAX_BYTES,
        wire::PMI1_LINE_MAX_BYTES,
        wire::PMI2_MESSAGE_MAX_BYTES,
    ));
    all
}
