//! `cargo xtask recording`: what it costs to record (`mpiexec --stats`), beside the same run without.
//!
//! Runs come in pairs, one after the other, the first of a pair by turns with and without, so that a machine whose speed
//! drifts drifts for both. A figure is the median over the pairs.

use std::time::Duration;

use anyhow::{Context, ensure};

use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// A program, what of its output is the figure, and what that may cost more with records.
struct Case {
    title: &'static str,
    btl: &'static str,
    program: &'static str,
    arguments: &'static str,
    /// The value stands behind this; nothing: the whole run's seconds.
    key: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        title: "heat, 256 x 256 cells, seconds",
        btl: "shm",
        program: "heat",
        arguments: "256 4000",
        key: "",
    },
    Case {
        title: "8 B one way, shared memory, us",
        btl: "shm",
        program: "bench",
        arguments: "latency 8",
        key: "latency/8",
    },
    Case {
        title: "8 B one way, TCP, us",
        btl: "tcp",
        program: "bench",
        arguments: "latency 8",
        key: "latency/8",
    },
];

#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs of each case
    #[arg(long, default_value_t = 15)]
    pairs: usize,
    /// Only cases whose title contains this
    #[arg(long)]
    only: Option<String>,
    /// The programs are built
    #[arg(long)]
    built: bool,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    if !options.built {
        for what in ["-p mpiexec", "-p mpi --example bench", "-p mpi-examples --example heat"] {
            Cmd::new(cargo()).words("build --quiet --release").words(what).dir(root()).run(BUILD_LIMIT)?;
        }
    }
    println!(
        "| 2 ranks, medians of {} pairs | off | on | on : off |\n| --- | --- | --- | --- |",
        options.pairs
    );
    let wanted = |case: &&Case| options.only.as_ref().is_none_or(|part| case.title.contains(part.as_str()));
    for case in CASES.iter().filter(wanted) {
        let (mut off, mut on, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..options.pairs.max(1) {
            let first = case.measure(pair % 2 == 1)?;
            let second = case.measure(pair % 2 == 0)?;
            let (without, with) = if pair % 2 == 1 { (second, first) } else { (first, second) };
            off.push(without);
            on.push(with);
            ratios.push(with / without);
        }
        let (off, on, ratio) = (median(&mut off), median(&mut on), median(&mut ratios));
        println!("| {} | {off:.4} | {on:.4} | {ratio:.3} |", case.title);
    }
    Ok(())
}

impl Case {
    fn measure(&self, records: bool) -> anyhow::Result<f64> {
        let folder = target().join("release");
        let mut launch =
            Cmd::new(folder.join("mpiexec")).words("-n 2").dir(&target()).env("MPI_BTL", self.btl);
        if records {
            launch = launch.words("--stats --matrix recording-matrix.svg");
        }
        let launch = launch.arg(folder.join("examples").join(self.program)).words(self.arguments);
        let outcome = launch.capture(RUN_LIMIT)?;
        ensure!(outcome.ok(), "{}: {}\n{}", self.title, outcome.end(), outcome.tail(6));
        if self.key.is_empty() {
            return Ok(outcome.elapsed.as_secs_f64());
        }
        let after = outcome.stdout.split_once(self.key).map(|(_, rest)| rest);
        let value =
            after.and_then(|rest| rest.split_whitespace().next()).context("the program prints its figure")?;
        Ok(value.parse()?)
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_middle_one_counts() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert!(median(&mut []).is_nan());
    }
}
