//! Every algorithm against a serial model, over ranks, roots, counts (zero too), layouts, in-place, orders of
//! events; and the number of messages against its formula.

#![allow(clippy::needless_range_loop, reason = "ranks are indices here, of several tables at once")]

use crate::algorithms::{
    allgather, allreduce, alltoall, barrier, broadcast, gather, reduce, reduce_scatter, scan, scatter,
};
use crate::choose::*;
use crate::program::{Builder, Built, Data, Program};
use crate::simulator::{Draw, Traffic, packed, run};
use mpi_datatype::{Datatype, Op, Primitive, UserOp};
use proptest::prelude::*;
use std::sync::Arc;

pub(crate) fn u32s() -> Datatype {
    Datatype::predefined(Primitive::U32)
}

/// A layout with holes whose elements are one `u32`.
fn sparse() -> Datatype {
    Datatype::resized(&u32s(), -4, 12).unwrap()
}

pub(crate) fn layout(holes: bool) -> Datatype {
    if holes { sparse() } else { u32s() }
}

/// Composition of `x -> a x + b` over bytes, in 16-bit halves: associative, does not commute.
pub(crate) fn compose() -> Op {
    let f = |input: &[u8], inout: &mut [u8]| {
        let half = |b: &[u8], i: usize| u16::from_le_bytes([b[i], b[i + 1]]);
        for i in (0..inout.len()).step_by(4) {
            let (a, b) = (half(input, i), half(input, i + 2));
            let (c, d) = (half(inout, i), half(inout, i + 2));
            // First the left map, then the right one.
            let (e, f) = (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d));
            inout[i..i + 2].copy_from_slice(&e.to_le_bytes());
            inout[i + 2..i + 4].copy_from_slice(&f.to_le_bytes());
        }
    };
    Op::User(Arc::new(UserOp::on_packed(Box::new(f), false)))
}

pub(crate) fn op(commutes: bool) -> Op {
    if commutes { Op::Sum } else { compose() }
}

/// `inputs[0] op inputs[1] op …`, by the definition.
pub(crate) fn fold(op: &Op, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut sum = inputs[0].clone();
    for next in &inputs[1..] {
        let (mut b, dt, count) = (Builder::new(0, 1).with_op(op), u32s(), next.len() / 4);
        let (l, r) = (b.scratch(count, &dt).unwrap(), b.scratch(count, &dt).unwrap());
        b.reduce(l, r);
        let p = b.finish();
        p.room(l).unpack(0, &sum);
        p.room(r).unpack(0, next);
        p.steps.iter().for_each(|step| p.local(*step).unwrap());
        sum = packed(&p, r);
    }
    sum
}

/// Data of rank `r`: `count` distinct words.
pub(crate) fn words(r: usize, count: usize) -> Vec<u8> {
    (0..count).flat_map(|i| ((r * 7919 + i * 31 + 3) as u32 | 1).to_le_bytes()).collect()
}

/// Builds a program per rank; `build` gets the rank and returns what to fill and what to look at.
pub(crate) struct Case {
    pub(crate) programs: Vec<Program>,
    looks: Vec<Vec<Data>>,
}

pub(crate) type Wired = (Vec<(Data, Vec<u8>)>, Vec<Data>);

pub(crate) fn case(size: usize, op: Option<&Op>, build: impl Fn(&mut Builder) -> Built<Wired>) -> Case {
    let (mut programs, mut looks) = (Vec::new(), Vec::new());
    for rank in 0..size {
        let mut b = Builder::new(rank, size);
        if let Some(op) = op {
            b = b.with_op(op);
        }
        let (fill, look) = build(&mut b).unwrap();
        let program = b.finish();
        fill.iter().for_each(|(data, bytes)| assert_eq!(program.room(*data).unpack(0, bytes), bytes.len()));
        programs.push(program);
        looks.push(look);
    }
    Case { programs, looks }
}

impl Case {
    pub(crate) fn run(&self, seed: u64) -> Traffic {
        run(&self.programs, seed)
    }
    pub(crate) fn got(&self, rank: usize) -> Vec<u8> {
        self.looks[rank].iter().flat_map(|d| packed(&self.programs[rank], *d)).collect()
    }
}

/// A buffer with holes or without, and in-place or not: the knobs of most cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knobs {
    pub(crate) size: usize,
    pub(crate) root: usize,
    pub(crate) count: usize,
    pub(crate) holes: bool,
    pub(crate) in_place: bool,
    pub(crate) commutes: bool,
    pub(crate) seed: u64,
}

pub(crate) fn knobs() -> impl Strategy<Value = Knobs> {
    let count = prop_oneof![2 => 0usize..4, 3 => 4usize..70];
    (1usize..18, 0usize..17, count, any::<bool>(), any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
        |(size, root, count, holes, in_place, commutes, seed)| Knobs {
            size,
            root: root % size,
            count,
            holes,
            in_place,
            commutes,
            seed,
        },
    )
}

fn pick<T: Copy>(all: &[(&str, T)], seed: u64) -> T {
    all[Draw(seed ^ 0x55).below(all.len())].1
}

/// `n` equal blocks of one buffer.
pub(crate) fn blocks(whole: Data, n: usize) -> Vec<Data> {
    let len = whole.count / n;
    (0..n).map(|i| whole.part(i * len, len)).collect()
}

/// Counts per rank, zeros among them.
pub(crate) fn uneven(k: Knobs) -> Vec<usize> {
    let mut draw = Draw(k.seed ^ 0xABC);
    (0..k.size).map(|_| draw.below(k.count + 1).saturating_sub(k.count / 3)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broadcasts(k in knobs()) {
        let by = pick(Broadcast::ALL, k.seed);
        let c = case(k.size, None, |b| {
            let data = b.scratch(k.count, &layout(k.holes ^ (b.rank % 2 == 1)))?;
            broadcast::broadcast(b, data, k.root, by)?;
            let fill = if b.rank == k.root { words(9, k.count) } else { vec![] };
            Ok((vec![(data, fill)], vec![data]))
        });
        c.run(k.seed);
        for r in 0..k.size {
            prop_assert_eq!(c.got(r), words(9, k.count), "rank {} by {:?}", r, by);
        }
    }

    #[test]
    fn reduces(k in knobs()) {
        let by = Settings { reduce: Some(pick(Reduce::ALL, k.seed)), ..Settings::default() }
            .choose_reduce(k.size, k.count, 4 * k.count, k.commutes);
        let op = op(k.commutes);
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(k.count, &layout(k.holes))?;
            let result = match (b.rank == k.root, k.in_place) {
                (true, true) => Some(own),
                (true, false) => Some(b.scratch(k.count, &layout(k.holes))?),
                _ => None,
            };
            reduce::reduce(b, own, result, k.root, by)?;
            Ok((vec![(own, words(b.rank, k.count))], result.into_iter().collect()))
        });
        c.run(k.seed);
        let all: Vec<_> = (0..k.size).map(|r| words(r, k.count)).collect();
        prop_assert_eq!(c.got(k.root), fold(&op, &all), "{:?}", by);
    }

    #[test]
    fn allreduces(k in knobs()) {
        let by = Settings { allreduce: Some(pick(Allreduce::ALL, k.seed)), ..Settings::default() }
            .choose_allreduce(k.size, k.count, 4 * k.count, k.commutes);
        let op = op(k.commutes);
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(k.count, &layout(k.holes))?;
            let result = if k.in_place { own } else { b.scratch(k.count, &layout(k.holes))? };
            allreduce::allreduce(b, own, result, by)?;
            Ok((vec![(own, words(b.rank, k.count))], vec![result]))
        });
        c.run(k.seed);
        let all: Vec<_> = (0..k.size).map(|r| words(r, k.count)).collect();
        let expected = fold(&op, &all);
        for r in 0..k.size {
            prop_assert_eq!(c.got(r), expected.clone(), "rank {} by {:?}", r, by);
        }
    }

    #[test]
    fn gathers(k in knobs(), varying in any::<bool>()) {
        let counts = if varying { uneven(k) } else { vec![k.count; k.size] };
        let by = if varying { Gather::Linear } else { pick(Gather::ALL, k.seed) };
        let c = case(k.size, None, |b| {
            let at_root = b.rank == k.root;
            let into = if at_root {
                counts.iter().map(|n| b.scratch(*n, &layout(k.holes))).collect::<Built<Vec<_>>>()?
            } else { vec![] };
            let mut fill = vec![];
            let own = if at_root && k.in_place {
                fill.push((into[b.rank], words(b.rank, counts[b.rank])));
                None
            } else {
                let own = b.scratch(counts[b.rank], &u32s())?;
                fill.push((own, words(b.rank, counts[b.rank])));
                Some(own)
            };
            gather::gather(b, own, &into, k.root, by)?;
            Ok((fill, into))
        });
        c.run(k.seed);
        let expected: Vec<u8> = (0..k.size).flat_map(|r| words(r, counts[r])).collect();
        prop_assert_eq!(c.got(k.root), expected, "{:?}", by);
    }

    #[test]
    fn scatters(k in knobs(), varying in any::<bool>()) {
        let counts = if varying { uneven(k) } else { vec![k.count; k.size] };
        let by = if varying { Scatter::Linear } else { pick(Scatter::ALL, k.seed) };
        let c = case(k.size, None, |b| {
            let at_root = b.rank == k.root;
            let from = if at_root {
                counts.iter().map(|n| b.scratch(*n, &layout(k.holes))).collect::<Built<Vec<_>>>()?
            } else { vec![] };
            let own = if at_root && k.in_place { None } else { Some(b.scratch(counts[b.rank], &u32s())?) };
            scatter::scatter(b, &from, own, k.root, by)?;
            let fill = from.iter().enumerate().map(|(i, d)| (*d, words(i, counts[i]))).collect();
            Ok((fill, vec![own.unwrap_or_else(|| from[b.rank])]))
        });
        c.run(k.seed);
        for r in 0..k.size {
            prop_assert_eq!(c.got(r), words(r, counts[r]), "rank {} by {:?}", r, by);
        }
    }

    #[test]
    fn allgathers(k in knobs(), varying in any::<bool>()) {
        let counts = if varying { uneven(k) } else { vec![k.count; k.size] };
        let by = Settings { allgather: Some(pick(Allgather::ALL, k.seed)), ..Settings::default() }
            .choose_allgather(k.size, 4 * k.count * k.size, !varying);
        let c = case(k.size, None, |b| {
            let whole = if varying { None } else { Some(b.scratch(k.count * k.size, &layout(k.holes))?) };
            let all = match whole {
                Some(whole) => blocks(whole, k.size),
                None => counts.iter().map(|n| b.scratch(*n, &layout(k.holes))).collect::<Built<Vec<_>>>()?,
            };
            let own = if k.in_place { None } else { Some(b.scratch(counts[b.rank], &u32s())?) };
            allgather::allgather(b, own, &all, whole, by)?;
            Ok((vec![(own.unwrap_or(all[b.rank]), words(b.rank, counts[b.rank]))], all))
        });
        c.run(k.seed);
        let expected: Vec<u8> = (0..k.size).flat_map(|r| words(r, counts[r])).collect();
        for r in 0..k.size {
            prop_assert_eq!(c.got(r), expected.clone(), "rank {} by {:?}", r, by);
        }
    }

    #[test]
    fn alltoalls(k in knobs(), varying in any::<bool>()) {
        let by = Settings { alltoall: Some(pick(Alltoall::ALL, k.seed)), ..Settings::default() }
            .choose_alltoall(k.size, 4 * k.count, !varying);
        let len = |from: usize, to: usize| if varying { (from * 5 + to * 3 + k.count) % 7 } else { k.count };
        let c = case(k.size, None, |b| {
            let (me, n) = (b.rank, b.size);
            let from = (0..n).map(|i| b.scratch(len(me, i), &layout(k.holes))).collect::<Built<Vec<_>>>()?;
            let into = (0..n).map(|i| b.scratch(len(i, me), &u32s())).collect::<Built<Vec<_>>>()?;
            alltoall::alltoall(b, &from, &into, by)?;
            let fill = (0..n).map(|i| (from[i], words(me * 20 + i, len(me, i)))).collect();
            Ok((fill, into))
        });
        c.run(k.seed);
        for r in 0..k.size {
            let expected: Vec<u8> = (0..k.size).flat_map(|i| words(i * 20 + r, len(i, r))).collect();
            prop_assert_eq!(c.got(r), expected, "rank {} by {:?}", r, by);
        }
    }

    #[test]
    fn reduce_scatters(k in knobs(), varying in any::<bool>()) {
        let counts = if varying { uneven(k) } else { vec![k.count % 9; k.size] };
        let by = Settings { reduce_scatter: Some(pick(ReduceScatter::ALL, k.seed)), ..Settings::default() }
            .choose_reduce_scatter(k.size, 0, k.commutes);
        let op = op(k.commutes);
        let total: usize = counts.iter().sum();
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(total, &layout(k.holes))?;
            let result = if k.in_place {
                own.part(0, counts[b.rank])
            } else {
                b.scratch(counts[b.rank], &layout(k.holes))?
            };
            reduce_scatter::reduce_scatter(b, own, &counts, result, by)?;
            Ok((vec![(own, words(b.rank, total))], vec![result]))
        });
        c.run(k.seed);
        let all: Vec<_> = (0..k.size).map(|r| words(r, total)).collect();
        let sum = fold(&op, &all);
        let mut at = 0;
        for r in 0..k.size {
            prop_assert_eq!(c.got(r), sum[at..at + 4 * counts[r]].to_vec(), "rank {} by {:?}", r, by);
            at += 4 * counts[r];
        }
    }

    #[test]
    fn scans(k in knobs(), exclusive in any::<bool>()) {
        let op = op(k.commutes);
        let c = case(k.size, Some(&op), |b| {
            let own = b.scratch(k.count, &layout(k.holes))?;
            let result = if k.in_place { own } else { b.scratch(k.count, &layout(k.holes))? };
            if exclusive { scan::exscan(b, own, result)? } else { scan::scan(b, own, result)? }
            Ok((vec![(own, words(b.rank, k.count))], vec![result]))
        });
        c.run(k.seed);
        let all: Vec<_> = (0..k.size).map(|r| words(r, k.count)).collect();
        for r in usize::from(exclusive)..k.size {
            let upto = if exclusive { r } else { r + 1 };
            prop_assert_eq!(c.got(r), fold(&op, &all[..upto]), "rank {}", r);
        }
    }
}

/// Messages of a program that moves `count` words, by formula.
fn traffic(size: usize, count: usize, build: impl Fn(&mut Builder, Data) -> Built<()>) -> Traffic {
    let c = case(size, Some(&Op::Sum), |b| {
        let data = b.scratch(count, &u32s())?;
        build(b, data)?;
        Ok((vec![], vec![]))
    });
    c.run(1)
}

#[test]
fn message_counts_follow_the_formulas() {
    for n in 1..=17usize {
        let (log, pow2) = (n.next_power_of_two().ilog2() as usize, 1 << n.ilog2());
        let (rem, rounds) = (n - pow2, pow2.ilog2() as usize);
        let barrier = traffic(n, 0, |b, _| barrier::dissemination(b));
        assert_eq!(barrier, Traffic { messages: n * log, bytes: 0 });

        let tree = traffic(n, 100, |b, d| broadcast::broadcast(b, d, n / 2, Broadcast::Binomial));
        assert_eq!(tree, Traffic { messages: n - 1, bytes: 400 * (n - 1) });
        let chain = traffic(n, 100_000, |b, d| broadcast::broadcast(b, d, n / 2, Broadcast::Pipelined));
        assert_eq!(chain, Traffic { messages: 4 * (n - 1), bytes: 400_000 * (n - 1) });
        let spread = traffic(n, 100, |b, d| broadcast::broadcast(b, d, 0, Broadcast::ScatterAllgather));
        assert_eq!(spread.messages, if n == 1 { 0 } else { (n - 1) + n * (n - 1) });

        let doubling = traffic(n, 100, |b, d| allreduce::allreduce(b, d, d, Allreduce::Doubling));
        let messages = pow2 * rounds + 2 * rem;
        assert_eq!(doubling, Traffic { messages, bytes: 400 * messages });
        let halves = traffic(n, 1024, |b, d| allreduce::allreduce(b, d, d, Allreduce::Rabenseifner));
        assert_eq!(halves.messages, 2 * pow2 * rounds + 2 * rem);
        assert_eq!(halves.bytes, 4096 * (2 * (pow2 - 1) + 2 * rem));
        let ring = traffic(n, 17 * n, |b, d| allreduce::allreduce(b, d, d, Allreduce::Ring));
        assert_eq!(ring, Traffic { messages: 2 * n * (n - 1), bytes: 2 * (n - 1) * 68 * n });

        let gather = |by| {
            traffic(n, 10, |b, d| {
                let into = if b.rank == 0 { vec![d; n] } else { vec![] };
                gather::gather(b, Some(d), &into, 0, by)
            })
        };
        assert_eq!(gather(Gather::Binomial).messages, n - 1);
        assert_eq!(gather(Gather::Linear), Traffic { messages: n - 1, bytes: 40 * (n - 1) });

        let around =
            |by| traffic(n, 10 * n, |b, d| allgather::allgather(b, None, &blocks(d, n), Some(d), by));
        assert_eq!(around(Allgather::Ring), Traffic { messages: n * (n - 1), bytes: 40 * n * (n - 1) });
        assert_eq!(around(Allgather::Bruck), Traffic { messages: n * log, bytes: 40 * n * (n - 1) });
        if n.is_power_of_two() {
            assert_eq!(around(Allgather::Doubling), Traffic { messages: n * log, bytes: 40 * n * (n - 1) });
        }

        let all = |by| {
            traffic(n, 10 * n, |b, d| {
                let into = b.like(d)?;
                alltoall::alltoall(b, &blocks(d, n), &blocks(into, n), by)
            })
        };
        assert_eq!(all(Alltoall::Pairwise), Traffic { messages: n * (n - 1), bytes: 40 * n * (n - 1) });
        assert_eq!(all(Alltoall::Scattered), Traffic { messages: n * (n - 1), bytes: 40 * n * (n - 1) });
        assert_eq!(all(Alltoall::Bruck).messages, n * log);
    }
}
