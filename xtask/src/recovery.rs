//! A program that loses ranks at moments drawn from seeds, again and again: `examples/survivors`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const RUN_LIMIT_SECONDS: u64 = 90;
/// For the launcher to draw its picture and to clear up after its own limit.
const RUN_GRACE: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
pub struct Options {
    /// Runs in a row, of each way and over each transport
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// The first seed; each run has one of its own
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ranks
    #[arg(long, default_value_t = 8)]
    ranks: u32,
    /// Ranks that die
    #[arg(long, default_value_t = 2)]
    losses: u32,
    /// Only this way: shrink or respawn
    #[arg(long)]
    only: Option<String>,
}

impl Options {
    pub fn for_ci() -> Options {
        Options { count: 3, seed: 1, ranks: 8, losses: 2, only: None }
    }
}

/// What is done about a loss, and over what. New processes are reached over TCP.
const WAYS: &[(&str, &str)] =
    &[("shrink", "shm"), ("shrink", "tcp"), ("respawn", "shm,tcp"), ("respawn", "tcp")];

pub fn run(options: &Options) -> anyhow::Result<()> {
    for words in
        ["build --quiet --release -p mpiexec", "build --quiet --release -p mpi-examples --example survivors"]
    {
        Cmd::new(cargo()).words(words).dir(root()).run(BUILD_LIMIT)?;
    }
    let program = target().join("release/examples/survivors");
    let wanted = |way: &str| options.only.as_ref().is_none_or(|only| only == way);
    let mut failed = 0;
    for (way, btl) in WAYS.iter().filter(|(way, _)| wanted(way)) {
        let (mut good, mut lost) = (0, 0);
        for seed in options.seed..options.seed + options.count {
            match one(&program, options, way, btl, seed) {
                Ok(losses) => (good, lost) = (good + 1, lost + losses),
                Err(why) => {
                    println!("{way} over {btl}, seed {seed}: {why:#}");
                    failed += 1;
                }
            }
        }
        println!(
            "{way} over {btl}: {good} of {} ended with the right answer; {lost} ranks were lost",
            options.count
        );
    }
    if failed > 0 {
        bail!("{failed} runs failed");
    }
    Ok(())
}

/// One run; how many ranks died.
fn one(program: &PathBuf, options: &Options, way: &str, btl: &str, seed: u64) -> anyhow::Result<usize> {
    let (ranks, losses) = (options.ranks, options.losses);
    let outcome = Cmd::new(target().join("release/mpiexec"))
        .words(&format!("--enable-recovery --oversubscribe --timeout {RUN_LIMIT_SECONDS} -n {ranks}"))
        .arg(program)
        .words(&format!("{way} {losses} {seed}"))
        .env("MPI_BTL", btl)
        .capture(Duration::from_secs(RUN_LIMIT_SECONDS) + RUN_GRACE)?;
    if !outcome.ok() || !outcome.stdout.contains("are right") {
        bail!("{}\n{}{}", outcome.end(), outcome.stdout, outcome.stderr);
    }
    Ok(outcome.stderr.matches("the job goes on without it").count())
}
