//! Reductions by closures, collectives in place, persistent and generalized operations, graphs, hints.

mod support;

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::thread;

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::ext::{Edges, ErrorClass, Info, LargePartition, Operands, generalized, prelude::*, start_all};
use mpi::ffi::*;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use support::{Case, case};

const CASES: &[Case] = &[
    case("reductions_by_closures", reductions_by_closures),
    case("reductions_in_order", reductions_in_order),
    case("in_place_among_all", in_place_among_all),
    case("in_place_at_a_root", in_place_at_a_root),
    case("immediate_in_place", immediate_in_place),
    case("in_place_refused", in_place_refused).on(&[2]),
    case("persistent_rounds", persistent_rounds),
    case("persistent_modes", persistent_modes).on(&[2]),
    case("persistent_long_messages", persistent_long_messages).on(&[2]),
    case("persistent_rules", persistent_rules).on(&[1]),
    case("persistent_dropped_in_a_round", persistent_dropped_in_a_round).on(&[2]),
    case("persistent_collectives", persistent_collectives),
    case("neighbours_in_a_grid", neighbours_in_a_grid).on(&[4, 6]),
    case("neighbours_in_a_graph", neighbours_in_a_graph),
    case("large_partitions", large_partitions),
    case("generalized_requests", generalized_requests).on(&[1, 2]),
    case("graphs", graphs).on(&[4, 5]),
    case("distributed_graphs", distributed_graphs),
    case("refused_graphs", refused_graphs).on(&[2]),
    case("hints", hints).on(&[1]),
    case("untyped_hints", untyped_hints).on(&[1]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn world() -> (mpi::environment::Universe, SimpleCommunicator) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    (universe, world)
}

fn neighbours(world: &SimpleCommunicator) -> (i32, i32) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

fn reductions_by_closures() {
    let (_universe, world) = world();
    let (rank, size) = (world.rank(), world.size());
    let most = 1000; // closures may borrow
    let sum = world.all_reduce_with(&rank, Operands::InAnyOrder, |a, b| (a + b).min(most));
    assert_eq!(sum, size * (size - 1) / 2);
    let values: Vec<f64> = (0..1000).map(|i| f64::from(rank * 1000 + i)).collect();
    let mut results = vec![0.0; 1000];
    world.all_reduce_into_with(&values, &mut results, Operands::InAnyOrder, |a, b| a.max(*b));
    assert!(results.iter().enumerate().all(|(i, x)| *x == f64::from((size - 1) * 1000 + i as i32)));
    let prefix = world.scan_with(&1_u64, Operands::InAnyOrder, |a, b| a + b);
    assert_eq!(prefix, rank as u64 + 1);
    let most =
        world.process_at_rank(size - 1).reduce_with(&(rank as u8), Operands::InAnyOrder, |a, b| *a.max(b));
    assert_eq!(most, (rank == size - 1).then_some((size - 1) as u8));
    assert_eq!(world.try_all_reduce_with(&true, Operands::InAnyOrder, |a, b| *a && *b), Ok(true));
}

/// An operation that depends on the order: a pair of bytes (a, b) stands for x ↦ a·x + b, combined by composition.
fn reductions_in_order() {
    let (_universe, world) = world();
    let (rank, size) = (world.rank() as u16, world.size() as u16);
    let pair = |a: u16, b: u16| (a & 0xFF) << 8 | b & 0xFF;
    let compose = |f: &u16, g: &u16| pair((f >> 8) * (g >> 8), (g >> 8) * (f & 0xFF) + (g & 0xFF));
    let got = world.all_reduce_with(&pair(3, rank), Operands::InOrder, compose);
    let expected = (1..size).fold(pair(3, 0), |f, rank| compose(&f, &pair(3, rank)));
    assert_eq!(got, expected);
}

fn in_place_among_all() {
    let (_universe, world) = world();
    let (rank, size) = (world.rank(), world.size());
    let mut all = vec![-1; size as usize];
    all[rank as usize] = rank;
    world.all_gather_in_place(&mut all[..]);
    assert_eq!(all, (0..size).collect::<Vec<_>>());
    let mut parts: Vec<i32> = (0..size).map(|to| rank * 100 + to).collect();
    world.all_to_all_in_place(&mut parts[..]);
    assert_eq!(parts, (0..size).map(|from| from * 100 + rank).collect::<Vec<_>>());
    let mut sum = [rank, 1];
    world.all_reduce_in_place(&mut sum[..], SystemOperation::sum());
    assert_eq!(sum, [size * (size - 1) / 2, size]);
    let mut prefix = 1;
    world.scan_in_place(&mut prefix, SystemOperation::sum());
    assert_eq!(prefix, rank + 1);
    let mut before = 1;
    world.exclusive_scan_in_place(&mut before, SystemOperation::sum());
    assert_eq!(before, rank.max(1));
    let mut blocks: Vec<i32> = (0..size).collect();
    world.reduce_scatter_block_in_place(&mut blocks[..], SystemOperation::sum());
    assert_eq!(blocks[0], rank * size);
    assert_eq!(world.try_all_reduce_in_place(&mut sum[..], SystemOperation::max()), Ok(()));
}

fn in_place_at_a_root() {
    let (_universe, world) = world();
    let (rank, size) = (world.rank(), world.size());
    let root = world.process_at_rank(size - 1);
    if root.is_self() {
        let mut all = vec![-1; size as usize];
        all[rank as usize] = rank;
        root.gather_in_place(&mut all[..]);
        assert_eq!(all, (0..size).collect::<Vec<_>>());
        root.scatter_in_place(&mut all[..]);
        let mut sum = 1;
        root.reduce_in_place(&mut sum, SystemOperation::sum());
        assert_eq!(sum, size);
    } else {
        root.gather_into(&rank);
        let mut mine = -1;
        root.scatter_into(&mut mine);
        assert_eq!(mine, rank);
        root.reduce_into(&1, SystemOperation::sum());
    }
}

fn immediate_in_place() {
    let (_universe, world) = world();
    let (rank, size) = (world.rank(), world.size());
    let mut sum = rank;
    mpi::request::scope(|scope| {
        world.immediate_all_reduce_in_place(scope, &mut sum, SystemOperation::sum()).wait();
    });
    assert_eq!(sum, size * (size - 1) / 2);
    let root = world.process_at_rank(0);
    let mut all: Vec<i32> = (0..size).collect();
    if root.is_self() {
        mpi::request::scope(|scope| {
            root.try_immediate_scatter_in_place(scope, &mut all[..]).unwrap().wait();
        });
    } else {
        let mut mine = -1;
        root.scatter_into(&mut mine);
        assert_eq!(mine, rank);
    }
}

fn in_place_refused() {
    let (_universe, world) = world();
    if world.rank() == 1 {
        let error = world.process_at_rank(0).try_gather_in_place(&mut [0; 2][..]).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Root);
    }
    world.barrier();
}

fn persistent_rounds() {
    let (_universe, world) = world();
    let (next, previous) = neighbours(&world);
    let mut send = world.process_at_rank(next).send_init_with_tag(vec![0_i32; 100], 3);
    let mut receive = world.process_at_rank(previous).receive_init_with_tag(vec![0_i32; 100], 3);
    for round in 0..50 {
        send.data_mut().fill(round * 10 + world.rank());
        start_all(&mut [&mut receive, &mut send]);
        assert!(send.is_active() && receive.is_active());
        if round % 2 == 0 {
            send.wait();
            let status = receive.wait();
            assert_eq!((status.source_rank(), status.bytes()), (previous, 400));
        } else {
            let status = loop {
                if let Some(result) = receive.test() {
                    break result.unwrap();
                }
            };
            assert_eq!(status.tag(), 3);
            while send.test().is_none() {}
        }
        assert_eq!(receive.data(), [round * 10 + previous; 100]);
    }
    assert_eq!(send.into_data().len(), 100);
}

fn persistent_modes() {
    let mut universe = mpi::initialize().unwrap();
    universe.set_buffer_size(10_000);
    let world = universe.world();
    let peer = world.process_at_rank(1 - world.rank());
    let mut synchronous = peer.synchronous_send_init_with_tag(vec![1_u8; 10], 1);
    let mut buffered = peer.buffered_send_init_with_tag(vec![2_u8; 10], 2);
    for _ in 0..5 {
        synchronous.start();
        buffered.start();
        buffered.wait();
        assert_eq!(peer.receive_vec_with_tag::<u8>(2).0, [2; 10]);
        assert_eq!(peer.receive_vec_with_tag::<u8>(1).0, [1; 10]);
        synchronous.wait();
    }
    // One that is dropped while it is active is called back.
    let mut never = peer.receive_init_with_tag(vec![0_u8; 10], 9);
    never.start();
    drop(never);
    world.barrier();
}

fn persistent_long_messages() {
    let (_universe, world) = world();
    let peer = world.process_at_rank(1 - world.rank());
    let mut send = peer.send_init(vec![0_u64; 200_000]);
    let mut receive = peer.receive_init(vec![0_u64; 200_000]);
    for round in 0..3 {
        send.data_mut().fill(round);
        start_all(&mut [&mut send, &mut receive]);
        receive.wait();
        send.wait();
        assert!(receive.data().iter().all(|x| *x == round));
    }
}

fn persistent_rules() {
    let (_universe, world) = world();
    panic::set_hook(Box::new(|_| {}));
    let me = world.this_process();
    assert_eq!(me.try_send_init_with_tag(vec![1], -5).unwrap_err().class(), ErrorClass::Tag);
    let mut receive = me.receive_init_with_tag(vec![0; 4], 2);
    receive.start();
    assert_eq!(receive.try_start().unwrap_err().class(), ErrorClass::Request);
    let text = panic::catch_unwind(AssertUnwindSafe(|| receive.data().len())).unwrap_err();
    let text = text.downcast::<String>().unwrap();
    assert!(
        text.contains("active") && text.contains("receive on \"MPI_COMM_WORLD\" from rank 0 tag 2"),
        "{text}"
    );
    me.send_with_tag(&[7; 5][..], 2);
    let error = receive.try_wait().unwrap_err();
    assert_eq!(
        (error.class(), error.message_bytes(), error.room_bytes()),
        (ErrorClass::Truncate, Some(20), Some(16))
    );
    // An error ends the round, not the operation.
    receive.start();
    me.send_with_tag(&[7; 4][..], 2);
    receive.wait();
    assert_eq!(receive.data(), [7; 4]);
    receive.wait(); // at once
}

/// A message under way arrives, whatever its length; a receive is cancelled.
fn persistent_dropped_in_a_round() {
    let (_universe, world) = world();
    let other = world.process_at_rank(1 - world.rank());
    for bytes in [100, 70_000, 3_000_000] {
        let mut receive = other.receive_init_with_tag(vec![0_u8; bytes], 7);
        receive.start();
        drop(receive);
        let mut send = other.send_init_with_tag(vec![5_u8; bytes], 4);
        send.start();
        drop(send);
        assert_eq!(other.receive_vec_with_tag::<u8>(4).0, vec![5; bytes]);
        // The dropped receive took nothing.
        let sent = other.isend_owned_with_tag(vec![6_u8; bytes], 7);
        assert_eq!(other.receive_vec_with_tag::<u8>(7).0, vec![6; bytes]);
        sent.wait();
    }
}

fn persistent_collectives() {
    let (_universe, world) = world();
    let (rank, size) = (world.rank(), world.size());
    let root = world.process_at_rank(size - 1);
    let mut barrier = world.barrier_init();
    let mut sum = world.all_reduce_init(vec![0; 10], SystemOperation::sum());
    let mut all = world.all_gather_init(vec![0; 2]);
    let mut exchange = world.all_to_all_init(vec![0; size as usize]);
    let mut prefix = world.scan_init(vec![0], SystemOperation::sum());
    let mut told = root.broadcast_init(vec![0; 3]);
    let mut most = root.reduce_init(vec![0], SystemOperation::max());
    let mut gathered = root.gather_init(vec![0]);
    for round in 0..5 {
        sum.data_mut().fill(rank + round);
        all.data_mut().fill(rank * 10 + round);
        exchange.data_mut().fill(rank * 10 + round);
        prefix.data_mut()[0] = round;
        if root.is_self() {
            told.result_mut().fill(round);
        }
        most.data_mut()[0] = rank + round;
        gathered.data_mut()[0] = rank - round;
        start_all(&mut [
            &mut barrier,
            &mut sum,
            &mut all,
            &mut exchange,
            &mut prefix,
            &mut told,
            &mut most,
            &mut gathered,
        ]);
        for operation in [&mut gathered, &mut most, &mut told, &mut prefix, &mut exchange, &mut all, &mut sum]
        {
            operation.wait();
        }
        while barrier.test().is_none() {}
        assert_eq!(sum.result(), [size * (size - 1) / 2 + size * round; 10]);
        let expected: Vec<i32> = (0..size).flat_map(|from| [from * 10 + round; 2]).collect();
        assert_eq!(all.result(), expected);
        assert_eq!(exchange.result(), (0..size).map(|from| from * 10 + round).collect::<Vec<_>>());
        assert_eq!(prefix.result(), [round * (rank + 1)]);
        assert_eq!(told.result(), [round; 3]);
        if root.is_self() {
            assert_eq!(most.result(), [size - 1 + round]);
            assert_eq!(gathered.result(), (0..size).map(|from| from - round).collect::<Vec<_>>());
        }
    }
}

fn neighbours_in_a_grid() {
    let (_universe, world) = world();
    let grid = world.create_cartesian_communicator(&[2, world.size() / 2], &[false, true], false).unwrap();
    let rank = grid.rank();
    let around = grid.neighbours_in();
    assert_eq!((around.len(), &around), (4, &grid.neighbours_out()));
    let mut got = vec![-7; 4];
    grid.neighbour_all_gather_into(&rank, &mut got[..]);
    let there = |x: i32| x != MPI_PROC_NULL;
    let expected: Vec<i32> = around.iter().map(|x| if there(*x) { *x } else { -7 }).collect();
    assert_eq!(got, expected);
    // In dimension d, what goes down comes from above.
    let sent: Vec<i32> = (0..4).map(|i| rank * 4 + i).collect();
    let mut got = vec![-7; 4];
    mpi::request::scope(|scope| {
        grid.immediate_neighbour_all_to_all_into(scope, &sent[..], &mut got[..]).wait();
    });
    let expected: Vec<i32> =
        around.iter().zip([1, 0, 3, 2]).map(|(x, i)| if there(*x) { x * 4 + i } else { -7 }).collect();
    assert_eq!(got, expected);
}

fn neighbours_in_a_graph() {
    let (_universe, world) = world();
    let (next, previous) = neighbours(&world);
    let edges = Edges { sources: vec![previous], destinations: vec![next], weights: None };
    let ring = world.create_distributed_graph_adjacent(&edges, false).unwrap();
    let rank = ring.rank();
    let mut got = [0; 2];
    ring.neighbour_all_gather_into(&[rank, rank + 1], &mut got);
    assert_eq!(got, [previous, previous + 1]);
    // As many elements as the sender's rank.
    let sent = vec![rank; rank as usize];
    let mut got = vec![-1; previous as usize];
    let mut room = LargePartition::new_mut(&mut got[..], vec![previous as usize], vec![0]);
    ring.neighbour_all_gather_varcount_into(&sent[..], &mut room);
    assert_eq!(got, vec![previous; previous as usize]);
    let parts = LargePartition::new(&sent[..], vec![rank as usize], vec![0]);
    let mut got = vec![-1; previous as usize];
    let mut room = LargePartition::new_mut(&mut got[..], vec![previous as usize], vec![0]);
    assert_eq!(ring.try_neighbour_all_to_all_varcount_into(&parts, &mut room), Ok(()));
    assert_eq!(got, vec![previous; previous as usize]);
}

fn large_partitions() {
    let (_universe, world) = world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let counts: Vec<usize> = (1..=size).collect();
    let displs: Vec<usize> = (0..size).map(|rank| rank * (rank + 1) / 2).collect();
    let mut all = vec![0; size * (size + 1) / 2];
    let mut parts = LargePartition::new_mut(&mut all[..], counts.clone(), displs.clone());
    world.all_gather_varcount_into(&vec![rank; rank + 1][..], &mut parts);
    let expected: Vec<usize> = (0..size).flat_map(|rank| vec![rank; rank + 1]).collect();
    assert_eq!(all, expected);
    let root = world.process_at_rank(0);
    let mut mine = vec![0; rank + 1];
    if root.is_self() {
        let parts = LargePartition::new(&all[..], counts, displs);
        root.scatter_varcount_into_root(&parts, &mut mine[..]);
    } else {
        root.scatter_varcount_into(&mut mine[..]);
    }
    assert_eq!(mine, vec![rank; rank + 1]);
    world.this_process().send(&all[..]);
    let (_, status) = world.any_process().receive_vec::<usize>();
    assert_eq!(status.count_usize(usize::equivalent_datatype()), Some(all.len()));
}

fn generalized_requests() {
    let (universe, _) = mpi::initialize_with_threading(Threading::Multiple).unwrap();
    let world = universe.world();
    let (sum, completer) = generalized::<u64>();
    let worker = thread::spawn(move || completer.complete((0..1000).sum()));
    assert_eq!(sum.wait(), 499_500);
    worker.join().unwrap();
    let (mut value, completer) = generalized::<String>();
    value = value.test().unwrap_err();
    completer.complete("done".into());
    assert_eq!(value.test().unwrap().unwrap(), "done");
    let (value, completer) = generalized::<()>();
    drop(completer);
    let error = value.try_wait().unwrap_err();
    assert!(error.detail().contains("given up"), "{error}");
    let (value, completer) = generalized::<i32>();
    assert!(!completer.is_cancelled());
    drop(value);
    assert!(completer.is_cancelled());
    completer.complete(1);
    let (value, completer) = generalized::<i32>();
    let worker = thread::spawn(move || completer.complete(5));
    assert_eq!(futures::executor::block_on(value), Ok(5));
    worker.join().unwrap();
    world.barrier();
}

/// The graph of the standard's example (MPI 4.1, section 8.5.3).
fn graphs() {
    let (_universe, world) = world();
    let (index, edges) = ([2, 3, 4, 6], [1, 3, 0, 3, 0, 2]);
    let graph = world.create_graph(&index, &edges, false).unwrap();
    assert_eq!(graph.is_some(), world.rank() < 4);
    let Some(graph) = graph else { return };
    assert_eq!(graph.graph(), (index.to_vec(), edges.to_vec()));
    let expected: [&[i32]; 4] = [&[1, 3], &[0], &[3], &[0, 2]];
    assert_eq!(graph.neighbours_in(), expected[graph.rank() as usize]);
    assert_eq!(graph.neighbours_of(3).unwrap(), [0, 2]);
    assert_eq!(graph.neighbours_of(4).unwrap_err().class(), ErrorClass::Rank);
    assert_eq!(graph.size(), 4);
}

fn distributed_graphs() {
    let (_universe, world) = world();
    let (next, previous) = neighbours(&world);
    let edges = Edges {
        sources: vec![previous],
        destinations: vec![next],
        weights: Some((vec![previous], vec![world.rank()])),
    };
    let ring = world.create_distributed_graph_adjacent(&edges, false).unwrap();
    assert_eq!(ring.edges(), edges);
    assert_eq!((ring.neighbours_in(), ring.neighbours_out()), (vec![previous], vec![next]));
    // The same, told by rank 0 alone.
    let (sources, degrees, destinations): (Vec<_>, Vec<_>, Vec<_>) = match world.rank() {
        0 => (
            (0..world.size()).collect(),
            vec![1; world.size() as usize],
            (0..world.size()).map(|rank| (rank + 1) % world.size()).collect(),
        ),
        _ => Default::default(),
    };
    let told = world.create_distributed_graph(&sources, &degrees, &destinations, None, false).unwrap();
    assert_eq!(told.edges(), Edges { weights: None, ..edges });
    assert_eq!(ring.size(), world.size());
}

fn refused_graphs() {
    let (_universe, world) = world();
    let error = world.create_graph(&[1], &[5], false).map(|_| ()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Rank);
    let edges = Edges { sources: vec![-1], ..Edges::default() };
    let error = world.create_distributed_graph_adjacent(&edges, false).map(|_| ()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Rank);
    assert!(error.to_string().contains("an edge leads to rank -1 of 2"), "{error}");
}

fn hints() {
    let mut info = Info::new();
    info.set("host", "a").unwrap();
    info.set("wdir", "/").unwrap();
    info.set("host", "b").unwrap();
    assert_eq!(info.iter().collect::<Vec<_>>(), [("host", "b"), ("wdir", "/")]);
    info.delete("wdir").unwrap();
    assert_eq!((info.get("wdir"), info.len()), (None, 1));
    assert_eq!(info.delete("wdir").unwrap_err().class(), ErrorClass::InfoNokey);
    assert_eq!(info.set("", "x").unwrap_err().class(), ErrorClass::InfoKey);
    assert_eq!(info.set(&"k".repeat(1000), "x").unwrap_err().class(), ErrorClass::InfoKey);
}

fn untyped_hints() {
    let (_universe, _world) = world();
    // SAFETY: all handles live, and all results have their room.
    unsafe {
        let mut info = RSMPI_INFO_NULL;
        assert_eq!(MPI_Info_create(&mut info), 0);
        assert_eq!(MPI_Info_set(info, c"host".as_ptr(), c"node7".as_ptr()), 0);
        let mut copy = RSMPI_INFO_NULL;
        assert_eq!(MPI_Info_dup(info, &mut copy), 0);
        assert_eq!(MPI_Info_delete(info, c"host".as_ptr()), 0);
        let (mut keys, mut flag, mut len) = (-1, -1, 4);
        assert_eq!(MPI_Info_get_nkeys(info, &mut keys), 0);
        assert_eq!(keys, 0);
        let mut text = [0_i8; 64];
        assert_eq!(
            MPI_Info_get_string(copy, c"host".as_ptr(), &mut len, text.as_mut_ptr().cast(), &mut flag),
            0
        );
        assert_eq!((flag, len, &text[..4]), (1, 6, &[b'n' as i8, b'o' as i8, b'd' as i8, 0][..]));
        assert_eq!(MPI_Info_get(copy, c"host".as_ptr(), 10, text.as_mut_ptr().cast(), &mut flag), 0);
        assert_eq!(text[..6], b"node7\0".map(|c| c as i8));
        assert_eq!(MPI_Info_get_valuelen(copy, c"host".as_ptr(), &mut len, &mut flag), 0);
        assert_eq!((len, flag), (5, 1));
        assert_eq!(MPI_Info_get_nthkey(copy, 0, text.as_mut_ptr().cast()), 0);
        assert_eq!(text[..5], b"host\0".map(|c| c as i8));
        assert_eq!(MPI_Info_get_valuelen(copy, c"none".as_ptr(), &mut len, &mut flag), 0);
        assert_eq!(flag, 0);
        assert_eq!(MPI_Info_free(&mut info), 0);
        assert_eq!(MPI_Info_free(&mut copy), 0);
        assert_eq!((info, copy), (RSMPI_INFO_NULL, RSMPI_INFO_NULL));
    }
}
