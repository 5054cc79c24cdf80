//! The hosts of a job of the MPI Operator, which runs MPI in Kubernetes: it writes a hostfile for the launcher's pod and
//! names it by the variable that the chosen MPI reads.

use super::allocation::Lookup;
use super::hostfile::{self, Entry};
use crate::cli::UsageError;

/// Set to this in the launcher's pod, and nowhere else.
const ROLE: (&str, &str) = ("K_MPI_JOB_ROLE", "launcher");
/// Name the hostfile, each for one `mpiImplementation`.
const HOSTFILES: &[&str] = &["HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile"];

/// The hosts and their slots; `None` outside of such a pod.
///
/// # Errors
/// A hostfile that cannot be read.
pub fn hosts(lookup: Lookup<'_>) -> Result<Option<Vec<Entry>>, UsageError> {
    if lookup(ROLE.0).as_deref() != Some(ROLE.1) {
        return Ok(None);
    }
    let named = HOSTFILES.iter().find_map(|name| Some((*name, lookup(name)?)));
    let Some((name, path)) = named else { return Ok(None) };
    let text = std::fs::read_to_string(&path)
        .map_err(|e| UsageError::new(format!("{name}={path:?}, set by the MPI Operator: {e}")))?;
    let hosts = hostfile::file(&text).map_err(|fault| UsageError::new(format!("{path}:{fault}")))?;
    match hosts.is_empty() {
        true => {
            Err(UsageError::new(format!("{name}={path:?}, set by the MPI Operator: no host in this file")))
        }
        false => Ok(Some(hosts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<usize>, String> {
        let lookup = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned());
        hosts(&lookup).map(|hosts| hosts.map(|all| all.len())).map_err(|e| e.to_string())
    }

    #[test]
    fn only_a_launchers_pod_counts() {
        assert_eq!(of(&[("HYDRA_HOST_FILE", "/no/such/file")]), Ok(None));
        assert_eq!(of(&[ROLE]), Ok(None));
        assert_eq!(of(&[("K_MPI_JOB_ROLE", "worker"), ("HYDRA_HOST_FILE", "/no/such/file")]), Ok(None));
        for name in HOSTFILES {
            let error = of(&[ROLE, (name, "/no/such/file")]).unwrap_err();
            assert!(error.starts_with(&format!("{name}=\"/no/such/file\"")), "{error}");
            let error = of(&[ROLE, (name, "/dev/null")]).unwrap_err();
            assert!(error.ends_with("no host in this file"), "{error}");
        }
    }
}
