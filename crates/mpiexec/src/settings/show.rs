//! What `--show-config` prints.

use crate::cli::Words;
use crate::cli::table::{OPTIONS, Opt, Takes};
use crate::limits;
use crate::outside::{Origin, Outside, Values};
use mpi_pmi::settings::SETTINGS;

/// What `--show-config` prints: each setting with its value and where that comes from.
pub fn show(words: &Words, outside: &Outside) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let given: Vec<_> =
        words.job.iter().chain(words.sections.iter().flat_map(|s| &s.options)).cloned().collect();
    let values = Values { given: &given, outside };
    for opt in OPTIONS.iter().filter(|opt| opt.has_default()) {
        let several = values.all(opt.name).unwrap_or_default();
        if !several.is_empty() && matches!(opt.takes, Takes::Pair | Takes::Assignment) {
            for (value, said) in several {
                let _ = writeln!(out, "{:<20} = {value:<12} ({said})", opt.name);
            }
            continue;
        }
        let (value, origin) = values.find(opt.name).unwrap_or((unset(opt), Origin::Default));
        let origin = match origin {
            Origin::Flag(_) => String::from("command line"),
            Origin::Environment(variable) => format!("environment, {variable}"),
            Origin::File(place) => format!("file, {place}"),
            Origin::Default => {
                format!("default; set by {}", opt.variables().collect::<Vec<_>>().join(" or "))
            }
        };
        let _ = writeln!(out, "{:<20} = {value:<12} ({origin})", opt.name);
    }
    out.push_str("\nSettings of the library, variables of the ranks:\n");
    for setting in SETTINGS {
        let _ = match std::env::var_os(setting.name) {
            Some(value) => writeln!(out, "{:<28} = {} (environment)", setting.name, value.to_string_lossy()),
            None => writeln!(out, "{:<28} = {} (default; {})", setting.name, setting.default, setting.unit),
        };
    }
    out.push_str("\nLimits and periods, fixed:\n");
    for (name, value) in limits::table() {
        let _ = writeln!(out, "{name:<44} = {value}");
    }
    out
}

fn unset(opt: &Opt) -> &'static str {
    match (opt.name, opt.takes) {
        ("stdin", _) => "0",
        ("bind-to", _) => "none",
        ("matrix", _) => "mpi-matrix.svg",
        ("map-by", _) => "slot",
        ("launcher", _) => "ssh",
        ("fan-out", _) => "16",
        ("silence", _) => "30",
        (_, Takes::Flag) => "no",
        _ => "unset",
    }
}
