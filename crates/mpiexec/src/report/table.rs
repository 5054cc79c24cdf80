//! The tables of `--stats`.

use super::gather::{Gathered, Rank};
use super::numbers::{bytes, columns, percent, size_class, time};
use mpi_record::ops::{ALGORITHMS, Op};
use std::collections::BTreeMap;

/// Up to so many ranks each operation has a row per rank.
const ROWS_PER_RANK_MAX: usize = 16;
/// More ranks than this are not listed one by one: those that computed longest and shortest are.
const RANKS_LISTED_MAX: usize = 64;
/// Length of the longest bar of a histogram, in characters.
const BAR: u64 = 40;

/// All tables, line by line.
pub fn lines(all: &Gathered) -> Vec<String> {
    let mut lines = vec![title(all)];
    if all.recorded().next().is_none() {
        lines.push(String::from("no rank has initialised MPI: there is nothing to show"));
        return lines;
    }
    lines.extend(columns(&ranks(all)));
    lines
        .push(String::from("operations (time, bytes; of the ranks those with the least and the most time):"));
    lines.extend(columns(&operations(all)));
    lines.extend(algorithms(all));
    lines.extend(sizes(all));
    lines
}

fn title(all: &Gathered) -> String {
    let ranks = all.ranks.len();
    let s = if ranks == 1 { "" } else { "s" };
    let what = format!("statistics of {ranks} rank{s} over {}", time(all.elapsed()));
    match &all.partial {
        Some(why) => format!("{what}; PARTIAL, gathered until the end: {why}"),
        None => what,
    }
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn ranks(all: &Gathered) -> Vec<Vec<String>> {
    let mut rows = vec![row(&[
        "rank",
        "time",
        "computing",
        "waiting",
        "copying",
        "matching",
        "sent",
        "bytes",
        "received",
        "bytes",
        "unexpected",
    ])];
    let mut listed: Vec<&Rank> = all.ranks.iter().collect();
    if listed.len() > RANKS_LISTED_MAX {
        // The ends of the order are what balances or does not.
        listed.sort_by_key(|rank| rank.computing());
        let rest = listed.len() - RANKS_LISTED_MAX / 2;
        listed.drain(RANKS_LISTED_MAX / 2..rest);
    }
    for rank in listed {
        let b = &rank.block;
        if b.pid == 0 {
            rows.push(row(&[&rank.name, "has not initialised MPI"]));
            continue;
        }
        let part = |of: u64| percent(of, b.elapsed);
        rows.push(vec![
            rank.name.clone(),
            time(b.elapsed),
            part(rank.computing()),
            part(b.waiting),
            part(b.copying),
            part(rank.matching()),
            b.sent.0.to_string(),
            bytes(rank.bytes_out()),
            b.received.0.to_string(),
            bytes(rank.bytes_in()),
            format!("{} ({})", b.unexpected.0, bytes(b.unexpected.1)),
        ]);
    }
    if all.ranks.len() > RANKS_LISTED_MAX {
        rows.push(vec![format!("({} more)", all.ranks.len() - RANKS_LISTED_MAX)]);
    }
    rows
}

fn operations(all: &Gathered) -> Vec<Vec<String>> {
    let mut rows = vec![row(&[
        "operation",
        "calls",
        "time",
        "of it waiting",
        "sent",
        "received",
        "longest",
        "least",
        "most",
    ])];
    let mut by_op: BTreeMap<Op, Vec<(&Rank, mpi_record::OpCounts)>> = BTreeMap::new();
    for rank in all.recorded() {
        for counts in &rank.block.ops {
            by_op.entry(counts.op).or_default().push((rank, *counts));
        }
    }
    for (op, ranks) in by_op {
        let sum = |of: fn(&mpi_record::OpCounts) -> u64| ranks.iter().map(|(_, c)| of(c)).sum::<u64>();
        let end = |found: Option<&(&Rank, mpi_record::OpCounts)>| {
            found.map_or_else(String::new, |(rank, c)| format!("{} ({})", time(c.time), rank.name))
        };
        rows.push(vec![
            op.name().to_owned(),
            calls(sum(|c| c.calls), sum(|c| c.open)),
            time(sum(|c| c.time)),
            percent(sum(|c| c.waiting), sum(|c| c.time)),
            bytes(sum(|c| c.sent)),
            bytes(sum(|c| c.received)),
            time(ranks.iter().map(|(_, c)| c.longest).max().unwrap_or(0)),
            end(ranks.iter().min_by_key(|(_, c)| c.time)),
            end(ranks.iter().max_by_key(|(_, c)| c.time)),
        ]);
        if all.ranks.len() > ROWS_PER_RANK_MAX || all.ranks.len() == 1 {
            continue;
        }
        for (rank, c) in &ranks {
            rows.push(vec![
                format!("  {}", rank.name),
                calls(c.calls, c.open),
                time(c.time),
                percent(c.waiting, c.time),
                bytes(c.sent),
                bytes(c.received),
                time(c.longest),
            ]);
        }
    }
    rows
}

/// Calls that have returned, and those that have not.
fn calls(returned: u64, open: u64) -> String {
    if open == 0 { returned.to_string() } else { format!("{returned} + {open} open") }
}

fn algorithms(all: &Gathered) -> Vec<String> {
    let mut counts: BTreeMap<Op, BTreeMap<usize, u64>> = BTreeMap::new();
    for (op, by, count) in all.recorded().flat_map(|rank| &rank.block.algorithms) {
        *counts.entry(*op).or_default().entry(*by).or_default() += count;
    }
    let line = |(op, by): (Op, BTreeMap<usize, u64>)| {
        let by = by.into_iter().map(|(by, n)| format!("{} {n}", ALGORITHMS.get(by).unwrap_or(&"other")));
        format!("algorithms of {}: {}", op.name(), by.collect::<Vec<_>>().join(", "))
    };
    counts.into_iter().map(line).collect()
}

fn sizes(all: &Gathered) -> Vec<String> {
    let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
    for rank in all.recorded() {
        for (class, count) in rank.block.sizes_sent.iter().enumerate().filter(|(_, count)| **count > 0) {
            *counts.entry(class).or_default() += count;
        }
    }
    let Some(&most) = counts.values().max() else { return Vec::new() };
    let bar =
        |count: u64| "#".repeat((u128::from(count) * u128::from(BAR)).div_ceil(u128::from(most)) as usize);
    let rows: Vec<Vec<String>> = counts
        .into_iter()
        .map(|(class, count)| vec![format!("{:<14} {}", size_class(class), bar(count)), count.to_string()])
        .collect();
    let mut lines = vec![String::from("messages sent by size:")];
    lines.extend(columns(&rows));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_record::{Block, OpCounts};

    pub fn rank(number: usize) -> Rank {
        let op = OpCounts {
            op: Op::named("send"),
            calls: 2,
            time: 3_000 * (number as u64 + 1),
            waiting: 1_500,
            sent: 2048,
            received: 0,
            longest: 2_000,
            open: number as u64,
        };
        let block = Block {
            pid: 1,
            elapsed: 1_000_000,
            inside: 400_000,
            waiting: 300_000,
            copying: 50_000,
            sent: (2, 2048),
            sizes_sent: vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
            algorithms: vec![(Op::named("allreduce"), 7, 3)],
            ops: vec![op],
            ..Block::default()
        };
        Rank { number, name: format!("rank {number}"), block, ..Rank::default() }
    }

    #[test]
    fn tables_have_what_was_recorded() {
        let all = Gathered { ranks: vec![rank(0), rank(1)], partial: None };
        let text = lines(&all).join("\n");
        for expected in [
            "statistics of 2 ranks over 1.0 ms",
            "rank 0  1.0 ms     60.0 %   30.0 %    5.0 %     5.0 %     2  2.0 KiB         0    0 B     0 (0 B)",
            "send       4 + 1 open  9.0 us         33.3 %  4.0 KiB       0 B   2.0 us  3.0 us (rank 0)  6.0 us (rank 1)",
            "  rank 1   2 + 1 open  6.0 us         25.0 %  2.0 KiB",
            "algorithms of allreduce: ring 6",
            "from 1.0 KiB   ########################################  4",
        ] {
            assert!(text.contains(expected), "no {expected:?} in\n{text}");
        }
        assert!(!text.contains("PARTIAL"));
    }

    #[test]
    fn what_is_partial_says_so_and_many_ranks_are_few_lines() {
        let partial = Some(String::from("rank 3 was killed"));
        let all = Gathered { ranks: (0..1000).map(rank).collect(), partial };
        let all = lines(&all);
        assert!(all[0].contains("PARTIAL") && all[0].ends_with("rank 3 was killed"));
        assert!(all.len() < 100, "{} lines", all.len());
        assert!(all.iter().any(|line| line == "(936 more)"));
    }

    #[test]
    fn nothing_is_nothing() {
        let ranks = vec![Rank { name: String::from("rank 0"), ..Rank::default() }];
        assert!(lines(&Gathered { ranks, partial: None })[1].starts_with("no rank has initialised"));
    }
}
