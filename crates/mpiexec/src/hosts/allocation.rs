//! The hosts that Slurm has given to this job, where mpiexec runs inside of an allocation.

use super::hostfile::{self, Entry};
use crate::cli::UsageError;

/// Looks up a variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The hosts and their slots; `None` outside of an allocation.
///
/// # Errors
/// A variable of Slurm's that cannot be read.
pub fn slurm(lookup: Lookup<'_>) -> Result<Option<Vec<Entry>>, UsageError> {
    const NODES: &str = "SLURM_JOB_NODELIST";
    let (Some(_), Some(list)) = (lookup("SLURM_JOB_ID"), lookup(NODES)) else { return Ok(None) };
    let bad = |name: &str, value: &str, reason: &str| UsageError::new(format!("{name}={value:?}: {reason}"));
    let mut hosts = hostfile::list(&list).map_err(|fault| bad(NODES, &list, &fault.to_string()))?;
    // Tasks, where they were asked for; processors otherwise.
    for name in ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"] {
        let Some(text) = lookup(name) else { continue };
        let counts = counts(&text).ok_or_else(|| bad(name, &text, "expected numbers such as 4(x2),1"))?;
        if counts.len() != hosts.len() {
            let reason = format!("numbers for {} hosts, {NODES} names {}", counts.len(), hosts.len());
            return Err(bad(name, &text, &reason));
        }
        for (host, count) in hosts.iter_mut().zip(counts) {
            host.slots = Some(count);
        }
        break;
    }
    Ok(Some(hosts))
}

/// `4(x2),1` for 4, 4, 1.
fn counts(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
            None => (part, 1),
        };
        let count: usize = count.parse().ok().filter(|n| (1..=hostfile::SLOTS_MAX).contains(n))?;
        if times > hostfile::HOSTS_MAX || all.len() + times > hostfile::HOSTS_MAX {
            return None;
        }
        all.extend(std::iter::repeat_n(count, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<String, String> {
        let lookup = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned());
        let hosts = slurm(&lookup).map_err(|e| e.to_string())?.unwrap_or_default();
        let one = |e: &Entry| format!("{}:{}", e.host, e.slots.unwrap_or(0));
        Ok(hosts.iter().map(one).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_allocation_is_a_list_of_hosts() {
        let job = ("SLURM_JOB_ID", "7");
        let nodes = ("SLURM_JOB_NODELIST", "n[01-02],x");
        for (more, expected) in [
            (("SLURM_TASKS_PER_NODE", "4(x2),1"), "n01:4 n02:4 x:1"),
            (("SLURM_JOB_CPUS_PER_NODE", "8(x3)"), "n01:8 n02:8 x:8"),
            (("OTHER", "1"), "n01:0 n02:0 x:0"),
        ] {
            assert_eq!(of(&[job, nodes, more]).as_deref(), Ok(expected));
        }
        assert_eq!(of(&[nodes]).as_deref(), Ok(""), "no allocation");
    }

    #[test]
    fn nonsense_names_its_variable() {
        let job = ("SLURM_JOB_ID", "7");
        for (nodes, tasks, expected) in [
            ("n[1-", "1", "SLURM_JOB_NODELIST=\"n[1-\": 1:2: a bracket"),
            ("n[1-2]", "1", "SLURM_TASKS_PER_NODE=\"1\": numbers for 1 hosts"),
            ("n1", "x", "SLURM_TASKS_PER_NODE=\"x\": expected numbers"),
            ("n1", "1(x99999999)", "SLURM_TASKS_PER_NODE=\"1(x99999999)\": expected"),
            ("n1", "1(x2", "SLURM_TASKS_PER_NODE=\"1(x2\": expected"),
        ] {
            let error =
                of(&[job, ("SLURM_JOB_NODELIST", nodes), ("SLURM_TASKS_PER_NODE", tasks)]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
