//! The derive macro away from home: in packages that do not depend on `mpi` by that name, and rsmpi's own macro on our
//! facade.
//!
//! rsmpi's macro has its examples in its documentation, marked as not to be tested since they need a package
//! `crate1` that has `mpi` inside. Here they have one.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};

use super::BUILD_LIMIT;
use super::documented::blocks_of;
use super::package::{build_folder, from_registry, write_package};
use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

const MACRO_VERSION: &str = "0.1.4";

/// A dependency under another name: told to the macro, and found by it.
const RENAMED: &str = r#"
use rsmpi::traits::*;

#[derive(Equivalence)]
#[mpi(crate = "::rsmpi")]
pub struct Told { a: [f64; 3], b: (u8, i32) }

#[derive(Equivalence)]
pub struct Found { a: u8, b: f64 }

#[test]
fn both_have_their_datatypes() {
    let _universe = rsmpi::initialize().unwrap();
    let extent = |datatype: rsmpi::datatype::DatatypeRef<'static>| unsafe {
        let (mut lower, mut extent) = (0, 0);
        rsmpi::ffi::MPI_Type_get_extent(datatype.as_raw(), &mut lower, &mut extent);
        extent as usize
    };
    assert_eq!(extent(Told::equivalent_datatype()), size_of::<Told>());
    assert_eq!(extent(Found::equivalent_datatype()), size_of::<Found>());
}
"#;

pub fn run() -> anyhow::Result<()> {
    let folder = target().join("conformance/derive");
    let facade = root().join("crates/mpi");
    let ours = root().join("crates/mpi-derive");
    let documented = documented(&from_registry("mpi-derive", MACRO_VERSION)?)?;

    write_package(
        &folder.join("crate1"),
        &manifest("crate1", &dependency("mpi", &facade)),
        "pub use mpi;\n",
    )?;
    let renamed = format!("rsmpi = {{ package = \"mpi\", path = {facade:?}, features = [\"derive\"] }}\n");
    write_package(&folder.join("renamed"), &manifest("renamed", &renamed), RENAMED)?;
    let crate1 = "crate1 = { path = \"../crate1\" }\n";
    let all = format!("{}{crate1}mpi-derive = {{ path = {ours:?} }}\n", dependency("mpi", &facade));
    write_package(&folder.join("documented"), &manifest("documented", &all), &documented)?;
    let all = format!("{}{crate1}mpi-derive = \"={MACRO_VERSION}\"\n", dependency("mpi", &facade));
    write_package(&folder.join("their-macro"), &manifest("their-macro", &all), &documented)?;
    std::fs::write(
        folder.join("Cargo.toml"),
        "[workspace]\nresolver = \"2\"\nmembers = [\"crate1\", \"renamed\", \"documented\", \"their-macro\"]\n",
    )?;

    println!("the derive macro in packages that name `mpi` otherwise, and rsmpi's macro on our facade:");
    for package in ["renamed", "documented", "their-macro"] {
        let cmd = Cmd::new(cargo()).words("test --quiet --lib -p").arg(package);
        let cmd = cmd.arg("--target-dir").arg(build_folder()).dir(&folder);
        cmd.run(BUILD_LIMIT).with_context(|| format!("the derive macro's package {package:?}"))?;
    }
    Ok(())
}

/// The structs of the macro's documentation, each in a module of its own, and a test that they have datatypes.
fn documented(their_macro: &Path) -> anyhow::Result<String> {
    let blocks = blocks_of(&their_macro.join("src/lib.rs"), "ignore")?;
    ensure!(blocks.len() == 2, "{} examples in the macro's documentation instead of 2", blocks.len());
    let mut library = String::from("#![allow(dead_code)]\n");
    let mut checks = String::new();
    for (number, block) in blocks.iter().enumerate() {
        // Their field is private to the module, the type must not be.
        let public = block.replace("struct ", "pub struct ");
        writeln!(library, "mod example_{number} {{\n{public}}}")?;
        writeln!(
            checks,
            "    let _ = <example_{number}::MyProgramOpts as Equivalence>::equivalent_datatype();"
        )?;
    }
    writeln!(
        library,
        "#[test]\nfn examples_have_datatypes() {{\n    use mpi::datatype::Equivalence;\n    let _universe = \
         mpi::initialize().unwrap();\n{checks}}}"
    )?;
    Ok(library)
}

fn dependency(name: &str, facade: &Path) -> String {
    format!("{name} = {{ path = {facade:?} }}\n")
}

fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}"
    )
}
