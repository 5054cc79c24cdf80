//! Tests, loom models and fuzz targets: each a Cargo call with its limits.

use std::time::Duration;

use anyhow::{bail, ensure};

use crate::shell::{Cmd, exists};
use crate::workspace::{cargo, root, target};

const INSTALL_LIMIT: Duration = Duration::from_secs(900);
const TEST_LIMIT: Duration = Duration::from_secs(1200);
/// Loom explores every interleaving up to this many preemptions.
const LOOM_PREEMPTIONS: &str = "3";

#[derive(clap::Args)]
pub struct FuzzOptions {
    /// Seconds for each target
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Only the targets whose name contains this
    #[arg(long)]
    only: Option<String>,
}

impl FuzzOptions {
    pub fn for_ci() -> FuzzOptions {
        FuzzOptions { seconds: 10, only: None }
    }
}

/// Unit and API tests under nextest, whose profile bounds each; then the documentation's examples.
pub fn test() -> anyhow::Result<()> {
    if !exists("cargo-nextest") {
        println!("installing cargo-nextest");
        Cmd::new(cargo()).words("install --quiet --locked cargo-nextest").run(INSTALL_LIMIT)?;
    }
    Cmd::new(cargo())
        .words("nextest run --workspace --all-features --no-fail-fast")
        .dir(root())
        .run(TEST_LIMIT)?;
    Cmd::new(cargo()).words("test --workspace --all-features --doc").dir(root()).run(TEST_LIMIT)
}

/// Every crate whose tests are models under loom. They are built apart, as `--cfg loom` changes every crate.
pub fn loom() -> anyhow::Result<()> {
    let models = crate::tidy::crates_with_models()?;
    if models.is_empty() {
        println!("skipped: no crate has loom models");
    }
    for package in models {
        Cmd::new(cargo())
            .words("test --release --lib -p")
            .arg(&package)
            .dir(root())
            .env("RUSTFLAGS", "--cfg loom")
            .env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS)
            .env("CARGO_TARGET_DIR", target().join("loom"))
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .run(TEST_LIMIT)?;
    }
    Ok(())
}

/// A short run of every fuzz target, so that a decoder's regression shows early.
pub fn fuzz(options: &FuzzOptions) -> anyhow::Result<()> {
    let nightly = |cmd: Cmd| cmd.without_env("RUSTUP_TOOLCHAIN").without_env("CARGO").dir(root());
    let toolchain = nightly(Cmd::new("rustup").words("run nightly rustc --version")).capture(INSTALL_LIMIT);
    if !toolchain.is_ok_and(|outcome| outcome.ok()) {
        println!("skipped: fuzzing needs a nightly toolchain; the decoders' property tests stand in");
        return Ok(());
    }
    if !exists("cargo-fuzz") {
        println!("installing cargo-fuzz");
        Cmd::new(cargo()).words("install --quiet --locked cargo-fuzz").run(INSTALL_LIMIT)?;
    }
    let list = nightly(Cmd::new("rustup").words("run nightly cargo fuzz list")).read(INSTALL_LIMIT)?;
    let wanted = |name: &&str| options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let targets: Vec<&str> = list.split_whitespace().filter(wanted).collect();
    if targets.is_empty() {
        bail!("no fuzz target has that name");
    }
    let mut failed = 0;
    for target in &targets {
        let run = Cmd::new("rustup").words("run nightly cargo fuzz run").arg(target);
        let limit = format!("-max_total_time={}", options.seconds);
        let outcome = nightly(run.words("--").arg(limit).words("-rss_limit_mb=1024 -max_len=4096"))
            .capture(TEST_LIMIT)?;
        println!("{} fuzz target {target}", if outcome.ok() { "pass" } else { "FAIL" });
        if !outcome.ok() {
            println!("{}\n{}", outcome.end(), outcome.tail(40));
            failed += 1;
        }
    }
    println!("{} passed, {failed} failed", targets.len() - failed);
    ensure!(failed == 0, "{failed} fuzz targets failed");
    Ok(())
}
