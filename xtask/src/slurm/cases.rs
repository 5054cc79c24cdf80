//! What is tried under Slurm.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::cluster::{Cluster, NODES};
use crate::shell::{Cmd, Outcome};

const LIMIT: Duration = Duration::from_secs(60);
/// For what a job leaves behind to end, and for a job to come up.
const SETTLE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);
/// Both are spoken by Slurm's plugin.
const PROTOCOLS: [&str; 2] = ["pmi1", "pmi2"];
const WELL: &str = ": all is well\n";

pub struct Site {
    pub cluster: Cluster,
    pub mpiexec: PathBuf,
    /// The program that looks whether its ranks find each other.
    pub check: PathBuf,
    pub directory: PathBuf,
}

type Case = (&'static str, fn(&Site) -> anyhow::Result<()>);

pub const ALL: &[Case] = &[
    ("srun starts ranks that talk", srun_starts),
    ("srun without a protocol is named", without_protocol),
    ("an exit status reaches srun", exit_status),
    ("a rank that dies ends the step", dies),
    ("an abort ends the step", abort),
    ("ranks spawn through srun", spawns),
    ("mpiexec uses the allocation", allocation),
    ("the status of mpiexec is that of the rank", allocation_status),
    ("more ranks than tasks are refused where asked", no_oversubscribe),
    ("mpiexec in a batch script", batch),
    ("a cancelled step leaves nothing", cancelled_step),
    ("a cancelled allocation leaves nothing", cancelled_allocation),
];

impl Site {
    /// The program on 4 ranks of both nodes.
    fn srun(&self, options: &str, words: &str) -> Cmd {
        let cmd = self.cluster.cmd("srun").words("-N2 -n4").words(options);
        cmd.arg(&self.check).words(words)
    }

    /// mpiexec in an allocation of 4 tasks on both nodes.
    fn mpiexec(&self, options: &str, words: &str) -> Cmd {
        let cmd = self.cluster.cmd("salloc").words("--quiet -J mpiexec -N2 -n4").arg(&self.mpiexec);
        cmd.words(options).arg(&self.check).words(words)
    }

    /// Nothing of a job runs any more, after a while.
    pub fn nothing_is_left(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let left = self.left()?;
            if left.is_empty() {
                return Ok(());
            }
            ensure!(begun.elapsed() < SETTLE, "still there: {}", left.join(", "));
            thread::sleep(LOOK);
        }
    }

    /// Processes of a job that are there and no zombies: all of this namespace are in /proc.
    fn left(&self) -> anyhow::Result<Vec<String>> {
        let ours = ["mpiexec", "self_check", "srun", "salloc", "slurmstepd"];
        let mut left = Vec::new();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let Some((name, state)) = stat.split_once(" (").and_then(|(_, rest)| rest.split_once(") "))
            else {
                continue;
            };
            if ours.contains(&name) && !state.starts_with(['Z', 'X']) {
                left.push(format!("{name} {}", entry.file_name().to_string_lossy()));
            }
        }
        Ok(left)
    }
}

fn check(outcome: &Outcome, right: bool, expected: &str) -> anyhow::Result<()> {
    if right {
        return Ok(());
    }
    bail!("expected {expected}: {}\n{}\n{}", outcome.end(), outcome.stdout, outcome.stderr)
}

fn all_well(outcome: &Outcome) -> anyhow::Result<()> {
    let count = outcome.stdout.matches(" of 4 on ").count();
    let right = outcome.ok() && count == 4 && outcome.stdout.matches(WELL).count() == 4;
    check(outcome, right, "4 ranks that are well, and status 0")
}

fn fails_with(outcome: &Outcome, words: &str) -> anyhow::Result<()> {
    let said = outcome.stderr.contains(words) || outcome.stdout.contains(words);
    check(outcome, !outcome.status.success() && !outcome.timed_out && said, words)
}

fn srun_starts(site: &Site) -> anyhow::Result<()> {
    for protocol in PROTOCOLS {
        let cmd = site.srun("--mpi=pmi2", "").env("MPI_PMI_PROTOCOL", protocol);
        all_well(&cmd.capture(LIMIT)?).context(protocol)?;
    }
    Ok(())
}

/// Four times rank 0 of 1 would be the worst of answers.
fn without_protocol(site: &Site) -> anyhow::Result<()> {
    let outcome = site.srun("--mpi=none", "").capture(LIMIT)?;
    fails_with(&outcome, "started by Slurm")?;
    fails_with(&outcome, "use srun --mpi=pmi2 PROGRAM")?;
    check(&outcome, !outcome.stdout.contains("of 1"), "no rank that is alone")
}

fn exit_status(site: &Site) -> anyhow::Result<()> {
    let outcome = site.srun("--kill-on-bad-exit --mpi=pmi2", "exit 2 6").capture(LIMIT)?;
    // A step that it ends while not all of its tasks are known to run is said to have failed as a whole.
    fails_with(&outcome, "exit code 6").or_else(|_| fails_with(&outcome, "non-zero exit code"))
}

/// Slurm goes on; the rank that waits for the dead one does not.
fn dies(site: &Site) -> anyhow::Result<()> {
    for protocol in PROTOCOLS {
        let cmd = site.srun("--mpi=pmi2", "exit 2 6").env("MPI_PMI_PROTOCOL", protocol);
        let outcome = cmd.capture(LIMIT)?;
        fails_with(&outcome, "from rank 2").context(protocol)?;
    }
    Ok(())
}

fn abort(site: &Site) -> anyhow::Result<()> {
    for protocol in PROTOCOLS {
        let outcome =
            site.srun("--mpi=pmi2", "abort 2 7").env("MPI_PMI_PROTOCOL", protocol).capture(LIMIT)?;
        fails_with(&outcome, "rank 2 called abort(7)").context(protocol)?;
    }
    Ok(())
}

/// Slurm starts a step for the new ranks, in the same allocation.
fn spawns(site: &Site) -> anyhow::Result<()> {
    for protocol in PROTOCOLS {
        let cmd = site.cluster.cmd("salloc").words("--quiet -N2 -n4 srun --mpi=pmi2 -N1 -n1");
        let cmd = cmd.arg(&site.check).words("spawn 2").env("SLURM_OVERLAP", "1");
        let outcome = cmd.env("MPI_PMI_PROTOCOL", protocol).capture(LIMIT)?;
        let right = outcome.ok() && outcome.stdout.contains("3 together: all is well");
        check(&outcome, right, "one rank and two that it spawned").context(protocol)?;
    }
    Ok(())
}

/// Neither hosts nor the number of ranks are given.
fn allocation(site: &Site) -> anyhow::Result<()> {
    let outcome = site.mpiexec("-v", "").capture(LIMIT)?;
    all_well(&outcome)?;
    for node in NODES {
        check(&outcome, outcome.stderr.contains(&format!(" on {node}\n")), "ranks on both nodes")?;
    }
    Ok(())
}

fn allocation_status(site: &Site) -> anyhow::Result<()> {
    let outcome = site.mpiexec("-q", "exit 2 6").capture(LIMIT)?;
    fails_with(&outcome, "rank 2 (pid ")?;
    check(&outcome, outcome.status.code() == Some(6), "status 6")?;
    let outcome = site.mpiexec("-q", "abort 3 7").capture(LIMIT)?;
    fails_with(&outcome, "rank 3 (pid ")?;
    check(&outcome, outcome.status.code() == Some(7), "status 7")
}

fn no_oversubscribe(site: &Site) -> anyhow::Result<()> {
    let outcome = site.mpiexec("-n 5 --no-oversubscribe", "").capture(LIMIT)?;
    fails_with(&outcome, "for this job, which needs 5")?;
    check(&outcome, outcome.status.code() == Some(2), "status 2")
}

fn batch(site: &Site) -> anyhow::Result<()> {
    let (script, output) = (site.directory.join("batch.sh"), site.directory.join("batch.out"));
    let (mpiexec, program) = (site.mpiexec.display(), site.check.display());
    std::fs::write(&script, format!("#!/bin/sh\n{mpiexec} -q {program}\n"))?;
    let cmd = site.cluster.cmd("sbatch").words("--wait -N2 -n4 -o").arg(&output).arg(&script);
    let outcome = cmd.capture(LIMIT)?;
    let written = std::fs::read_to_string(&output).unwrap_or_default();
    let right = outcome.ok() && written.matches(WELL).count() == 4;
    check(&outcome, right, &format!("4 ranks that are well in the job's output {written:?}"))
}

fn cancelled_step(site: &Site) -> anyhow::Result<()> {
    cancelled(site, "step", |file| site.srun("-J step --mpi=pmi2", &format!("stay {file}")))
}

fn cancelled_allocation(site: &Site) -> anyhow::Result<()> {
    cancelled(site, "mpiexec", |file| site.mpiexec("-q", &format!("stay {file}")))
}

/// Starts a job that never ends, cancels it by its name once its ranks are up, and sees it end.
fn cancelled(site: &Site, name: &str, job: impl FnOnce(&str) -> Cmd) -> anyhow::Result<()> {
    let file = site.directory.join(format!("{name}.up"));
    let job = job(&file.to_string_lossy());
    let running = thread::spawn(move || job.capture(2 * LIMIT));
    let begun = Instant::now();
    while !file.exists() && !running.is_finished() && begun.elapsed() < SETTLE {
        thread::sleep(LOOK);
    }
    let up = file.exists();
    site.cluster.cmd("scancel").arg("--name").arg(name).read(LIMIT)?;
    let outcome = running.join().ok().context("the job's thread has panicked")??;
    check(&outcome, up, "ranks that come up")?;
    check(&outcome, !outcome.timed_out && !outcome.status.success(), "an end, and no success")
}
