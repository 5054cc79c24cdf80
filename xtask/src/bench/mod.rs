//! `cargo xtask bench`: our programs beside three C implementations and mpi-rs.
//!
//! Every round runs every case once on every implementation, one after the other, so that a machine whose speed
//! drifts drifts for all alike. A figure is the median over the rounds.

mod cases;
mod figures;
mod hosts;
mod implementations;
mod plot;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use cases::{CASES, Case, FIGURES, Net, Suite};
use figures::{Samples, Verdict};
use hosts::Hosts;
use implementations::Implementation;

const RUN_LIMIT: Duration = Duration::from_secs(120);

#[derive(clap::Args)]
pub struct Options {
    /// Suites to run; all unless given
    #[arg(long, value_delimiter = ',')]
    suite: Vec<Suite>,
    /// Only cases whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Rounds; every round runs every case on every implementation
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// One round, written under target/ instead of docs/
    #[arg(long)]
    quick: bool,
    /// Leave this implementation out
    #[arg(long, value_delimiter = ',')]
    without: Vec<Implementation>,
    /// Folder for the report; docs/benchmarks, or target/bench for a part
    #[arg(long)]
    out: Option<PathBuf>,
    /// Fail if a target is missed
    #[arg(long)]
    strict: bool,
}

/// What a run is written to: all of it, or one suite with a page of its own.
pub struct Page {
    pub file: &'static str,
    pub title: &'static str,
    /// Behind the table.
    pub notes: &'static str,
    /// Title and file of each plot; the last is that of the ratios.
    pub plots: &'static [(&'static str, &'static str)],
}

const WHOLE: Page = Page {
    file: "results",
    title: "Measured",
    notes: "",
    plots: &[
        ("shared memory, one way", "latency-shm"),
        ("TCP, one way", "latency-tcp"),
        ("ratio to the best peer", "ratios"),
    ],
};

const WINDOWS: Page = Page {
    file: "one-sided",
    title: "Measured: one-sided communication",
    notes: "\nOperations are inside of an epoch of lock all, each followed by a flush of its target, which waits in a \
            receive. Over shared memory windows are allocated; over TCP they are created on memory that was there \
            before, since allocated ones would go through shared memory of the machine in one of the peers. A put to a \
            computing target is a lock, a put, a flush and an unlock while the target calls nothing for 200 ms.\n",
    plots: &[("ratio to the best peer", "one-sided")],
};

impl Page {
    fn of(cases: &[&Case]) -> &'static Page {
        if cases.iter().all(|case| case.suite == Suite::OneSided) { &WINDOWS } else { &WHOLE }
    }

    pub fn ratios(&self) -> &'static str {
        self.plots.last().map_or("ratios", |(_, file)| file)
    }
}

/// What was run, and what went wrong with it.
pub struct Run {
    pub samples: Samples,
    pub implementations: Vec<Implementation>,
    pub rounds: u32,
    pub failures: Vec<String>,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let cases: Vec<&Case> = CASES.iter().filter(|case| options.wants(case)).collect();
    anyhow::ensure!(!cases.is_empty(), "no case has that name; there are {}", names().join(", "));
    let mut run = Run {
        samples: Samples::default(),
        implementations: Vec::new(),
        rounds: if options.quick { 1 } else { options.rounds },
        failures: Vec::new(),
    };
    prepare(options, &mut run)?;
    let hosts = two_hosts(&cases, &mut run);
    for round in 1..=run.rounds {
        for case in &cases {
            for who in run.implementations.clone() {
                measure(case, who, hosts.as_ref(), &mut run);
            }
            eprintln!("round {round} of {}: {}", run.rounds, case.name);
        }
    }
    let (out, page) = (options.folder(&cases), Page::of(&cases));
    report::write(&out, page, &run)?;
    plot::write(&out, page, &run)?;
    println!("{}\nwritten to {}", report::table(&run), out.display());
    let missed = FIGURES.iter().filter(|figure| Verdict::of(figure, &run.samples) == Verdict::Missed).count();
    println!("{missed} targets missed, {} runs failed", run.failures.len());
    anyhow::ensure!(!options.strict || missed == 0, "{missed} targets missed");
    Ok(())
}

impl Options {
    fn wants(&self, case: &Case) -> bool {
        let suite = self.suite.is_empty() || self.suite.contains(&case.suite);
        suite && self.only.as_ref().is_none_or(|part| case.name.contains(part.as_str()))
    }

    /// Only a whole run, or a whole suite with a page of its own, replaces the record in the documents.
    fn folder(&self, cases: &[&Case]) -> PathBuf {
        let windows = CASES.iter().filter(|case| case.suite == Suite::OneSided).count();
        let all = match Page::of(cases).file {
            "one-sided" => cases.len() == windows,
            _ => cases.len() == CASES.len() && self.without.is_empty(),
        };
        let whole = all && !self.quick;
        match &self.out {
            Some(folder) => folder.clone(),
            None if whole => crate::workspace::root().join("docs/benchmarks"),
            None => crate::workspace::target().join("bench/report"),
        }
    }
}

fn names() -> Vec<&'static str> {
    CASES.iter().map(|case| case.name).collect()
}

/// A peer that cannot be had is left out with its reason; our own half must build.
fn prepare(options: &Options, run: &mut Run) -> anyhow::Result<()> {
    for who in Implementation::ALL {
        let runs = CASES.iter().any(|case| options.wants(case) && !who.launches(case).is_empty());
        if options.without.contains(&who) || !runs {
            continue;
        }
        match who.prepare() {
            Ok(()) => run.implementations.push(who),
            Err(error) if who == Implementation::Ours => return Err(error),
            Err(error) => {
                println!("skipped: {}: {error:#}", who.title());
                run.failures.push(format!("{}: {error:#}", who.title()));
            }
        }
    }
    Ok(())
}

/// Two hosts, if a case wants them; where they cannot be made its rows are left out, and the report says why.
fn two_hosts(cases: &[&Case], run: &mut Run) -> Option<Hosts> {
    if !cases.iter().any(|case| case.net == Net::Hosts) {
        return None;
    }
    match Hosts::make() {
        Ok(hosts) => Some(hosts),
        Err(error) => {
            run.failures.push(format!("two hosts: {error:#}"));
            None
        }
    }
}

/// One case on one implementation. Where it has several ways of running, the best value of each figure counts.
fn measure(case: &Case, who: Implementation, hosts: Option<&Hosts>, run: &mut Run) {
    let mut best: Vec<(String, f64)> = Vec::new();
    let launches = match (case.net, hosts) {
        (Net::Hosts, Some(hosts)) => who.launches_over(hosts, case),
        (Net::Hosts, None) => Vec::new(),
        _ => who.launches(case),
    };
    for launch in launches {
        let shown = launch.shown().to_owned();
        match launch.capture(RUN_LIMIT) {
            Ok(outcome) if outcome.ok() => {
                let mut values = results(&outcome.stdout);
                values.push(("elapsed".into(), outcome.elapsed.as_secs_f64()));
                for (key, value) in values {
                    match best.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, least)) => *least = least.min(value),
                        None => best.push((key, value)),
                    }
                }
            }
            Ok(outcome) => run.failures.push(format!("{shown}: {}\n{}", outcome.end(), outcome.tail(6))),
            Err(error) => run.failures.push(format!("{error:#}")),
        }
    }
    for (key, value) in best {
        run.samples.add(case.name, &key, who, value);
    }
}

/// The `RESULT key value` lines. Memory is told by every rank; the largest counts.
fn results(stdout: &str) -> Vec<(String, f64)> {
    let mut values: Vec<(String, f64)> = Vec::new();
    for line in stdout.lines() {
        let mut words = line.split_whitespace();
        let (Some("RESULT"), Some(key), Some(Ok(value))) =
            (words.next(), words.next(), words.next().map(str::parse))
        else {
            continue;
        };
        let key = if key.starts_with("rss_kib/") { "rss_kib" } else { key };
        match values.iter_mut().find(|(known, _)| known == key) {
            Some((_, largest)) => *largest = f64::max(*largest, value),
            None => values.push((key.into(), value)),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_case() {
        for figure in FIGURES {
            assert!(CASES.iter().any(|case| case.name == figure.case), "{}", figure.title);
        }
    }

    #[test]
    fn results_are_read_and_noise_is_not() {
        let text =
            "hello\nRESULT latency/8 0.25\nRESULT rss_kib/0 10\nRESULT rss_kib/1 12\nRESULT broken x\n";
        assert_eq!(results(text), [("latency/8".to_owned(), 0.25), ("rss_kib".to_owned(), 12.0)]);
    }
}
