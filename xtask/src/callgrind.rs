//! `cargo xtask callgrind`: instructions per small message, counted by valgrind and held under a ceiling.
//!
//! The program (`crates/mpi/examples/instructions.rs`) sends and receives batches that are never waited for, so that
//! the counts are those of the code and not of the machine. Two lengths are run and subtracted: what the first
//! messages cost more falls out.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::shell::{Cmd, exists};
use crate::workspace::{cargo, root, target};

const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const RUN_LIMIT: Duration = Duration::from_secs(180);
const BATCHES: [u64; 2] = [20, 120];
/// As in the program.
const BATCH_MESSAGES: u64 = 16;

/// A path through the library, and the instructions that it may take per message of 8 bytes.
struct Path8 {
    btl: &'static str,
    rank: u32,
    name: &'static str,
    ceiling: f64,
}

const PATHS: [Path8; 4] = [
    Path8 { btl: "shm", rank: 0, name: "send", ceiling: 345.0 },
    Path8 { btl: "shm", rank: 1, name: "receive", ceiling: 520.0 },
    Path8 { btl: "tcp", rank: 0, name: "send", ceiling: 560.0 },
    Path8 { btl: "tcp", rank: 1, name: "receive", ceiling: 860.0 },
];

/// What the typed call may cost beside the engine's own, in instructions: ten nanoseconds at two instructions per
/// cycle of a 3 GHz processor.
const FACADE_CEILING: f64 = 60.0;

/// Measured once, the same way and with the same program.
const RSMPI: &str = "For comparison, rsmpi 0.8.2 on MPICH 5.0.2 spends 824 instructions on the send and 1446 on the \
                     receive over shared memory.\n";

#[derive(clap::Args, Default)]
pub struct Options {
    /// Write the counts to docs/benchmarks/instructions.md
    #[arg(long)]
    record: bool,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    if !exists("valgrind") {
        println!("skipped: valgrind is not installed");
        return Ok(());
    }
    Cmd::new(cargo()).words("build --quiet --release -p mpiexec").dir(root()).run(BUILD_LIMIT)?;
    Cmd::new(cargo())
        .words("build --quiet --release -p mpi --example instructions")
        .dir(root())
        .run(BUILD_LIMIT)?;

    let mut table = String::from(
        "| 8 B, blocking | instructions | ceiling | the engine's untyped call | the facade adds |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    let mut over = Vec::new();
    for btl in ["shm", "tcp"] {
        let through = |face: &str| -> anyhow::Result<[f64; 2]> {
            let (few, many) = (count(btl, BATCHES[0], face)?, count(btl, BATCHES[1], face)?);
            let messages = ((BATCHES[1] - BATCHES[0]) * BATCH_MESSAGES) as f64;
            Ok([0, 1].map(|rank| many[rank].saturating_sub(few[rank]) as f64 / messages))
        };
        let (facade, engine) = (through("facade")?, through("engine")?);
        for path in PATHS.iter().filter(|path| path.btl == btl) {
            let rank = path.rank as usize;
            let (each, untyped) = (facade[rank], engine[rank]);
            let added = each - untyped;
            table += &format!(
                "| {btl} {} | {each:.0} | {:.0} | {untyped:.0} | {added:.0} |\n",
                path.name, path.ceiling
            );
            if added > FACADE_CEILING {
                over.push(format!(
                    "{btl} {}: the facade adds {added:.0}, ceiling {FACADE_CEILING:.0}",
                    path.name
                ));
            }
            if each > path.ceiling {
                over.push(format!(
                    "{btl} {}: {each:.0} instructions, ceiling {:.0}",
                    path.name, path.ceiling
                ));
            }
        }
    }
    println!("{table}");
    if options.record {
        let page = format!(
            "# Instructions per message\n\nWritten by `cargo xtask callgrind --record`: user instructions per message \
             of 8 bytes through the facade, counted by valgrind, release build. The ceilings are in \
             `xtask/src/callgrind.rs` and CI holds them.\n\n{table}\n{RSMPI}"
        );
        std::fs::write(root().join("docs/benchmarks/instructions.md"), page)?;
    }
    ensure!(over.is_empty(), "over the ceiling: {}", over.join("; "));
    Ok(())
}

/// Instructions inside the program's batch functions, by rank.
fn count(btl: &str, batches: u64, face: &str) -> anyhow::Result<[u64; 2]> {
    let folder = target().join("callgrind");
    std::fs::create_dir_all(&folder)?;
    let files = [0, 1].map(|rank| folder.join(format!("{btl}-{face}-{batches}-{rank}.out")));
    for file in &files {
        // What an earlier run left must not be read as this one's.
        let _ = std::fs::remove_file(file);
    }
    let pattern = folder.join(format!("{btl}-{face}-{batches}-%q{{MPI_PMI_RANK}}.out"));
    let launch = Cmd::new(target().join("release/mpiexec"))
        .words("-n 2 valgrind --tool=callgrind --quiet --toggle-collect=*batch_of_sends* --toggle-collect=*batch_of_receives*")
        .arg(format!("--callgrind-out-file={}", pattern.display()))
        .arg(target().join("release/examples/instructions"))
        .arg(batches.to_string())
        .arg(face)
        .env("MPI_BTL", btl);
    let outcome = launch.capture(RUN_LIMIT)?;
    ensure!(outcome.ok(), "under valgrind, {btl}: {}\n{}", outcome.end(), outcome.tail(12));
    Ok([total(&files[0])?, total(&files[1])?])
}

fn total(file: &Path) -> anyhow::Result<u64> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("valgrind wrote no {}", file.display()))?;
    let line =
        text.lines().find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")));
    let first =
        line.and_then(|rest| rest.split_whitespace().next()).context("callgrind writes its totals")?;
    let count: u64 = first.parse()?;
    ensure!(count > 0, "callgrind counted nothing: the batch functions were not found");
    Ok(count)
}
