//! Documents, lengths, what finished code must not contain.

use std::collections::BTreeSet;
use std::path::Path;

use super::Package;
use super::rules::*;
use super::source;
use crate::workspace::root;

/// README, crate documentation, metadata for the registry, and the promise to contain no unsafe code.
pub fn check_packages(packages: &[Package], problems: &mut Vec<String>) {
    for package in packages {
        let mut says = |what: &str| problems.push(format!("{}: {what}", package.name));
        match std::fs::read_to_string(package.folder().join("README.md")) {
            Err(_) => says("no README.md"),
            Ok(text) if text.lines().count() > README_LINES => says("README.md is longer than a screen"),
            Ok(text) if text.lines().count() < 5 => says("README.md says nothing yet"),
            Ok(_) => {}
        }
        let source = std::fs::read_to_string(package.root_file()).unwrap_or_default();
        if !source.starts_with("//!") {
            says("the crate's documentation does not stand first in its root file");
        }
        if WITHOUT_UNSAFE.contains(&package.name.as_str()) && !source.contains("#![forbid(unsafe_code)]") {
            says("must forbid unsafe code");
        }
        let metadata = [&package.description, &package.license, &package.readme];
        if metadata.iter().any(|field| field.is_none()) {
            says("description, license and readme belong in Cargo.toml");
        }
    }
}

/// docs/dependencies.md has a line for each crate that is not ours, in order, and no other.
pub fn check_dependency_list(packages: &[Package], problems: &mut Vec<String>) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(root().join("docs/dependencies.md"))?;
    let listed: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("- `")?.split('`').next()).collect();
    let all = packages.iter().flat_map(|package| &package.dependencies);
    let used: BTreeSet<&str> = all.filter(|d| d.path.is_none()).map(|d| d.name.as_str()).collect();
    for name in used.iter().filter(|name| !listed.contains(name)) {
        problems.push(format!("docs/dependencies.md has no line for {name}"));
    }
    for name in listed.iter().filter(|name| !used.contains(**name)) {
        problems.push(format!("docs/dependencies.md lists {name}, which nothing uses"));
    }
    if !listed.is_sorted_by(|a, b| a < b) {
        problems.push("docs/dependencies.md is not in alphabetical order, each crate once".into());
    }
    Ok(())
}

pub fn check_text(file: &str, problems: &mut Vec<String>) -> anyhow::Result<()> {
    let Ok(text) = std::fs::read_to_string(root().join(file)) else { return Ok(()) };
    for start in MACHINE_PATHS {
        if let Some(line) = text.lines().position(|line| line.contains(start)) {
            problems.push(format!("{file}:{}: a path of some machine ({start})", line + 1));
        }
    }
    if file.ends_with(".rs") {
        check_source(file, &text, problems);
    }
    if file.ends_with(".md") {
        check_links(file, &text, problems);
    }
    Ok(())
}

fn check_source(file: &str, text: &str, problems: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_ALLOWED {
        problems.push(format!("{file}: {lines} lines, {LINES_ALLOWED} are allowed"));
    } else if lines > LINES_WANTED {
        println!("note: {file} has {lines} lines; {LINES_WANTED} are wanted");
    }
    let code = source::without_comments_and_strings(text);
    for word in UNFINISHED {
        if let Some(line) = code.lines().position(|line| line.contains(word)) {
            problems.push(format!("{file}:{}: {word}", line + 1));
        }
    }
}

/// Links to files of the project lead somewhere.
fn check_links(file: &str, text: &str, problems: &mut Vec<String>) {
    let folder = root().join(file);
    let folder = folder.parent().unwrap_or(Path::new("."));
    for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
        let outside = link.is_empty() || link.contains("://") || link.starts_with("mailto:");
        if !outside && !link.contains(char::is_whitespace) && !folder.join(link).exists() {
            problems.push(format!("{file}: link to {link}, which does not exist"));
        }
    }
}
