//! Jobs whose ranks differ in byte order: some are programs of this machine, the others of s390x under emulation.
//!
//! The cases are those of `crates/mpi/tests/byte_order.rs`, compiled for both. Ranks of both kinds stand on one machine,
//! whose shared memory serves one byte order, so they talk over TCP.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{bail, ensure};

use crate::shell::{Cmd, exists};
use crate::workspace::{cargo, root, target};

const TRIPLE: &str = "s390x-unknown-linux-gnu";
const LINKER: &str = "s390x-linux-gnu-gcc";
const EMULATOR: &str = "qemu-s390x-static";
/// Libraries of the emulated machine, as Debian lays them out.
const LIBRARIES: &str = "/usr/s390x-linux-gnu";
const PACKAGES: &str = "gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user-static";

const INSTALL_LIMIT: Duration = Duration::from_secs(600);
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
const RUN_LIMIT_SECONDS: u64 = 120;
/// For the launcher to draw its picture and to clear up after its own limit.
const RUN_GRACE: Duration = Duration::from_secs(20);

#[derive(clap::Args, Default)]
pub struct Options {
    /// Only one placement of the ranks
    #[arg(long)]
    short: bool,
    /// Only the cases whose names contain this
    #[arg(long)]
    only: Option<String>,
}

impl Options {
    pub fn for_ci() -> Options {
        Options { short: true, only: None }
    }
}

/// Who is of which kind, in the order of ranks: `n` of this machine, `b` of the big-endian one.
const PLACEMENTS: &[&str] = &["nb", "bn", "nnbb", "bnb", "bb"];

pub fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(why) = missing()? {
        println!("skipped: {why}");
        return Ok(());
    }
    Cmd::new(cargo()).words("build --quiet -p mpiexec").dir(root()).run(BUILD_LIMIT)?;
    let programs = Programs { native: build(None)?, big: build(Some(TRIPLE))? };
    let list = Cmd::new(&programs.native).arg("--list").read(RUN_GRACE)?;
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let wanted = |name: &&str| options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let cases: Vec<&str> = names.filter(wanted).collect();
    ensure!(!cases.is_empty(), "no case has that name");
    let (mut passed, mut failed) = (0, 0);
    for placement in &PLACEMENTS[..if options.short { 1 } else { PLACEMENTS.len() }] {
        for case in &cases {
            let outcome =
                programs.job(placement, case).capture(Duration::from_secs(RUN_LIMIT_SECONDS) + RUN_GRACE)?;
            println!("{} {case} on {placement}", if outcome.ok() { "pass" } else { "FAIL" });
            if outcome.ok() {
                passed += 1;
            } else {
                println!("{}\n{}", outcome.end(), outcome.tail(40));
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    ensure!(failed == 0, "{failed} cases failed between hosts of different byte order");
    Ok(())
}

/// Gets what is needed to compile and run for the other machine; why it cannot be had, if so.
fn missing() -> anyhow::Result<Option<String>> {
    if !cfg!(target_endian = "little") {
        return Ok(Some("this machine is itself big-endian".to_owned()));
    }
    if !exists(LINKER) || !exists(EMULATOR) {
        println!("installing {PACKAGES}");
        let install = |words: &str| {
            let cmd = Cmd::new("apt-get").words(words).env("DEBIAN_FRONTEND", "noninteractive");
            cmd.capture(INSTALL_LIMIT)
                .map_or_else(|e| Some(format!("{e:#}")), |o| (!o.ok()).then(|| o.tail(1)))
        };
        // Old lists may name packages that are no longer there.
        let why = install("update -qq").or_else(|| install(&format!("install -y -qq {PACKAGES}")));
        if let Some(why) = why {
            return Ok(Some(format!("the linker or the emulator for s390x cannot be had here: {why}")));
        }
    }
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let libraries =
        Cmd::new(rustc).words("--print target-libdir --target").arg(TRIPLE).dir(root()).read(RUN_GRACE)?;
    if !Path::new(libraries.trim()).is_dir() {
        println!("installing the standard library for {TRIPLE}");
        let added = Cmd::new("rustup").words("target add").arg(TRIPLE).dir(root()).capture(INSTALL_LIMIT);
        if !added.as_ref().is_ok_and(|outcome| outcome.ok()) {
            let why = added.map_or_else(|e| e.to_string(), |outcome| outcome.tail(1));
            return Ok(Some(format!("the standard library for {TRIPLE} cannot be had here: {why}")));
        }
    }
    Ok(None)
}

/// The same test program for both machines.
struct Programs {
    native: PathBuf,
    big: PathBuf,
}

impl Programs {
    fn job(&self, placement: &str, case: &str) -> Cmd {
        let limit = RUN_LIMIT_SECONDS.to_string();
        let mut cmd =
            Cmd::new(target().join("debug/mpiexec")).words("-q --oversubscribe --timeout").arg(limit);
        for (i, kind) in placement.chars().enumerate() {
            cmd = cmd.words(if i > 0 { ": -n 1" } else { "-n 1" });
            cmd = match kind {
                'b' => cmd.arg(EMULATOR).arg("-L").arg(LIBRARIES).arg(&self.big),
                _ => cmd.arg(&self.native),
            };
        }
        cmd.env("MPI_BTL", "tcp").env("MPI_TEST_CASE", case)
    }
}

/// Builds the test program and finds it.
fn build(triple: Option<&str>) -> anyhow::Result<PathBuf> {
    let mut cmd = Cmd::new(cargo())
        .words(
            "test --no-run --message-format=json --quiet -p mpi --features derive,complex --test byte_order",
        )
        .dir(root())
        .env("CARGO_TARGET_S390X_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    if let Some(triple) = triple {
        cmd = cmd.arg("--target").arg(triple);
    }
    let messages = cmd.read(BUILD_LIMIT)?;
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if message["target"]["name"] == "byte_order" {
            if let Some(path) = message["executable"].as_str() {
                return Ok(PathBuf::from(path));
            }
        }
    }
    bail!("cargo built no test program byte_order for {}", triple.unwrap_or("this machine"))
}
