//! The examples and tests of the package `mpi` 0.8.2.

use anyhow::ensure;

use super::Options;
use super::package::{self, Kind, Program, from_registry};
use crate::workspace::{root, target};

pub const VERSION: &str = "0.8.2";

/// So many are in the package; fewer would mean that some were not found.
const EXAMPLES: usize = 58;

/// Examples that need more than one rank: the first says so, the second tells what it sent from what it received by
/// the sender's rank.
const LEAST_RANKS: &[(&str, u32)] = &[("all_gather_bool", 2), ("immediate_multiple_requests", 2)];

pub fn suite(options: &Options) -> anyhow::Result<Vec<Program>> {
    let theirs = from_registry("mpi", VERSION)?;
    let mut programs = Program::all_of(&theirs.join("examples"), Kind::Example)?;
    ensure!(programs.len() == EXAMPLES, "{} examples instead of {EXAMPLES}", programs.len());
    programs.extend(Program::all_of(&theirs.join("tests"), Kind::Test)?);
    programs.retain(|program| options.wants(&program.name));
    for program in &mut programs {
        if let Some(&(_, least)) = LEAST_RANKS.iter().find(|(name, _)| *name == program.name) {
            program.least_ranks = least;
        }
    }
    package::build(&target().join("conformance/rsmpi"), &manifest(), &mut programs)?;
    Ok(programs)
}

/// What their package says of itself, where it matters to a program: its features, and the two packages that some
/// examples use.
pub fn manifest() -> String {
    let facade = root().join("crates/mpi");
    format!(
        r#"[package]
name = "rsmpi-conformance"
version = "0.0.0"
edition = "2021"
autoexamples = false
autotests = false

[features]
default = ["user-operations", "derive", "complex"]
user-operations = []
derive = []
complex = []

[dependencies]
mpi = {{ path = {facade:?}, features = ["user-operations", "derive", "complex"] }}
memoffset = "0.9"
num-complex = "0.4"

[lints.rust]
unexpected_cfgs = {{ level = "warn", check-cfg = ["cfg(msmpi)"] }}

[profile.dev]
opt-level = 1
debug = false

[workspace]
"#
    )
}
