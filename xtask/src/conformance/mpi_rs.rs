//! The examples of the package `mpi-rs` 0.1.0 that use what rsmpi has.

use anyhow::ensure;

use super::Options;
use super::package::{self, Kind, Program, from_registry};
use crate::workspace::{root, target};

const VERSION: &str = "0.1.0";

/// Name, right exit status, what it prints when all went well.
const OURS_TOO: &[(&str, i32, &str)] = &[
    ("abort", 7, ""),
    ("bigmsg", 0, "BIGMSG PASS"),
    ("cluster", 0, "CLUSTER PASS"),
    ("derive", 0, "derive(Equivalence) round-trip OK"),
    ("pingpong", 0, "all_reduce:"),
    ("reduce", 0, "Reductions verified"),
    ("ring", 0, "Ring exchange completed"),
];

/// Those that use what is mpi-rs's own, and what.
const LEFT_OUT: &[(&str, &str)] = &[
    ("hello", "`mpi::processor_name` at the root (rsmpi: `mpi::environment`)"),
    ("parallel_io", "its `mpi::io`"),
    ("rma", "its `mpi::window`"),
    ("selftest", "its collectives in place, error handlers, persistent and generalized requests"),
    ("spawn", "its form of `spawn`, with program and arguments apart"),
    ("thread_multiple", "communicators that are `Clone`"),
    ("topo_inter", "its graph topologies and inter-communicators"),
];

pub fn suite(options: &Options) -> anyhow::Result<Vec<Program>> {
    let theirs = from_registry("mpi-rs", VERSION)?;
    let mut programs = Program::all_of(&theirs.join("examples"), Kind::Example)?;
    ensure!(
        programs.len() == OURS_TOO.len() + LEFT_OUT.len(),
        "{} examples, and a table of {}",
        programs.len(),
        OURS_TOO.len() + LEFT_OUT.len()
    );
    for (name, reason) in LEFT_OUT.iter().filter(|(name, _)| options.wants(name)) {
        println!("left out {name}: {reason}");
    }
    programs.retain(|program| options.wants(&program.name));
    programs.retain_mut(|program| {
        let Some(&(_, status, says)) = OURS_TOO.iter().find(|(name, ..)| *name == program.name) else {
            return false;
        };
        (program.status, program.says) = (status, says);
        true
    });
    package::build(&target().join("conformance/mpi-rs"), &manifest(), &mut programs)?;
    Ok(programs)
}

fn manifest() -> String {
    let facade = root().join("crates/mpi");
    format!(
        r#"[package]
name = "mpi-rs-conformance"
version = "0.0.0"
edition = "2021"
autoexamples = false

[dependencies]
mpi = {{ path = {facade:?}, features = ["user-operations", "derive", "complex"] }}

[profile.dev]
opt-level = 1
debug = false

[workspace]
"#
    )
}
