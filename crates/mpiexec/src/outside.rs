//! Values by option, from wherever they are set: flag beats environment beats file beats default.

use crate::cli::configfile::{self, Default as FileDefault};
use crate::cli::table::{OPTIONS, Opt};
use crate::cli::{Given, UsageError, utf8};
use std::path::PathBuf;

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

/// Defaults from outside the command line.
#[derive(Debug, Default)]
pub struct Outside {
    /// Options that variables set: the option, its value, the variable.
    pub environment: Vec<(&'static Opt, String, String)>,
    /// Options that the configuration file sets.
    pub file: Vec<FileDefault>,
}

impl Outside {
    /// Reads the environment and the configuration file.
    ///
    /// # Errors
    /// [`UsageError`] naming the variable, or file, line and column.
    pub fn read() -> Result<Outside, UsageError> {
        let mut environment = Vec::new();
        for opt in OPTIONS.iter().filter(|opt| opt.has_default()) {
            for variable in opt.variables() {
                let Some(value) = std::env::var_os(&variable) else { continue };
                let value = value
                    .into_string()
                    .map_err(|v| UsageError::new(format!("{variable}={v:?}: not UTF-8")))?;
                environment.push((opt, value, variable));
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
    match std::fs::read(&path) {
        Ok(bytes) => {
            let name = path.display().to_string();
            configfile::defaults(&name, &utf8(&name, bytes)?)
        }
        Err(_) if !asked_for => Ok(Vec::new()),
        Err(e) => Err(UsageError::new(format!("{}: {e}", path.display()))),
    }
}

/// Values by option, with the precedence of their origins.
pub struct Values<'a> {
    /// The command line.
    pub given: &'a [Given],
    /// Everything else.
    pub outside: &'a Outside,
}

impl Values<'_> {
    pub fn find(&self, name: &str) -> Option<(&str, Origin)> {
        if let Some(given) = self.given.iter().rev().find(|given| given.opt.name == name) {
            return Some((&given.value, Origin::Flag(given.spelled.clone())));
        }
        let environment = &self.outside.environment;
        if let Some((_, value, variable)) = environment.iter().find(|(opt, ..)| opt.name == name) {
            return Some((value, Origin::Environment(variable.clone())));
        }
        let (_, value, place) = self.outside.file.iter().rev().find(|(opt, ..)| opt.name == name)?;
        Some((value, Origin::File(place.clone())))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.find(name).map(|(value, _)| value)
    }

    /// All values of an option that may be given several times, with what says so: those that beat others
    /// come later.
    pub fn all(&self, name: &str) -> Result<Vec<(String, String)>, UsageError> {
        let mut all = Vec::new();
        let file = self.outside.file.iter().filter(|(opt, ..)| opt.name == name);
        let file = file.map(|(_, value, place)| (value, format!("{place}: {name} = {value:?}")));
        let environment = self.outside.environment.iter().filter(|(opt, ..)| opt.name == name);
        let environment = environment.map(|(_, value, variable)| (value, format!("{variable}={value:?}")));
        for (value, said) in file.chain(environment) {
            let words = configfile::split(value).map_err(|at| {
                UsageError::new(format!("{said}: character {at}: a quote that does not end"))
            })?;
            all.extend(words.into_iter().map(|word| (word, said.clone())));
        }
        let given = self.given.iter().filter(|given| given.opt.name == name);
        all.extend(given.map(|given| (given.value.clone(), format!("{} {:?}", given.spelled, given.value))));
        Ok(all)
    }

    pub fn flag(&self, name: &str) -> Result<bool, UsageError> {
        match self.get(name) {
            None | Some("0" | "false" | "no" | "off" | "") => Ok(false),
            Some("1" | "true" | "yes" | "on") => Ok(true),
            Some(_) => Err(self.bad(name, "expected yes or no")),
        }
    }

    pub fn number(&self, name: &str, least: usize, most: usize) -> Result<Option<usize>, UsageError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse::<usize>() {
            Ok(n) if (least..=most).contains(&n) => Ok(Some(n)),
            _ => Err(self.bad(name, &format!("expected a number from {least} to {most}"))),
        }
    }

    /// The option, its value and where it was set.
    pub fn said(&self, name: &str) -> String {
        match self.find(name) {
            Some((value, Origin::Environment(variable))) => format!("{variable}={value:?}"),
            Some((value, Origin::File(place))) => format!("{place}: {name} = {value:?}"),
            Some((value, Origin::Flag(spelled))) => format!("{spelled} {value:?}"),
            Some((value, Origin::Default)) => format!("--{name} {value:?}"),
            None => format!("--{name}"),
        }
    }

    /// An error that names the option, its value and where it was set.
    pub fn bad(&self, name: &str, reason: &str) -> UsageError {
        UsageError::new(format!("{}: {reason}", self.said(name)))
    }
}
