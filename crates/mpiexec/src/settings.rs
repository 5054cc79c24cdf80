//! What the options mean: flag beats environment beats file beats default.

use crate::cli::table::{OPTIONS, Opt, Takes};
use crate::cli::{Given, Section, UsageError, Words, utf8};
use crate::hosts::hostfile::{self, Entry};
use crate::hosts::launcher::Launcher;
use crate::limits;
pub use crate::outside::Outside;
use crate::outside::{Origin, Values};
use crate::topology::{BindTo, MapBy};
use std::ffi::{OsStr, OsString};
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
        Ok(Job {
            programs,
            env: variables(&words, &values)?,
            tag: values.flag("tag-output")?,
            timestamp: values.flag("timestamp-output")?,
            output_dir: values.get("output-dir").map(PathBuf::from),
            output_from: values.get("output-from").map(|text| ranks(text, &values)).transpose()?,
            // The keys of a terminal are the view's.
            stdin: match values.flag("top")? && stdin().is_terminal() && stderr().is_terminal() {
                true => StdinTo::None,
                false => stdin_to(&values)?,
            },
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
    let spelled = |name: &str| words.job.iter().find(|g| g.opt.name == name).map(|g| &g.spelled);
    if let (Some(yes), Some(no)) = (spelled("oversubscribe"), spelled("no-oversubscribe")) {
        return Err(UsageError::new(format!("{yes} and {no}: give one of them")));
    }
    // A flag beats the other's variable.
    let refuse = spelled("no-oversubscribe").is_some()
        || (spelled("oversubscribe").is_none() && values.flag("no-oversubscribe")?);
    Ok(match (refuse, values.flag("oversubscribe")?) {
        (true, _) => Oversubscribe::Refuse,
        (false, true) => Oversubscribe::Silent,
        (false, false) => Oversubscribe::Remark,
    })
}

/// Variables that all ranks get.
fn variables(words: &Words, values: &Values<'_>) -> Result<Vec<(String, String)>, UsageError> {
    let mut all = Vec::new();
    if let Some(name) = values.get("iface") {
        all.push((String::from("MPI_IFACE"), name.to_owned()));
    }
    if let Some(range) = values.get("port-range") {
        let ends = range.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        if !ends.is_some_and(|(a, b): (u16, u16)| a > 0 && a <= b) {
            return Err(values.bad("port-range", "expected FIRST-LAST, ports from 1 to 65535"));
        }
        all.push((String::from("MPI_PORT_RANGE"), range.to_owned()));
    }
    for given in words.job.iter().filter(|given| given.opt.name == "genv") {
        all.push(pair(&given.value)?);
    }
    Ok(all)
}

/// The hosts of the hostfile, if one is given.
fn hostfile_of(values: &Values<'_>) -> Result<Option<Vec<Entry>>, UsageError> {
    let Some(path) = values.get("hostfile") else { return Ok(None) };
    let bytes = std::fs::read(path).map_err(|e| values.bad("hostfile", &e.to_string()))?;
    let text = utf8(path, bytes)?;
    let hosts = hostfile::file(&text).map_err(|fault| UsageError::new(format!("{path}:{fault}")))?;
    match hosts.is_empty() {
        true => Err(values.bad("hostfile", "no host in this file")),
        false => Ok(Some(hosts)),
    }
}

fn silence(values: &Values<'_>) -> Result<Duration, UsageError> {
    let Some(text) = values.get("silence") else { return Ok(limits::SILENCE) };
    let seconds = text.parse::<f64>().ok().filter(|s| (1.0..=86400.0).contains(s));
    let seconds = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.ok_or_else(|| values.bad("silence", "expected a number of seconds from 1 to 86400"))
}

/// `0,2-3`: ranks 0, 2 and 3.
fn ranks(text: &str, values: &Values<'_>) -> Result<Vec<usize>, UsageError> {
    let range = |part: &str| {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b): (usize, usize) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
        (a <= b && b < limits::RANKS_OF_A_JOB_MAX).then_some(a..=b)
    };
    let parts: Option<Vec<_>> = text.split(',').map(range).collect();
    let all = parts.map(|parts| parts.into_iter().flatten().collect());
    all.ok_or_else(|| values.bad("output-from", "expected ranks such as 0,2-3"))
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

fn pty(values: &Values<'_>) -> Result<bool, UsageError> {
    match (values.flag("pty")?, stdin_to(values)?) {
        (true, StdinTo::None) => Err(values.bad("pty", "with --stdin none no rank has use for a terminal")),
        (pty, _) => Ok(pty),
    }
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

fn wanted(values: &Values<'_>) -> Result<Wanted, UsageError> {
    let file = |name: &str| values.get(name).map(PathBuf::from);
    Ok(Wanted {
        stats: values.flag("stats")?,
        matrix: Some(file("matrix").unwrap_or_else(|| PathBuf::from("mpi-matrix.svg"))),
        report: file("report"),
        trace: file("trace"),
        top: values.flag("top")?,
        picture: file("picture"),
    })
}

fn program(section: &Section, outside: &Outside) -> Result<Program, UsageError> {
    agree(&section.options)?;
    let values = Values { given: &section.options, outside };
    let count = match values.get("n").map(str::parse::<usize>) {
        None => None,
        Some(Ok(count)) if (1..=limits::RANKS_OF_A_JOB_MAX).contains(&count) => Some(count),
        Some(Ok(0)) => return Err(values.bad("n", "a program needs at least 1 rank")),
        Some(Ok(_)) => return Err(values.bad("n", &format!("at most {} ranks", limits::RANKS_OF_A_JOB_MAX))),
        Some(Err(_)) => return Err(values.bad("n", "expected a number of ranks, 1 or more")),
    };
    check_machine(&values)?;
    check_soft(&values)?;
    let hosts = values.get("host").map(hostfile::list).transpose();
    let hosts = hosts.map_err(|e| values.bad("host", &format!("character {}: {}", e.column, e.reason)))?;
    let mut words = section.words.iter().cloned();
    let what = match (cargo_target(&values)?, section.words.is_empty()) {
        (Some(target), _) => What::Cargo(target),
        (None, false) => match words.next().unwrap_or_default() {
            name if name.is_empty() => {
                return Err(UsageError::new("the name of the program is an empty word (\"\")"));
            }
            name => What::Named(name),
        },
        (None, true) => {
            return Err(UsageError::new("no program is given; mpiexec --help shows how it is used"));
        }
    };
    let env = section.options.iter().filter(|given| given.opt.name == "env");
    Ok(Program {
        count,
        what,
        arguments: words.collect(),
        hosts,
        wdir: values.get("wdir").map(PathBuf::from),
        path: values.get("path").map(str::to_owned),
        env: env.map(|given| pair(&given.value)).collect::<Result<Vec<_>, _>>()?,
    })
}

/// `-arch` can only say what is so.
fn check_machine(values: &Values<'_>) -> Result<(), UsageError> {
    match values.get("arch") {
        Some(arch) if arch != std::env::consts::ARCH => {
            Err(values.bad("arch", &format!("this machine is {}", std::env::consts::ARCH)))
        }
        _ => Ok(()),
    }
}

/// `-soft` is a list of numbers and of triplets `a:b:c` as in the MPI standard; what it allows, `-n`
/// decides.
fn check_soft(values: &Values<'_>) -> Result<(), UsageError> {
    let Some(text) = values.get("soft") else { return Ok(()) };
    let triplet = |part: &str| {
        let numbers: Option<Vec<i64>> = part.split(':').map(|n| n.trim().parse().ok()).collect();
        numbers.is_some_and(|n| n.len() <= 3 && n.get(2) != Some(&0))
    };
    match text.split(',').all(triplet) {
        true => Ok(()),
        false => Err(values.bad("soft", "expected numbers of ranks such as 1,2,4 or 2:8:2")),
    }
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
        ("matrix", _) => "mpi-matrix.svg",
        ("map-by", _) => "slot",
        ("launcher", _) => "ssh",
        ("fan-out", _) => "16",
        ("silence", _) => "30",
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
