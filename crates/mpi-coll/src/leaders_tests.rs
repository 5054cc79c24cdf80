//! Collectives by leaders against a serial model, over placements of ranks on nodes; and what crosses between nodes
//! against its formula.

use crate::algorithms::leaders::Leaders;
use crate::choose::Settings;
use crate::model_tests::{Case, Knobs, blocks, case, fold, knobs, layout, op, u32s, uneven, words};
use crate::nodes::Nodes;
use crate::program::{Builder, Built};
use crate::simulator::{Draw, crossing};
use proptest::prelude::*;

/// The node of each rank.
#[derive(Clone, Copy, Debug)]
enum Placement {
    /// As many on each of so many nodes, as far as that goes.
    Split(usize),
    /// One after the other on so many.
    RoundRobin(usize),
    /// Drawn from a seed.
    Any(u64),
}

impl Placement {
    fn numbers(self, size: usize) -> Vec<u64> {
        let on = |rank: usize| match self {
            Placement::Split(nodes) => rank * nodes / size,
            Placement::RoundRobin(nodes) => rank % nodes,
            Placement::Any(seed) => Draw(seed ^ (rank as u64) << 32).below(4),
        };
        (0..size).map(|rank| 100 - on(rank) as u64).collect()
    }
}

/// With operands that keep their order where the operation needs that.
fn placed() -> impl Strategy<Value = (Knobs, Nodes)> {
    let placement = prop_oneof![
        (2usize..5).prop_map(Placement::Split),
        (2usize..5).prop_map(Placement::RoundRobin),
        any::<u64>().prop_map(Placement::Any),
    ];
    (knobs(), placement).prop_filter_map("leaders have nothing to do", |(mut k, placement)| {
        let nodes = Nodes::new(&placement.numbers(k.size))?;
        k.commutes |= !nodes.in_order();
        // Some are long enough for what is done in parts.
        if k.seed % 4 == 0 {
            k.count *= 700;
        }
        Some((k, nodes))
    })
}

fn all(k: Knobs, count: usize) -> Vec<Vec<u8>> {
    (0..k.size).map(|r| words(r, count)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broadcasts((k, nodes) in placed()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let c = case(k.size, None, |b| {
            let data = b.scratch(k.count, &layout(k.holes ^ (b.rank % 2 == 1)))?;
            leaders.broadcast(b, data, k.root)?;
            let fill = if b.rank == k.root { words(9, k.count) } else { vec![] };
            Ok((vec![(data, fill)], vec![data]))
        });
        c.run(k.seed);
        for r in 0..k.size {
            prop_assert!(c.got(r) == words(9, k.count), "rank {}", r);
        }
    }

    #[test]
    fn reduces((k, nodes) in placed()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let op = op(k.commutes);
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(k.count, &layout(k.holes))?;
            let result = match (b.rank == k.root, k.in_place) {
                (true, true) => Some(own),
                (true, false) => Some(b.scratch(k.count, &layout(k.holes))?),
                _ => None,
            };
            leaders.reduce(b, own, result, k.root)?;
            Ok((vec![(own, words(b.rank, k.count))], result.into_iter().collect()))
        });
        c.run(k.seed);
        prop_assert!(c.got(k.root) == fold(&op, &all(k, k.count)));
    }

    #[test]
    fn allreduces((k, nodes) in placed()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let op = op(k.commutes);
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(k.count, &layout(k.holes))?;
            let result = if k.in_place { own } else { b.scratch(k.count, &layout(k.holes))? };
            leaders.allreduce(b, own, result)?;
            Ok((vec![(own, words(b.rank, k.count))], vec![result]))
        });
        c.run(k.seed);
        let expected = fold(&op, &all(k, k.count));
        for r in 0..k.size {
            prop_assert!(c.got(r) == expected, "rank {}", r);
        }
    }

    #[test]
    fn gathers_and_scatters((k, nodes) in placed(), back in any::<bool>()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let bytes = 4 * k.count;
        let c = case(k.size, None, |b| {
            let at_root = b.rank == k.root;
            let count = if at_root { k.count * k.size } else { 0 };
            let whole = b.scratch(count, &layout(k.holes))?;
            let many = if at_root { blocks(whole, k.size) } else { vec![] };
            let own = match at_root && k.in_place {
                true => None,
                false => Some(b.scratch(k.count, &u32s())?),
            };
            let mine = own.unwrap_or_else(|| many[b.rank]);
            if back {
                leaders.scatter(b, &many, own, k.root, bytes)?;
                let fill = many.iter().enumerate().map(|(i, d)| (*d, words(i, k.count))).collect();
                return Ok((fill, vec![mine]));
            }
            leaders.gather(b, own, &many, k.root, bytes)?;
            Ok((vec![(mine, words(b.rank, k.count))], vec![whole]))
        });
        c.run(k.seed);
        if back {
            for r in 0..k.size {
                prop_assert!(c.got(r) == words(r, k.count), "rank {}", r);
            }
        } else {
            prop_assert!(c.got(k.root) == all(k, k.count).concat());
        }
    }

    #[test]
    fn allgathers((k, nodes) in placed(), varying in any::<bool>()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let counts = if varying { uneven(k) } else { vec![k.count; k.size] };
        let c = case(k.size, None, |b| {
            let all = counts.iter().map(|n| b.scratch(*n, &layout(k.holes))).collect::<Built<Vec<_>>>()?;
            let own = if k.in_place { None } else { Some(b.scratch(counts[b.rank], &u32s())?) };
            leaders.allgather(b, own, &all)?;
            Ok((vec![(own.unwrap_or(all[b.rank]), words(b.rank, counts[b.rank]))], all))
        });
        c.run(k.seed);
        let expected: Vec<u8> = (0..k.size).flat_map(|r| words(r, counts[r])).collect();
        for r in 0..k.size {
            prop_assert!(c.got(r) == expected, "rank {}", r);
        }
    }

    #[test]
    fn alltoalls((k, nodes) in placed()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let count = k.count % 90;
        let c = case(k.size, None, |b| {
            let (me, n) = (b.rank, b.size);
            let from = (0..n).map(|_| b.scratch(count, &layout(k.holes))).collect::<Built<Vec<_>>>()?;
            let into = (0..n).map(|_| b.scratch(count, &u32s())).collect::<Built<Vec<_>>>()?;
            leaders.alltoall(b, &from, &into)?;
            Ok(((0..n).map(|i| (from[i], words(me * 20 + i, count))).collect(), into))
        });
        c.run(k.seed);
        for r in 0..k.size {
            let expected: Vec<u8> = (0..k.size).flat_map(|i| words(i * 20 + r, count)).collect();
            prop_assert!(c.got(r) == expected, "rank {}", r);
        }
    }

    #[test]
    fn reduce_scatters((k, nodes) in placed(), varying in any::<bool>()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let counts = if varying { uneven(k) } else { vec![k.count % 90; k.size] };
        let op = op(k.commutes);
        let total: usize = counts.iter().sum();
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(total, &layout(k.holes))?;
            let result = match k.in_place {
                true => own.part(0, counts[b.rank]),
                false => b.scratch(counts[b.rank], &layout(k.holes))?,
            };
            leaders.reduce_scatter(b, own, &counts, result)?;
            Ok((vec![(own, words(b.rank, total))], vec![result]))
        });
        c.run(k.seed);
        let sum = fold(&op, &all(k, total));
        let mut at = 0;
        for (r, count) in counts.iter().enumerate() {
            prop_assert!(c.got(r) == sum[at..at + 4 * count], "rank {}", r);
            at += 4 * count;
        }
    }

    #[test]
    fn scans((k, nodes) in placed().prop_filter("in order", |(_, nodes)| nodes.in_order()), exclusive in any::<bool>()) {
        let settings = Settings::default();
        let leaders = Leaders { nodes: &nodes, settings: &settings };
        let op = op(k.commutes);
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(k.count, &layout(k.holes))?;
            let result = if k.in_place { own } else { b.scratch(k.count, &layout(k.holes))? };
            leaders.scan(b, own, result, exclusive)?;
            Ok((vec![(own, words(b.rank, k.count))], vec![result]))
        });
        c.run(k.seed);
        let all = all(k, k.count);
        for r in usize::from(exclusive)..k.size {
            let upto = if exclusive { r } else { r + 1 };
            prop_assert!(c.got(r) == fold(&op, &all[..upto]), "rank {}", r);
        }
    }
}

/// Nobody leaves a barrier before all have entered: in every order of events the last to enter has done so.
#[test]
fn a_barrier_by_leaders_holds_everyone() {
    for n in 3..=17 {
        for nodes in [Placement::Split(2), Placement::RoundRobin(3), Placement::Any(n as u64)] {
            let Some(nodes) = Nodes::new(&nodes.numbers(n)) else { continue };
            let settings = Settings::default();
            let leaders = Leaders { nodes: &nodes, settings: &settings };
            for late in 0..n {
                // Rank `late` never enters: then no other may leave, so all are left stuck.
                let mut programs = Vec::new();
                for rank in 0..n {
                    let mut b = Builder::new(rank, n);
                    if rank != late {
                        leaders.barrier(&mut b).unwrap();
                    }
                    programs.push(b.finish());
                }
                let left = crate::simulator::ended(&programs, late as u64);
                assert!((0..n).all(|r| r == late || !left[r]), "{late} of {n}: {left:?}");
            }
            let c = case(n, None, |b| leaders.barrier(b).map(|()| (vec![], vec![])));
            c.run(7);
        }
    }
}

/// Messages and bytes between nodes, of `count` words on each of 12 ranks.
fn across(
    placement: Placement,
    count: usize,
    build: impl Fn(&mut Builder, &Leaders<'_>) -> Built<()>,
) -> (usize, usize) {
    let numbers = placement.numbers(12);
    let nodes = Nodes::new(&numbers).unwrap();
    let settings = Settings::default();
    let leaders = Leaders { nodes: &nodes, settings: &settings };
    let _ = count;
    let c: Case = case(12, Some(&mpi_datatype::Op::Sum), |b| build(b, &leaders).map(|()| (vec![], vec![])));
    crossing(&c.programs, &numbers)
}

#[test]
fn little_crosses_between_nodes() {
    for placement in [Placement::Split(3), Placement::RoundRobin(3), Placement::Split(4)] {
        let n = Nodes::new(&placement.numbers(12)).unwrap().count();
        let words = |b: &mut Builder, count: usize| b.scratch(count, &u32s());
        let log = n.next_power_of_two().ilog2() as usize;
        assert_eq!(across(placement, 0, |b, l| l.barrier(b)), (n * log, 0));
        // Once into every node.
        let broadcast = |count: usize| {
            across(placement, count, |b, l| {
                let d = words(b, count)?;
                l.broadcast(b, d, 5)
            })
        };
        assert_eq!(broadcast(100), (n - 1, 400 * (n - 1)));
        assert_eq!(broadcast(100_000).1, 400_000 * (n - 1));
        let reduce = across(placement, 100, |b, l| {
            let d = words(b, 100)?;
            let result = if b.rank == 5 { Some(words(b, 100)?) } else { None };
            l.reduce(b, d, result, 5)
        });
        assert_eq!(reduce, (n - 1, 400 * (n - 1)));
        // A vector by one leader of each node, or in parts by several: as many bytes.
        let allreduce = |count: usize| {
            across(placement, count, |b, l| {
                let (d, r) = (words(b, count)?, words(b, count)?);
                l.allreduce(b, d, r)
            })
        };
        let pow2: usize = 1 << n.ilog2();
        let rem = n - pow2;
        assert_eq!(allreduce(100).1, 400 * (pow2 * pow2.ilog2() as usize + 2 * rem));
        assert_eq!(allreduce(12_000).1, 48_000 * (2 * (pow2 - 1) + 2 * rem));
        let gather = across(placement, 10, |b, l| {
            let d = words(b, 10)?;
            let many = if b.rank == 5 { blocks(words(b, 120)?, 12) } else { vec![] };
            l.gather(b, Some(d), &many, 5, 40)
        });
        assert_eq!(gather, (n - 1, 40 * (12 - 12 / n)));
        let allgather = |count: usize| {
            across(placement, count, |b, l| {
                let d = words(b, count * 12)?;
                l.allgather(b, None, &blocks(d, 12))
            })
        };
        assert_eq!(allgather(10).1, 40 * 12 * (n - 1));
        // One message for every two nodes, each way.
        let alltoall = across(placement, 10, |b, l| {
            let (from, into) = (words(b, 120)?, words(b, 120)?);
            l.alltoall(b, &blocks(from, 12), &blocks(into, 12))
        });
        assert_eq!(alltoall, (n * (n - 1), 40 * 12 * (12 - 12 / n)));
        // Round the ring every node is entered once for each block but one.
        assert_eq!(allgather(10_000), (n * 11, 40_000 * n * 11));
    }
}
