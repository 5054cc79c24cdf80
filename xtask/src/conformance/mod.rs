//! `cargo xtask conformance rsmpi` and `… mpi-rs`: programs that were written for other implementations, unmodified, on
//! our facade.
//!
//! Their packages come from the registry and are compiled from where Cargo keeps them; nothing of them enters this
//! project. What is written goes to `target/conformance`.

mod derive;
mod documented;
mod mpi_rs;
mod package;
mod rsmpi;

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;

use self::package::Program;
pub use self::package::from_registry;
use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

/// For one build of a suite.
const BUILD_LIMIT: Duration = Duration::from_secs(1200);

#[derive(clap::Args, Clone)]
pub struct Options {
    /// Numbers of ranks to run each program with
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,8")]
    ranks: Vec<u32>,
    /// Transports to allow, as in MPI_BTL; may be given several times
    #[arg(long, default_values = ["shm,tcp", "tcp"])]
    btl: Vec<String>,
    /// Seconds for one run
    #[arg(long, default_value_t = 30)]
    timeout: u64,
    /// Only the programs whose name contains this; "documentation" and "derive macro" are names too
    #[arg(long)]
    only: Option<String>,
}

impl Options {
    pub fn for_ci() -> Options {
        Options {
            ranks: vec![1, 2, 3, 5],
            btl: vec!["shm,tcp".into(), "tcp".into()],
            timeout: 30,
            only: None,
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

/// Examples, tests and documentation of rsmpi, and its derive macro.
pub fn rsmpi(options: &Options) -> anyhow::Result<()> {
    Cmd::new(cargo()).words("build --quiet -p mpiexec").dir(root()).run(BUILD_LIMIT)?;
    let programs = run_all(rsmpi::suite(options)?, "rsmpi's examples and tests", options);
    let documents = if options.wants("documentation") { documented::run() } else { Ok(()) };
    let derive = if options.wants("derive macro") { derive::run() } else { Ok(()) };
    programs.and(documents).and(derive)
}

/// Examples of mpi-rs that use what rsmpi has.
pub fn mpi_rs(options: &Options) -> anyhow::Result<()> {
    Cmd::new(cargo()).words("build --quiet -p mpiexec").dir(root()).run(BUILD_LIMIT)?;
    run_all(mpi_rs::suite(options)?, "mpi-rs's examples", options)
}

/// Runs every program with every transport and number of ranks; fails where one fails.
fn run_all(programs: Vec<Program>, title: &str, options: &Options) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for program in &programs {
        let problems = match &program.executable {
            None => vec!["does not build".to_owned()],
            Some(file) => try_all(program, file, options)?,
        };
        println!("{} {}", if problems.is_empty() { "pass" } else { "FAIL" }, program.name);
        for problem in &problems {
            println!("     {}", problem.replace('\n', "\n     "));
        }
        if !problems.is_empty() {
            failed.push(program);
        }
    }
    let ranks: Vec<String> = options.ranks.iter().map(u32::to_string).collect();
    println!(
        "{title} at {} ranks, transports {}: {} passed, {} failed",
        ranks.join(", "),
        options.btl.join(" and "),
        programs.len() - failed.len(),
        failed.len()
    );
    let broken: Vec<&str> = failed.iter().map(|p| p.name.as_str()).collect();
    ensure!(broken.is_empty(), "these must pass: {}", broken.join(", "));
    Ok(())
}

/// What went wrong, by transport and number of ranks.
fn try_all(program: &Program, file: &Path, options: &Options) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for btl in &options.btl {
        for ranks in options.ranks.iter().filter(|&&ranks| ranks >= program.least_ranks) {
            let mut cmd =
                Cmd::new(target().join("debug/mpiexec")).words("-n").arg(ranks.to_string()).arg(file);
            // Some examples start copies of themselves, by name, from where they are.
            cmd = cmd.dir(file.parent().unwrap_or(root())).env("MPI_BTL", btl);
            let outcome = cmd.capture(Duration::from_secs(options.timeout))?;
            let ended_well = outcome.status.code() == Some(program.status) && !outcome.timed_out;
            if !ended_well {
                problems.push(format!("{btl}, {ranks} ranks: {}\n{}", outcome.end(), outcome.tail(6)));
            } else if !outcome.stdout.contains(program.says) {
                problems.push(format!("{btl}, {ranks} ranks: never said {:?}", program.says));
            }
        }
    }
    Ok(problems)
}
