//! Options of one program.

use super::read::agree;
use super::{CargoTarget, Program, What};
use crate::cli::{Section, UsageError};
use crate::hosts::hostfile;
use crate::limits;
use crate::outside::{Origin, Outside, Values};
use std::path::PathBuf;

/// A program and what it runs in.
pub fn program(section: &Section, outside: &Outside) -> Result<Program, UsageError> {
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
    let place = section.place.iter().map(|place| format!("{place}: ")).collect::<String>();
    let at_place = |reason: &str| UsageError::new(format!("{place}{reason}"));
    let what = match (cargo_target(&values, section)?, section.words.is_empty()) {
        (Some(target), _) => What::Cargo(target),
        (None, false) => match words.next().unwrap_or_default() {
            name if name.is_empty() => {
                return Err(at_place("the name of the program is an empty word (\"\")"));
            }
            name => What::Named(name),
        },
        (None, true) => {
            return Err(at_place("no program is given; mpiexec --help shows how it is used"));
        }
    };
    let env = values.all("env")?;
    Ok(Program {
        count,
        what,
        arguments: words.collect(),
        hosts,
        wdir: values.get("wdir").map(PathBuf::from),
        path: values.get("path").map(str::to_owned),
        env: env.iter().map(|(text, said)| pair(text, said)).collect::<Result<Vec<_>, _>>()?,
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

fn cargo_target(values: &Values<'_>, section: &Section) -> Result<Option<CargoTarget>, UsageError> {
    let given = |name: &str| section.options.iter().any(|given| given.opt.name == name);
    // What the command line names beats what is set elsewhere.
    let names_program = given("example") || given("bin") || !section.words.is_empty();
    let target = |name: &str| values.get(name).filter(|_| given(name) || !names_program);
    let (example, name) = match (target("example"), target("bin")) {
        (Some(_), Some(_)) => {
            let said = [values.said("example"), values.said("bin")].join(" and ");
            return Err(UsageError::new(format!("{said} name two programs; give one")));
        }
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
pub fn pair(text: &str, said: &str) -> Result<(String, String), UsageError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => {
            let value = std::env::var_os(text)
                .ok_or_else(|| UsageError::new(format!("{said}: no variable is called {text} here")))?;
            (text, value.to_string_lossy().into_owned())
        }
    };
    if name.is_empty() || name.contains('\0') || value.contains('\0') {
        return Err(UsageError::new(format!("{said}: expected NAME=VALUE")));
    }
    Ok((name.to_owned(), value))
}
