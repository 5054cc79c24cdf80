//! The processors that this process may use, and how long to spin on them.

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

/// The processors that the calling thread may run on, ascending. Empty only where the kernel
/// refuses to say.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

/// How many processors the calling thread may run on, at least 1.
pub fn allowed_count() -> usize {
    match allowed().len() {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    }
}

/// True when more ranks share the processors than there are processors: whoever waits must hand
/// its processor over instead of spinning. Ranks count that may use the same processors as this
/// process; the affinity mask decides, not the number of slots.
pub fn oversubscribed(ranks_on_node: usize) -> bool {
    ranks_on_node > allowed_count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_one_processor() {
        assert!(allowed_count() >= 1);
        assert!(oversubscribed(allowed_count() + 1));
        assert!(!oversubscribed(1));
    }
}
