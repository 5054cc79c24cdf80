//! What the options mean: flag beats environment beats file beats default.

use crate::cli::configfile::{self, Default as FileDefault};
use crate::cli::table::{OPTIONS, Opt, Takes};
use crate::cli::{Given, Section, UsageError, Words};
use crate::limits;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The command line, where it is spelled so.
    Flag(String),
    /// This variable.
    Environment(String),
    /// This place in the configuration file.
    File(String),
    /// Nowhere.
    Default,
}

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
    /// Who reads standard input.
    pub stdin: StdinTo,
    /// End after this time.
    pub timeout: Option<Duration>,
    /// Print all exit statuses.
    pub print_all: bool,
    /// Say more.
    pub verbose: bool,
    /// Say less.
    pub quiet: bool,
    /// More ranks than processors.
    pub oversubscribe: Oversubscribe,
    /// One processor per rank.
    pub bind_to_core: bool,
    /// Print the map.
    pub show_map: bool,
    /// Start nothing.
    pub dry_run: bool,
    /// The error handler that ranks start with.
    pub errhandler: Option<String>,
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

/// Defaults from outside the command line.
#[derive(Debug, Default)]
pub struct Outside {
    environment: Vec<(&'static Opt, String)>,
    file: Vec<FileDefault>,
}

impl Outside {
    /// Reads the environment and the configuration file.
    ///
    /// # Errors
    /// [`UsageError`] naming the variable, or file, line and column.
    pub fn read() -> Result<Outside, UsageError> {
        let mut environment = Vec::new();
        for opt in OPTIONS.iter().filter(|opt| opt.has_default()) {
            if let Some(value) = std::env::var_os(opt.variable()) {
                let value = value
                    .into_string()
                    .map_err(|v| UsageError::new(format!("{}={v:?}: not UTF-8", opt.variable())))?;
                environment.push((opt, value));
            }
        }
        Ok(Outside { environment, file: config_file()? })
    }
}

fn config_file() -> Result<Vec<FileDefault>, UsageError> {
    let (path, asked_for) = match std::env::var_os("MPIEXEC_CONFIG") {
        Some(path) => (PathBuf::from(path), true),
        None => {
            let base = std::env::var_os("XDG_CONFIG_HOME")
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")));
            let Some(base) = base else { return Ok(Vec::new()) };
            (base.join("mpiexec.conf"), false)
        }
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => configfile::defaults(&path.display().to_string(), &text),
        Err(e) if !asked_for && e.kind() != std::io::ErrorKind::InvalidData => Ok(Vec::new()),
        Err(e) => Err(UsageError::new(format!("{}: {e}", path.display()))),
    }
}

/// Values by option, with the precedence of their origins.
struct Values<'a> {
    given: &'a [Given],
    outside: &'a Outside,
}

impl Values<'_> {
    fn find(&self, name: &str) -> Option<(&str, Origin)> {
        if let Some(given) = self.given.iter().rev().find(|given| given.opt.name == name) {
            return Some((&given.value, Origin::Flag(given.spelled.clone())));
        }
        if let Some((opt, value)) = self.outside.environment.iter().find(|(opt, _)| opt.name == name) {
            return Some((value, Origin::Environment(opt.variable())));
        }
        let (_, value, place) = self.outside.file.iter().rev().find(|(opt, ..)| opt.name == name)?;
        Some((value, Origin::File(place.clone())))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.find(name).map(|(value, _)| value)
    }

    fn flag(&self, name: &str) -> Result<bool, UsageError> {
        match self.get(name) {
            None | Some("0" | "false" | "no" | "off" | "") => Ok(false),
            Some("1" | "true" | "yes" | "on") => Ok(true),
            Some(_) => Err(self.bad(name, "expected yes or no")),
        }
    }

    /// An error that names the option, its value and where it was set.
    fn bad(&self, name: &str, reason: &str) -> UsageError {
        UsageError::new(match self.find(name) {
            Some((value, Origin::Environment(variable))) => format!("{variable}={value:?}: {reason}"),
            Some((value, Origin::File(place))) => format!("{place}: {name} = {value:?}: {reason}"),
            Some((value, Origin::Flag(spelled))) => format!("{spelled} {value:?}: {reason}"),
            Some((value, Origin::Default)) => format!("-{name} {value:?}: {reason}"),
            None => format!("-{name}: {reason}"),
        })
    }
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
        let programs =
            words.sections.iter().map(|s| program(s, outside)).collect::<Result<Vec<_>, UsageError>>()?;
        Ok(Job {
            programs,
            env: words
                .job
                .iter()
                .filter(|given| given.opt.name == "genv")
                .map(|given| pair(&given.value))
                .collect::<Result<Vec<_>, _>>()?,
            tag: values.flag("tag-output")?,
            timestamp: values.flag("timestamp-output")?,
            stdin: stdin_to(&values)?,
            timeout: timeout(&values)?,
            print_all: values.flag("print-all-exitcodes")?,
            verbose: values.flag("verbose")?,
            quiet: values.flag("quiet")?,
            oversubscribe,
            bind_to_core: match values.get("bind-to") {
                None | Some("none") => false,
                Some("core") => true,
                Some(_) => return Err(values.bad("bind-to", "expected core or none")),
            },
            show_map: values.flag("show-map")?,
            dry_run: values.flag("dry-run")?,
            errhandler: errhandler(&values)?,
        })
    }
}

/// An option that is given twice says the same twice: silently taking one of two would be a guess.
fn agree(given: &[Given]) -> Result<(), UsageError> {
    let single = |g: &&Given| matches!(g.opt.takes, Takes::Value(_));
    for (at, later) in given.iter().enumerate().filter(|(_, g)| single(g)) {
        let earlier = given[..at].iter().find(|g| std::ptr::eq(g.opt, later.opt) && g.value != later.value);
        if let Some(earlier) = earlier {
            return Err(UsageError::new(format!(
                "{} {:?} and {} {:?}: give one of them",
                earlier.spelled, earlier.value, later.spelled, later.value
            )));
        }
    }
    Ok(())
}

fn oversubscribe(words: &Words, values: &Values<'_>) -> Result<Oversubscribe, UsageError> {
    // On the command line the later of the two wins; a flag beats the other's variable.
    let last = words.job.iter().rev().find(|given| given.opt.name.ends_with("oversubscribe"));
    let refuse = match last {
        Some(given) => given.opt.name == "no-oversubscribe",
        None => values.flag("no-oversubscribe")?,
    };
    Ok(match (refuse, values.flag("oversubscribe")?) {
        (true, _) => Oversubscribe::Refuse,
        (false, true) => Oversubscribe::Silent,
        (false, false) => Oversubscribe::Remark,
    })
}

fn stdin_to(values: &Values<'_>) -> Result<StdinTo, UsageError> {
    Ok(match values.get("stdin") {
        None => StdinTo::Rank(0),
        Some("all") => StdinTo::All,
        Some("none") => StdinTo::None,
        Some(rank) => StdinTo::Rank(
            rank.parse().map_err(|_| values.bad("stdin", "expected the number of a rank, all or none"))?,
        ),
    })
}

fn timeout(values: &Values<'_>) -> Result<Option<Duration>, UsageError> {
    let Some(text) = values.get("timeout") else { return Ok(None) };
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0);
    match seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()) {
        Some(duration) => Ok(Some(duration)),
        None => Err(values.bad("timeout", "expected a number of seconds above 0")),
    }
}

fn errhandler(values: &Values<'_>) -> Result<Option<String>, UsageError> {
    match values.get("initial-errhandler") {
        None => Ok(None),
        Some(name @ ("mpi_errors_are_fatal" | "mpi_errors_abort" | "mpi_errors_return")) => {
            Ok(Some(name.to_owned()))
        }
        Some(_) => Err(values.bad(
            "initial-errhandler",
            "expected mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return",
        )),
    }
}

fn program(section: &Section, outside: &Outside) -> Result<Program, UsageError> {
    agree(&section.options)?;
    let values = Values { given: &section.options, outside };
    let count = match values.get("n").map(str::parse::<usize>) {
        None => None,
        Some(Ok(count)) if (1..=limits::RANKS_MAX).contains(&count) => Some(count),
        Some(Ok(0)) => return Err(values.bad("n", "a program needs at least 1 rank")),
        Some(Ok(_)) => return Err(values.bad("n", &format!("at most {} ranks", limits::RANKS_MAX))),
        Some(Err(_)) => return Err(values.bad("n", "expected a number of ranks, 1 or more")),
    };
    check_machine(&values)?;
    let mut words = section.words.iter().cloned();
    let what = match (cargo_target(&values)?, section.words.is_empty()) {
        (Some(target), _) => What::Cargo(target),
        (None, false) => What::Named(words.next().unwrap_or_default()),
        (None, true) => {
            return Err(UsageError::new("no program is given; mpiexec --help shows how it is used"));
        }
    };
    let env = section.options.iter().filter(|given| given.opt.name == "env");
    Ok(Program {
        count,
        what,
        arguments: words.collect(),
        wdir: values.get("wdir").map(PathBuf::from),
        path: values.get("path").map(str::to_owned),
        env: env.map(|given| pair(&given.value)).collect::<Result<Vec<_>, _>>()?,
    })
}

/// `-host` and `-arch` can only say what is so.
fn check_machine(values: &Values<'_>) -> Result<(), UsageError> {
    let own = mpi_pmi::host_name();
    for host in values.get("host").unwrap_or_default().split(',').filter(|h| !h.is_empty()) {
        if !is_this_host(host, &own) {
            return Err(values.bad("host", &format!("this release runs jobs on one machine, which is {own}")));
        }
    }
    match values.get("arch") {
        Some(arch) if arch != std::env::consts::ARCH => {
            Err(values.bad("arch", &format!("this machine is {}", std::env::consts::ARCH)))
        }
        _ => Ok(()),
    }
}

/// `host`, with or without a number of slots, is the machine `own`.
pub fn is_this_host(host: &str, own: &str) -> bool {
    let name = host.split(':').next().unwrap_or(host);
    name == own || name == "localhost" || host.starts_with("127.") || host == "::1"
}

fn cargo_target(values: &Values<'_>) -> Result<Option<CargoTarget>, UsageError> {
    let (example, name) = match (values.get("example"), values.get("bin")) {
        (Some(_), Some(_)) => return Err(UsageError::new("-example and -bin name two programs; give one")),
        (Some(name), None) => (true, name),
        (None, Some(name)) => (false, name),
        (None, None) => {
            // Asked of the command line only: as defaults they wait for a target.
            let names = ["package", "release", "profile", "features", "no-default-features"];
            return match names.iter().find(|name| matches!(values.find(name), Some((_, Origin::Flag(_))))) {
                Some(name) => Err(values.bad(name, "goes with --example or --bin")),
                None => Ok(None),
            };
        }
    };
    let profile = match (values.get("profile"), values.flag("release")?) {
        (Some(profile), _) => Some(profile.to_owned()),
        (None, true) => Some(String::from("release")),
        (None, false) => None,
    };
    Ok(Some(CargoTarget {
        example,
        name: name.to_owned(),
        package: values.get("package").map(str::to_owned),
        profile,
        features: values.get("features").map(str::to_owned),
        no_default_features: values.flag("no-default-features")?,
    }))
}

/// `NAME=VALUE`; `NAME` alone takes the launcher's own value.
fn pair(text: &str) -> Result<(String, String), UsageError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => {
            let value = std::env::var_os(text)
                .ok_or_else(|| UsageError::new(format!("-x {text}: no such variable here")))?;
            (text, value.to_string_lossy().into_owned())
        }
    };
    if name.is_empty() || name.contains('\0') || value.contains('\0') {
        return Err(UsageError::new(format!("{text:?} is no NAME=VALUE")));
    }
    Ok((name.to_owned(), value))
}

/// What `--show-config` prints.
pub fn show(words: &Words, outside: &Outside) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let given: Vec<_> =
        words.job.iter().chain(words.sections.iter().flat_map(|s| &s.options)).cloned().collect();
    let values = Values { given: &given, outside };
    for opt in OPTIONS.iter().filter(|opt| opt.has_default()) {
        let (value, origin) = values.find(opt.name).unwrap_or((unset(opt), Origin::Default));
        let origin = match origin {
            Origin::Flag(_) => String::from("command line"),
            Origin::Environment(variable) => format!("environment, {variable}"),
            Origin::File(place) => format!("file, {place}"),
            Origin::Default => format!("default; set by {}", opt.variable()),
        };
        let _ = writeln!(out, "{:<20} = {value:<12} ({origin})", opt.name);
    }
    out.push_str("\nLimits and periods, fixed:\n");
    for (name, value) in limits::table() {
        let _ = writeln!(out, "{name:<44} = {value}");
    }
    out
}

fn unset(opt: &Opt) -> &'static str {
    match (opt.name, opt.takes) {
        ("stdin", _) => "0",
        ("bind-to", _) => "none",
        (_, Takes::Flag) => "no",
        _ => "unset",
    }
}

/// The flag is on the command line.
pub fn given(words: &Words, name: &str) -> bool {
    words.job.iter().any(|given| given.opt.name == name)
}

/// The first value on the command line.
pub fn given_value<'a>(words: &'a Words, name: &str) -> Option<&'a OsStr> {
    words.job.iter().find(|given| given.opt.name == name).map(|given| OsStr::new(given.value.as_str()))
}

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
            ("-n 5000 a", "-n \"5000\": at most 4096"),
            ("-np 0 a", "-np \"0\": a program needs"),
            ("-n 2 -np 3 a", "-n \"2\" and -np \"3\": give one of them"),
            ("--timeout 2 --timeout 3 a", "--timeout \"2\" and --timeout \"3\": give one"),
            ("-n 2", "no program"),
            ("--timeout 0 a", "--timeout \"0\""),
            ("-timeout nan a", "-timeout \"nan\""),
            ("--timeout=1e300 a", "--timeout \"1e300\""),
            ("--stdin some a", "--stdin \"some\""),
            ("--bind-to moon a", "--bind-to \"moon\""),
            ("--hosts nowhere a", "--hosts \"nowhere\": this release"),
            ("--release a", "--release \"true\": goes with"),
            ("--example a --bin b", "-example and -bin"),
            ("-x MPIEXEC_SURELY_NOT_SET a", "-x MPIEXEC_SURELY_NOT_SET: no such"),
            ("-x =1 a", "\"=1\" is no"),
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
        let environment = vec![(timeout, String::from("2"))];
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
    fn the_later_of_two_opposites_wins() {
        assert_eq!(job("a").unwrap().oversubscribe, Oversubscribe::Remark);
        assert_eq!(job("--no-oversubscribe --oversubscribe a").unwrap().oversubscribe, Oversubscribe::Silent);
        assert_eq!(job("--oversubscribe --no-oversubscribe a").unwrap().oversubscribe, Oversubscribe::Refuse);
    }
}
