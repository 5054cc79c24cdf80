//! Where Cargo keeps a package of the registry, and how its programs are built on our facade.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::BUILD_LIMIT;
use crate::shell::Cmd;
use crate::workspace::{cargo, target};

/// One program of a suite.
pub struct Program {
    pub name: String,
    pub source: PathBuf,
    pub kind: Kind,
    /// Fewer make no sense for it.
    pub least_ranks: u32,
    /// The exit status that is right.
    pub status: i32,
    /// What the ranks must have written, all together.
    pub says: &'static str,
    /// Where it was built to, once it was.
    pub executable: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Example,
    Test,
}

impl Program {
    pub fn new(source: &Path, kind: Kind) -> Option<Program> {
        let is_source = source.extension().is_some_and(|extension| extension == "rs");
        let name = source.file_stem()?.to_str()?.to_owned();
        is_source.then(|| Program {
            name,
            source: source.to_owned(),
            kind,
            least_ranks: 1,
            status: 0,
            says: "",
            executable: None,
        })
    }

    /// All programs of a folder, by name.
    pub fn all_of(folder: &Path, kind: Kind) -> anyhow::Result<Vec<Program>> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
        let mut programs = Vec::new();
        for entry in entries {
            programs.extend(Program::new(&entry?.path(), kind));
        }
        programs.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(programs)
    }

    fn section(&self) -> String {
        let kind = match self.kind {
            Kind::Example => "example",
            Kind::Test => "test",
        };
        format!("\n[[{kind}]]\nname = {:?}\npath = {:?}\n", self.name, self.source)
    }
}

/// The folder where Cargo keeps the sources of a package, after it has fetched them. Nothing of it is built.
pub fn from_registry(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let scratch = target().join("conformance/fetch").join(name);
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
    );
    write_package(&scratch, &manifest, "")?;
    let text = Cmd::new(cargo()).words("metadata --format-version 1").dir(&scratch).read(BUILD_LIMIT)?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let package = packages
        .iter()
        .find(|package| package["name"] == name && package["version"] == version)
        .with_context(|| format!("{name} {version} is not on the registry"))?;
    let manifest = package["manifest_path"].as_str().context("a package has a manifest")?;
    Ok(Path::new(manifest).parent().context("a manifest lies in a folder")?.to_owned())
}

/// Writes a package with a library and nothing else.
pub fn write_package(folder: &Path, manifest: &str, library: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder.join("src"))?;
    std::fs::write(folder.join("Cargo.toml"), manifest)?;
    std::fs::write(folder.join("src/lib.rs"), library)?;
    Ok(())
}

/// Builds the programs where they lie, as parts of a package of ours; what does not build stays without executable.
pub fn build(folder: &Path, manifest: &str, programs: &mut [Program]) -> anyhow::Result<()> {
    let mut manifest = manifest.to_owned();
    manifest.extend(programs.iter().map(Program::section));
    write_package(folder, &manifest, "")?;
    for (kind, option, how) in
        [(Kind::Example, "--example", "build"), (Kind::Test, "--test", "test --no-run")]
    {
        let wanted: Vec<&str> = programs.iter().filter(|p| p.kind == kind).map(|p| p.name.as_str()).collect();
        if wanted.is_empty() {
            continue;
        }
        let mut cmd = Cmd::new(cargo()).words(how).words("--message-format=json-render-diagnostics");
        cmd = cmd.arg("--target-dir").arg(build_folder()).dir(folder);
        if kind == Kind::Example {
            cmd = cmd.words("--keep-going");
        }
        for name in wanted {
            cmd = cmd.arg(option).arg(name);
        }
        let outcome = cmd.capture(BUILD_LIMIT)?;
        if !outcome.ok() {
            eprint!("{}", outcome.stderr);
        }
        let mut built = executables(&outcome.stdout);
        for program in programs.iter_mut().filter(|program| program.kind == kind) {
            program.executable = built.remove(&program.name);
        }
    }
    let built = programs.iter().any(|program| program.executable.is_some());
    ensure!(built || programs.is_empty(), "nothing of {} was built", folder.display());
    Ok(())
}

/// Shared by the suites, so that the facade is compiled once.
pub fn build_folder() -> PathBuf {
    target().join("conformance/build")
}

/// Programs by name, out of Cargo's messages.
fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    let artifact = |line: &str| -> Option<(String, PathBuf)> {
        let message: Value = serde_json::from_str(line).ok()?;
        let name = message["target"]["name"].as_str()?;
        Some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
    };
    messages.lines().filter_map(artifact).collect()
}
