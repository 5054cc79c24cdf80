//! `cargo xtask surface`: every public item of rsmpi, and where it is here.
//!
//! Both are read from their sources. The table is `docs/surface.md`; CI fails when an item is missing, when it differs
//! in its kind, the order of its parameters, `unsafe`, argument types or the type that it returns, and when the page
//! is not what the tool writes.

mod describe;
mod ffi;
mod macros;
mod tree;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::ensure;

use self::describe::{Description, describe};
use self::tree::{Crate, Target};
use crate::conformance::from_registry;
use crate::workspace::root;

const RSMPI_VERSION: &str = "0.8.2";
const PAGE: &str = "docs/surface.md";

/// Parts that differ on purpose: path and part, and the reason that the page gives.
const ON_PURPOSE: &[(&str, &str, &str)] = &[
    ("datatype::UserDatatype", "impl Send", "by itself: it holds nothing that would forbid it"),
    ("datatype::UserDatatype", "impl Sync", "by itself: it holds nothing that would forbid it"),
];

#[derive(clap::Args, Default)]
pub struct Options {
    /// Write docs/surface.md instead of comparing with it
    #[arg(long)]
    write: bool,
}

pub fn run(options: &Options) -> anyhow::Result<()> {
    let theirs_at = from_registry("mpi", RSMPI_VERSION)?;
    let theirs = Crate::read(&theirs_at)?;
    let ours = Crate::read(&root().join("crates/mpi"))?;

    let mut table = Table::default();
    table.items(&theirs, &ours);
    table.ffi(&ffi::used(&theirs_at)?, &ours);

    let page = table.page();
    let file = root().join(PAGE);
    if options.write {
        std::fs::write(&file, &page)?;
    }
    println!("{} public items and parts of rsmpi {RSMPI_VERSION}, {} wrong", table.count, table.wrong.len());
    for wrong in &table.wrong {
        println!("  {wrong}");
    }
    ensure!(table.wrong.is_empty(), "{} items of rsmpi are missing or differ", table.wrong.len());
    let current = std::fs::read_to_string(&file).unwrap_or_default();
    ensure!(current == page, "{PAGE} is out of date: run `cargo xtask surface --write`");
    Ok(())
}

#[derive(Default)]
struct Table {
    rows: String,
    ffi: String,
    count: usize,
    wrong: Vec<String>,
}

impl Table {
    fn items(&mut self, theirs: &Crate, ours: &Crate) {
        let here = ours.public();
        let mut seen: BTreeMap<Target, String> = BTreeMap::new();
        let mut paths: Vec<(String, Target)> =
            theirs.public().into_iter().filter(|(path, _)| !path.starts_with("ffi::")).collect();
        // The shortest path to an item describes it, the others point there.
        paths.sort_by_key(|(path, _)| {
            (path.starts_with("traits::"), path.matches("::").count(), path.clone())
        });
        for (path, target) in paths {
            let Some(found) = here.get(&path) else {
                self.row(&path, "", "missing", Some("missing"));
                continue;
            };
            if let Some(first) = seen.get(&target) {
                self.row(&path, "re-export", &format!("`mpi::{path}`, of `{first}`"), None);
                continue;
            }
            seen.insert(target.clone(), path.clone());
            self.item(&path, theirs, &target, ours, found);
        }
    }

    fn item(&mut self, path: &str, theirs: &Crate, target: &Target, ours: &Crate, found: &Target) {
        let described = |of: &Crate, target: &Target| match target {
            Target::Module(_) => Some(Description { kind: "mod", ..Default::default() }),
            Target::External(_) => Some(Description { kind: "re-export", ..Default::default() }),
            Target::Item(module, name) => of.item(module, name).map(|item| describe(of, item)),
        };
        let (Some(there), Some(here)) = (described(theirs, target), described(ours, found)) else {
            return self.row(path, "", "unknown", Some("cannot be read"));
        };
        let place = match found {
            Target::Module(module) => format!("`mpi::{}`", module.join("::")),
            Target::External(other) => format!("`{other}`"),
            Target::Item(module, _) if module.is_empty() => "`mpi`".to_owned(),
            Target::Item(module, _) => format!("`mpi`, in `{}`", module.join("::")),
        };
        let is_same = there.kind == here.kind && there.shape == here.shape;
        let differs = format!("{} {} here, {} {} there", here.kind, here.shape, there.kind, there.shape);
        let form =
            if there.kind == "fn" { there.shape.clone() } else { format!("{} {}", there.kind, there.shape) };
        self.row(path, &form, &place, (!is_same).then_some(&differs));
        for (part, form) in &there.parts {
            let wrong = match here.parts.get(part) {
                None => Some("missing".to_owned()),
                Some(ours) if ours == form => None,
                Some(ours) => Some(format!("`{ours}` here, `{form}` there")),
            };
            self.part(path, part, form, wrong);
        }
    }

    fn part(&mut self, path: &str, part: &str, form: &str, wrong: Option<String>) {
        let excuse = ON_PURPOSE.iter().find(|(at, name, _)| *at == path && *name == part);
        match (excuse, wrong) {
            (Some((_, _, reason)), Some(_)) => self.row(&format!("{path} {part}"), form, reason, None),
            (_, wrong) => self.row(&format!("{path} {part}"), form, "same", wrong.as_deref()),
        }
    }

    fn ffi(&mut self, names: &[String], ours: &Crate) {
        let here = ours.public();
        for name in names {
            self.count += 1;
            let path = format!("ffi::{name}");
            let kind = match here.get(&path) {
                Some(Target::Item(module, name)) => {
                    ours.item(module, name).map(|item| describe(ours, item).kind)
                }
                Some(_) => Some("re-export"),
                None => None,
            };
            if kind.is_none() {
                self.wrong.push(format!("{path}: missing"));
            }
            let _ = writeln!(self.ffi, "| `{name}` | {} |", kind.unwrap_or("missing"));
        }
    }

    fn row(&mut self, what: &str, form: &str, place: &str, wrong: Option<&str>) {
        self.count += 1;
        if let Some(wrong) = wrong {
            self.wrong.push(format!("{what}: {wrong}"));
        }
        let form = form.trim().replace('|', "\\|");
        let form = if form.is_empty() { String::new() } else { format!("`{form}`") };
        let _ = writeln!(self.rows, "| `{what}` | {form} | {} |", wrong.map_or(place, |_| "**differs**"));
    }

    fn page(&self) -> String {
        format!(
            "# The surface of rsmpi, and where it is here\n\nWritten by `cargo xtask surface --write` from the sources of \
             rsmpi {RSMPI_VERSION} and of `crates/mpi`; CI fails when an item is missing, when it differs, or when this \
             page is out of date. Parameters are named by their order (`'1`, `T1`), paths by their last name, and \
             bounds are left to the programs of `cargo xtask conformance`.\n\n| rsmpi | form | here |\n| --- | --- | --- \
             |\n{}\n## Names of the C binding\n\nThose that rsmpi's own code or its examples use; all of them are in \
             `mpi::ffi`.\n\n| name | here |\n| --- | --- |\n{}",
            self.rows, self.ffi
        )
    }
}
