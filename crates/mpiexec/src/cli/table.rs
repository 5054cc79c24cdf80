//! Every option, once: what it is called, what it takes, where else it can be set.

/// Where an option may stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// One value for the whole job.
    Job,
    /// One value per program (sections between `:`).
    Program,
}

/// What follows an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// Nothing.
    Flag,
    /// One word.
    Value(&'static str),
    /// `NAME=VALUE` in one word, or `NAME VALUE` in two.
    Pair,
    /// `NAME=VALUE`, or `NAME` alone.
    Assignment,
}

/// What the launcher does with an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// It is carried out.
    Yes,
    /// It is refused, with this reason.
    Refused(&'static str),
    /// It is accepted and changes nothing.
    Needless,
}

/// One option.
#[derive(Debug)]
pub struct Opt {
    /// Its name without dashes; also its key in the configuration file.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What follows it.
    pub takes: Takes,
    /// Where it may stand.
    pub scope: Scope,
    /// What becomes of it.
    pub support: Support,
    /// Heading in the help.
    pub group: &'static str,
    /// One line for the help.
    pub help: &'static str,
}

impl Opt {
    /// The environment variable that sets it: `MPIEXEC_` and its name in capitals.
    pub fn variable(&self) -> String {
        format!("MPIEXEC_{}", self.name.replace('-', "_").to_uppercase())
    }

    /// All variables that set it, the first that is set being taken: [`variable`](Opt::variable), and the one
    /// by which ranks are told.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        let told = OF_RANKS.iter().find(|(name, _)| *name == self.name).map(|(_, told)| String::from(*told));
        [self.variable()].into_iter().chain(told)
    }

    /// It can be set outside of the command line: by its variable and in the configuration file. So can all
    /// but those that are refused and those that print something and end.
    pub fn has_default(&self) -> bool {
        !matches!(self.support, Support::Refused(_)) && !ON_THE_COMMAND_LINE_ONLY.contains(&self.name)
    }
}

/// Options that print something and end.
pub const ON_THE_COMMAND_LINE_ONLY: &[&str] = &["help", "version", "show-config"];

/// The option called `name` (without dashes).
pub fn find(name: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|opt| opt.name == name || opt.aliases.contains(&name))
}

/// Variables that ranks know by themselves, and of which the launcher has to know too.
const OF_RANKS: &[(&str, &str)] =
    &[("bind-to", "MPI_BIND_TO"), ("iface", "MPI_IFACE"), ("port-range", "MPI_PORT_RANGE")];

const INFORMATION: &str = "Information";
const PROGRAMS: &str = "Programs";
const CARGO: &str = "Cargo targets";
const PLACEMENT: &str = "Placement";
const STREAMS: &str = "Input and output";
const ENDING: &str = "Ending";
const SEEING: &str = "Seeing the job";
const HOSTS: &str = "Several hosts";

const fn opt(
    name: &'static str,
    aliases: &'static [&'static str],
    takes: Takes,
    scope: Scope,
    group: &'static str,
    help: &'static str,
) -> Opt {
    Opt { name, aliases, takes, scope, support: Support::Yes, group, help }
}

const fn refused(
    name: &'static str,
    aliases: &'static [&'static str],
    value: &'static str,
    group: &'static str,
    why: &'static str,
) -> Opt {
    let takes = Takes::Value(value);
    Opt { name, aliases, takes, scope: Scope::Program, support: Support::Refused(why), group, help: why }
}

/// All of them, in the order of the help.
pub const OPTIONS: &[Opt] = {
    use Scope::{Job, Program};
    use Takes::{Assignment, Flag, Pair, Value};
    &[
        opt(
            "n",
            &["np"],
            Value("N"),
            Program,
            PROGRAMS,
            "start N ranks (default: one per available processor)",
        ),
        opt("wdir", &["wd"], Value("DIR"), Program, PROGRAMS, "working directory of the ranks"),
        opt(
            "path",
            &[],
            Value("DIRS"),
            Program,
            PROGRAMS,
            "look for the program in these directories (a:b) first",
        ),
        opt(
            "env",
            &["x"],
            Assignment,
            Program,
            PROGRAMS,
            "set NAME=VALUE (or NAME VALUE with -env) for this program's ranks",
        ),
        opt("genv", &[], Pair, Job, PROGRAMS, "set NAME VALUE (or NAME=VALUE) for all ranks"),
        opt(
            "configfile",
            &[],
            Value("FILE"),
            Job,
            PROGRAMS,
            "read programs from FILE, one section of the command line per line",
        ),
        opt(
            "initial-errhandler",
            &[],
            Value("HANDLER"),
            Job,
            PROGRAMS,
            "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return",
        ),
        opt("arch", &[], Value("ARCH"), Program, PROGRAMS, "refuse to run on another processor architecture"),
        opt(
            "soft",
            &[],
            Value("TRIPLETS"),
            Program,
            PROGRAMS,
            "numbers of ranks that would do as well; -n is taken",
        ),
        refused(
            "file",
            &[],
            "FILE",
            PROGRAMS,
            "the format of -file is left to each implementation; use -configfile",
        ),
        opt("example", &[], Value("NAME"), Program, CARGO, "build and run an example of the Cargo workspace"),
        opt("bin", &[], Value("NAME"), Program, CARGO, "build and run a binary of the Cargo workspace"),
        opt(
            "package",
            &["p"],
            Value("PACKAGE"),
            Program,
            CARGO,
            "the package that has the example or binary",
        ),
        opt("release", &[], Flag, Program, CARGO, "build with the release profile"),
        opt(
            "profile",
            &[],
            Value("PROFILE"),
            Program,
            CARGO,
            "build with this profile (default: mpiexec's own under cargo run)",
        ),
        opt("features", &[], Value("LIST"), Program, CARGO, "build with these features"),
        opt("no-default-features", &[], Flag, Program, CARGO, "build without the default features"),
        opt("oversubscribe", &[], Flag, Job, PLACEMENT, "more ranks than processors are meant: say nothing"),
        opt("no-oversubscribe", &[], Flag, Job, PLACEMENT, "refuse more ranks than processors"),
        opt("ppn", &["perhost", "npernode"], Value("N"), Job, PLACEMENT, "N ranks on each host"),
        opt(
            "map-by",
            &[],
            Value("WHAT"),
            Job,
            PLACEMENT,
            "slot: fill host by host (default); node: hosts in turn; core, socket, numa: these in turn",
        ),
        opt(
            "bind-to",
            &[],
            Value("WHAT"),
            Job,
            PLACEMENT,
            "hwthread, core, socket or numa: processors of each rank; none: all (default)",
        ),
        opt(
            "show-map",
            &[],
            Flag,
            Job,
            PLACEMENT,
            "print each rank's host and processors, read back from the kernel (=json: as JSON)",
        ),
        opt("dry-run", &[], Flag, Job, PLACEMENT, "print what would be started, and start nothing"),
        opt("tag-output", &["l"], Flag, Job, STREAMS, "start each line with the rank that wrote it"),
        opt("timestamp-output", &[], Flag, Job, STREAMS, "start each line with its time (UTC)"),
        opt(
            "output-dir",
            &[],
            Value("DIR"),
            Job,
            STREAMS,
            "write each rank's output to DIR/rank.N.out and rank.N.err instead of showing it",
        ),
        opt("output-from", &[], Value("RANKS"), Job, STREAMS, "show the output of these ranks only (0,2-3)"),
        opt(
            "stdin",
            &[],
            Value("RANK"),
            Job,
            STREAMS,
            "the rank that reads standard input, all, or none (default: 0)",
        ),
        opt(
            "pty",
            &[],
            Flag,
            Job,
            STREAMS,
            "give the rank that reads standard input a terminal of its own, for its output too",
        ),
        opt(
            "timeout",
            &[],
            Value("SECONDS"),
            Job,
            ENDING,
            "end the job after this time, and say what each rank waited for",
        ),
        opt(
            "enable-recovery",
            &[],
            Flag,
            Job,
            ENDING,
            "go on when a rank dies, and tell the others: for programs that recover (mpi::ft)",
        ),
        opt("print-all-exitcodes", &[], Flag, Job, ENDING, "print every rank's exit status at the end"),
        opt(
            "stats",
            &[],
            Flag,
            Job,
            SEEING,
            "at the end, print where the time went and who sent how much, and draw who talks to whom",
        ),
        opt(
            "matrix",
            &[],
            Value("FILE"),
            Job,
            SEEING,
            "where --stats draws the communication matrix (default: mpi-matrix.svg)",
        ),
        opt(
            "report",
            &[],
            Value("FILE"),
            Job,
            SEEING,
            "write where the time went as JSON, or as a page where FILE ends with .html",
        ),
        opt(
            "trace",
            &[],
            Value("FILE"),
            Job,
            SEEING,
            "write every operation and message as a trace that Perfetto opens",
        ),
        opt("top", &[], Flag, Job, SEEING, "show in the terminal what every rank does while the job runs"),
        opt(
            "picture",
            &[],
            Value("FILE"),
            Job,
            SEEING,
            "write each picture of who waits for whom, also as JSON, over the one before",
        ),
        opt(
            "hostfile",
            &["f", "machinefile"],
            Value("FILE"),
            Job,
            HOSTS,
            "hosts for the ranks: host, host:N, host slots=N, user@host, [v6]:N, a[01-16]",
        ),
        opt(
            "host",
            &["hosts"],
            Value("LIST"),
            Program,
            HOSTS,
            "hosts for this program's ranks, with commas; of those in the hostfile, where one is given",
        ),
        opt(
            "launcher",
            &["bootstrap"],
            Value("HOW"),
            Job,
            HOSTS,
            "ssh, slurm (default in an allocation), fork, or exec:COMMAND with {host} and {command}",
        ),
        opt("copy-self", &[], Flag, Job, HOSTS, "copy mpiexec to each host instead of finding it there"),
        opt(
            "fan-out",
            &[],
            Value("N"),
            Job,
            HOSTS,
            "hosts that mpiexec, and each host in turn, reaches by itself (16)",
        ),
        opt(
            "silence",
            &[],
            Value("SECONDS"),
            Job,
            HOSTS,
            "end the job when a host is not heard from for so long (30)",
        ),
        opt(
            "wait-hosts",
            &[],
            Flag,
            Job,
            HOSTS,
            "wait until every host can be reached, for at most 300 s (=SECONDS: for so long)",
        ),
        opt("iface", &[], Value("NAME"), Job, HOSTS, "network interface for the ranks' connections"),
        opt("port-range", &[], Value("A-B"), Job, HOSTS, "ports for the ranks' connections"),
        Opt {
            name: "allow-run-as-root",
            aliases: &[],
            takes: Flag,
            scope: Job,
            support: Support::Needless,
            group: ENDING,
            help: "accepted and needless: root needs no flag",
        },
        opt("verbose", &["v"], Flag, Job, INFORMATION, "say what is started and how it ends"),
        opt("quiet", &["q"], Flag, Job, INFORMATION, "print no remarks, only errors"),
        opt(
            "show-config",
            &[],
            Flag,
            Job,
            INFORMATION,
            "print every setting and limit, and where it comes from",
        ),
        opt("help", &["h"], Flag, Job, INFORMATION, "print this"),
        opt("version", &["V"], Flag, Job, INFORMATION, "print the version"),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<&str> =
            OPTIONS.iter().flat_map(|o| o.aliases.iter().copied().chain([o.name])).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn groups_stand_together() {
        // The help prints a heading per group; refused ones of HOSTS may be followed by ENDING's.
        assert_eq!(find("np").map(|o| o.name), Some("n"));
        assert_eq!(find("timeout").map(Opt::variable).as_deref(), Some("MPIEXEC_TIMEOUT"));
    }
}
