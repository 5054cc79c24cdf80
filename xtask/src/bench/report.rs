//! The report: one table for people and the samples for programs.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::cases::{FIGURES, Figure, NOT_COUNTED};
use super::figures::{Target, Verdict};
use super::implementations::Implementation;
use super::{Page, Run};
use crate::shell::Cmd;

const LOOK: Duration = Duration::from_secs(30);

pub fn write(folder: &Path, page: &Page, run: &Run) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(format!("{}.md", page.file)), text(page, run))?;
    std::fs::write(folder.join(format!("{}.json", page.file)), json(run)?)?;
    Ok(())
}

fn text(page: &Page, run: &Run) -> String {
    let mut text = format!("# {}\n\n", page.title);
    let _ = writeln!(text, "Written by `cargo xtask bench` on {}. {}\n", machine(), how(run));
    text += &table(run);
    text += page.notes;
    for (case, key, who, why) in NOT_COUNTED {
        let figure = FIGURES.iter().find(|f| (f.case, f.key) == (*case, *key) && measured(run, f));
        if let Some(figure) = figure {
            let _ = writeln!(text, "\nNot counted: {} for \"{}\": {why}.", who.title(), figure.title);
        }
    }
    for (title, plot) in page.plots {
        let _ = writeln!(text, "\n![{title}]({plot}.svg)");
    }
    if !run.failures.is_empty() {
        text += "\n## Runs that failed\n\n";
        for failure in &run.failures {
            let _ = writeln!(text, "```\n{failure}\n```");
        }
    }
    text
}

fn how(run: &Run) -> String {
    format!(
        "Each value is the median of {} rounds; every round runs every case on every implementation, one after the \
         other. A ratio is our value to that of the best of the three C implementations (as a cost: below 1 is \
         faster). mpi-rs has one transport, TCP, for both.",
        run.rounds
    )
}

/// Processor, kernel and compiler, without a name or a path of this machine.
fn machine() -> String {
    let look = |cmd: Cmd| cmd.read(LOOK).map(|text| text.trim().to_owned()).unwrap_or_default();
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{} ({model}, {cores} cores, Linux {}, {}, load at the end {})",
        look(Cmd::new("date").arg("-u").arg("+%Y-%m-%d")),
        look(Cmd::new("uname").arg("-r")),
        look(Cmd::new("rustc").arg("--version")),
        load.split_whitespace().next().unwrap_or("unknown"),
    )
}

/// The rows that were measured, as a Markdown table.
pub fn table(run: &Run) -> String {
    let mut text = String::from("| |");
    let mut line = String::from("| --- |");
    for who in &run.implementations {
        let _ = write!(text, " {} |", who.title());
        line += " --- |";
    }
    text += " ratio | target | |\n";
    text += &line;
    text += " --- | --- | --- |\n";
    for figure in FIGURES.iter().filter(|figure| measured(run, figure)) {
        let _ = write!(text, "| {} |", figure.title);
        for &who in &run.implementations {
            let shown =
                run.samples.median(figure, who).map_or_else(|| "–".into(), |value| figure.unit.show(value));
            let _ = write!(text, " {shown} |");
        }
        let target = match figure.target {
            Target::Ratio(limit) => format!("≤ {limit:.2}"),
            Target::AtMost(limit) => format!("≤ {}", figure.unit.show(limit)),
            Target::Open => String::new(),
        };
        let ratio = ratio(run, figure).map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(text, " {ratio} | {target} | {} |", Verdict::of(figure, &run.samples).word());
    }
    text
}

fn measured(run: &Run, figure: &Figure) -> bool {
    run.implementations.iter().any(|&who| !run.samples.of(figure, who).is_empty())
}

/// Our median to the best peer's.
pub fn ratio(run: &Run, figure: &Figure) -> Option<f64> {
    Some(run.samples.median(figure, Implementation::Ours)? / run.samples.best_peer(figure)?)
}

#[derive(Serialize)]
struct Row<'a> {
    case: &'a str,
    key: &'a str,
    title: &'a str,
    unit: String,
    target: String,
    ratio: Option<f64>,
    samples: Vec<(&'a str, &'a [f64])>,
}

fn json(run: &Run) -> anyhow::Result<String> {
    let rows = FIGURES.iter().filter(|figure| measured(run, figure)).map(|figure| Row {
        case: figure.case,
        key: figure.key,
        title: figure.title,
        unit: format!("{:?}", figure.unit),
        target: format!("{:?}", figure.target),
        ratio: ratio(run, figure),
        samples: run.implementations.iter().map(|&who| (who.title(), run.samples.of(figure, who))).collect(),
    });
    Ok(serde_json::to_string_pretty(&rows.collect::<Vec<_>>())? + "\n")
}
