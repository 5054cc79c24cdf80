//! `cargo xtask ci`: what every change must pass. Cheap checks first; all of them run, and the end names those that
//! failed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};

use crate::checks::FuzzOptions;
use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};
use crate::{big_endian, callgrind, checks, collectives, conformance, pods, recovery, slurm, surface, tidy};

const STEP_LIMIT: Duration = Duration::from_secs(1200);

#[derive(clap::Args)]
pub struct Options {
    /// Only the steps whose names contain one of these words, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

type Step = (&'static str, fn() -> anyhow::Result<()>);

const STEPS: &[Step] = &[
    ("format", format),
    ("lint", || cargo_step("clippy --workspace --all-targets --all-features -- -D warnings")),
    ("lint TCP alone", || cargo_step("clippy -p mpi --no-default-features --features tcp -- -D warnings")),
    ("lint shared memory alone", || {
        cargo_step("clippy -p mpi --no-default-features --features shm -- -D warnings")
    }),
    ("oldest Rust", checks::oldest_rust),
    ("tidy", tidy::run),
    ("surface", || surface::run(&surface::Options::default())),
    ("documents", documents),
    ("test", checks::test),
    ("scale", || collectives::scale(&collectives::ScaleOptions::for_ci())),
    ("loom", checks::loom),
    ("conformance with rsmpi", || conformance::rsmpi(&conformance::Options::for_ci())),
    ("conformance with mpi-rs", || conformance::mpi_rs(&conformance::Options::for_ci())),
    ("byte order", || big_endian::run(&big_endian::Options::for_ci())),
    ("pods", pods::run),
    ("slurm", || slurm::run(&slurm::Options::default())),
    ("heat", heat),
    ("recovery", || recovery::run(&recovery::Options::for_ci())),
    ("instructions", || callgrind::run(&callgrind::Options::default())),
    ("fuzz", || checks::fuzz(&FuzzOptions::for_ci())),
];

pub fn run(options: &Options) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut failed = Vec::new();
    for (name, step) in chosen(&options.only)? {
        println!("== {name}");
        let began = Instant::now();
        if let Err(error) = step() {
            println!("== {name} FAILED: {error:#}");
            failed.push(*name);
        }
        println!("== {name}: {:.0} s", began.elapsed().as_secs_f64());
    }
    println!("ci took {:.0} s", start.elapsed().as_secs_f64());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// A word that chooses nothing is a slip, and would pass.
fn chosen(only: &[String]) -> anyhow::Result<Vec<&'static Step>> {
    let names = || STEPS.iter().map(|(name, _)| *name);
    for word in only {
        let all = names().collect::<Vec<_>>().join(", ");
        ensure!(
            names().any(|name| name.contains(word.as_str())),
            "no step is called {word:?}; there are: {all}"
        );
    }
    let wanted = |name: &str| only.is_empty() || only.iter().any(|word| name.contains(word.as_str()));
    Ok(STEPS.iter().filter(|(name, _)| wanted(name)).collect())
}

fn cargo_step(words: &str) -> anyhow::Result<()> {
    Cmd::new(cargo()).words(words).dir(root()).run(STEP_LIMIT)
}

fn format() -> anyhow::Result<()> {
    cargo_step("fmt --all --check")?;
    cargo_step("fmt --manifest-path fuzz/Cargo.toml --check")
}

fn documents() -> anyhow::Result<()> {
    let cmd = Cmd::new(cargo())
        .words("doc --workspace --all-features --no-deps --document-private-items")
        .dir(root());
    cmd.env("RUSTDOCFLAGS", "-D warnings").run(STEP_LIMIT)
}

/// The main job as a new user runs it, over each choice of transport.
fn heat() -> anyhow::Result<()> {
    let folder = target().join("heat");
    std::fs::create_dir_all(&folder)?;
    cargo_step("build --quiet --release -p mpiexec")?;
    for btl in ["shm,tcp", "tcp"] {
        let picture = folder.join("heat.png");
        // What an earlier run left must not pass for this one's.
        let _ = std::fs::remove_file(&picture);
        let run = Cmd::new(target().join("release/mpiexec"))
            .words("-n 4 -p mpi-examples --example heat")
            .dir(&folder);
        run.env("MPI_BTL", btl).run(STEP_LIMIT)?;
        ensure!(is_png(&picture), "heat left no picture");
    }
    Ok(())
}

fn is_png(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.len() > 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_words_and_a_wrong_word_is_named_with_all_steps() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            chosen(&words).map(|steps| steps.iter().map(|(name, _)| *name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), STEPS.len());
        assert_eq!(names(&["tidy", "format"]).unwrap(), ["format", "tidy"]);
        let error = names(&["tidy", "nosuch"]).unwrap_err().to_string();
        assert!(error.contains("\"nosuch\"") && error.contains("format, lint"), "{error}");
    }
}
