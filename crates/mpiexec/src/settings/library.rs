//! Variables of the library: checked before anything starts, and told of where one is misspelt.

use super::{Job, Program};
use crate::cli::UsageError;
use crate::cli::table::OPTIONS;
use mpi_pmi::settings::{BTL, SETTINGS, TRANSPORTS};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

/// Checks what the ranks would read: a program's own variables beat the job's, and those the launcher's.
///
/// # Errors
/// [`UsageError`] naming the variable.
pub fn check(job: &Job, outside: &dyn Fn(&str) -> Option<OsString>) -> Result<(), UsageError> {
    for setting in SETTINGS {
        for program in &job.programs {
            let Some(value) = value(setting.name, job, program, outside) else { continue };
            let text = value
                .to_str()
                .ok_or_else(|| UsageError::new(format!("{}={value:?}: not UTF-8", setting.name)))?;
            setting.check(text).map_err(|e| UsageError::new(e.to_string()))?;
        }
    }
    check_transports(job, outside)
}

/// What the ranks of a program find under this name.
fn value(
    name: &str,
    job: &Job,
    program: &Program,
    outside: &dyn Fn(&str) -> Option<OsString>,
) -> Option<OsString> {
    let given = job.env.iter().chain(&program.env).rev().find(|(known, _)| known == name);
    given.map(|(_, value)| value.into()).or_else(|| outside(name))
}

/// Ranks send by the transports that they have themselves: one that has others never hears them.
fn check_transports(job: &Job, outside: &dyn Fn(&str) -> Option<OsString>) -> Result<(), UsageError> {
    let of = |program| value(BTL, job, program, outside).unwrap_or_default().to_string_lossy().into_owned();
    let all: Vec<String> = job.programs.iter().map(of).collect();
    let Some(first) = all.first() else { return Ok(()) };
    match all.iter().position(|other| transports(other) != transports(first)) {
        None => Ok(()),
        Some(at) => Err(UsageError::new(format!(
            "{BTL} is {first:?} for program 1 and {:?} for program {}: all ranks of a job need the same transports",
            all[at],
            at + 1
        ))),
    }
}

/// The transports that a value of `MPI_BTL` leaves; the first is not asked first for standing first.
fn transports(value: &str) -> BTreeSet<&str> {
    let value = value.trim();
    let names = |text| str::split(text, ',').map(str::trim).filter(|name| !name.is_empty());
    match value.strip_prefix('^') {
        _ if value.is_empty() => TRANSPORTS.iter().copied().collect(),
        Some(without) => {
            let without: BTreeSet<&str> = names(without).collect();
            TRANSPORTS.iter().copied().filter(|name| !without.contains(name)).collect()
        }
        None => names(value).collect(),
    }
}

/// Variables that launcher and library know beside options and settings.
const FURTHER: &[&str] = &[
    "MPIEXEC_CONFIG",
    "MPI_STDERR_TERMINAL",
    "MPI_TEST_ON_RANKS",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "MPI_COLL_VERBOSE",
    crate::guard::DAEMON_VARIABLE,
];
/// The algorithm of each collective has a variable that begins so; the ranks know which there are.
const COLLECTIVES: &str = "MPI_COLL_";

/// A line for each variable that nobody knows and that looks like one that is known. Not refused: other
/// programs have variables that begin with `MPI_` and `MPIEXEC_` too.
pub fn slips(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let options = OPTIONS.iter().filter(|opt| opt.has_default()).flat_map(|opt| opt.variables());
    let known: BTreeSet<String> = options
        .chain(SETTINGS.iter().map(|setting| setting.name.to_owned()))
        .chain(FURTHER.iter().chain(mpi_pmi::variables::OF_A_JOB).map(|name| String::from(*name)))
        .collect();
    let mut lines: Vec<String> = names.filter_map(|name| slip(name.as_os_str(), &known)).collect();
    lines.sort();
    lines
}

fn slip(name: &OsStr, known: &BTreeSet<String>) -> Option<String> {
    let name = name.to_str()?;
    if known.contains(name) || name.starts_with(COLLECTIVES) {
        return None;
    }
    let meant = ["MPIEXEC_", "MPI_"].iter().find_map(|prefix| {
        let rest = name.strip_prefix(prefix)?;
        // Short names are close to many.
        let most = if rest.len() < 6 { 1 } else { 2 };
        let distance = |other: &str| strsim::osa_distance(rest, other);
        let near = known.iter().filter_map(|other| Some((distance(other.strip_prefix(prefix)?), other)));
        let near = near.filter(|(distance, _)| *distance <= most).min();
        let library = format!("MPI_{rest}");
        near.map(|(_, other)| other.clone())
            .or_else(|| (*prefix == "MPIEXEC_" && known.contains(&library)).then_some(library))
    })?;
    Some(format!("the variable {name} is known to nobody here; did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::slips;
    use std::ffi::OsString;

    #[test]
    fn slips_are_told_and_names_of_others_are_not() {
        for (name, meant) in [
            ("MPIEXEC_TIMOUT", "MPIEXEC_TIMEOUT"),
            ("MPIEXEC_OUTPUT_DIRS", "MPIEXEC_OUTPUT_DIR"),
            ("MPIEXEC_HOSTFIEL", "MPIEXEC_HOSTFILE"),
            ("MPIEXEC_BTL", "MPI_BTL"),
            ("MPI_BLT", "MPI_BTL"),
            ("MPI_CHEK", "MPI_CHECK"),
            ("MPI_PORTRANGE", "MPI_PORT_RANGE"),
            ("MPI_BLOCKED_REPORT_SECOND", "MPI_BLOCKED_REPORT_SECONDS"),
        ] {
            let lines = slips([OsString::from(name)].into_iter());
            assert_eq!(lines.len(), 1, "{name}");
            assert!(
                lines[0].contains(name) && lines[0].ends_with(&format!("did you mean {meant}?")),
                "{lines:?}"
            );
        }
        // Build systems, other implementations, module files.
        let others = "MPI_HOME MPI_ROOT MPI_BIN MPI_LIB MPI_INC MPI_INCLUDE MPI_DIR MPI_SUFFIX MPI_FORTRAN_MOD_DIR \
            MPI_CC MPI_CXX MPI_C_COMPILER MPI_SYSCONFIG MPI_COMPILER MPI_PYTHON_SITEARCH MPI_TYPE_MAX MPI_COMM_MAX \
            MPI_BUFS_PER_PROC MPI_DSM_CPULIST MPI_LAUNCH_TIMEOUT MPI_UNIVERSE MPIEXEC_EXECUTABLE MPIEXEC_PREFLAGS \
            MPIEXEC_NUMPROC_FLAG MPIEXEC_MAX_NUMPROCS MPIEXEC_POSTFLAGS MPIEXEC_TIMEOUT_SIGNAL MPIEXEC_PREFIX_DEFAULT \
            MPIEXEC_ALLOW_ROOT MPIEXEC_UNIVERSE_SIZE MPIR_CVAR_X OMPI_X MPI4PY_RC_X PATH MPI MPI_ MPI_COLL_BCAST \
            MPI_JOBID MPI_PMI_RANK MPIEXEC_CONFIG MPIEXEC_VERBOSE MPI_IFACE MPI_BIND_TO";
        assert_eq!(slips(others.split_whitespace().map(OsString::from)), Vec::<String>::new());
    }
}
