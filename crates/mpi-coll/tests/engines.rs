//! All collectives on real engines over the simulated network, rough and calm, against a serial model.

#![allow(clippy::needless_range_loop, reason = "ranks are indices here, of several tables at once")]

mod world;

use mpi_btl_sim::{Rng, SimConfig};
use mpi_coll::InPlaceOr::{Buf, InPlace};
use mpi_coll::*;
use mpi_datatype::{Op, RecvBlocks, SendBlocks};
use world::*;

/// Settings that force one algorithm of each collective, drawn from a seed.
fn forced(rng: &mut Rng) -> Settings {
    let mut s = Settings::default();
    let mut force = |name: &str, all: Vec<&str>| {
        if rng.chance(700) {
            s.set(name, all[rng.below(all.len() as u64) as usize]).unwrap();
        }
    };
    force("BARRIER", Barrier::ALL.iter().map(|a| a.0).collect());
    force("BROADCAST", Broadcast::ALL.iter().map(|a| a.0).collect());
    force("REDUCE", Reduce::ALL.iter().map(|a| a.0).collect());
    force("ALLREDUCE", Allreduce::ALL.iter().map(|a| a.0).collect());
    force("GATHER", Gather::ALL.iter().map(|a| a.0).collect());
    force("SCATTER", Scatter::ALL.iter().map(|a| a.0).collect());
    force("ALLGATHER", Allgather::ALL.iter().map(|a| a.0).collect());
    force("ALLTOALL", Alltoall::ALL.iter().map(|a| a.0).collect());
    force("REDUCE_SCATTER", ReduceScatter::ALL.iter().map(|a| a.0).collect());
    for name in ["BARRIER", "BROADCAST", "REDUCE", "ALLREDUCE", "GATHER", "SCATTER", "ALLGATHER", "SCAN"] {
        if rng.chance(300) {
            s.set(name, "leaders").unwrap();
        }
    }
    s.checked(rng.chance(300))
}

/// Sum over all ranks, element by element.
fn sum(ranks: std::ops::Range<usize>, count: usize) -> Vec<u32> {
    let mut all = vec![0u32; count];
    for r in ranks {
        all.iter_mut().zip(values(r, count)).for_each(|(a, b)| *a = a.wrapping_add(b));
    }
    all
}

fn ok(results: Vec<Result<(), mpi_p2p::Error>>) {
    for (rank, result) in results.into_iter().enumerate() {
        result.unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    }
}

/// One round of every collective.
fn everything(w: &World, root: usize, count: usize, in_place: bool) {
    let n = w.size();
    let zeros = |len: usize| -> Vec<Vec<u32>> { (0..n).map(|_| vec![0; len]).collect() };
    let own: Vec<Vec<u32>> = (0..n).map(|r| values(r, count)).collect();
    let rows: Vec<Vec<u32>> = (0..n).map(|r| values(r, count * n)).collect();

    ok(w.all(|e, t, _| ibarrier(e, t)));

    let mut data = zeros(count);
    data[root].copy_from_slice(&own[root]);
    ok(w.all(|e, t, r| ibroadcast(e, t, recv(&mut data[r]), root)));
    assert!(data.iter().all(|d| *d == own[root]), "broadcast");

    let mut all = vec![0; count * n];
    if in_place {
        all[root * count..][..count].copy_from_slice(&own[root]);
    }
    ok(w.all(|e, t, r| {
        let at_root = r == root;
        let from = if at_root && in_place { InPlace } else { Buf(send(&own[r])) };
        igather(e, t, from, at_root.then(|| recv(&mut all)), root)
    }));
    assert_eq!(all, own.concat(), "gather");

    let mut got = zeros(count);
    ok(w.all(|e, t, r| {
        let at_root = r == root;
        let into = if at_root && in_place { InPlace } else { Buf(recv(&mut got[r])) };
        iscatter(e, t, at_root.then(|| send(&rows[root])), into, root)
    }));
    for r in (0..n).filter(|r| !in_place || *r != root) {
        assert_eq!(got[r], rows[root][r * count..][..count], "scatter");
    }

    let mut all = zeros(count * n);
    for r in 0..n {
        all[r][r * count..][..count].copy_from_slice(&own[r]);
    }
    ok(w.all(|e, t, r| {
        let from = if in_place { InPlace } else { Buf(send(&own[r])) };
        iallgather(e, t, from, recv(&mut all[r]))
    }));
    assert!(all.iter().all(|a| *a == own.concat()), "allgather");

    let mut into = if in_place { rows.clone() } else { zeros(count * n) };
    ok(w.all(|e, t, r| {
        let from = if in_place { InPlace } else { Buf(send(&rows[r])) };
        ialltoall(e, t, from, recv(&mut into[r]))
    }));
    for (r, got) in into.iter().enumerate() {
        let expected: Vec<u32> = rows.iter().flat_map(|row| row[r * count..][..count].to_vec()).collect();
        assert_eq!(*got, expected, "alltoall");
    }

    reductions(w, root, count, in_place, &own);
    varying(w, root, count);
}

fn reductions(w: &World, root: usize, count: usize, in_place: bool, own: &[Vec<u32>]) {
    let n = w.size();
    let fresh = || -> Vec<Vec<u32>> { if in_place { own.to_vec() } else { vec![vec![0; count]; n] } };

    let mut result = if in_place { own[root].clone() } else { vec![0; count] };
    ok(w.all(|e, t, r| {
        let at_root = r == root;
        let from = if at_root && in_place { InPlace } else { Buf(send(&own[r])) };
        ireduce(e, t, from, at_root.then(|| recv(&mut result)), &Op::Sum, root)
    }));
    assert_eq!(result, sum(0..n, count), "reduce");

    let mut all = fresh();
    ok(w.all(|e, t, r| {
        let from = if in_place { InPlace } else { Buf(send(&own[r])) };
        iallreduce(e, t, from, recv(&mut all[r]), &Op::Sum)
    }));
    assert!(all.iter().all(|a| *a == sum(0..n, count)), "allreduce");

    let (mut with, mut without) = (fresh(), fresh());
    ok(w.all(|e, t, r| {
        let from = if in_place { InPlace } else { Buf(send(&own[r])) };
        iscan(e, t, from, recv(&mut with[r]), &Op::Sum)
    }));
    ok(w.all(|e, t, r| {
        let from = if in_place { InPlace } else { Buf(send(&own[r])) };
        iexscan(e, t, from, recv(&mut without[r]), &Op::Sum)
    }));
    for r in 0..n {
        assert_eq!(with[r], sum(0..r + 1, count), "scan");
        if r > 0 {
            assert_eq!(without[r], sum(0..r, count), "exscan");
        }
    }

    let rows: Vec<Vec<u32>> = (0..n).map(|r| values(r, count * n)).collect();
    let mut into = if in_place { rows.clone() } else { vec![vec![0; count]; n] };
    ok(w.all(|e, t, r| {
        let from = if in_place { InPlace } else { Buf(send(&rows[r])) };
        ireduce_scatter_block(e, t, from, recv(&mut into[r]), &Op::Sum)
    }));
    let expected = sum(0..n, count * n);
    for (r, got) in into.iter().enumerate() {
        assert_eq!(got[..count], expected[r * count..][..count], "reduce-scatter");
    }
}

/// The forms with a block of its own length for each rank; blocks lie in reverse order with gaps.
fn varying(w: &World, root: usize, count: usize) {
    let n = w.size();
    let counts: Vec<usize> = (0..n).map(|r| (count + r * 3) % 7).collect();
    let places: Vec<isize> = (0..n).map(|r| ((n - 1 - r) * 8) as isize).collect();
    let own: Vec<Vec<u32>> = (0..n).map(|r| values(r, counts[r])).collect();
    let spread = |blocks: &[Vec<u32>]| {
        let mut all = vec![0xEEEE_EEEE; n * 8];
        for (block, at) in blocks.iter().zip(&places) {
            all[*at as usize..][..block.len()].copy_from_slice(block);
        }
        all
    };
    let into = |all: &mut Vec<u32>| {
        // SAFETY: blocks of at most 7 elements, 8 apart, inside of 8 n.
        unsafe { RecvBlocks::new(all.as_mut_ptr().cast(), &counts, &places, U32) }.unwrap()
    };
    let from = |all: &Vec<u32>| {
        // SAFETY: as above.
        unsafe { SendBlocks::new(all.as_ptr().cast(), &counts, &places, U32) }.unwrap()
    };
    let empty = vec![0xEEEE_EEEE_u32; n * 8];

    let mut all = empty.clone();
    ok(w.all(|e, t, r| igatherv(e, t, Buf(send(&own[r])), (r == root).then(|| into(&mut all)), root)));
    assert_eq!(all, spread(&own), "gatherv");

    let (source, mut got) = (spread(&own), counts.iter().map(|c| vec![0; *c]).collect::<Vec<_>>());
    ok(w.all(|e, t, r| iscatterv(e, t, (r == root).then(|| from(&source)), Buf(recv(&mut got[r])), root)));
    assert_eq!(got, own, "scatterv");

    let mut all = vec![empty.clone(); n];
    ok(w.all(|e, t, r| iallgatherv(e, t, Buf(send(&own[r])), into(&mut all[r]))));
    assert!(all.iter().all(|a| *a == spread(&own)), "allgatherv");

    // Rank r sends `counts[r]` elements to everyone, from one place.
    let same: Vec<Vec<usize>> = (0..n).map(|r| vec![counts[r]; n]).collect();
    let nowhere = vec![0isize; n];
    let mut all = vec![empty; n];
    ok(w.all(|e, t, r| {
        // SAFETY: every block is the whole of `own[r]`.
        let blocks = unsafe { SendBlocks::new(own[r].as_ptr().cast(), &same[r], &nowhere, U32) }.unwrap();
        ialltoallv(e, t, Buf(blocks), into(&mut all[r]))
    }));
    assert!(all.iter().all(|a| *a == spread(&own)), "alltoallv");

    let total: usize = counts.iter().sum();
    let rows: Vec<Vec<u32>> = (0..n).map(|r| values(r, total)).collect();
    let mut got = counts.iter().map(|c| vec![0; *c]).collect::<Vec<_>>();
    ok(w.all(|e, t, r| ireduce_scatter(e, t, Buf(send(&rows[r])), recv(&mut got[r]), &counts, &Op::Sum)));
    assert_eq!(got.concat(), sum(0..n, total), "reduce-scatter");
}

#[test]
fn everything_on_a_calm_network() {
    for n in 1..=9 {
        for placement in [Placement::Together, Placement::Split(2), Placement::RoundRobin(2)] {
            let w = World::placed(n, 1, SimConfig::calm(n), &Settings::default(), placement);
            for (count, in_place) in [(0, false), (1, false), (5, true), (3000, false), (70_000, true)] {
                everything(&w, n / 2, count, in_place);
            }
        }
    }
}

#[test]
fn everything_on_a_rough_network() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let n = 1 + rng.below(9) as usize;
        let placement = Placement::draw(&mut rng);
        let w = World::placed(n, seed, SimConfig::rough(n), &forced(&mut rng), placement);
        for _ in 0..3 {
            let count = if rng.chance(500) { rng.upto(8) } else { rng.upto(2000) };
            everything(&w, rng.below(n as u64) as usize, count, rng.chance(500));
        }
    }
}

#[test]
fn several_in_flight_do_not_mix() {
    for seed in 0..20 {
        let n = 5;
        let w = World::new(n, seed, SimConfig::rough(n), &Settings::default());
        let own: Vec<Vec<u32>> = (0..n).map(|r| values(r, 300)).collect();
        let mut sums = vec![vec![vec![0u32; 300]; 4]; n];
        let mut copies: Vec<Vec<Vec<u32>>> = (0..n)
            .map(|r| (0..n).map(|root| if r == root { own[r].clone() } else { vec![0; 300] }).collect())
            .collect();
        let mut ids = vec![Vec::new(); n];
        for r in 0..n {
            let (e, t) = (&w.engines[r], &w.teams[r]);
            for (root, into) in copies[r].iter_mut().enumerate() {
                ids[r].push(ibroadcast(e, t, recv(into), root));
                ids[r].push(ibarrier(e, t));
            }
            for into in &mut sums[r] {
                ids[r].push(iallreduce(e, t, Buf(send(&own[r])), recv(into), &Op::Sum));
            }
        }
        for k in 0..ids[0].len() {
            ok(w.finish(ids.iter().map(|of_rank| of_rank[k].clone()).collect()));
        }
        assert!(copies.iter().all(|of_rank| *of_rank == own));
        assert!(sums.iter().flatten().all(|s| *s == sum(0..n, 300)));
    }
}

#[test]
fn bad_arguments_are_errors_with_facts() {
    let w = World::new(3, 1, SimConfig::calm(3), &Settings::default());
    let (e, t) = (&w.engines[0], &w.teams[0]);
    let mut room = vec![0; 4];
    let say = |r: Result<(), mpi_p2p::Error>| r.unwrap_err().to_string();
    assert_eq!(say(broadcast(e, t, recv(&mut room), 3)), "broadcast on \"world\": root 3 of 3 ranks");
    assert_eq!(
        say(allgather(e, t, InPlace, recv(&mut room))),
        "allgather on \"world\": 4 elements are no 3 equal blocks"
    );
    assert_eq!(
        say(reduce(e, t, InPlace, None, &Op::Sum, 1)),
        "reduce on \"world\": in place is not for this rank of this collective"
    );
    assert_eq!(say(gather(e, t, InPlace, None, 0)), "gather on \"world\": the root has no receive buffer");
    assert_eq!(
        say(allreduce(e, t, InPlace, recv(&mut room), &Op::MinLoc)),
        "allreduce on \"world\": operation minimum and location is not defined for elements of type u32"
    );
}

#[test]
fn counts_that_differ_are_an_error_on_the_rank_that_sees_it() {
    let w = World::new(2, 1, SimConfig::calm(2), &Settings::default());
    let mut data = [vec![7; 3], vec![0; 5]];
    let results = w.all(|e, t, r| ibroadcast(e, t, recv(&mut data[r]), 0));
    assert!(results[0].is_ok());
    assert_eq!(
        results[1].as_ref().unwrap_err().to_string(),
        "broadcast on \"world\" from rank 0: 12 bytes, expected 20: counts or types differ; \
         MPI_CHECK=1 names the ranks that disagree"
    );
}

#[test]
fn a_failed_collective_ends_though_others_never_come() {
    // Rank 0 waits for two ranks; what comes from one does not fit, the other sends nothing.
    for binomial in [false, true] {
        let mut settings = Settings::default();
        settings.set("GATHER", if binomial { "binomial" } else { "linear" }).unwrap();
        let w = World::new(3, 1, SimConfig::calm(3), &settings);
        let mut all = vec![0; 6];
        let own = values(1, 5);
        let root =
            igather(&w.engines[0], &w.teams[0], Buf(send(&own[..2])), Some(recv(&mut all)), 0).unwrap();
        let leaf = igather(&w.engines[1], &w.teams[1], Buf(send(&own[..1])), None, 0).unwrap();
        let engines = [&w.engines[0], &w.engines[1]];
        let mut results = [None, None];
        for _ in 0..1000 {
            for (k, id) in [root, leaf].into_iter().enumerate() {
                engines[k].progress();
                if results[k].is_none() {
                    results[k] = engines[k].test(id).transpose();
                }
            }
            w.net.advance();
        }
        let error = results[0].take().expect("the root ends").unwrap_err().to_string();
        assert!(error.contains("gather on \"world\" from rank 1: 4 bytes, expected 8"), "{error}");
        assert!(results[1].take().expect("the leaf ends").is_ok());
    }
}

#[test]
fn checked_ranks_that_disagree_get_an_error_with_both_sides() {
    type Start = fn(&mpi_p2p::Engine, &Team, &mut [u32]) -> Result<mpi_p2p::RequestId, mpi_p2p::Error>;
    let same: Start = |e, t, room| ibroadcast(e, t, recv(&mut room[..2]), 0);
    let cases: [(Start, &str); 5] = [
        (
            |e, t, room| iallreduce(e, t, InPlace, recv(&mut room[..2]), &Op::Sum),
            "allreduce of 8 bytes of u32 by sum",
        ),
        (|e, t, room| ibroadcast(e, t, recv(&mut room[..2]), 1), "broadcast with root 1 of 8 bytes of u32"),
        (|e, t, room| ibroadcast(e, t, recv(&mut room[..3]), 0), "broadcast with root 0 of 12 bytes of u32"),
        (
            |e, t, room| {
                // SAFETY: two words are one double; nobody looks at them meanwhile.
                let double = unsafe { mpi_datatype::RecvBuf::new(room.as_mut_ptr().cast(), 1, F64) };
                ibroadcast(e, t, double, 0)
            },
            "broadcast with root 0 of 8 bytes of f64",
        ),
        (|e, t, _| ibarrier(e, t), "barrier"),
    ];
    for n in [2, 3, 5] {
        for (other, said) in cases {
            let w = World::new(n, 1, SimConfig::calm(n), &Settings::default().checked(true));
            let mut rooms = vec![[0u32; 4]; n];
            let results = w.all(|e, t, r| {
                let start = if r == n - 1 { other } else { same };
                start(e, t, &mut rooms[r])
            });
            let expected = format!(
                "on \"world\": the ranks disagree: rank 0 calls broadcast with root 0 of 8 bytes of u32, \
                 rank {} calls {said}",
                n - 1
            );
            for (r, result) in results.into_iter().enumerate() {
                let error = result.unwrap_err().to_string();
                assert!(error.ends_with(&expected), "rank {r}: {error}");
            }
        }
    }
}

#[test]
fn a_choice_is_told_with_its_reason() {
    use std::sync::Mutex;
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let tell: fn(&str) = |line| TOLD.lock().unwrap().push(line.to_owned());
    let mut settings = Settings::default().told(Some(tell));
    settings.set("ALLGATHER", "ring").unwrap();
    settings.set("ALLREDUCE", "ring").unwrap();
    let w = World::new(4, 1, SimConfig::calm(4), &settings);
    let mut rooms = vec![vec![1u32; 8]; 4];
    let no_order = Op::User(std::sync::Arc::new(mpi_datatype::UserOp::on_packed(Box::new(|_, _| {}), false)));
    ok(w.all(|e, t, r| ibroadcast(e, t, recv(&mut rooms[r]), 0)));
    ok(w.all(|e, t, r| iallgather(e, t, InPlace, recv(&mut rooms[r]))));
    ok(w.all(|e, t, r| iallreduce(e, t, InPlace, recv(&mut rooms[r]), &no_order)));
    let told = TOLD.lock().unwrap();
    assert_eq!(told.len(), 12);
    assert!(told[0].starts_with("broadcast on \"world\", 4 ranks, 32 bytes: "), "{}", told[0]);
    assert!(told[0].contains("; the table's row for "), "{}", told[0]);
    assert_eq!(told[4], "allgather on \"world\", 4 ranks, 32 bytes: ring; as MPI_COLL_ALLGATHER says");
    assert_eq!(
        told[8],
        "allreduce on \"world\", 4 ranks, 32 bytes: rabenseifner; as ring, which MPI_COLL_ALLREDUCE says, is not \
         for this call"
    );
}

#[test]
fn leaders_serve_ranks_that_share_nodes() {
    use std::sync::Mutex;
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let tell: fn(&str) = |line| TOLD.lock().unwrap().push(line.to_owned());
    let told = |placement: Placement, ask: Option<&str>, op: &Op| {
        TOLD.lock().unwrap().clear();
        let mut settings = Settings::default().told(Some(tell));
        ask.into_iter().for_each(|by| settings.set("ALLREDUCE", by).unwrap());
        let w = World::placed(4, 1, SimConfig::calm(4), &settings, placement);
        let mut rooms = vec![vec![1u32; 2]; 4];
        ok(w.all(|e, t, r| iallreduce(e, t, InPlace, recv(&mut rooms[r]), op)));
        let line = TOLD.lock().unwrap()[0].clone();
        line.strip_prefix("allreduce on \"world\", 4 ranks, 8 bytes: ").unwrap().to_owned()
    };
    let no_order = Op::User(std::sync::Arc::new(mpi_datatype::UserOp::on_packed(Box::new(|_, _| {}), false)));
    assert_eq!(told(Placement::Split(2), None, &Op::Sum), "leaders; the ranks share 2 nodes");
    assert_eq!(told(Placement::RoundRobin(2), None, &Op::Sum), "leaders; the ranks share 2 nodes");
    assert_eq!(told(Placement::Split(2), None, &no_order), "leaders; the ranks share 2 nodes");
    // Operands on nodes that are not in order cannot be combined node by node.
    assert!(told(Placement::RoundRobin(2), None, &no_order).starts_with("doubling; the table's row"));
    assert!(told(Placement::Apart, None, &Op::Sum).starts_with("doubling; the table's row"));
    assert!(told(Placement::Together, None, &Op::Sum).starts_with("doubling; the table's row"));
    assert_eq!(told(Placement::Split(2), Some("doubling"), &Op::Sum), "doubling; as MPI_COLL_ALLREDUCE says");
    assert_eq!(told(Placement::Split(2), Some("leaders"), &Op::Sum), "leaders; as MPI_COLL_ALLREDUCE says");
    assert_eq!(
        told(Placement::Together, Some("leaders"), &Op::Sum),
        "doubling; as leaders, which MPI_COLL_ALLREDUCE says, is not for this call"
    );
}

/// In the forms where ranks have lengths of their own, or neighbours: every message is what its receiver expects, or all
/// ranks hear which is not.
#[test]
fn checked_lengths_that_differ_are_named_on_both_sides() {
    const CALLS: [&str; 9] = [
        "gatherv",
        "scatterv",
        "allgatherv",
        "alltoallv",
        "reduce_scatter",
        "neighbor_allgather",
        "neighbor_allgatherv",
        "neighbor_alltoall",
        "neighbor_alltoallv",
    ];
    for n in [2, 3, 5] {
        for name in CALLS {
            for differs in [false, true] {
                let w = World::new(n, 1, SimConfig::calm(n), &Settings::default().checked(true));
                let mut rooms = vec![([1_u32; 60], [0_u32; 60]); n];
                let results = w.all(|e, t, r| {
                    let more = usize::from(differs && r == n - 1);
                    lengths(e, t, name, more, &mut rooms[r])
                });
                for (r, result) in results.into_iter().enumerate() {
                    match result {
                        Ok(_) => assert!(!differs, "{name} on {r} of {n}"),
                        Err(e) => {
                            let said = e.to_string();
                            let sides =
                                said.contains("the ranks disagree: rank ") && said.contains(" expects ");
                            let both = sides && said.contains(&format!("rank {}", n - 1));
                            assert!(differs && both, "{name} on {r} of {n}: {said}");
                        }
                    }
                }
            }
        }
    }
}

/// Starts a collective whose lengths are those of the others but for `more` elements of one block.
fn lengths(
    e: &mpi_p2p::Engine,
    t: &Team,
    name: &str,
    more: usize,
    (from, into): &mut ([u32; 60], [u32; 60]),
) -> Result<mpi_p2p::RequestId, mpi_p2p::Error> {
    let (n, r) = (t.size(), t.rank());
    // Rank k has k + 1 elements; what differs is what has to do with the one below.
    let other = (r + n - 1) % n;
    let count = |k: usize| k + 1 + if k == other { more } else { 0 };
    let counts: Vec<usize> = (0..n).map(count).collect();
    let places: Vec<isize> = (0..n).map(|k| 7 * k as isize).collect();
    let mine = vec![r + 1; n];
    let next = [Some(((r + 1) % n) as u32)];
    let last = [Some(other as u32)];
    let hood = Neighborhood { sources: &last, destinations: &next, grid: false };
    let one = [2 + more];
    let at = [0_isize];
    // SAFETY: blocks of up to seven words, seven words apart, in arrays that outlive the world.
    let (sends, receives, ones_out, ones_in) = unsafe {
        (
            SendBlocks::new(from.as_ptr().cast(), &counts, &places, U32).unwrap(),
            RecvBlocks::new(
                into.as_mut_ptr().cast(),
                if name == "alltoallv" { &mine } else { &counts },
                &places,
                U32,
            )
            .unwrap(),
            SendBlocks::new(from.as_ptr().cast(), &[2], &at, U32).unwrap(),
            RecvBlocks::new(into.as_mut_ptr().cast(), &one, &at, U32).unwrap(),
        )
    };
    let own = send(&from[..r + 1]);
    let root = n - 1;
    match name {
        "gatherv" => igatherv(e, t, Buf(own), Some(receives), root),
        "scatterv" => iscatterv(e, t, Some(sends), Buf(recv(&mut into[..r + 1])), root),
        "allgatherv" => iallgatherv(e, t, Buf(own), receives),
        "alltoallv" => ialltoallv(e, t, Buf(sends), receives),
        "reduce_scatter" => {
            // The sum stays.
            let mut counts: Vec<usize> = vec![3; n];
            if more > 0 {
                (counts[other], counts[r]) = (4, 2);
            }
            ireduce_scatter(e, t, Buf(send(&from[..3 * n])), recv(&mut into[..4]), &counts, &Op::Sum)
        }
        "neighbor_allgather" => ineighbor_allgather(e, t, hood, send(&from[..2]), recv(&mut into[..one[0]])),
        "neighbor_allgatherv" => ineighbor_allgatherv(e, t, hood, send(&from[..2]), ones_in),
        "neighbor_alltoall" => ineighbor_alltoall(e, t, hood, send(&from[..2]), recv(&mut into[..one[0]])),
        _ => ineighbor_alltoallv(e, t, hood, ones_out, ones_in),
    }
}
