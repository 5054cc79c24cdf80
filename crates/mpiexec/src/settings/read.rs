//! Options of the whole job: from words to values, or to what is wrong with them.

use super::program::pair;
use super::{Oversubscribe, StdinTo, Wanted};
use crate::cli::table::Takes;
use crate::cli::{Given, UsageError, Words, utf8};
use crate::hosts::hostfile::{self, Entry};
use crate::limits;
use crate::outside::Values;
use std::path::PathBuf;
use std::time::Duration;

/// An option that is given twice says the same twice: silently taking one of two would be a guess.
pub fn agree(given: &[Given]) -> Result<(), UsageError> {
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

pub fn oversubscribe(words: &Words, values: &Values<'_>) -> Result<Oversubscribe, UsageError> {
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
pub fn variables(values: &Values<'_>) -> Result<Vec<(String, String)>, UsageError> {
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
    for (text, said) in values.all("genv")? {
        all.push(pair(&text, &said)?);
    }
    Ok(all)
}

/// The hosts of the hostfile, if one is given.
pub fn hostfile_of(values: &Values<'_>) -> Result<Option<Vec<Entry>>, UsageError> {
    let Some(path) = values.get("hostfile") else { return Ok(None) };
    let bytes = std::fs::read(path).map_err(|e| values.bad("hostfile", &e.to_string()))?;
    let text = utf8(path, bytes)?;
    let hosts = hostfile::file(&text).map_err(|fault| UsageError::new(format!("{path}:{fault}")))?;
    match hosts.is_empty() {
        true => Err(values.bad("hostfile", "no host in this file")),
        false => Ok(Some(hosts)),
    }
}

pub fn silence(values: &Values<'_>) -> Result<Duration, UsageError> {
    let Some(text) = values.get("silence") else { return Ok(limits::SILENCE) };
    let seconds = text.parse::<f64>().ok().filter(|s| (1.0..=86400.0).contains(s));
    let seconds = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.ok_or_else(|| values.bad("silence", "expected a number of seconds from 1 to 86400"))
}

/// `0,2-3`: ranks 0, 2 and 3.
pub fn ranks(text: &str, values: &Values<'_>) -> Result<Vec<usize>, UsageError> {
    let range = |part: &str| {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b): (usize, usize) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
        (a <= b && b < limits::RANKS_OF_A_JOB_MAX).then_some(a..=b)
    };
    let parts: Option<Vec<_>> = text.split(',').map(range).collect();
    let all = parts.map(|parts| parts.into_iter().flatten().collect());
    all.ok_or_else(|| values.bad("output-from", "expected ranks such as 0,2-3"))
}

pub fn stdin_to(values: &Values<'_>) -> Result<StdinTo, UsageError> {
    Ok(match values.get("stdin") {
        None => StdinTo::Rank(0),
        Some("all") => StdinTo::All,
        Some("none") => StdinTo::None,
        Some(rank) => StdinTo::Rank(
            rank.parse().map_err(|_| values.bad("stdin", "expected the number of a rank, all or none"))?,
        ),
    })
}

pub fn pty(values: &Values<'_>) -> Result<bool, UsageError> {
    match (values.flag("pty")?, stdin_to(values)?) {
        (true, StdinTo::None) => Err(values.bad("pty", "with --stdin none no rank has use for a terminal")),
        (pty, _) => Ok(pty),
    }
}

pub fn timeout(values: &Values<'_>) -> Result<Option<Duration>, UsageError> {
    let Some(text) = values.get("timeout") else { return Ok(None) };
    let seconds = text.parse::<f64>().ok().filter(|s| *s > 0.0);
    match seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()) {
        Some(duration) => Ok(Some(duration)),
        None => Err(values.bad("timeout", "expected a number of seconds above 0")),
    }
}

pub fn errhandler(values: &Values<'_>) -> Result<Option<String>, UsageError> {
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

/// Two reports in one file would be one report.
fn check_files(values: &Values<'_>) -> Result<(), UsageError> {
    let wanted = ["matrix", "report", "trace", "picture"].map(|name| (name, values.get(name)));
    let file = |path: &str| std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    for (at, (name, path)) in wanted.iter().enumerate() {
        let Some(path) = path.filter(|path| *path != "/dev/null") else { continue };
        let same = |other: &&(&str, Option<&str>)| other.1.is_some_and(|other| file(other) == file(path));
        if let Some((earlier, _)) = wanted.iter().take(at).find(same) {
            return Err(values.bad(name, &format!("{} goes into the same file", values.said(earlier))));
        }
    }
    Ok(())
}

pub fn wanted(values: &Values<'_>) -> Result<Wanted, UsageError> {
    check_files(values)?;
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
