//! Every environment variable that a rank reads, with its unit, default and check: for ranks and for
//! launchers, which find a value that cannot be before anything starts.
//!
//! A value that makes no sense is an error that names the variable; it is never ignored. What the values
//! mean, those know who read them. The variables that a launcher sets for its ranks are
//! [`variables`](crate::variables).

use mpi_node::faults;
use std::time::Duration;

/// Largest `MPI_TCP_EAGER_BYTES`.
const TCP_EAGER_MAX_BYTES: u64 = 16 << 20;

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
    /// Some of these words, with commas; behind `^` those that are not wanted.
    Words(&'static [&'static str]),
    /// The first and the last of a range of ports.
    Ports,
    /// A numeric address.
    Address,
    /// Faults that happen on purpose.
    Faults,
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
/// The handlers that it may name.
pub const HANDLERS: [&str; 3] = ["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"];
/// Peers may fail and the job goes on; `mpiexec --enable-recovery` sets it.
pub const RECOVERY: &str = "MPI_RECOVERY";
/// Transports to use.
pub const BTL: &str = "MPI_BTL";

/// The transports that it may name.
pub const TRANSPORTS: &[&str] = &["shm", "tcp"];

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
        kind: Kind::Words(TRANSPORTS),
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
        name: faults::VARIABLE,
        unit: "NAME=VALUE, separated by commas",
        default: "none",
        meaning: "for tests: system calls that fail, fall short or come late, by lot (docs/faults.md)",
        kind: Kind::Faults,
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
        kind: Kind::Address,
    },
    Setting {
        name: "MPI_IFACE",
        unit: "name of an interface",
        default: "every usable address of the host",
        meaning: "network interface for connections; mpiexec --iface sets it",
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
        name: "MPI_PMI_PROTOCOL",
        unit: "pmi1 or pmi2",
        default: "what the launcher's variables say",
        meaning: "protocol towards a launcher other than mpiexec",
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
        name: "MPI_PORT_RANGE",
        unit: "FIRST-LAST",
        default: "any that is free",
        meaning: "ports for connections; mpiexec --port-range sets it",
        kind: Kind::Ports,
    },
    Setting {
        name: RECOVERY,
        unit: "0 or 1",
        default: "0",
        meaning: "peers may fail: those who need one get an error, and the job goes on (mpiexec --enable-recovery)",
        kind: Kind::Switch,
    },
    Setting {
        name: "MPI_SHM_CMA",
        unit: "0 or 1",
        default: "1",
        meaning: "copy large messages straight from the memory of a peer, where the kernel permits it",
        kind: Kind::Switch,
    },
    Setting {
        name: "MPI_TCP_EAGER_BYTES",
        unit: "bytes",
        default: "1048576",
        meaning: "largest message over TCP that is sent without asking",
        kind: Kind::Number(0, TCP_EAGER_MAX_BYTES),
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
            Kind::Words(known) => {
                let words = value.strip_prefix('^').unwrap_or(value).split(',').map(str::trim);
                let good = value.is_empty() || words.into_iter().all(|word| known.contains(&word));
                (good, format!("{}, in {}", known.join(" and "), self.unit))
            }
            Kind::Ports => {
                let ends = value.split_once('-');
                let ends = ends.and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
                let good = ends.is_some_and(|(a, b): (u16, u16)| a > 0 && a <= b);
                (good, String::from("FIRST-LAST, ports from 1 to 65535"))
            }
            Kind::Address => (value.parse::<std::net::IpAddr>().is_ok(), String::from("an IP address")),
            Kind::Faults => match faults::Plan::parse(value) {
                Ok(_) => (true, String::new()),
                Err(e) => (false, e.expected()),
            },
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

/// Checks every variable in [`SETTINGS`] that is set.
///
/// # Errors
/// The first that cannot be what it is.
pub fn check_all(lookup: impl Fn(&str) -> Option<String>) -> Result<(), SettingError> {
    // Which transports there are, those know who have them.
    for setting in SETTINGS.iter().filter(|setting| setting.name != BTL) {
        if let Some(value) = lookup(setting.name) {
            setting.check(&value)?;
        }
    }
    Ok(())
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
    fn forms_are_checked() {
        let check = |name: &str, value: &str| {
            let setting = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
            setting.check(value).map_err(|e| e.to_string())
        };
        for (name, value) in [
            (BTL, "tcp"),
            (BTL, "shm, tcp"),
            (BTL, "^tcp"),
            (BTL, ""),
            ("MPI_PORT_RANGE", "7000-7000"),
            ("MPI_PORT_RANGE", " 1 - 65535"),
            ("MPI_HOST_IP", "::1"),
            ("MPI_TCP_EAGER_BYTES", "0"),
        ] {
            assert_eq!(check(name, value), Ok(()), "{name}={value}");
        }
        for (name, value, expected) in [
            (BTL, "carrier", "MPI_BTL=\"carrier\": expected shm and tcp"),
            (BTL, "tcp,^shm", "MPI_BTL=\"tcp,^shm\": expected"),
            ("MPI_PORT_RANGE", "9-1", "MPI_PORT_RANGE=\"9-1\": expected FIRST-LAST"),
            ("MPI_PORT_RANGE", "0-9", "MPI_PORT_RANGE=\"0-9\": expected FIRST-LAST"),
            ("MPI_HOST_IP", "here", "MPI_HOST_IP=\"here\": expected an IP address"),
            ("MPI_SHM_CMA", "maybe", "MPI_SHM_CMA=\"maybe\": expected 0 or 1"),
            (faults::VARIABLE, "short=2", "MPI_FAULTS=\"short=2\": expected NAME=VALUE"),
        ] {
            assert!(check(name, value).unwrap_err().starts_with(expected), "{name}={value}");
        }
    }
}
