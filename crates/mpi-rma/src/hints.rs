//! Hints of a window (MPI 5.0, sections 12.2.1 and 12.2.7): those that are known, their values in use, and what follows
//! from them.

use crate::create::Flavor;
use crate::window::Window;
use mpi_comm::Info;
use std::sync::atomic::Ordering;

/// The known ones, with the values they have where nobody asks for others, and whether these may change later.
const KNOWN: [(&str, &str, bool); 7] = [
    ("no_locks", "false", true),
    ("accumulate_ordering", "rar,raw,war,waw", true),
    ("accumulate_ops", "same_op_no_op", true),
    ("mpi_accumulate_granularity", "0", true),
    ("same_size", "false", false),
    ("same_disp_unit", "false", false),
    ("alloc_shared_noncontig", "false", false),
];

fn is_value(key: &str, value: &str) -> bool {
    match key {
        "accumulate_ordering" => {
            value == "none"
                || value.split(',').all(|word| ["rar", "raw", "war", "waw"].contains(&word.trim()))
        }
        "accumulate_ops" => ["same_op", "same_op_no_op"].contains(&value),
        "mpi_accumulate_granularity" => value.parse::<u64>().is_ok(),
        _ => ["true", "false"].contains(&value),
    }
}

/// Sets in `used` what `asked` has of known hints with possible values. Others are no errors: hints never are.
fn take(used: &mut Info, asked: &Info, from_the_start: bool) {
    for (key, _, may_change) in KNOWN {
        let value = asked.get(key).filter(|value| is_value(key, value) && (may_change || from_the_start));
        if let Some(value) = value {
            let _ = used.set(key, value);
        }
    }
}

/// What a new window keeps: the hints that were asked for and are taken. The others are as [`KNOWN`] says.
pub(crate) fn taken(asked: &Info) -> Info {
    let mut used = Info::new();
    take(&mut used, asked, true);
    used
}

/// All known hints with their values.
fn in_use(used: &Info, flavor: Flavor) -> Info {
    let mut all = Info::new();
    for (key, value, _) in KNOWN {
        if key != "alloc_shared_noncontig" || flavor == Flavor::Shared {
            let _ = all.set(key, used.get(key).unwrap_or(value));
        }
    }
    all
}

pub(crate) fn forbids_locks(used: &Info) -> bool {
    used.get("no_locks") == Some("true")
}

impl Window {
    /// The hints in use (`MPI_Win_get_info`).
    pub fn info(&self) -> Info {
        in_use(&self.0.manners().info, self.0.flavor)
    }

    /// Changes hints (`MPI_Win_set_info`): those that are known, may change, and have a possible value.
    pub fn set_info(&self, info: &Info) {
        let used = &mut self.0.change_manners().info;
        take(used, info, false);
        self.0.no_locks.store(forbids_locks(used), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hints_with_possible_values_are_taken() {
        let mut asked = Info::new();
        for (key, value) in [
            ("no_locks", "true"),
            ("accumulate_ops", "any"),
            ("accumulate_ordering", "none"),
            ("colour", "red"),
        ] {
            asked.set(key, value).unwrap();
        }
        let mut used = taken(&asked);
        let shown = in_use(&used, Flavor::Allocate);
        let all: Vec<_> = shown.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            all,
            [
                "no_locks=true",
                "accumulate_ordering=none",
                "accumulate_ops=same_op_no_op",
                "mpi_accumulate_granularity=0",
                "same_size=false",
                "same_disp_unit=false"
            ]
        );
        let mut later = Info::new();
        later.set("no_locks", "false").unwrap();
        later.set("same_size", "true").unwrap();
        take(&mut used, &later, false);
        assert!(!forbids_locks(&used) && used.get("same_size").is_none());
    }
}
