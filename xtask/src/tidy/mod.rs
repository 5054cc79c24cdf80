//! `cargo xtask tidy`: the rules that no compiler checks.

mod files;
mod layers;
mod promises;
mod rules;
mod source;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use crate::shell::Cmd;
use crate::workspace::{cargo, root};

const LOOK: Duration = Duration::from_secs(60);

/// What `cargo metadata` says of a member of the workspace.
#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    description: Option<String>,
    license: Option<String>,
    readme: Option<String>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `None` for a normal one, else `dev` or `build`.
    kind: Option<String>,
    /// Set for a crate of this workspace.
    path: Option<PathBuf>,
}

impl Package {
    fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(root())
    }

    /// The file that holds the crate's own documentation.
    fn root_file(&self) -> PathBuf {
        let lib = self.folder().join("src/lib.rs");
        if lib.exists() { lib } else { self.folder().join("src/main.rs") }
    }
}

pub fn run() -> anyhow::Result<()> {
    let packages = packages()?;
    let files = tracked()?;
    let mut problems = Vec::new();
    layers::check(&packages, &mut problems);
    files::check_packages(&packages, &mut problems);
    files::check_dependency_list(&packages, &mut problems)?;
    for file in &files {
        files::check_text(file, &mut problems)?;
    }
    source::check_unsafe_table(&files, &mut problems)?;
    promises::check(&mut problems)?;
    for problem in &problems {
        println!("tidy: {problem}");
    }
    println!("{} files and {} crates looked at", files.len(), packages.len());
    anyhow::ensure!(problems.is_empty(), "{} rules broken", problems.len());
    Ok(())
}

/// Members that depend on loom.
pub fn crates_with_models() -> anyhow::Result<Vec<String>> {
    let has_models =
        |package: &Package| package.dependencies.iter().any(|dependency| dependency.name == "loom");
    Ok(packages()?.into_iter().filter(has_models).map(|package| package.name).collect())
}

fn packages() -> anyhow::Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let text = Cmd::new(cargo()).words("metadata --format-version 1 --no-deps").dir(root()).read(LOOK)?;
    Ok(serde_json::from_str::<Metadata>(&text).context("cargo metadata is JSON")?.packages)
}

/// Files under version control and those that would be, relative to the root.
fn tracked() -> anyhow::Result<Vec<String>> {
    let list =
        Cmd::new("git").words("ls-files --cached --others --exclude-standard").dir(root()).read(LOOK)?;
    Ok(list.lines().filter(|file| root().join(file).is_file()).map(str::to_owned).collect())
}
