//! Launchers that are there without a protocol that is spoken here.

use crate::PmiError;
use crate::bootstrap::{Lookup, variables};

/// How a launcher shows itself.
struct Trace {
    launcher: &'static str,
    /// Variables, any of which shows it.
    names: &'static [&'static str],
    /// It shows only where this variable holds a number above 1.
    above_one: Option<&'static str>,
    advice: &'static str,
}

/// The more particular first: a PMIx launcher inside a Slurm allocation sets Slurm's too.
const TRACES: &[Trace] = &[
    Trace {
        launcher: "Open MPI's mpirun",
        names: &["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"],
        above_one: None,
        advice: "start it with this project's mpiexec: mpiexec -n N PROGRAM",
    },
    Trace {
        launcher: "a PMIx launcher",
        names: &["PMIX_RANK", "PMIX_NAMESPACE", "PMIX_VERSION", "PRTE_LAUNCHED"],
        above_one: None,
        advice: "use mpiexec -n N PROGRAM, or under Slurm srun --mpi=pmi2 PROGRAM",
    },
    Trace {
        launcher: "Slurm",
        names: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        above_one: Some("SLURM_NTASKS"),
        advice: "use srun --mpi=pmi2 PROGRAM, or mpiexec -n N PROGRAM inside the allocation",
    },
    Trace {
        launcher: "MVAPICH's mpirun_rsh or mpiexec",
        names: &["MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE", "MVP_COMM_WORLD_RANK"],
        above_one: None,
        advice: "start it with this project's mpiexec: mpiexec -n N PROGRAM",
    },
    Trace {
        launcher: "PALS (HPE Cray's mpiexec or aprun)",
        names: &["PALS_RANKID", "PALS_LOCAL_RANKID", "ALPS_APP_PE"],
        above_one: None,
        advice: "use this project's mpiexec inside the allocation: mpiexec -n N PROGRAM",
    },
    Trace {
        launcher: "Flux",
        names: &["FLUX_JOB_SIZE", "FLUX_TASK_RANK"],
        above_one: Some("FLUX_JOB_SIZE"),
        advice: "use flux run -o pmi=simple PROGRAM, or mpiexec -n N PROGRAM inside the allocation",
    },
    Trace {
        launcher: "jsrun (IBM Spectrum LSF)",
        names: &["JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"],
        above_one: Some("JSM_NAMESPACE_SIZE"),
        advice: "use this project's mpiexec inside the allocation: mpiexec -n N PROGRAM",
    },
    Trace {
        launcher: "MPICH's or Intel's mpiexec",
        names: &["PMI_RANK", "PMI_SIZE", "HYDI_CONTROL_FD", "MPI_LOCALNRANKS"],
        above_one: None,
        advice: "its PMI_FD or PMI_PORT did not reach this process; use mpiexec -n N PROGRAM",
    },
];

/// Refuses to run alone where a launcher has started this process as one of many.
pub(crate) fn check(lookup: Lookup<'_>) -> Result<(), PmiError> {
    match lookup(variables::ALLOW_SINGLETON).as_deref() {
        None | Some("" | "0") => {}
        Some("1") => return Ok(()),
        Some(other) => {
            return Err(PmiError::Setting {
                name: variables::ALLOW_SINGLETON,
                value: other.to_owned(),
                reason: String::from("expected 1 or 0"),
            });
        }
    }
    for trace in TRACES {
        let evidence: Vec<String> =
            trace.names.iter().filter_map(|name| Some(format!("{name}={}", lookup(name)?))).collect();
        // A shell of an allocation of many tasks (salloc, sbatch) counts too: a single process there
        // is far more often a forgotten srun or mpiexec than meant.
        let alone = trace.above_one.is_some_and(|name| {
            lookup(name).and_then(|v| v.trim().parse::<u64>().ok()).is_none_or(|n| n <= 1)
        });
        if !evidence.is_empty() && !alone {
            return Err(PmiError::Foreign {
                launcher: trace.launcher,
                evidence: evidence.join(", "),
                advice: trace.advice.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pairs: &[(&str, &str)]) -> Result<(), String> {
        let lookup =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        check(&lookup).map_err(|e| e.to_string())
    }

    #[test]
    fn launchers_are_named_with_their_variables() {
        for (pairs, launcher, command) in [
            (&[("OMPI_COMM_WORLD_SIZE", "4")][..], "Open MPI", "mpiexec -n N"),
            (&[("PMIX_RANK", "0"), ("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")], "PMIx", "--mpi=pmi2"),
            (&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "1")], "Slurm", "srun --mpi=pmi2"),
            (&[("SLURM_NTASKS", "8")], "Slurm", "mpiexec -n N"),
            (&[("MV2_COMM_WORLD_SIZE", "2")], "MVAPICH", "mpiexec -n N"),
            (&[("MVP_COMM_WORLD_RANK", "0")], "MVAPICH", "mpiexec -n N"),
            (&[("PALS_RANKID", "1")], "PALS", "mpiexec -n N"),
            (&[("FLUX_JOB_SIZE", "4"), ("FLUX_TASK_RANK", "0")], "Flux", "flux run"),
            (&[("JSM_NAMESPACE_SIZE", "4")], "jsrun", "mpiexec -n N"),
            (&[("PMI_RANK", "1"), ("PMI_SIZE", "2")], "MPICH", "mpiexec -n N"),
        ] {
            let error = verdict(pairs).unwrap_err();
            assert!(error.contains(launcher) && error.contains(command), "{error}");
            assert!(error.contains(pairs[0].0) && error.contains(pairs[0].1), "{error}");
        }
    }

    #[test]
    fn a_single_process_is_no_mistake() {
        assert_eq!(verdict(&[]), Ok(()));
        assert_eq!(verdict(&[("SLURM_NTASKS", "1"), ("SLURM_PROCID", "0")]), Ok(()));
        assert_eq!(verdict(&[("FLUX_JOB_SIZE", "1"), ("FLUX_TASK_RANK", "0")]), Ok(()));
        assert_eq!(verdict(&[("SLURM_NTASKS", "8"), ("MPI_ALLOW_SINGLETON", "1")]), Ok(()));
        assert_eq!(verdict(&[("OMPI_COMM_WORLD_SIZE", "4"), ("MPI_ALLOW_SINGLETON", "1")]), Ok(()));
        assert!(verdict(&[("MPI_ALLOW_SINGLETON", "yes")]).unwrap_err().contains("MPI_ALLOW_SINGLETON"));
    }
}
