//! Every environment variable that a rank reads, with its unit, default and check.
//!
//! A value that makes no sense is an error that names the variable; it is never ignored. The
//! variables that a launcher sets for its ranks are listed by `mpi_pmi::variables`.

use crate::errhandler::ErrorHandler;
use crate::limits::FINALIZE_REPORT_AFTER;
use std::time::Duration;

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name of the variable.
    pub name: &'static str,
    /// Unit or form of the value.
    pub unit: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
    kind: Kind,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A whole number in a range.
    Number(u64, u64),
    /// A decimal number of seconds, not negative.
    Seconds,
    /// Checked by whoever reads it.
    Text,
    /// 0 or 1.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
}

/// After this many seconds blocked, a rank says what it waits for.
pub const BLOCKED_REPORT_SECONDS: &str = "MPI_BLOCKED_REPORT_SECONDS";
/// After this many seconds a finalize that cannot complete says what it waits for.
pub const FINALIZE_REPORT_SECONDS: &str = "MPI_FINALIZE_REPORT_SECONDS";
/// Compare the calls of all ranks before each collective.
pub const CHECK: &str = "MPI_CHECK";
/// Tell which algorithm serves a collective, and why.
pub const COLL_VERBOSE: &str = "MPI_COLL_VERBOSE";
/// The error handler that the predefined communicators start with; `mpiexec -initial-errhandler` sets it.
pub const INITIAL_ERRHANDLER: &str = "MPI_INITIAL_ERRHANDLER";
const HANDLERS: [&str; 3] = ["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"];
/// Peers may fail and the job goes on; `mpiexec --enable-recovery` sets it.
pub const RECOVERY: &str = "MPI_RECOVERY";
/// Transports to use.
pub const BTL: &str = "MPI_BTL";

/// All of them, by name.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "MPI_ALLOW_SINGLETON",
        unit: "0 or 1",
        default: "0",
        meaning: "run as rank 0 of 1 although a foreign launcher's variables are there",
        kind: Kind::Switch,
    },
    Setting {
        name: BLOCKED_REPORT_SECONDS,
        unit: "seconds, 0 for never",
        default: "30",
        meaning: "time blocked after which a rank says what it waits for",
        kind: Kind::Seconds,
    },
    Setting {
        name: BTL,
        unit: "names separated by commas, after ^ those not to use",
        default: "all, best first",
        meaning: "transports to use",
        kind: Kind::Text,
    },
    Setting {
        name: CHECK,
        unit: "0 or 1",
        default: "0",
        meaning: "compare the calls of all ranks before each collective: operation, root, count, type",
        kind: Kind::Switch,
    },
    Setting {
        name: "MPI_COLL_<NAME>",
        unit: "name of an algorithm",
        default: "by size and ranks, from a table",
        meaning: "algorithm of the collective NAME; mpi_coll::Settings::NAMES lists them",
        kind: Kind::Text,
    },
    Setting {
        name: COLL_VERBOSE,
        unit: "0 or 1",
        default: "0",
        meaning: "say on stderr which algorithm serves each collective, and why",
        kind: Kind::Switch,
    },
    Setting {
        name: FINALIZE_REPORT_SECONDS,
        unit: "seconds",
        default: "10",
        meaning: "time after which a finalize that cannot complete says what it waits for",
        kind: Kind::Seconds,
    },
    Setting {
        name: "MPI_HOST_IP",
        unit: "numeric address",
        default: "every usable address of the host",
        meaning: "address under which this host is reached by other hosts",
        kind: Kind::Text,
    },
    Setting {
        name: INITIAL_ERRHANDLER,
        unit: "name of an error handler",
        default: HANDLERS[0],
        meaning: "the error handler that the predefined communicators start with",
        kind: Kind::Word(&HANDLERS),
    },
    Setting {
        name: "MPI_MPIEXEC",
        unit: "path",
        default: "beside the program, then the first in PATH",
        meaning: "mpiexec that a program started without one starts when it spawns",
        kind: Kind::Text,
    },
    Setting {
        name: "MPI_PMI_TIMEOUT",
        unit: "seconds",
        default: "600",
        meaning: "longest wait for an answer of the launcher that needs other ranks",
        kind: Kind::Number(1, 1_000_000),
    },
    Setting {
        name: RECOVERY,
        unit: "0 or 1",
        default: "0",
        meaning: "peers may fail: those who need one get an error, and the job goes on (mpiexec --enable-recovery)",
        kind: Kind::Switch,
    },
];

/// A variable has a value that it cannot have. The user's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name}={value:?}: expected {expected}")]
pub struct SettingError {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub expected: String,
}

impl Setting {
    /// Checks a value.
    ///
    /// # Errors
    /// [`SettingError`].
    pub fn check(&self, value: &str) -> Result<(), SettingError> {
        let value = value.trim();
        let (good, expected) = match self.kind {
            Kind::Text => (true, String::new()),
            Kind::Word(words) => (value.is_empty() || words.contains(&value), words.join(" or ")),
            Kind::Switch => (matches!(value, "" | "0" | "1"), String::from("0 or 1")),
            Kind::Seconds => {
                let seconds = value.parse::<f64>().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                (seconds.is_some(), format!("a number, in {}", self.unit))
            }
            Kind::Number(least, most) => {
                let number = value.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
                (number.is_some(), format!("a whole number from {least} to {most}, in {}", self.unit))
            }
        };
        match good {
            true => Ok(()),
            false => Err(SettingError { name: self.name, value: value.to_owned(), expected }),
        }
    }
}

/// A variable of the environment, if it is set and valid UTF-8.
pub fn lookup(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Checks every variable in [`SETTINGS`] that is set.
///
/// # Errors
/// The first that cannot be what it is.
pub fn check_all(lookup: impl Fn(&str) -> Option<String>) -> Result<(), SettingError> {
    for setting in SETTINGS {
        if let Some(value) = lookup(setting.name) {
            setting.check(&value)?;
        }
    }
    Ok(())
}

/// The time blocked after which a rank reports; `None` for never.
pub fn blocked_report_after(lookup: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let time = seconds(lookup, BLOCKED_REPORT_SECONDS).unwrap_or(Duration::from_secs(30));
    (!time.is_zero()).then_some(time)
}

/// The time after which a finalize that cannot complete says what it waits for.
pub fn finalize_report_after(lookup: impl Fn(&str) -> Option<String>) -> Duration {
    seconds(lookup, FINALIZE_REPORT_SECONDS).unwrap_or(FINALIZE_REPORT_AFTER)
}

/// Whether peers may fail while the job goes on.
pub fn recovery(lookup: impl Fn(&str) -> Option<String>) -> bool {
    lookup(RECOVERY).is_some_and(|value| value.trim() == "1")
}

/// The error handler that the predefined communicators start with.
pub fn initial_handler(lookup: impl Fn(&str) -> Option<String>) -> ErrorHandler {
    match lookup(INITIAL_ERRHANDLER).as_deref().map(str::trim) {
        Some("mpi_errors_abort") => ErrorHandler::Abort,
        Some("mpi_errors_return") => ErrorHandler::Return,
        _ => ErrorHandler::Fatal,
    }
}

fn seconds(lookup: impl Fn(&str) -> Option<String>, name: &str) -> Option<Duration> {
    lookup(name)?.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_its_defaults_pass() {
        assert!(SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for setting in SETTINGS.iter().filter(|s| matches!(s.kind, Kind::Number(..) | Kind::Seconds)) {
            setting.check(setting.default).unwrap();
        }
    }

    #[test]
    fn nonsense_is_named() {
        for (name, value) in [
            (BLOCKED_REPORT_SECONDS, "soon"),
            (BLOCKED_REPORT_SECONDS, "-1"),
            (BLOCKED_REPORT_SECONDS, "inf"),
            ("MPI_ALLOW_SINGLETON", "yes"),
            ("MPI_PMI_TIMEOUT", "0"),
            (INITIAL_ERRHANDLER, "foo"),
        ] {
            let error = check_all(|n| (n == name).then(|| value.to_owned())).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), (name, value));
        }
    }

    #[test]
    fn the_first_error_handler_is_the_one_named() {
        let with = |value: &'static str| format!("{:?}", initial_handler(move |_| Some(value.to_owned())));
        assert_eq!(HANDLERS.map(with), ["Fatal", "Abort", "Return"]);
        assert!(matches!(initial_handler(|_| None), ErrorHandler::Fatal));
    }

    #[test]
    fn zero_seconds_means_never() {
        let with = |value: &'static str| blocked_report_after(move |_| Some(value.to_owned()));
        assert_eq!(with("0"), None);
        assert_eq!(with("2.5"), Some(Duration::from_millis(2500)));
        assert_eq!(blocked_report_after(|_| None), Some(Duration::from_secs(30)));
    }
}
