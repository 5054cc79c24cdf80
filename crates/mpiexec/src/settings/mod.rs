//! What the options mean: flag beats environment beats file beats default.

mod library;
mod program;
mod read;
mod show;

use crate::cli::{UsageError, Words};
use crate::hosts::hostfile::{self, Entry};
use crate::hosts::launcher::Launcher;
use crate::limits;
pub use crate::outside::Outside;
use crate::outside::Values;
use crate::topology::{BindTo, MapBy};
pub use library::slips;
use program::program;
use read::{
    agree, errhandler, hostfile_of, oversubscribe, pty, ranks, silence, stdin_to, timeout, variables, wanted,
};
pub use show::show;
use std::ffi::OsString;
use std::io::{IsTerminal, stderr, stdin};
use std::path::PathBuf;
use std::time::Duration;

/// A job as it is wanted.
#[derive(Debug)]
pub struct Job {
    /// The programs, at least one.
    pub programs: Vec<Program>,
    /// Variables for all ranks.
    pub env: Vec<(String, String)>,
    /// Lines carry their rank.
    pub tag: bool,
    /// Lines carry their time.
    pub timestamp: bool,
    /// Where each rank's output goes into files of its own.
    pub output_dir: Option<PathBuf>,
    /// Whose output is shown.
    pub output_from: Option<Vec<usize>>,
    /// The option that says so, as it was given.
    pub output_from_said: String,
    /// Who reads standard input.
    pub stdin: StdinTo,
    /// The option that says so, as it was given.
    pub stdin_said: String,
    /// Who reads standard input has a terminal of its own.
    pub pty: bool,
    /// End after this time.
    pub timeout: Option<Duration>,
    /// Go on when a rank dies.
    pub recovery: bool,
    /// Print all exit statuses.
    pub print_all: bool,
    /// Say more.
    pub verbose: bool,
    /// Say less.
    pub quiet: bool,
    /// More ranks than processors.
    pub oversubscribe: Oversubscribe,
    /// The network interface for the ranks' connections, and the option that says so, as it was given.
    pub iface: Option<(String, String)>,
    /// The hosts of the hostfile.
    pub hostfile: Option<Vec<Entry>>,
    /// Ranks on each host.
    pub ppn: Option<usize>,
    /// In which order hosts and processors are filled.
    pub map_by: MapBy,
    /// What ranks are bound to.
    pub bind_to: BindTo,
    /// How other hosts are reached.
    pub launcher: Launcher,
    /// The launcher is not there on other hosts: it is copied.
    pub copy_self: bool,
    /// Hosts that each host starts.
    pub fan_out: u32,
    /// How long a host may be silent.
    pub silence: Duration,
    /// How long hosts that cannot be reached are waited for.
    pub wait_hosts: Option<Duration>,
    /// Print the map.
    pub show_map: ShowMap,
    /// Start nothing.
    pub dry_run: bool,
    /// The error handler that ranks start with.
    pub errhandler: Option<String>,
    /// What the job is to show of itself.
    pub wanted: Wanted,
}

/// What the job is to show of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Tables at the end.
    pub stats: bool,
    /// The communication matrix, beside the tables.
    pub matrix: Option<PathBuf>,
    /// Everything that was recorded, as JSON or as a page.
    pub report: Option<PathBuf>,
    /// Single events.
    pub trace: Option<PathBuf>,
    /// A view in the terminal.
    pub top: bool,
    /// Pictures of who waits for whom, as JSON.
    pub picture: Option<PathBuf>,
}

/// One program of the job.
#[derive(Debug)]
pub struct Program {
    /// Ranks; `None`: one per processor.
    pub count: Option<usize>,
    /// What is run.
    pub what: What,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The hosts that it may run on.
    pub hosts: Option<Vec<Entry>>,
    /// Its directory.
    pub wdir: Option<PathBuf>,
    /// Where it is looked for first.
    pub path: Option<String>,
    /// Its variables.
    pub env: Vec<(String, String)>,
}

/// What is run.
#[derive(Debug)]
pub enum What {
    /// A program by name or path.
    Named(OsString),
    /// A Cargo target, to be built first.
    Cargo(CargoTarget),
}

/// A Cargo target.
#[derive(Clone, Debug, Default)]
pub struct CargoTarget {
    /// An example; else a binary.
    pub example: bool,
    /// Its name.
    pub name: String,
    /// Its package.
    pub package: Option<String>,
    /// The profile to build with.
    pub profile: Option<String>,
    /// Features.
    pub features: Option<String>,
    /// Without default features.
    pub no_default_features: bool,
}

/// Who reads standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StdinTo {
    /// One rank.
    Rank(usize),
    /// Every rank gets all of it.
    All,
    /// Nobody.
    None,
}

/// Whether, and how, the map is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShowMap {
    /// Not at all.
    No,
    /// A line per rank.
    Lines,
    /// As JSON.
    Json,
}

/// What to do with more ranks than processors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Oversubscribe {
    /// Run, with one line.
    Remark,
    /// Run.
    Silent,
    /// Refuse.
    Refuse,
}

impl Job {
    /// Gives the words their meaning.
    ///
    /// # Errors
    /// [`UsageError`] with the option and the reason.
    pub fn new(words: Words, outside: &Outside) -> Result<Job, UsageError> {
        agree(&words.job)?;
        let values = Values { given: &words.job, outside };
        let oversubscribe = oversubscribe(&words, &values)?;
        let variable = |name: &str| std::env::var(name).ok();
        let variable_of = |name: &str| std::env::var_os(name);
        let allocation = crate::hosts::allocation::slurm(&variable)?;
        let given = hostfile_of(&values)?;
        // The names of an operator's pods come when the pods do.
        let (operated, wait) = match given.is_some() || allocation.is_some() {
            true => (None, None),
            false => (crate::hosts::operator::hosts(&variable)?, Some(limits::HOSTS_WAIT)),
        };
        let wait = wait.filter(|_| operated.is_some() && values.get("wait-hosts").is_none());
        let programs =
            words.sections.iter().map(|s| program(s, outside)).collect::<Result<Vec<_>, UsageError>>()?;
        let _needless = values.flag("allow-run-as-root")?;
        let job = Job {
            programs,
            env: variables(&values)?,
            tag: values.flag("tag-output")?,
            timestamp: values.flag("timestamp-output")?,
            output_dir: values.get("output-dir").map(PathBuf::from),
            output_from: values.get("output-from").map(|text| ranks(text, &values)).transpose()?,
            // The keys of a terminal are the view's.
            stdin: match values.flag("top")? && stdin().is_terminal() && stderr().is_terminal() {
                true => StdinTo::None,
                false => stdin_to(&values)?,
            },
            output_from_said: values.said("output-from"),
            stdin_said: values.said("stdin"),
            pty: pty(&values)?,
            timeout: timeout(&values)?,
            recovery: values.flag("enable-recovery")?,
            print_all: values.flag("print-all-exitcodes")?,
            verbose: values.flag("verbose")?,
            quiet: values.flag("quiet")?,
            oversubscribe,
            iface: values.get("iface").map(|name| (name.to_owned(), values.said("iface"))),
            hostfile: given.or(allocation.clone()).or(operated),
            ppn: values.number("ppn", 1, limits::RANKS_MAX)?,
            map_by: match values.get("map-by") {
                None => MapBy::default(),
                Some(word) => MapBy::named(word)
                    .ok_or_else(|| values.bad("map-by", "expected slot, node, core, socket or numa"))?,
            },
            bind_to: match values.get("bind-to") {
                None => BindTo::default(),
                Some(word) => BindTo::named(word)
                    .ok_or_else(|| values.bad("bind-to", "expected none, hwthread, core, socket or numa"))?,
            },
            launcher: match values.get("launcher") {
                None if allocation.is_some() => Launcher::Slurm,
                None => Launcher::Ssh,
                Some(text) => Launcher::named(text).map_err(|reason| values.bad("launcher", &reason))?,
            },
            copy_self: values.flag("copy-self")?,
            fan_out: values.number("fan-out", 1, hostfile::HOSTS_MAX)?.map_or(limits::FAN_OUT, |n| n as u32),
            silence: silence(&values)?,
            wait_hosts: crate::hosts::wait::bound(&values)?.or(wait),
            show_map: match values.get("show-map") {
                Some("json") => ShowMap::Json,
                _ if values.flag("show-map").map_err(|_| values.bad("show-map", "expected json"))? => {
                    ShowMap::Lines
                }
                _ => ShowMap::No,
            },
            dry_run: values.flag("dry-run")?,
            errhandler: errhandler(&values)?,
            wanted: wanted(&values)?,
        };
        library::check(&job, &variable_of)?;
        Ok(job)
    }
}

/// The flag is on the command line.
pub fn given(words: &Words, name: &str) -> bool {
    words.job.iter().any(|given| given.opt.name == name)
}

#[cfg(test)]
mod whole_table;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse::parse;
    use crate::cli::table;

    fn job(line: &str) -> Result<Job, String> {
        let words = parse(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())?;
        Job::new(words, &Outside::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn values_are_checked_and_named() {
        for (line, expected) in [
            ("-n 0 a", "-n \"0\": a program needs"),
            ("-n -1 a", "-n \"-1\": expected"),
            ("-n x a", "-n \"x\": expected"),
            ("-n 99999999999999999999 a", "-n \"99999999999999999999\": expected"),
            ("-n 5000000 a", "-n \"5000000\": at most 1048576"),
            ("-np 0 a", "-np \"0\": a program needs"),
            ("-n 2 -np 3 a", "-n \"2\" and -np \"3\": give one of them"),
            ("--timeout 2 --timeout 3 a", "--timeout \"2\" and --timeout \"3\": give one"),
            ("-n 2", "no program"),
            ("--timeout 0 a", "--timeout \"0\""),
            ("-timeout nan a", "-timeout \"nan\""),
            ("--timeout=1e300 a", "--timeout \"1e300\""),
            ("--stdin some a", "--stdin \"some\""),
            ("--bind-to moon a", "--bind-to \"moon\""),
            ("--hosts a,,b a", "--hosts \"a,,b\": character 3: expected the name"),
            ("--hostfile /no/such/file a", "--hostfile \"/no/such/file\": No such file"),
            ("--ppn 0 a", "--ppn \"0\": expected a number from 1"),
            ("--map-by moon a", "--map-by \"moon\": expected slot"),
            ("--launcher rsh a", "--launcher \"rsh\": expected ssh"),
            ("--launcher exec:x a", "--launcher \"exec:x\": expected {command}"),
            ("--port-range 9-1 a", "--port-range \"9-1\": expected FIRST-LAST"),
            ("--silence 0 a", "--silence \"0\": expected"),
            ("--wait-hosts=soon a", "--wait-hosts \"soon\": expected nothing, or =SECONDS"),
            ("--pty --stdin none a", "--pty \"true\": with --stdin none"),
            ("--fan-out 0 a", "--fan-out \"0\": expected"),
            ("--show-map=xml a", "--show-map \"xml\": expected json"),
            ("--output-from 3-1 a", "--output-from \"3-1\": expected ranks"),
            ("--soft zz a", "--soft \"zz\": expected numbers"),
            ("--soft 1:2:0 a", "--soft \"1:2:0\": expected numbers"),
            ("--oversubscribe --no-oversubscribe a", "--oversubscribe and --no-oversubscribe: give one"),
            ("--release a", "--release \"true\": goes with"),
            ("--example a --bin b", "--example \"a\" and --bin \"b\" name two"),
            ("--stats --report m --trace ./m a", "--trace \"./m\": --report \"m\" goes into the same file"),
            ("-x MPIEXEC_SURELY_NOT_SET a", "-x \"MPIEXEC_SURELY_NOT_SET\": no variable is called"),
            ("-x =1 a", "-x \"=1\": expected NAME=VALUE"),
            ("-initial-errhandler x a", "-initial-errhandler \"x\""),
        ] {
            let error = job(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }

    #[test]
    fn flag_beats_environment_beats_file() {
        let timeout = table::find("timeout").unwrap();
        let file = vec![(timeout, String::from("1"), String::from("f:1:1"))];
        let environment = vec![(timeout, String::from("2"), timeout.variable())];
        let resolve = |line: &str, outside: &Outside| {
            let words = parse(line.split_whitespace().map(OsString::from)).unwrap();
            Job::new(words, outside).unwrap().timeout
        };
        let mut outside = Outside { environment: Vec::new(), file };
        assert_eq!(resolve("a", &outside), Some(Duration::from_secs(1)));
        outside.environment = environment;
        assert_eq!(resolve("a", &outside), Some(Duration::from_secs(2)));
        assert_eq!(resolve("--timeout 3 a", &outside), Some(Duration::from_secs(3)));
    }

    #[test]
    fn oversubscription_has_three_ways() {
        assert_eq!(job("a").unwrap().oversubscribe, Oversubscribe::Remark);
        assert_eq!(job("--oversubscribe a").unwrap().oversubscribe, Oversubscribe::Silent);
        assert_eq!(job("--no-oversubscribe a").unwrap().oversubscribe, Oversubscribe::Refuse);
    }

    #[test]
    fn an_empty_name_is_no_program() {
        let words = parse([OsString::from("")]).unwrap();
        let error = Job::new(words, &Outside::default()).unwrap_err().to_string();
        assert!(error.contains("empty word"), "{error}");
        assert!(job("--soft 1,2:8:2 a").is_ok());
    }
}
