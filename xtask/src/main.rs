//! Everything scripted about this workspace, as `cargo xtask SUBCOMMAND`.
//!
//! No script outside knows how to check or measure the project: `.ci/run` calls `cargo xtask ci` and nothing else.
#![forbid(unsafe_code)]

mod bench;
mod big_endian;
mod callgrind;
mod checks;
mod ci;
mod collectives;
mod conformance;
mod packages;
mod pods;
mod recording;
mod recovery;
mod shell;
mod slurm;
mod surface;
mod tidy;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, measurements and conformance runs of this workspace")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that a change must pass, in order
    Ci(ci::Options),
    /// Rules of the workspace: dependencies, unsafe files, lengths, documents
    Tidy,
    /// Unit tests, API tests and documentation tests, each bounded in time
    Test,
    /// Models of the lock-free code under loom
    Loom,
    /// Every fuzz target for a short while (needs nightly and cargo-fuzz)
    Fuzz(checks::FuzzOptions),
    /// Our programs beside three C implementations and mpi-rs, in one interleaved run
    Bench(bench::Options),
    /// Instructions per small message, under valgrind
    Callgrind(callgrind::Options),
    /// What it costs to record a job, beside the same job without records
    Recording(recording::Options),
    /// Measures the algorithms of collectives here, and writes the switch table of mpi-coll
    Tune(collectives::TuneOptions),
    /// Writes docs/scale.md: what collectives of thousands of ranks cost on paper
    Scale(collectives::ScaleOptions),
    /// Jobs of ranks of both byte orders: this machine's, and s390x under emulation
    BigEndian(big_endian::Options),
    /// The layout of Kubernetes' MPI Operator, with a real sshd and names that come late
    Pods,
    /// Slurm, started on this machine: our programs under srun, and mpiexec in an allocation
    Slurm(slurm::Options),
    /// A stencil that loses ranks at random moments and must end with the right answer, many times in a row
    Recovery(recovery::Options),
    /// Every public item of rsmpi, and where it is here
    Surface(surface::Options),
    /// Programs written for other implementations, unmodified, on ours
    Conformance {
        #[command(subcommand)]
        suite: Conformance,
    },
}

#[derive(Subcommand)]
enum Conformance {
    /// What the package `mpi` (rsmpi) ships: examples, tests, documentation, and its derive macro
    Rsmpi(conformance::Options),
    /// The examples of the package `mpi-rs` that use what rsmpi has
    MpiRs(conformance::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Ci(options) => ci::run(&options),
        Command::Tidy => tidy::run(),
        Command::Test => checks::test(),
        Command::Loom => checks::loom(),
        Command::Fuzz(options) => checks::fuzz(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Recording(options) => recording::run(&options),
        Command::Tune(options) => collectives::tune(&options),
        Command::Scale(options) => collectives::scale(&options),
        Command::BigEndian(options) => big_endian::run(&options),
        Command::Pods => pods::run(),
        Command::Slurm(options) => slurm::run(&options),
        Command::Recovery(options) => recovery::run(&options),
        Command::Surface(options) => surface::run(&options),
        Command::Callgrind(options) => callgrind::run(&options),
        Command::Conformance { suite: Conformance::Rsmpi(options) } => conformance::rsmpi(&options),
        Command::Conformance { suite: Conformance::MpiRs(options) } => conformance::mpi_rs(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
