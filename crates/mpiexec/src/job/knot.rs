//! Who keeps whom: from what blocked ranks wait for to the ranks that nobody can free.
//!
//! A rank that runs may do anything, so it can free whoever waits for it. A blocked one can go on
//! when one (`any`) or all of those it waits for can; who cannot, by that rule, is stuck for good,
//! and so are those that wait in a circle. A rank that has left MPI frees nobody.

use mpi_wire::waits::Wait;
use std::collections::BTreeMap;

/// What a rank is doing, as far as it concerns others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It runs, or nothing is known of it.
    Runs,
    /// It is blocked in these calls, one per thread.
    Waits(Vec<Wait>),
    /// It has called finalize, or has ended: it will send and receive nothing more.
    Left(String),
}

/// Why ranks cannot go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conclusion {
    /// A rank waits for one that has left, and how that one did.
    InVain(u32, u32, String),
    /// Each waits for the next, and the last for the first; those of them that poll, and may do something else too.
    Circle(Vec<u32>, Vec<u32>),
}

impl Conclusion {
    /// In a line; `name` is what a rank is called.
    pub fn line(&self, name: &dyn Fn(u32) -> String) -> String {
        match self {
            Conclusion::InVain(rank, peer, how) => {
                format!("{} waits in vain: {} {how}", name(*rank), name(*peer))
            }
            Conclusion::Circle(circle, pollers) => {
                let steps = circle
                    .iter()
                    .zip(circle.iter().cycle().skip(1))
                    .map(|(rank, next)| format!("{} waits for {}", name(*rank), name(*next)));
                let steps = steps.collect::<Vec<_>>().join(", ");
                match pollers[..] {
                    [] => format!("a circle: {steps}"),
                    [poller] => {
                        format!("a circle, if {}, which polls, does nothing else: {steps}", name(poller))
                    }
                    _ => {
                        let names: Vec<String> = pollers.iter().map(|rank| name(*rank)).collect();
                        format!("a circle, if {}, which poll, do nothing else: {steps}", names.join(" and "))
                    }
                }
            }
        }
    }
}

/// What follows from all ranks together: circles, and waiting for those who left.
pub fn conclusions(ranks: &BTreeMap<u32, Doing>) -> Vec<Conclusion> {
    let stuck = stuck(ranks);
    let mut all = in_vain(ranks, &stuck);
    all.extend(circles(ranks, &stuck));
    all
}

/// Ranks that no act of a running rank can free, directly or through others.
fn stuck(ranks: &BTreeMap<u32, Doing>) -> Vec<u32> {
    let mut free: BTreeMap<u32, bool> =
        ranks.iter().map(|(rank, doing)| (*rank, *doing == Doing::Runs)).collect();
    loop {
        // A peer that is not of this world may do anything.
        let can = |free: &BTreeMap<u32, bool>, peer: &u32| free.get(peer).copied().unwrap_or(true);
        let opens = |wait: &Wait| match (wait.peers.is_empty(), wait.any) {
            (true, _) => true,
            (false, true) => wait.peers.iter().any(|peer| can(&free, peer)),
            (false, false) => wait.peers.iter().all(|peer| can(&free, peer)),
        };
        let freed: Vec<u32> = ranks
            .iter()
            .filter(|(rank, doing)| {
                !free[rank]
                    && matches!(doing, Doing::Waits(waits) if waits.is_empty() || waits.iter().any(opens))
            })
            .map(|(rank, _)| *rank)
            .collect();
        if freed.is_empty() {
            break;
        }
        free.extend(freed.into_iter().map(|rank| (rank, true)));
    }
    let blocked = |rank: &u32| matches!(ranks.get(rank), Some(Doing::Waits(_)));
    free.into_iter().filter(|(rank, free)| !free && blocked(rank)).map(|(rank, _)| rank).collect()
}

/// Whom a stuck rank waits for, of those who keep it.
fn keepers(ranks: &BTreeMap<u32, Doing>, rank: u32) -> Vec<u32> {
    let Some(Doing::Waits(waits)) = ranks.get(&rank) else { return Vec::new() };
    let mut keepers: Vec<u32> = waits.iter().flat_map(|wait| wait.peers.iter().copied()).collect();
    keepers.sort_unstable();
    keepers.dedup();
    keepers
}

/// Stuck ranks that wait for one who left.
fn in_vain(ranks: &BTreeMap<u32, Doing>, stuck: &[u32]) -> Vec<Conclusion> {
    let mut lines = Vec::new();
    for rank in stuck {
        for peer in keepers(ranks, *rank) {
            if let Some(Doing::Left(how)) = ranks.get(&peer) {
                lines.push(Conclusion::InVain(*rank, peer, how.clone()));
            }
        }
    }
    lines
}

/// The circles among stuck ranks, each told once from its lowest rank.
fn circles(ranks: &BTreeMap<u32, Doing>, stuck: &[u32]) -> Vec<Conclusion> {
    let mut told: Vec<u32> = Vec::new();
    let mut lines = Vec::new();
    for start in stuck {
        if told.contains(start) {
            continue;
        }
        let Some(circle) = circle_from(ranks, stuck, *start) else { continue };
        if circle.iter().any(|rank| told.contains(rank)) {
            continue;
        }
        told.extend(&circle);
        let polls =
            |rank: &u32| matches!(ranks.get(rank), Some(Doing::Waits(w)) if w.iter().any(|w| w.polls));
        let pollers = circle.iter().copied().filter(polls).collect();
        lines.push(Conclusion::Circle(circle, pollers));
    }
    lines
}

/// The shortest way from `start` back to `start` over stuck ranks.
fn circle_from(ranks: &BTreeMap<u32, Doing>, stuck: &[u32], start: u32) -> Option<Vec<u32>> {
    let mut came_from: BTreeMap<u32, u32> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(rank) = queue.pop_front() {
        for next in keepers(ranks, rank) {
            if next == start {
                let mut way = vec![rank];
                while let Some(before) = came_from.get(way.last()?) {
                    way.push(*before);
                }
                way.reverse();
                return Some(way);
            }
            if stuck.contains(&next) && !came_from.contains_key(&next) {
                came_from.insert(next, rank);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `0>1` waits for one, `0>1&2` for both, `0>1|2` for either, `0!` has left, `0` runs.
    fn check(ranks: &str, expected: &[&str]) {
        let parse = |word: &str| {
            if let Some(rank) = word.strip_suffix('!') {
                return (rank.parse().unwrap(), Doing::Left(String::from("has left")));
            }
            let Some((rank, peers)) = word.split_once('>') else {
                return (word.parse().unwrap(), Doing::Runs);
            };
            let any = peers.contains('|');
            let peers = peers.split(['&', '|']).filter_map(|peer| peer.parse().ok()).collect();
            (rank.parse().unwrap(), Doing::Waits(vec![Wait { peers, any, ..Wait::default() }]))
        };
        let ranks = ranks.split_whitespace().map(parse).collect();
        let lines: Vec<String> =
            conclusions(&ranks).iter().map(|c| c.line(&|rank| format!("rank {rank}"))).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn circles_are_named_once() {
        check("0>1 1>0", &["a circle: rank 0 waits for rank 1, rank 1 waits for rank 0"]);
        check(
            "0>1 1>2 2>0 3>0",
            &["a circle: rank 0 waits for rank 1, rank 1 waits for rank 2, rank 2 waits for rank 0"],
        );
        check(
            "0>1 1>0 2>3 3>2",
            &[
                "a circle: rank 0 waits for rank 1, rank 1 waits for rank 0",
                "a circle: rank 2 waits for rank 3, rank 3 waits for rank 2",
            ],
        );
        check("0>0", &["a circle: rank 0 waits for rank 0"]);
    }

    #[test]
    fn whoever_can_be_freed_is_in_no_circle() {
        check("0>1 1>2 2", &[]);
        check("0>1|2 1>0 2", &[]);
        check("0>1&2 1>0 2", &["a circle: rank 0 waits for rank 1, rank 1 waits for rank 0"]);
        check("0>1|2 1>0 2>0", &["a circle: rank 0 waits for rank 1, rank 1 waits for rank 0"]);
        // Of a wait without peers, and of another world's, nothing is known.
        check("0> 1>0", &[]);
        check("0>17 1>0", &[]);
    }

    #[test]
    fn who_left_is_waited_for_in_vain() {
        check("0>1 1! 2>0", &["rank 0 waits in vain: rank 1 has left"]);
        check("0>1|2 1! 2", &[]);
    }
}
