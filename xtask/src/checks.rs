//! Tests, loom models and fuzz targets: each a Cargo call with its limits.

use std::time::Duration;

use anyhow::{Context, bail, ensure};

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

/// The oldest Rust that the workspace promises to compile with, on everything that users and we compile.
pub fn oldest_rust() -> anyhow::Result<()> {
    let rustup = || Cmd::new("rustup").without_env("RUSTUP_TOOLCHAIN").without_env("CARGO").dir(root());
    let toolchain = oldest_promised()?;
    let there = || rustup().words("run").arg(&toolchain).words("rustc --version").capture(INSTALL_LIMIT);
    if !there().is_ok_and(|outcome| outcome.ok()) {
        println!("installing Rust {toolchain}");
        let install = rustup().words("toolchain install --profile minimal --no-self-update").arg(&toolchain);
        let installed = install.capture(INSTALL_LIMIT);
        if !installed.as_ref().is_ok_and(|outcome| outcome.ok()) {
            let why = installed.map_or_else(|e| e.to_string(), |outcome| outcome.tail(1));
            println!("skipped: Rust {toolchain} cannot be had here: {why}");
            return Ok(());
        }
    }
    rustup()
        .words("run")
        .arg(&toolchain)
        .words("cargo check --quiet --workspace --all-features --all-targets")
        .env("CARGO_TARGET_DIR", target().join("oldest-rust"))
        .run(TEST_LIMIT)
}

/// `rust-version` of the workspace's manifest.
fn oldest_promised() -> anyhow::Result<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    Ok(version.context("the workspace has no rust-version")?.trim_matches('"').to_owned())
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
