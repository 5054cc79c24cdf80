//! Builds a Cargo target and finds its executable.

use crate::cli::UsageError;
use crate::error::LaunchError;
use crate::settings::CargoTarget;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Builds `target`; what Cargo has to say goes to standard error.
///
/// # Errors
/// [`LaunchError::Build`] naming the target and what there is instead.
pub fn build(target: &CargoTarget, quiet: bool) -> Result<PathBuf, LaunchError> {
    let package = package_of(target)?;
    let mut command = cargo();
    command.args(["build", "--message-format=json-render-diagnostics", "--package", &package]);
    command.args([flag(target), &target.name]);
    if let Some(profile) = target.profile.clone().or_else(own_profile) {
        command.args(["--profile", &profile]);
    }
    if let Some(features) = &target.features {
        command.args(["--features", features]);
    }
    if target.no_default_features {
        command.arg("--no-default-features");
    }
    if quiet {
        command.arg("--quiet");
    }
    let output = command.stderr(Stdio::inherit()).output().map_err(start_failed)?;
    if !output.status.success() {
        return Err(LaunchError::Build(format!("cargo could not build {}", describe(target))));
    }
    executable(target, &String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| LaunchError::Build(format!("cargo built no executable for {}", describe(target))))
}

/// The last artefact of that name with an executable.
fn executable(target: &CargoTarget, messages: &str) -> Option<PathBuf> {
    let artefacts = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    artefacts
        .filter(|m| m["reason"] == "compiler-artifact" && m["target"]["name"] == target.name.as_str())
        .filter(|m| has_kind(&m["target"], kind(target)))
        .filter_map(|m| m["executable"].as_str().map(PathBuf::from))
        .next_back()
}

/// Looks through the workspace for the package that has the target.
fn package_of(target: &CargoTarget) -> Result<String, LaunchError> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(start_failed)?;
    if !output.status.success() {
        return Err(LaunchError::Build(format!("{}: cargo finds no workspace here", describe(target))));
    }
    choose(target, &serde_json::from_slice(&output.stdout).unwrap_or_default())
        .map_err(|reason| UsageError::new(reason).into())
}

fn choose(target: &CargoTarget, metadata: &Value) -> Result<String, String> {
    let mut owners = Vec::new();
    let mut others = Vec::new();
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    if let Some(wanted) = &target.package {
        if !packages().any(|package| package["name"] == wanted.as_str()) {
            // Perhaps a version or a path, which only Cargo can read.
            return Ok(wanted.clone());
        }
    }
    let is_wanted = |package: &&Value| target.package.as_ref().is_none_or(|p| package["name"] == p.as_str());
    for package in packages().filter(is_wanted) {
        for found in package["targets"].as_array().into_iter().flatten() {
            let (Some(name), Some(owner)) = (found["name"].as_str(), package["name"].as_str()) else {
                continue;
            };
            if !has_kind(found, kind(target)) {
                continue;
            }
            if name == target.name { owners.push(owner) } else { others.push(name) }
        }
    }
    match owners.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => {
            let there = if others.is_empty() { String::from("none") } else { others.join(", ") };
            let option = if target.example { "--example" } else { "--bin" };
            Err(format!(
                "{option} {}: the workspace has no {}; there are: {there}",
                target.name,
                describe(target)
            ))
        }
        several => Err(format!(
            "{} is in several packages ({}): choose with -p PACKAGE",
            describe(target),
            several.join(", ")
        )),
    }
}

fn has_kind(target: &Value, kind: &str) -> bool {
    target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind))
}

/// Under `cargo run`, the profile that the launcher itself was built with.
fn own_profile() -> Option<String> {
    std::env::var_os("CARGO_MANIFEST_DIR")?;
    let exe = std::env::current_exe().ok()?;
    let directory = exe.parent()?.file_name()?.to_str()?;
    Some(if directory == "debug" { String::from("dev") } else { directory.to_owned() })
}

/// Cargo, as `cargo run` found it, without the variables that describe the launcher's own package.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "CARGO_BIN_NAME" {
            command.env_remove(&name);
        }
    }
    command
}

fn start_failed(e: std::io::Error) -> LaunchError {
    LaunchError::Build(format!("cargo cannot be started: {e}"))
}

fn flag(target: &CargoTarget) -> &'static str {
    if target.example { "--example" } else { "--bin" }
}

fn kind(target: &CargoTarget) -> &'static str {
    if target.example { "example" } else { "bin" }
}

fn describe(target: &CargoTarget) -> String {
    let kind = if target.example { "example" } else { "binary" };
    let package = target.package.as_ref().map(|p| format!(" in package {p}")).unwrap_or_default();
    format!("{kind} \"{}\"{package}", target.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn example(name: &str) -> CargoTarget {
        CargoTarget { example: true, name: name.to_owned(), ..CargoTarget::default() }
    }

    #[test]
    fn the_executable_is_found_among_the_messages() {
        let messages = [
            json!({"reason": "compiler-artifact", "target": {"name": "heat", "kind": ["bin"]}, "executable": "/no"}),
            json!({"reason": "compiler-artifact", "target": {"name": "heat", "kind": ["example"]}, "executable": "/yes"}),
            json!({"reason": "build-finished", "success": true}),
        ];
        let text = messages.map(|m| m.to_string()).join("\n") + "\nnot json\n";
        assert_eq!(executable(&example("heat"), &text), Some(PathBuf::from("/yes")));
        assert_eq!(executable(&example("cold"), &text), None);
    }

    #[test]
    fn the_package_is_found_or_the_names_are_listed() {
        let target = |name: &str| json!({"name": name, "kind": ["example"]});
        let metadata = json!({"packages": [
            {"name": "one", "targets": [target("heat"), target("both")]},
            {"name": "two", "targets": [target("both"), {"name": "x", "kind": ["bin"]}]},
        ]});
        assert_eq!(choose(&example("heat"), &metadata).as_deref(), Ok("one"));
        assert!(choose(&example("both"), &metadata).unwrap_err().contains("one, two"));
        let error = choose(&example("cold"), &metadata).unwrap_err();
        assert!(error.ends_with("there are: heat, both, both"), "{error}");
        assert!(choose(&example("heat"), &Value::Null).is_err());
        let of = |package: &str, name| CargoTarget { package: Some(package.to_owned()), ..example(name) };
        assert_eq!(choose(&of("one", "both"), &metadata).as_deref(), Ok("one"));
        assert_eq!(choose(&of("two@1.0", "both"), &metadata).as_deref(), Ok("two@1.0"));
        assert!(choose(&of("two", "heat"), &metadata).unwrap_err().ends_with("there are: both"));
    }
}
