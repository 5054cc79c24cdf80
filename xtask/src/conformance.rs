//! `cargo xtask conformance rsmpi`: the examples of the package `mpi` 0.8.2, unmodified, on our facade.
//!
//! The package comes from the registry into `target/conformance`; nothing of it enters this project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const RSMPI_VERSION: &str = "0.8.2";

/// Those that must pass; the others are listed by name when they do not.
const MUST_PASS: &[&str] = &[
    "all_gather",
    "all_to_all",
    "barrier",
    "broadcast",
    "buffered",
    "comm_name",
    "env_inq",
    "gather",
    "immediate",
    "immediate_barrier",
    "immediate_multiple_barrier",
    "immediate_multiple_requests",
    "immediate_multiple_test",
    "init_with_threading",
    "readme",
    "ready_send",
    "reduce",
    "scan",
    "scatter",
    "send_receive",
    "simple",
    "time",
    "wait_any",
];

/// Examples that need more than one rank: the first says so, the second tells what it sent from what it received by
/// the sender's rank.
const LEAST_RANKS: &[(&str, u32)] = &[("all_gather_bool", 2), ("immediate_multiple_requests", 2)];

#[derive(clap::Args)]
pub struct Options {
    /// Numbers of ranks to run each example with
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,5,8")]
    ranks: Vec<u32>,
    /// Transports to allow, as in MPI_BTL; the library's own choice unless given
    #[arg(long)]
    btl: Option<String>,
    /// Seconds for one run
    #[arg(long, default_value_t = 30)]
    timeout: u64,
    /// Only the examples whose name contains this
    #[arg(long)]
    only: Option<String>,
}

impl Options {
    pub fn for_ci() -> Options {
        Options { ranks: vec![1, 2, 3, 5], btl: None, timeout: 30, only: None }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let folder = target().join("conformance/rsmpi");
    let mut names = lay_out(&folder)?;
    names.retain(|name| options.wants(name));
    Cmd::new(cargo()).words("build --quiet -p mpiexec").dir(root()).run(BUILD_LIMIT)?;
    let programs = build(&folder, &names)?;

    let mut failed = BTreeSet::new();
    for name in &names {
        let problems = match programs.get(name) {
            None => vec!["does not build".to_owned()],
            Some(program) => try_all(name, program, options)?,
        };
        println!("{} {name}", if problems.is_empty() { "pass" } else { "FAIL" });
        for problem in &problems {
            println!("     {}", problem.replace('\n', "\n     "));
        }
        if !problems.is_empty() {
            failed.insert(name.as_str());
        }
    }
    summarize(&names, &failed, options)
}

fn summarize(names: &[String], failed: &BTreeSet<&str>, options: &Options) -> anyhow::Result<()> {
    let ranks: Vec<String> = options.ranks.iter().map(u32::to_string).collect();
    println!(
        "rsmpi's examples at {} ranks, transports {}:",
        ranks.join(", "),
        options.btl.as_deref().unwrap_or("by priority")
    );
    if !failed.is_empty() {
        println!("not yet passing: {}", failed.iter().copied().collect::<Vec<_>>().join(", "));
    }
    println!("{} passed, {} failed", names.len() - failed.len(), failed.len());
    let broken: Vec<&str> = MUST_PASS.iter().copied().filter(|name| failed.contains(name)).collect();
    ensure!(broken.is_empty(), "these must pass: {}", broken.join(", "));
    Ok(())
}

/// A package of their examples on our facade; returns the examples' names.
fn lay_out(folder: &Path) -> anyhow::Result<Vec<String>> {
    let theirs = from_registry()?.join("examples");
    let ours = folder.join("examples");
    std::fs::create_dir_all(&ours)?;
    let mut names = Vec::new();
    for file in
        std::fs::read_dir(&theirs).with_context(|| format!("rsmpi {RSMPI_VERSION} ships no examples"))?
    {
        let path = file?.path();
        let (Some(name), Some(stem)) = (path.file_name(), path.file_stem().and_then(|stem| stem.to_str()))
        else {
            continue;
        };
        if path.extension().is_some_and(|extension| extension == "rs") {
            std::fs::copy(&path, ours.join(name))?;
            names.push(stem.to_owned());
        }
    }
    names.sort();
    let facade = root().join("crates/mpi");
    std::fs::write(folder.join("Cargo.toml"), manifest(&facade))?;
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("src/lib.rs"), "")?;
    Ok(names)
}

fn manifest(facade: &Path) -> String {
    format!(
        r#"[package]
name = "rsmpi-conformance"
version = "0.0.0"
edition = "2021"

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

/// Where Cargo keeps rsmpi's sources, after it has fetched them. Nothing of it is built.
fn from_registry() -> anyhow::Result<PathBuf> {
    let scratch = target().join("conformance/fetch");
    std::fs::create_dir_all(scratch.join("src"))?;
    std::fs::write(scratch.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\nmpi = \"={RSMPI_VERSION}\"\n\n[workspace]\n"
    );
    std::fs::write(scratch.join("Cargo.toml"), manifest)?;
    let text = Cmd::new(cargo()).words("metadata --format-version 1").dir(&scratch).read(BUILD_LIMIT)?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let package =
        packages.iter().find(|package| package["name"] == "mpi").context("rsmpi is among the packages")?;
    let manifest = package["manifest_path"].as_str().context("a package has a manifest")?;
    Ok(Path::new(manifest).parent().context("a manifest lies in a folder")?.to_owned())
}

/// Builds what can be built; returns the programs by name.
fn build(folder: &Path, names: &[String]) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let mut cmd =
        Cmd::new(cargo()).words("build --keep-going --message-format=json-render-diagnostics --target-dir");
    cmd = cmd.arg(target().join("conformance/build")).dir(folder);
    for name in names {
        cmd = cmd.words("--example").arg(name);
    }
    let outcome = cmd.capture(BUILD_LIMIT)?;
    if !outcome.ok() {
        eprint!("{}", outcome.stderr);
    }
    let artifact = |line: &str| -> Option<(String, PathBuf)> {
        let message: Value = serde_json::from_str(line).ok()?;
        let name = message["target"]["name"].as_str()?;
        Some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    Ok(outcome.stdout.lines().filter_map(artifact).collect())
}

/// What went wrong, by number of ranks.
fn try_all(name: &str, program: &Path, options: &Options) -> anyhow::Result<Vec<String>> {
    let least = LEAST_RANKS.iter().find(|(example, _)| *example == name).map_or(1, |&(_, least)| least);
    let mut problems = Vec::new();
    for ranks in options.ranks.iter().filter(|&&ranks| ranks >= least) {
        let mut cmd =
            Cmd::new(target().join("debug/mpiexec")).words("-n").arg(ranks.to_string()).arg(program);
        // Some examples start copies of themselves, by name, from where they are.
        cmd = cmd.dir(program.parent().unwrap_or(root()));
        if let Some(btl) = &options.btl {
            cmd = cmd.env("MPI_BTL", btl);
        }
        let outcome = cmd.capture(Duration::from_secs(options.timeout))?;
        if !outcome.ok() {
            problems.push(format!("at {ranks} ranks: {}\n{}", outcome.end(), outcome.tail(6)));
        }
    }
    Ok(problems)
}
