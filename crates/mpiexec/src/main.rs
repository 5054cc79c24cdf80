//! Launcher of MPI jobs: starts ranks, serves their start-up, passes streams and signals on, and
//! ends with one status that says how the job went.
//!
//! It links no engine and speaks only mpi-wire and mpi-pmi. `main` reads the command line
//! ([`cli`], [`settings`]), decides what runs where ([`plan`]), and hands over to the event loop
//! ([`job`]).
#![forbid(unsafe_code)]

mod cargo;
mod cli;
mod daemon;
mod error;
mod find;
mod guard;
mod hosts;
mod job;
mod limits;
mod link;
mod outside;
mod plan;
mod report;
mod settings;
mod topology;

use cli::{UsageError, Words, configfile, help, parse};
use error::LaunchError;
use outside::Values;
use settings::{Job, Outside, Oversubscribe, ShowMap};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let [word, id] = words.as_slice() {
        if word == guard::WORD {
            guard::run(&id.to_string_lossy());
            return ExitCode::SUCCESS;
        }
    }
    if let Some((_, rest)) = words.split_first().filter(|(word, _)| *word == hosts::launcher::WORD) {
        return ExitCode::from(daemon::run(rest));
    }
    let outcome = match words.as_slice() {
        [word, id, fd] if word == mpi_pmi::LAUNCHER_WORD => {
            serve_singleton(&id.to_string_lossy(), &fd.to_string_lossy())
        }
        _ => run(words),
    };
    match outcome {
        // Statuses are 0 to 255 by construction; anything else would be a failure anyway.
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            eprintln!("mpiexec: {error}");
            ExitCode::from(u8::try_from(error.status()).unwrap_or(1))
        }
    }
}

/// Everything up to the status of the job.
fn run(words: Vec<OsString>) -> Result<i32, LaunchError> {
    let words = parse::parse(words)?;
    if settings::given(&words, "help") {
        print(&help::text());
        return Ok(0);
    }
    if settings::given(&words, "version") {
        print(concat!("mpiexec ", env!("CARGO_PKG_VERSION"), "\n"));
        return Ok(0);
    }
    let outside = Outside::read()?;
    let words = with_configfile(words, &outside)?;
    if settings::given(&words, "show-config") {
        print(&settings::show(&words, &outside));
        return Ok(0);
    }
    let job = Job::new(words, &outside)?;
    if !job.quiet {
        let names = std::env::vars_os().map(|(name, _)| name);
        settings::slips(names).iter().for_each(|line| eprintln!("mpiexec: {line}"));
    }
    let plan = plan::Plan::new(&job)?;
    if job.dry_run {
        print(&match job.show_map {
            ShowMap::Json => plan.json(|rank| (plan.processors_of(rank), None)) + "\n",
            _ => plan.describe() + &plan.commands(&job),
        });
        return Ok(0);
    }
    if job.oversubscribe == Oversubscribe::Remark && !job.quiet {
        if let Some(line) = plan.oversubscription() {
            eprintln!("mpiexec: {line}");
        }
    }
    if let Some(bound) = job.wait_hosts {
        let remark = |line| match job.quiet {
            true => {}
            false => eprintln!("mpiexec: {line}"),
        };
        hosts::wait::wait(&job.launcher, &plan.other_hosts(), bound, remark)?;
    }
    job::run(&job, &plan)
}

/// Everything of the launcher that a process without one has started for itself.
fn serve_singleton(id: &str, fd: &str) -> Result<i32, LaunchError> {
    let pid = nix::unistd::getppid().as_raw() as u32;
    let system = LaunchError::system::<std::io::Error>;
    let number = fd.parse::<i32>().map_err(|_| UsageError::new(format!("{fd} is no descriptor")))?;
    let socket = mpi_node::spawn::inherited(number).map_err(system("socket of the process to serve"))?;
    let words = Words { job: Vec::new(), sections: Vec::new() };
    // The terminal's input is the process's own.
    let job = Job { stdin: settings::StdinTo::None, ..Job::new(words, &Outside::read()?)? };
    let plan = plan::Plan::new(&job)?;
    job::serve(&job, &plan, id.to_owned(), socket, pid)
}

/// Puts the programs of a `-configfile` in the place of its section.
fn with_configfile(mut words: Words, outside: &Outside) -> Result<Words, UsageError> {
    let values = Values { given: &words.job, outside };
    let Some(path) = values.get("configfile") else { return Ok(words) };
    if words.sections.iter().any(|s| !s.words.is_empty() || !s.options.is_empty()) {
        // A program on the command line beats a file of programs that is set elsewhere.
        return match settings::given(&words, "configfile") {
            true => Err(UsageError::new("-configfile and a program: give one of them")),
            false => Ok(words),
        };
    }
    let file = configfile::programs(Path::new(path))?;
    words.job.extend(file.job);
    words.sections = file.sections;
    Ok(words)
}

/// Prints to a standard output that may be closed.
fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
