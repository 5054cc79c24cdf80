//! Collectives measured and modelled: the switch table of mpi-coll, and the table of many ranks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use anyhow::Context;

use crate::shell::Cmd;
use crate::workspace::{cargo, root, target};

/// From nothing, on a machine that does other things too.
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const RUN_LIMIT: Duration = Duration::from_secs(120);
/// Another algorithm takes over only where it needs less than this share of the one before.
const WORTH_SWITCHING: f64 = 0.95;
const TABLE: &str = "crates/mpi-coll/src/table.rs";
const SCALE: &str = "docs/scale.md";
const BEGIN: &str = "// tune: begin\n";
const END: &str = "// tune: end\n";

#[derive(clap::Args)]
pub struct TuneOptions {
    /// Numbers of ranks to measure; the last stands for all above
    #[arg(long, value_delimiter = ',', default_value = "2,4,8")]
    ranks: Vec<usize>,
    /// Only this collective; the rows of the others stay
    #[arg(long)]
    only: Option<String>,
    /// Measure every algorithm so often, by turns; the least time counts
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Take the programs as they are, so that nothing is built between measurements
    #[arg(long)]
    no_build: bool,
    /// Show the rows and leave the file as it is
    #[arg(long)]
    dry_run: bool,
}

/// A collective with a choice.
struct Choice {
    /// As in `MPI_COLL_<NAME>`, and as the constant's name.
    name: &'static str,
    /// Its type in Rust.
    rust: &'static str,
    /// Name in settings, and variant.
    algorithms: &'static [(&'static str, &'static str)],
    /// Bytes, as the table counts them.
    sizes: &'static [usize],
}

/// Serves blocking calls within a node only: behind its rows stand those for all other calls.
const STAGED: &str = "Staged";
const VECTORS: &[usize] = &[64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const BLOCKS: &[usize] = &[64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];

const CHOICES: &[Choice] = &[
    Choice {
        name: "BROADCAST",
        rust: "Broadcast",
        algorithms: &[
            ("binomial", "Binomial"),
            ("scatter-allgather", "ScatterAllgather"),
            ("pipelined", "Pipelined"),
            ("staged", STAGED),
        ],
        sizes: VECTORS,
    },
    Choice {
        name: "REDUCE",
        rust: "Reduce",
        algorithms: &[("binomial", "Binomial"), ("rabenseifner", "Rabenseifner"), ("staged", STAGED)],
        sizes: VECTORS,
    },
    Choice {
        name: "ALLREDUCE",
        rust: "Allreduce",
        algorithms: &[
            ("doubling", "Doubling"),
            ("rabenseifner", "Rabenseifner"),
            ("ring", "Ring"),
            ("direct", "Direct"),
            ("staged", STAGED),
        ],
        sizes: VECTORS,
    },
    Choice {
        name: "GATHER",
        rust: "Gather",
        algorithms: &[("linear", "Linear"), ("binomial", "Binomial")],
        sizes: BLOCKS,
    },
    Choice {
        name: "SCATTER",
        rust: "Scatter",
        algorithms: &[("linear", "Linear"), ("binomial", "Binomial")],
        sizes: BLOCKS,
    },
    Choice {
        name: "ALLGATHER",
        rust: "Allgather",
        algorithms: &[("doubling", "Doubling"), ("bruck", "Bruck"), ("ring", "Ring"), ("staged", STAGED)],
        sizes: VECTORS,
    },
    Choice {
        name: "ALLTOALL",
        rust: "Alltoall",
        algorithms: &[
            ("scattered", "Scattered"),
            ("bruck", "Bruck"),
            ("pairwise", "Pairwise"),
            ("staged", STAGED),
        ],
        sizes: BLOCKS,
    },
    Choice {
        name: "REDUCE_SCATTER",
        rust: "ReduceScatter",
        algorithms: &[("halving", "Halving"), ("pairwise", "Pairwise")],
        sizes: VECTORS,
    },
];

/// One row: most ranks, most bytes, variant. The largest number means any.
type Row = (usize, usize, &'static str);

pub fn tune(options: &TuneOptions) -> anyhow::Result<()> {
    if !options.no_build {
        Cmd::new(cargo()).words("build --release -p mpiexec").dir(root()).run(BUILD_LIMIT)?;
        let bench = "build --release -p mpi --example bench";
        Cmd::new(cargo()).words(bench).dir(root()).run(BUILD_LIMIT)?;
    }
    let path = root().join(TABLE);
    let text = std::fs::read_to_string(&path).with_context(|| TABLE)?;
    let (before, rest) = text.split_once(BEGIN).context("the table has no mark of its beginning")?;
    let (old, after) = rest.split_once(END).context("the table has no mark of its end")?;
    let mut constants = String::new();
    for choice in CHOICES {
        if options.only.as_ref().is_some_and(|only| !only.eq_ignore_ascii_case(choice.name)) {
            constants += kept(old, choice).with_context(|| format!("the table has no {}", choice.name))?;
            continue;
        }
        let mut rows = Vec::new();
        for (at, ranks) in options.ranks.iter().enumerate() {
            let most = if at + 1 == options.ranks.len() { usize::MAX } else { *ranks };
            let mut times = measure(choice, *ranks)?;
            for _ in 1..options.rounds {
                let again = measure(choice, *ranks)?;
                for (least, time) in times.iter_mut().flatten().zip(again.into_iter().flatten()) {
                    *least = least.min(time);
                }
            }
            rows.extend(rows_of(choice, most, &times));
        }
        let constant = written(choice, &rows);
        print!("{constant}");
        constants += &constant;
    }
    if options.dry_run {
        return Ok(());
    }
    std::fs::write(&path, format!("{before}{BEGIN}{constants}{END}{after}"))?;
    Cmd::new(cargo()).words("fmt -p mpi-coll").dir(root()).run(BUILD_LIMIT)
}

/// Microseconds by algorithm, in the order of the sizes.
fn measure(choice: &Choice, ranks: usize) -> anyhow::Result<Vec<Vec<f64>>> {
    let sizes = choice.sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut all = Vec::new();
    for (name, _) in choice.algorithms {
        let run = Cmd::new(target().join("release/mpiexec"))
            .env(format!("MPI_COLL_{}", choice.name), name)
            .words("-n")
            .arg(ranks.to_string())
            .arg(target().join("release/examples/bench"))
            .arg(format!("tune-{}", choice.name.to_lowercase()))
            .arg(&sizes);
        let shown = run.shown().to_owned();
        let outcome = run.capture(RUN_LIMIT)?;
        anyhow::ensure!(outcome.ok(), "{shown}: {}\n{}", outcome.end(), outcome.tail(6));
        let words = outcome.stdout.lines().filter_map(|line| line.strip_prefix("RESULT "));
        let pairs = words.filter_map(|line| line.split_once(' '));
        let times: BTreeMap<&str, f64> =
            pairs.filter_map(|(key, value)| Some((key, value.trim().parse().ok()?))).collect();
        let of = |size: &usize| times.get(format!("{size}").as_str()).copied();
        let row: Option<Vec<f64>> = choice.sizes.iter().map(of).collect();
        all.push(row.with_context(|| format!("{shown} did not tell every size"))?);
        eprintln!("{} {name}, {ranks} ranks", choice.name);
    }
    Ok(all)
}

/// The rows of one number of ranks: neighbouring sizes with one winner are one row, and the last has no end.
fn rows_of(choice: &Choice, ranks: usize, times: &[Vec<f64>]) -> Vec<Row> {
    let all: Vec<usize> = (0..times.len()).collect();
    let mut rows = Vec::new();
    for (sizes, winner) in winners(times, &all, 0..choice.sizes.len()) {
        let end = |at: usize| if at == choice.sizes.len() { usize::MAX } else { choice.sizes[at - 1] };
        let by = choice.algorithms[winner].1;
        rows.push((ranks, end(sizes.end), by));
        if by == STAGED {
            let steps: Vec<usize> = all.iter().copied().filter(|a| *a != winner).collect();
            let behind = winners(times, &steps, sizes);
            rows.extend(
                behind.into_iter().map(|(sizes, by)| (ranks, end(sizes.end), choice.algorithms[by].1)),
            );
        }
    }
    rows
}

/// Which of some algorithms is the fastest for which of some sizes.
fn winners(times: &[Vec<f64>], of: &[usize], sizes: Range<usize>) -> Vec<(Range<usize>, usize)> {
    let mut found: Vec<(Range<usize>, usize)> = Vec::new();
    for at in sizes {
        let best = of.iter().copied().min_by(|a, b| times[*a][at].total_cmp(&times[*b][at])).unwrap_or(0);
        match found.last_mut() {
            Some((held, by)) if *by == best || times[best][at] > WORTH_SWITCHING * times[*by][at] => {
                held.end = at + 1;
            }
            _ => found.push((at..at + 1, best)),
        }
    }
    found
}

fn written(choice: &Choice, rows: &[Row]) -> String {
    let number = |n: usize| match n {
        usize::MAX => String::from("ANY"),
        n if n % 1024 == 0 => format!("{} << 10", n / 1024),
        n => n.to_string(),
    };
    let mut text = format!("pub(crate) const {}: &[Row<{}>] = &[\n", choice.name, choice.rust);
    for (ranks, bytes, by) in rows {
        let ranks = if *ranks == usize::MAX { String::from("ANY") } else { ranks.to_string() };
        let _ = writeln!(text, "    row({ranks}, {}, {}::{by}),", number(*bytes), choice.rust);
    }
    text += "];\n";
    text
}

/// The constant of a collective as it stands in the table.
fn kept<'a>(old: &'a str, choice: &Choice) -> Option<&'a str> {
    let from = old.find(&format!("pub(crate) const {}:", choice.name))?;
    let len = old[from..].find("];\n")? + 3;
    Some(&old[from..from + len])
}

#[derive(clap::Args)]
pub struct ScaleOptions {
    /// Fail if the table in docs is not what the programs say, and write nothing
    #[arg(long)]
    check: bool,
}

impl ScaleOptions {
    pub fn for_ci() -> ScaleOptions {
        ScaleOptions { check: true }
    }
}

/// Writes the table of collectives of many ranks.
pub fn scale(options: &ScaleOptions) -> anyhow::Result<()> {
    let run = Cmd::new(cargo()).words("run --quiet -p mpi-coll --example scale").dir(root());
    let outcome = run.capture(BUILD_LIMIT)?;
    anyhow::ensure!(outcome.ok(), "the model fails: {}\n{}", outcome.end(), outcome.tail(6));
    let path = root().join(SCALE);
    if options.check {
        let known = std::fs::read_to_string(&path).with_context(|| SCALE)?;
        anyhow::ensure!(known == outcome.stdout, "{SCALE} is out of date: run `cargo xtask scale`");
        return Ok(());
    }
    std::fs::write(&path, &outcome.stdout).with_context(|| SCALE)?;
    println!("{SCALE} is written");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_sizes_with_one_winner_are_one_row() {
        let choice = &CHOICES[1];
        let sizes = choice.sizes.len();
        let (mut one, mut two) = (vec![1.0; sizes], vec![2.0; sizes]);
        // From the fourth size on the second is faster, once by too little.
        one[3..].fill(10.0);
        two[3] = 9.9;
        two[4..].fill(5.0);
        let rows = rows_of(choice, 2, &[one.clone(), two.clone(), vec![99.0; sizes]]);
        assert_eq!(rows, [(2, choice.sizes[3], "Binomial"), (2, usize::MAX, "Rabenseifner")]);
        // What serves few calls is followed by what serves the others.
        let staged = rows_of(choice, 2, &[one, two, vec![0.5; sizes]]);
        assert_eq!(staged[0], (2, usize::MAX, STAGED));
        assert_eq!(staged[1..], rows);
        let text = written(choice, &rows);
        assert_eq!(kept(&format!("x\n{text}y"), choice), Some(text.as_str()));
        assert!(text.contains("row(2, 16 << 10, Reduce::Binomial),"), "{text}");
    }
}
