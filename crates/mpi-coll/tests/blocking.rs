//! Blocking collectives, a thread per rank, by turns with the immediate form. All ranks call the same one: the standard
//! does not let them match (MPI-4.1 §6.12), and what a team agrees on, it agrees on in blocking calls.

mod world;

use mpi_btl_sim::{Rng, SimConfig};
use mpi_coll::InPlaceOr::{Buf, InPlace};
use mpi_coll::*;
use mpi_datatype::{Datatype, Op, Primitive, RecvBlocks, RecvBuf, SendBuf, UserOp};
use mpi_p2p::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use world::*;

/// Runs `body` as every rank, while the network's clock is moved.
fn ranks(n: usize, seed: u64, config: SimConfig, body: impl Fn(&Engine, &Team) + Sync) {
    ranks_with(n, seed, config, &Settings::default(), body);
}

fn ranks_with(
    n: usize,
    seed: u64,
    config: SimConfig,
    settings: &Settings,
    body: impl Fn(&Engine, &Team) + Sync,
) {
    const MAX_IDLE_TURNS: usize = 200_000_000;
    let w = World::new(n, seed, config, settings);
    let done = AtomicUsize::new(0);
    struct Count<'a>(&'a AtomicUsize);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    std::thread::scope(|scope| {
        for r in 0..n {
            let (w, body, done) = (&w, &body, &done);
            scope.spawn(move || {
                let _count = Count(done);
                body(&w.engines[r], &w.teams[r]);
                // The last message to others may still be on its way out.
                w.engines[r].progress();
            });
        }
        for turn in 0.. {
            if done.load(Ordering::SeqCst) == n {
                break;
            }
            if turn == MAX_IDLE_TURNS {
                eprintln!("stuck");
                std::process::abort();
            }
            w.net.advance();
            std::thread::yield_now();
        }
    });
}

/// The left operand wins unless it is zero: associative, and tells the order of operands.
fn first_set() -> Op {
    let f = |input: &[u8], inout: &mut [u8]| {
        for (a, b) in input.chunks(4).zip(inout.chunks_mut(4)) {
            if a != [0; 4] {
                b.copy_from_slice(a);
            }
        }
    };
    Op::User(Arc::new(UserOp::on_packed(Box::new(f), false)))
}

fn body(e: &Engine, t: &Team) {
    let (n, r) = (t.size(), t.rank());
    let wait = |id: Result<_, _>| e.wait(id.unwrap()).unwrap();
    for round in 0..4 {
        if round % 3 == 0 {
            wait(ibarrier(e, t));
        } else {
            barrier(e, t).unwrap();
        }
        for root in 0..n {
            for count in [1, 40, 9000] {
                let mut data = if r == root { values(7, count) } else { vec![0; count] };
                if round % 2 == 0 {
                    wait(ibroadcast(e, t, recv(&mut data), root));
                } else {
                    broadcast(e, t, recv(&mut data), root).unwrap();
                }
                assert_eq!(data, values(7, count));
            }
        }
        for count in [0, 1, 2, 100, 700, 5000] {
            let own = values(r, count);
            let mut all = vec![0; count];
            if round % 2 == 0 {
                wait(iallreduce(e, t, Buf(send(&own)), recv(&mut all), &Op::Sum));
            } else {
                allreduce(e, t, Buf(send(&own)), recv(&mut all), &Op::Sum).unwrap();
            }
            let expected = |i: usize| (0..n).fold(0u32, |s, k| s.wrapping_add(values(k, count)[i]));
            assert!((0..count).step_by(17).all(|i| all[i] == expected(i)));

            // Rank r contributes only from element r on: element i is that of the first rank.
            let mut all = vec![0; count];
            if let Some(at) = all.get_mut(r) {
                *at = 100 + r as u32;
            }
            if let Some(at) = all.last_mut() {
                *at = 100 + r as u32;
            }
            allreduce(e, t, InPlace, recv(&mut all), &first_set()).unwrap();
            for (i, got) in all.iter().enumerate() {
                let expected = if i + 1 == count {
                    100
                } else if i < n {
                    100 + i as u32
                } else {
                    0
                };
                assert_eq!(*got, expected, "element {i} of {count} on rank {r} of {n}");
            }
        }
    }
}

/// The rooted ones and the exchanges of blocks, in place too.
fn blocks(e: &Engine, t: &Team) {
    let (n, r) = (t.size(), t.rank());
    let wait = |id: Result<_, _>| e.wait(id.unwrap()).unwrap();
    for round in 0..2 {
        let immediate = round % 2 == 0;
        for (count, in_place) in [(0, false), (1, false), (1, true), (30, true), (900, false), (3000, true)] {
            let own = values(r, count);
            let everyone: Vec<u32> = (0..n).flat_map(|k| values(k, count)).collect();
            let total: Vec<u32> =
                (0..count).map(|i| (0..n).fold(0u32, |s, k| s.wrapping_add(values(k, count)[i]))).collect();
            for root in 0..n {
                let at_root = r == root;
                let from = || if at_root && in_place { InPlace } else { Buf(send(&own)) };

                let mut sum = if at_root && in_place { own.clone() } else { vec![0; count] };
                let into = at_root.then(|| recv(&mut sum));
                if immediate {
                    wait(ireduce(e, t, from(), into, &Op::Sum, root));
                } else {
                    reduce(e, t, from(), into, &Op::Sum, root).unwrap();
                }
                assert!(!at_root || sum == total, "reduce of {count} to {root} of {n}");

                let mut all = vec![0; if at_root { count * n } else { 0 }];
                if at_root && in_place {
                    all[r * count..][..count].copy_from_slice(&own);
                }
                let into = at_root.then(|| recv(&mut all));
                if immediate {
                    wait(igather(e, t, from(), into, root));
                } else {
                    gather(e, t, from(), into, root).unwrap();
                }
                assert!(!at_root || all == everyone, "gather of {count} to {root} of {n}");

                let mut mine = vec![0; count];
                let into = if at_root && in_place { InPlace } else { Buf(recv(&mut mine)) };
                if immediate {
                    wait(iscatter(e, t, at_root.then(|| send(&everyone)), into, root));
                } else {
                    scatter(e, t, at_root.then(|| send(&everyone)), into, root).unwrap();
                }
                assert!((at_root && in_place) || mine == own, "scatter of {count} from {root} of {n}");
            }

            let mut all = vec![0; count * n];
            all[r * count..][..count].copy_from_slice(&own);
            let from = if in_place { InPlace } else { Buf(send(&own)) };
            if immediate {
                wait(iallgather(e, t, from, recv(&mut all)));
            } else {
                allgather(e, t, from, recv(&mut all)).unwrap();
            }
            assert_eq!(all, everyone, "allgather of {count} on {n}");

            // Rank r sends block k of its row to rank k.
            let row = values(r, count * n);
            let mut got = if in_place { row.clone() } else { vec![0; count * n] };
            let from = if in_place { InPlace } else { Buf(send(&row)) };
            if immediate {
                wait(ialltoall(e, t, from, recv(&mut got)));
            } else {
                alltoall(e, t, from, recv(&mut got)).unwrap();
            }
            let expected: Vec<u32> =
                (0..n).flat_map(|k| values(k, count * n)[r * count..][..count].to_vec()).collect();
            assert_eq!(got, expected, "alltoall of {count} on {n}");
        }
    }
}

#[test]
fn blocks_blocking_and_immediate() {
    for n in 1..=6 {
        ranks(n, n as u64, SimConfig::calm(n), blocks);
    }
    for (seed, n) in [(5, 2), (6, 4), (7, 5)] {
        ranks(n, seed, SimConfig::rough(n), blocks);
    }
}

#[test]
fn blocking_and_immediate() {
    for n in 1..=7 {
        ranks(n, n as u64, SimConfig::calm(n), body);
    }
}

#[test]
fn on_a_rough_network() {
    for (seed, n) in [(1, 2), (2, 3), (3, 4), (4, 6)] {
        ranks(n, seed, SimConfig::rough(n), body);
    }
}

/// Which board a team has is agreed on after some calls; before and after, and whatever comes between, the results
/// are those of messages, to the last bit.
#[test]
fn boards_give_what_messages_give() {
    for n in [1, 2, 3, 4, 5, 7, 8, 16] {
        for seed in 0..2 {
            ranks(n, seed, SimConfig { boards: true, ..SimConfig::calm(n) }, |e, t| on_boards(e, t, seed));
        }
    }
}

fn on_boards(e: &Engine, t: &Team, seed: u64) {
    let (n, r) = (t.size(), t.rank());
    let wait = |id: Result<_, _>| e.wait(id.unwrap()).unwrap();
    let doubles = Datatype::predefined(Primitive::F64);
    // The same choices on all ranks.
    let mut rng = Rng::new(seed);
    for round in 0..120 {
        let count = 1 + rng.below(if round % 8 == 0 { 70 } else { 6 }) as usize;
        match rng.below(5) {
            0 => barrier(e, t).unwrap(),
            1 => {
                let mut own: Vec<u8> = (0..count)
                    .flat_map(|i| (1.0 / (1.0 + (r * 31 + i * 7 + round) as f64)).to_ne_bytes())
                    .collect();
                let (operand, mut messages) = (own.clone(), vec![0_u8; own.len()]);
                let in_place = rng.below(2) == 0;
                // SAFETY: `count` doubles each, outlived by the operations.
                let (send, into, by_messages) = unsafe {
                    (
                        SendBuf::new(operand.as_ptr(), count, &doubles),
                        RecvBuf::new(own.as_mut_ptr(), count, &doubles),
                        RecvBuf::new(messages.as_mut_ptr(), count, &doubles),
                    )
                };
                wait(iallreduce(e, t, Buf(send), by_messages, &Op::Sum));
                let from = if in_place { InPlace } else { Buf(send) };
                allreduce(e, t, from, into, &Op::Sum).unwrap();
                assert!(own == messages, "allreduce of {count} on {r} of {n}");
            }
            2 => {
                let own = values(r, count);
                let mut all = vec![0; n * count];
                allgather(e, t, Buf(send(&own)), recv(&mut all)).unwrap();
                let expected: Vec<u32> = (0..n).flat_map(|k| values(k, count)).collect();
                assert!(all == expected, "allgather of {count} on {r} of {n}");
            }
            3 => {
                let own = values(r, n * count);
                let mut all = vec![0; n * count];
                alltoall(e, t, Buf(send(&own)), recv(&mut all)).unwrap();
                let block = |k: usize| values(k, n * count)[r * count..(r + 1) * count].to_vec();
                assert!(
                    all == (0..n).flat_map(block).collect::<Vec<_>>(),
                    "alltoall of {count} on {r} of {n}"
                );
            }
            _ => {
                let root = rng.below(n as u64) as usize;
                let mut data = if r == root { values(7, count) } else { vec![0; count] };
                broadcast(e, t, recv(&mut data), root).unwrap();
                assert!(data == values(7, count), "broadcast of {count} on {r} of {n}");
            }
        }
    }
}

/// Everything that goes through stages and feeds, in any order, between barriers and immediate collectives: of many lengths,
/// from and to any root, in place too; reductions to the last bit what messages give.
#[test]
fn stages_give_what_messages_give() {
    let mut settings = Settings::default();
    for name in ["BROADCAST", "REDUCE", "ALLREDUCE", "ALLGATHER", "ALLTOALL"] {
        settings.set(name, "staged").unwrap();
    }
    for n in [2, 3, 5, 8] {
        for seed in 0..3 {
            let config = SimConfig { boards: true, ..SimConfig::calm(n) };
            ranks_with(n, seed, config, &settings, |e, t| on_stages(e, t, seed));
        }
    }
}

fn on_stages(e: &Engine, t: &Team, seed: u64) {
    let (n, r) = (t.size(), t.rank());
    let wait = |id: Result<_, _>| e.wait(id.unwrap()).unwrap();
    let doubles = Datatype::predefined(Primitive::F64);
    let mut rng = Rng::new(seed);
    for round in 0..150 {
        let count = match rng.below(4) {
            0 => rng.below(7) as usize,
            3 => 300 + rng.below(500) as usize,
            _ => 20 + rng.below(90) as usize,
        };
        let (root, in_place) = (rng.below(n as u64) as usize, rng.chance(500));
        match rng.below(8) {
            0 => barrier(e, t).unwrap(),
            1 => {
                let own = values(r, count);
                let mut all = vec![0; n * count];
                all[r * count..][..count].copy_from_slice(&own);
                let from = if in_place { InPlace } else { Buf(send(&own)) };
                allgather(e, t, from, recv(&mut all)).unwrap();
                assert!(all == (0..n).flat_map(|k| values(k, count)).collect::<Vec<_>>(), "round {round}");
            }
            2 => {
                let length = |k: usize| (k * 37 + count) % (count + 9);
                let counts: Vec<usize> = (0..n).map(length).collect();
                let places: Vec<isize> = (0..n).map(|k| counts[..k].iter().sum::<usize>() as isize).collect();
                let own = values(r, counts[r]);
                let mut all = vec![0_u32; counts.iter().sum()];
                // SAFETY: the blocks are the vector's parts, which outlives the call.
                let blocks = unsafe { RecvBlocks::new(all.as_mut_ptr().cast(), &counts, &places, U32) };
                allgatherv(e, t, Buf(send(&own)), blocks.unwrap()).unwrap();
                assert!(
                    all == (0..n).flat_map(|k| values(k, counts[k])).collect::<Vec<_>>(),
                    "round {round}"
                );
            }
            3 => {
                let row = values(r, n * count);
                let mut got = if in_place { row.clone() } else { vec![0; n * count] };
                let from = if in_place { InPlace } else { Buf(send(&row)) };
                alltoall(e, t, from, recv(&mut got)).unwrap();
                let block = |k: usize| values(k, n * count)[r * count..][..count].to_vec();
                assert!(got == (0..n).flat_map(block).collect::<Vec<_>>(), "round {round}");
            }
            4 => {
                let mut own: Vec<f64> =
                    (0..count).map(|i| 1.0 / (1.0 + (r * 31 + i * 7 + round) as f64)).collect();
                let (operand, mut messages) = (own.clone(), vec![0.0; count]);
                // SAFETY: `count` doubles each, outlived by the operations.
                let (send, into, by_messages) = unsafe {
                    (
                        SendBuf::new(operand.as_ptr().cast(), count, &doubles),
                        RecvBuf::new(own.as_mut_ptr().cast(), count, &doubles),
                        RecvBuf::new(messages.as_mut_ptr().cast(), count, &doubles),
                    )
                };
                let here = r == root;
                let started = ireduce(e, t, Buf(send), here.then_some(by_messages), &Op::Sum, root);
                let from = if in_place && here { InPlace } else { Buf(send) };
                reduce(e, t, from, here.then_some(into), &Op::Sum, root).unwrap();
                wait(started);
                assert!(!here || own == messages, "reduce of {count} at {root} of {n}");
            }
            _ => {
                // Several from one root, which runs ahead.
                for ahead in 0..1 + rng.below(6) as usize {
                    let mut data = if r == root { values(ahead, count) } else { vec![0; count] };
                    broadcast(e, t, recv(&mut data), root).unwrap();
                    assert!(
                        data == values(ahead, count),
                        "broadcast of {count} from {root} of {n}, round {round}"
                    );
                }
            }
        }
    }
}

/// What one rank expects is not what comes: it hears of it, the others are served, and nobody is stuck.
#[test]
fn other_counts_through_stages_are_an_error_where_they_are_seen() {
    let mut settings = Settings::default();
    settings.set("BROADCAST", "staged").unwrap();
    settings.set("ALLGATHER", "staged").unwrap();
    ranks_with(3, 1, SimConfig { boards: true, ..SimConfig::calm(3) }, &settings, |e, t| {
        let other = t.rank() == 2;
        for round in 0..30_usize {
            let differs = other && round % 7 == 6;
            for count in [2, 40, 400] {
                let mut data = vec![t.rank() as u32; if differs { count - 1 } else { count }];
                let got = broadcast(e, t, recv(&mut data), 0);
                match got {
                    Ok(()) => assert!(!differs && data.iter().all(|x| *x == 0)),
                    Err(e) => assert!(differs && e.to_string().contains("bytes, expected"), "{e}"),
                }
            }
        }
        let own = vec![1; if other { 7 } else { 8 }];
        let mut all = vec![0; 3 * own.len()];
        let e = allgather(e, t, Buf(send(&own)), recv(&mut all)).unwrap_err();
        assert!(e.to_string().contains("bytes, expected"), "{e}");
    });
}

/// Straight out of the others' memory and into it: in between barriers, broadcasts and immediate collectives, in
/// place too, of any count; to the last bit what messages give.
#[test]
fn memory_within_reach_gives_what_messages_give() {
    for n in [2, 3, 5, 8] {
        for seed in 0..2 {
            let config = SimConfig { boards: true, reach: true, ..SimConfig::calm(n) };
            for by in ["direct", "staged"] {
                let mut settings = Settings::default();
                settings.set("ALLREDUCE", by).unwrap();
                ranks_with(n, seed, config, &settings, |e, t| within_reach(e, t, seed));
            }
        }
    }
}

fn within_reach(e: &Engine, t: &Team, seed: u64) {
    let (n, r) = (t.size(), t.rank());
    let wait = |id: Result<_, _>| e.wait(id.unwrap()).unwrap();
    let doubles = Datatype::predefined(Primitive::F64);
    let mut rng = Rng::new(seed);
    for round in 0..24 {
        let count = 1 + rng.below(if round % 8 == 0 { 30_000 } else { 900 }) as usize;
        if rng.below(3) == 0 {
            barrier(e, t).unwrap();
        }
        let mut own: Vec<f64> = (0..count).map(|i| 1.0 / (1.0 + (r * 31 + i * 7 + round) as f64)).collect();
        let (operand, mut messages) = (own.clone(), vec![0.0; count]);
        // SAFETY: `count` doubles each, outlived by the operations.
        let (send, into, by_messages) = unsafe {
            (
                SendBuf::new(operand.as_ptr().cast(), count, &doubles),
                RecvBuf::new(own.as_mut_ptr().cast(), count, &doubles),
                RecvBuf::new(messages.as_mut_ptr().cast(), count, &doubles),
            )
        };
        let started = iallreduce(e, t, Buf(send), by_messages, &Op::Sum);
        let from = if rng.below(2) == 0 { InPlace } else { Buf(send) };
        allreduce(e, t, from, into, &Op::Sum).unwrap();
        wait(started);
        assert!(own == messages, "allreduce of {count} on {r} of {n}");
        // An operation of the user's goes by messages, in the order of ranks.
        let mut first = if r == round % n { vec![0; count] } else { values(r, count) };
        let in_front = if round % n == 0 { 1 } else { 0 };
        allreduce(e, t, InPlace, recv(&mut first), &first_set()).unwrap();
        assert!(first == values(in_front, count), "the first operand of {count} on {r} of {n}");
        let mut data = if r == 0 { values(round, 9) } else { vec![0; 9] };
        broadcast(e, t, recv(&mut data), 0).unwrap();
        assert!(data == values(round, 9), "broadcast on {r} of {n}");
    }
}
