//! Collectives between two groups, over topologies, and all of them in their three forms.

#![allow(clippy::needless_range_loop, reason = "ranks are indices here, of several tables at once")]

mod common;

use common::world_of;
use mpi_coll::InPlaceOr::{Buf, InPlace};
use mpi_coll::Root;
use mpi_comm::Comm;
use mpi_comm::topology::DistGraph;
use mpi_datatype::{Datatype, Op, Primitive, RecvBlocks, RecvBuf, SendBlocks, SendBuf, UserOp};
use std::sync::Arc;

static INT: Datatype = Datatype::predefined(Primitive::I32);

fn send(values: &[i32]) -> SendBuf<'_> {
    // SAFETY: a slice that outlives the operation.
    unsafe { SendBuf::new(values.as_ptr().cast(), values.len(), &INT) }
}

fn recv(values: &mut [i32]) -> RecvBuf<'_> {
    // SAFETY: as above; nobody looks at it meanwhile.
    unsafe { RecvBuf::new(values.as_mut_ptr().cast(), values.len(), &INT) }
}

/// How a collective is called.
#[derive(Clone, Copy, Debug)]
enum Form {
    Blocking,
    Immediate,
    /// Started twice.
    Persistent,
}

const FORMS: [Form; 3] = [Form::Blocking, Form::Immediate, Form::Persistent];

/// Calls a collective in one of its forms, to its end.
macro_rules! call {
    ($form:expr, $comm:expr, $blocking:ident, $immediate:ident, $init:ident($($arg:expr),*)) => {
        match $form {
            Form::Blocking => $comm.$blocking($($arg),*).unwrap(),
            Form::Immediate => {
                $comm.engine().wait($comm.$immediate($($arg),*).unwrap()).unwrap();
            }
            Form::Persistent => {
                let id = $comm.$init($($arg),*).unwrap();
                for _ in 0..2 {
                    $comm.engine().restart(id).unwrap();
                    $comm.engine().wait(id).unwrap();
                }
                $comm.engine().free(id).unwrap();
            }
        }
    };
}

/// What process `p` of the world has, `count` numbers.
fn values(p: u32, count: usize) -> Vec<i32> {
    (0..count as i32).map(|i| p as i32 * 1000 + i + 1).collect()
}

/// Two groups in one world: the first `low` processes and the others.
fn between(low: u32, world: &Comm) -> (Comm, Vec<u32>, Vec<u32>) {
    let is_low = world.rank() < low;
    let half = world.split(Some(i32::from(!is_low)), 0).unwrap().unwrap();
    let other = if is_low { low } else { 0 };
    let peer = (half.rank() == 0).then_some((world, other as i32));
    let inter = half.intercomm_create(0, peer, 5).unwrap();
    let (lows, highs): (Vec<u32>, Vec<u32>) = (0..world.size()).partition(|p| *p < low);
    if is_low { (inter, lows, highs) } else { (inter, highs, lows) }
}

fn sum(of: &[u32], count: usize) -> Vec<i32> {
    (0..count).map(|i| of.iter().map(|p| values(*p, count)[i]).sum()).collect()
}

/// The left operand wins: the result tells the order of operands.
fn left() -> Op {
    let f = |input: &[u8], inout: &mut [u8]| inout.copy_from_slice(input);
    Op::User(Arc::new(UserOp::on_packed(Box::new(f), false)))
}

#[test]
fn every_collective_between_two_groups() {
    for (size, low, counts) in [(2, 1, &[0, 5, 20_000][..]), (4, 1, &[5, 20_000]), (5, 3, &[0, 5])] {
        world_of(size, move |p| {
            let (inter, mine, theirs) = between(low, &p.world);
            for form in FORMS {
                for &count in counts {
                    to_all(form, &inter, &theirs, count);
                    rooted(form, &inter, p.world.rank() < low, &mine, &theirs, count);
                    reductions(form, &inter, &mine, &theirs, count);
                }
            }
            let mut room = [0; 2];
            let e = inter.scan(Buf(send(&[1, 2])), recv(&mut room), &Op::Sum).unwrap_err().to_string();
            assert!(e.starts_with("scan on ") && e.ends_with("not on an inter-communicator"), "{e}");
            let e = inter.allreduce(InPlace, recv(&mut room), &Op::Sum).unwrap_err().to_string();
            assert!(e.ends_with("in place is not for inter-communicators"), "{e}");
        });
    }
}

fn to_all(form: Form, inter: &Comm, theirs: &[u32], count: usize) {
    let far = theirs.len();
    let me = inter.group().member(inter.rank()).unwrap().0;
    call!(form, inter, barrier, ibarrier, barrier_init());

    let (own, expected) = (values(me, count), theirs.iter().flat_map(|p| values(*p, count)));
    let expected: Vec<i32> = expected.collect();
    let mut all = vec![0; far * count];
    call!(form, inter, allgather, iallgather, allgather_init(Buf(send(&own)), recv(&mut all)));
    assert!(all == expected, "allgather");

    // Process p gives p elements less.
    let len = |p: u32| count.saturating_sub(p as usize);
    let counts: Vec<usize> = theirs.iter().map(|p| len(*p)).collect();
    let places: Vec<isize> = (0..far).map(|i| (i * count) as isize).collect();
    let mut all = vec![-1; far * count];
    // SAFETY: blocks of at most `count` elements, `count` apart.
    let room = unsafe { RecvBlocks::new(all.as_mut_ptr().cast(), &counts, &places, &INT) }.unwrap();
    let short = &own[..len(me)];
    call!(form, inter, allgatherv, iallgatherv, allgatherv_init(Buf(send(short)), room));
    for (i, p) in theirs.iter().enumerate() {
        assert!(all[i * count..][..len(*p)] == values(*p, count)[..len(*p)], "allgatherv");
        assert!(all[i * count..][len(*p)..count].iter().all(|v| *v == -1));
    }

    // Block i is for the other group's rank i.
    let row = |p: u32, ranks: usize| -> Vec<i32> {
        (0..ranks).flat_map(|i| values(p + i as u32 * 100, count)).collect()
    };
    let (from, mut into) = (row(me, far), vec![0; far * count]);
    call!(form, inter, alltoall, ialltoall, alltoall_init(Buf(send(&from)), recv(&mut into)));
    let expected: Vec<i32> = theirs.iter().flat_map(|p| values(p + inter.rank() * 100, count)).collect();
    assert!(into == expected, "alltoall");

    let (counts, types) = (vec![count; far], vec![INT.clone(); far]);
    let places: Vec<isize> = (0..far).map(|i| (i * count * 4) as isize).collect();
    let mut into = vec![0; far * count];
    // SAFETY: `count` elements, `count` apart.
    let (give, take) = unsafe {
        (
            SendBlocks::with_types(from.as_ptr().cast(), &counts, &places, &types).unwrap(),
            RecvBlocks::with_types(into.as_mut_ptr().cast(), &counts, &places, &types).unwrap(),
        )
    };
    call!(form, inter, alltoallv, ialltoallv, alltoallv_init(Buf(give), take));
    assert!(into == expected, "alltoallw");
}

fn rooted(form: Form, inter: &Comm, low: bool, mine: &[u32], theirs: &[u32], count: usize) {
    let me = inter.group().member(inter.rank()).unwrap().0;
    // The last of the group that holds the root.
    for low_roots in [true, false] {
        let here = low == low_roots;
        let root = match here {
            true if inter.rank() + 1 == inter.size() => Root::Root,
            true => Root::Null,
            false => Root::Rank(theirs.len() - 1),
        };
        let root_process = if here { mine[mine.len() - 1] } else { theirs[theirs.len() - 1] };
        let far = theirs.len();

        let mut data = if root == Root::Root { values(me, count) } else { vec![0; count] };
        call!(form, inter, broadcast, ibroadcast, broadcast_init(recv(&mut data), root));
        if root != Root::Null {
            assert!(data == values(root_process, count), "broadcast");
        }

        let own = values(me, count);
        let mut all = vec![0; far * count];
        let room = (root == Root::Root).then(|| recv(&mut all));
        call!(form, inter, gather, igather, gather_init(Buf(send(&own)), room, root));
        if root == Root::Root {
            assert!(all == theirs.iter().flat_map(|p| values(*p, count)).collect::<Vec<_>>(), "gather");
        }

        let rows: Vec<i32> = (0..far).flat_map(|i| values(i as u32, count)).collect();
        let mut got = vec![0; count];
        let from = (root == Root::Root).then(|| send(&rows));
        call!(form, inter, scatter, iscatter, scatter_init(from, Buf(recv(&mut got)), root));
        if let Root::Rank(_) = root {
            assert!(got == values(inter.rank(), count), "scatter");
        }

        let counts = vec![count; far];
        let places: Vec<isize> = (0..far).rev().map(|i| (i * count) as isize).collect();
        let mut all = vec![0; far * count];
        // SAFETY: `count` elements, `count` apart.
        let room = (root == Root::Root)
            .then(|| unsafe { RecvBlocks::new(all.as_mut_ptr().cast(), &counts, &places, &INT) }.unwrap());
        call!(form, inter, gatherv, igatherv, gatherv_init(Buf(send(&own)), room, root));
        if root == Root::Root {
            let expected: Vec<i32> = theirs.iter().rev().flat_map(|p| values(*p, count)).collect();
            assert!(all == expected, "gatherv");
        }
        let mut got = vec![0; count];
        // SAFETY: as above.
        let from = (root == Root::Root)
            .then(|| unsafe { SendBlocks::new(rows.as_ptr().cast(), &counts, &places, &INT) }.unwrap());
        call!(form, inter, scatterv, iscatterv, scatterv_init(from, Buf(recv(&mut got)), root));
        if let Root::Rank(_) = root {
            assert!(got == values((inter.size() - 1) - inter.rank(), count), "scatterv");
        }

        for ordered in [false, true] {
            let op = if ordered { left() } else { Op::Sum };
            let mut result = vec![0; count];
            let room = (root == Root::Root).then(|| recv(&mut result));
            call!(form, inter, reduce, ireduce, reduce_init(Buf(send(&own)), room, &op, root));
            if root == Root::Root {
                let expected = if ordered { values(theirs[0], count) } else { sum(theirs, count) };
                assert!(result == expected, "reduce");
            }
        }
    }
}

fn reductions(form: Form, inter: &Comm, mine: &[u32], theirs: &[u32], count: usize) {
    let me = inter.group().member(inter.rank()).unwrap().0;
    let own = values(me, count);
    for ordered in [false, true] {
        let op = if ordered { left() } else { Op::Sum };
        let mut result = vec![0; count];
        call!(form, inter, allreduce, iallreduce, allreduce_init(Buf(send(&own)), recv(&mut result), &op));
        assert!(result == if ordered { values(theirs[0], count) } else { sum(theirs, count) }, "allreduce");
    }
    // Equal blocks in each group, as many elements in both.
    let (near, far) = (mine.len(), theirs.len());
    let total = near * far * count.min(100);
    let (own, expected) = (values(me, total), sum(theirs, total));
    let each = total / near;
    let mut result = vec![0; each];
    call!(
        form,
        inter,
        reduce_scatter_block,
        ireduce_scatter_block,
        reduce_scatter_block_init(Buf(send(&own)), recv(&mut result), &Op::Sum)
    );
    let at = inter.rank() as usize;
    assert!(result == expected[at * each..][..each], "reduce-scatter block");
    // All to the last rank.
    let mut counts = vec![0; near];
    counts[near - 1] = total;
    let mut result = vec![0; counts[at]];
    call!(
        form,
        inter,
        reduce_scatter,
        ireduce_scatter,
        reduce_scatter_init(Buf(send(&own)), recv(&mut result), &counts, &Op::Sum)
    );
    assert!(result == if at == near - 1 { expected } else { vec![] }, "reduce-scatter");
}

/// The neighbourhood collectives against what the neighbours have: `hears[i]` is the `i`-th source and the place of
/// the block among those that it sends; `speaks` are the destinations.
fn neighbors(form: Form, comm: &Comm, hears: &[Option<(u32, usize)>], speaks: usize, count: usize) {
    const UNTOUCHED: i32 = -7;
    let (me, n) = (comm.rank(), hears.len());
    let sent_by = |p: u32, i: usize| values(p * 100 + i as u32, count);
    let blocks = |of: &dyn Fn(u32, usize) -> Vec<i32>| -> Vec<i32> {
        hears.iter().flat_map(|h| h.map_or(vec![UNTOUCHED; count], |(p, i)| of(p, i))).collect()
    };
    let (own, rows) = (values(me, count), (0..speaks).flat_map(|i| sent_by(me, i)).collect::<Vec<_>>());

    let mut got = vec![UNTOUCHED; n * count];
    call!(
        form,
        comm,
        neighbor_allgather,
        ineighbor_allgather,
        neighbor_allgather_init(send(&own), recv(&mut got))
    );
    assert!(got == blocks(&|p, _| values(p, count)), "allgather");

    let (counts, places) = (vec![count; n], (0..n).map(|i| (i * count) as isize).collect::<Vec<_>>());
    let mut got = vec![UNTOUCHED; n * count];
    // SAFETY: `count` elements, `count` apart.
    let room = unsafe { RecvBlocks::new(got.as_mut_ptr().cast(), &counts, &places, &INT) }.unwrap();
    call!(form, comm, neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init(send(&own), room));
    assert!(got == blocks(&|p, _| values(p, count)), "allgatherv");

    let mut got = vec![UNTOUCHED; n * count];
    call!(
        form,
        comm,
        neighbor_alltoall,
        ineighbor_alltoall,
        neighbor_alltoall_init(send(&rows), recv(&mut got))
    );
    assert!(got == blocks(&sent_by), "alltoall");

    let give = (vec![count; speaks], (0..speaks).map(|i| (i * count * 4) as isize).collect::<Vec<_>>());
    let bytes: Vec<isize> = places.iter().map(|at| at * 4).collect();
    let (types, more) = (vec![INT.clone(); n], vec![INT.clone(); speaks]);
    let mut got = vec![UNTOUCHED; n * count];
    // SAFETY: as above.
    let (from, into) = unsafe {
        (
            SendBlocks::with_types(rows.as_ptr().cast(), &give.0, &give.1, &more).unwrap(),
            RecvBlocks::with_types(got.as_mut_ptr().cast(), &counts, &bytes, &types).unwrap(),
        )
    };
    call!(form, comm, neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init(from, into));
    assert!(got == blocks(&sent_by), "alltoallw");
}

#[test]
fn neighborhoods_in_grids_of_every_width() {
    for (dims, periods) in [
        (vec![1], vec![true]),
        (vec![2], vec![true]),
        (vec![2], vec![false]),
        (vec![3], vec![true]),
        (vec![1, 1], vec![true, true]),
        (vec![2, 2], vec![true, true]),
        (vec![2, 3], vec![true, false]),
        (vec![1, 3, 2], vec![false, false, true]),
    ] {
        let size = dims.iter().product::<i32>() as u32;
        world_of(size, move |p| {
            let grid = p.world.cart_create(&dims, &periods, false).unwrap().unwrap();
            // What comes from below went up there: block 2 d + 1 of the one below.
            let mut hears = Vec::new();
            for d in 0..dims.len() {
                let (below, above) = grid.cart_shift(d as i32, 1).unwrap();
                hears.push(below.map(|p| (p, 2 * d + 1)));
                hears.push(above.map(|p| (p, 2 * d)));
            }
            for form in FORMS {
                for count in [0, 7] {
                    neighbors(form, &grid, &hears, 2 * dims.len(), count);
                }
            }
        });
    }
}

#[test]
fn neighborhoods_in_graphs_with_repeated_edges() {
    world_of(4, |p| {
        let me = p.world.rank();
        // Everyone speaks twice to the next and once to itself; rank 0 speaks to rank 2 besides.
        let (next, before) = ((me + 1) % 4, (me + 3) % 4);
        let mut graph = DistGraph {
            sources: vec![before, me, before],
            destinations: vec![next, me, next],
            ..DistGraph::default()
        };
        let mut hears = vec![Some((before, 0)), Some((me, 1)), Some((before, 2))];
        if me == 0 {
            graph.destinations.push(2);
        }
        if me == 2 {
            graph.sources.insert(0, 0);
            hears.insert(0, Some((0, 3)));
        }
        let comm = p.world.dist_graph_create_adjacent(graph, false).unwrap();
        // A path 0 - 1 - 2, and nobody near rank 3.
        let path = p.world.graph_create(&[1, 3, 4, 4], &[1, 0, 2, 1], false).unwrap().unwrap();
        let of_path = [vec![Some((1, 0))], vec![Some((0, 0)), Some((2, 0))], vec![Some((1, 1))], vec![]];
        for form in FORMS {
            for count in [0, 3, 20_000] {
                neighbors(form, &comm, &hears, if me == 0 { 4 } else { 3 }, count);
                let hears = &of_path[me as usize];
                neighbors(form, &path, hears, hears.len(), count);
            }
        }
        let e = p.world.neighbor_allgather(send(&[]), recv(&mut [])).unwrap_err();
        assert!(e.to_string().contains("carries no topology"), "{e}");
    });
}

#[test]
fn persistent_collectives_start_in_any_order_many_at_once() {
    world_of(3, |p| {
        let (world, me) = (&p.world, p.world.rank());
        let e = world.engine();
        let mut own = vec![0; 300];
        let (mut sums, mut copies) = (vec![vec![0; 300]; 4], vec![0; 5000]);
        let mut ids: Vec<_> = sums
            .iter_mut()
            .map(|into| world.allreduce_init(Buf(send(&own)), recv(into), &Op::Sum).unwrap())
            .collect();
        ids.push(world.broadcast_init(recv(&mut copies), 1).unwrap());
        ids.push(world.barrier_init().unwrap());
        // Inactive until started: a wait returns at once.
        e.wait(ids[0]).unwrap();
        for round in 0..6 {
            own.fill(round * 10 + me as i32);
            copies.fill(if me == 1 { round } else { -1 });
            // Each rank in an order of its own.
            for k in 0..ids.len() {
                e.restart(ids[(k * (me as usize + 1) + me as usize * 2) % ids.len()]).ok();
            }
            for id in &ids {
                e.restart(*id).ok();
            }
            assert!(e.restart(ids[0]).is_err(), "it is active");
            let mut list: Vec<_> = ids.iter().copied().map(Some).collect();
            e.wait_all_ok(&mut list).unwrap();
            assert!(sums.iter().flatten().all(|v| *v == 30 * round + 3));
            assert!(copies.iter().all(|v| *v == round));
        }
        ids.into_iter().for_each(|id| e.free(id).unwrap());
    });
}
