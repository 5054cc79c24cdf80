//! Broadcast, allgather, alltoall and reduce through memory that the ranks of a node share, on real ranks: all that they may be
//! called with, and all that may go on beside them.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use mpi::collective::{SystemOperation, UserOperation};
use mpi::datatype::PartitionMut;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::*;
use support::{Case, ERROR_STATUS, case};

const RANKS: &[u32] = &[2, 3, 8];
const STAGED: &[(&str, &str)] = &[
    ("MPI_COLL_BROADCAST", "staged"),
    ("MPI_COLL_ALLGATHER", "staged"),
    ("MPI_COLL_ALLTOALL", "staged"),
    ("MPI_COLL_REDUCE", "staged"),
    ("MPI_COLL_ALLREDUCE", "staged"),
];
const CHECKED: &[(&str, &str)] =
    &[("MPI_COLL_BROADCAST", "staged"), ("MPI_COLL_ALLGATHER", "staged"), ("MPI_CHECK", "1")];
const TOLD: &[(&str, &str)] = &[("MPI_COLL_BROADCAST", "staged"), ("MPI_COLL_VERBOSE", "1")];
/// None, one, what is in a line and just not, pieces and a bit, stages and a bit.
const COUNTS: &[usize] = &[0, 1, 3, 4, 6, 511, 512, 513, 1040, 8192, 8193, 20_001];
/// More than the calls after which a communicator asks for a board.
const ROUNDS: usize = 4;

const CASES: &[Case] = &[
    case("any_count_and_root", any_count_and_root).on(RANKS).with(STAGED),
    case("any_count_as_the_table_says", any_count_and_root).on(RANKS).over(&["shm"]),
    case("any_count_checked", any_count_and_root).on(&[3]).over(&["shm"]).with(CHECKED),
    case("roots_run_ahead", roots_run_ahead).on(RANKS).over(&["shm"]).with(STAGED),
    case("same_bits_from_call_to_call", same_bits_from_call_to_call).on(RANKS).over(&["shm"]).with(STAGED),
    case("many_communicators", many_communicators).on(RANKS).over(&["shm"]).with(STAGED),
    case("beside_immediate_ones", beside_immediate_ones).on(RANKS).over(&["shm"]).with(STAGED),
    case("the_root_dies", || a_rank_dies(0, broadcasts))
        .on(&[3])
        .over(&["shm"])
        .with(STAGED)
        .fails(137, &["rank 0"]),
    case("a_reader_dies", || a_rank_dies(1, broadcasts))
        .on(&[3])
        .over(&["shm"])
        .with(STAGED)
        .fails(137, &["rank 1"]),
    case("a_rank_dies_in_an_allgather", || a_rank_dies(2, allgathers))
        .on(&[3])
        .over(&["shm"])
        .with(STAGED)
        .fails(137, &["rank 2"]),
    case("a_rank_dies_in_a_reduce", || a_rank_dies(1, reduces))
        .on(&[3])
        .over(&["shm"])
        .with(STAGED)
        .fails(137, &["rank 1"]),
    case("broadcasts_of_other_counts", broadcasts_of_other_counts)
        .on(&[3])
        .over(&["shm"])
        .with(STAGED)
        .fails(ERROR_STATUS, &["broadcast", "8000 bytes, expected 7992", "MPI_CHECK=1"]),
    case("allgathers_of_other_counts", allgathers_of_other_counts)
        .on(&[3])
        .over(&["shm"])
        .with(STAGED)
        .fails(ERROR_STATUS, &["allgather", "bytes, expected", "MPI_CHECK=1"]),
    case("broadcasts_of_other_types", broadcasts_of_other_types)
        .on(&[3])
        .over(&["shm"])
        .with(STAGED)
        .fails(ERROR_STATUS, &["broadcast", "data of type f64, expected i64"]),
    case("no_bool", no_bool).on(&[3]).over(&["shm"]).with(STAGED).fails(ERROR_STATUS, &["broadcast", "bool"]),
    case("told", told)
        .on(&[2])
        .over(&["shm"])
        .with(TOLD)
        .fails(3, &["broadcast on", "8192 bytes: staged; as MPI_COLL_BROADCAST says"]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

/// Element `i` of what rank `r` has.
fn value(r: i32, i: usize) -> i64 {
    i64::from(r + 1) * 1_000_003 + i as i64 * 17
}

fn values(r: i32, count: usize) -> Vec<i64> {
    (0..count).map(|i| value(r, i)).collect()
}

fn any_count_and_root() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for round in 0..ROUNDS {
        for (i, &count) in COUNTS.iter().enumerate() {
            let root = (round + i) as i32 % world.size();
            moved(&world, root, count);
            reduced(&world, root, count);
        }
    }
}

fn moved(world: &SimpleCommunicator, root: i32, count: usize) {
    let (n, r) = (world.size(), world.rank());
    let mut data = if r == root { values(7, count) } else { vec![0; count] };
    world.process_at_rank(root).broadcast_into(&mut data[..]);
    assert!(data == values(7, count), "broadcast of {count} from {root}");

    let own = values(r, count);
    let mut all = vec![0; count * n as usize];
    world.all_gather_into(&own[..], &mut all[..]);
    let everyone: Vec<i64> = (0..n).flat_map(|k| values(k, count)).collect();
    assert!(all == everyone, "allgather of {count}");

    // Rank k has k more elements, the first one none.
    let lengths: Vec<i32> = (0..n).map(|k| if k == 0 { 0 } else { count as i32 + k }).collect();
    let places: Vec<i32> = lengths.iter().scan(0, |sum, l| Some(std::mem::replace(sum, *sum + l))).collect();
    let own = values(r, lengths[r as usize] as usize);
    let mut uneven = vec![0; lengths.iter().sum::<i32>() as usize];
    world.all_gather_varcount_into(
        &own[..],
        &mut PartitionMut::new(&mut uneven[..], &lengths[..], &places[..]),
    );
    let expected: Vec<i64> = (0..n).flat_map(|k| values(k, lengths[k as usize] as usize)).collect();
    assert!(uneven == expected, "allgatherv of {count}");

    let row = values(r, count * n as usize);
    let mut got = vec![0; count * n as usize];
    world.all_to_all_into(&row[..], &mut got[..]);
    let block = |k: i32| values(k, count * n as usize)[r as usize * count..][..count].to_vec();
    assert!(got == (0..n).flat_map(block).collect::<Vec<_>>(), "alltoall of {count}");
}

fn reduced(world: &SimpleCommunicator, root: i32, count: usize) {
    let (n, r) = (world.size(), world.rank());
    let to = world.process_at_rank(root);
    let reduce = |own: &[i64], op: &dyn Fn(&[i64], &mut [i64])| {
        let mut got = vec![-1; own.len()];
        op(own, &mut got);
        got
    };
    let sum = reduce(&values(r, count), &|own, got| match r == root {
        true => to.reduce_into_root(own, got, SystemOperation::sum()),
        false => to.reduce_into(own, SystemOperation::sum()),
    });
    let expected = |i: usize| (0..n).map(|k| value(k, i)).sum::<i64>();
    assert!(r != root || sum.iter().enumerate().all(|(i, x)| *x == expected(i)), "sum of {count} at {root}");
    // An operation whose order matters goes by messages.
    let last = UserOperation::associative(|input, inout| {
        let (input, inout) = (input.downcast::<i64>().unwrap(), inout.downcast::<i64>().unwrap());
        for (a, b) in input.iter().zip(inout) {
            *b = if *b == 0 { *a } else { *b };
        }
    });
    let own = if r == n - 1 && n > 1 { vec![0; count] } else { values(r, count) };
    let last_set = reduce(&own, &|own, got| match r == root {
        true => to.reduce_into_root(own, got, &last),
        false => to.reduce_into(own, &last),
    });
    let k = if n > 1 { n - 2 } else { 0 };
    assert!(r != root || last_set == values(k, count), "the last operand of {count} at {root}");
}

/// Broadcasts without anything between them, of all lengths, from every root in turn or always the same, to ranks that
/// are late and asleep.
fn roots_run_ahead() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (n, r) = (world.size(), world.rank());
    for round in 0..600 {
        if round % 150 == 50 * (r % 3) {
            std::thread::sleep(Duration::from_millis(8));
        }
        let root = if round < 300 { 1 % n } else { (round / 7) % n };
        let count = [1, 2, 40, 600, 5000][round as usize % 5];
        let mut data = if r == root { values(round, count) } else { vec![0; count] };
        world.process_at_rank(root).broadcast_into(&mut data[..]);
        assert!(data == values(round, count), "round {round}");
        if round % 97 == 96 {
            world.barrier();
        }
    }
}

/// Sums of doubles depend on the order: before a communicator has its stages and after, it is the same.
fn same_bits_from_call_to_call() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let r = f64::from(world.rank());
    for root in [0, world.size() - 1] {
        let to = world.process_at_rank(root);
        for count in [40_u32, 1000, 20_001] {
            let own: Vec<f64> = (0..count).map(|i| 1.0 / (1.0 + 13.0 * r + f64::from(i))).collect();
            let mut first = None;
            for round in 0..2 * ROUNDS {
                let mut got = vec![0.0; own.len()];
                if world.rank() == root {
                    to.reduce_into_root(&own[..], &mut got[..], SystemOperation::sum());
                } else {
                    to.reduce_into(&own[..], SystemOperation::sum());
                }
                let first = first.get_or_insert_with(|| got.clone());
                assert!(got == *first, "{count} doubles in round {round}");
            }
        }
    }
}

/// More than there are boards, of all ranks and of some, used by turns.
fn many_communicators() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let odd = world.split_by_color(Color::with_value(world.rank() % 2)).unwrap();
    let all: Vec<_> = (0..6).map(|_| world.duplicate()).collect();
    for round in 0..8 {
        for comm in all.iter().chain([&odd]) {
            moved(comm, round % comm.size(), 700);
            reduced(comm, round % comm.size(), 700);
        }
    }
}

/// Immediate collectives of the same communicator are under way meanwhile, and end in any order.
fn beside_immediate_ones() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (n, r) = (world.size(), world.rank());
    for round in 0..10 {
        let root = round % n;
        let own = values(r, 3000);
        let mut early = if r == root { values(1, 3000) } else { vec![0; 3000] };
        let (mut gathered, mut late) = (vec![0; 3000 * n as usize], early.clone());
        mpi::request::scope(|scope| {
            let first = world.process_at_rank(root).immediate_broadcast_into(scope, &mut early[..]);
            let second = world.immediate_all_gather_into(scope, &own[..], &mut gathered[..]);
            moved(&world, (round + 1) % n, 900);
            if (round + r) % 2 == 0 {
                std::thread::sleep(Duration::from_millis(4));
            }
            let third = world.process_at_rank(root).immediate_broadcast_into(scope, &mut late[..]);
            reduced(&world, root, 900);
            third.wait();
            second.wait();
            first.wait();
        });
        assert!(early == values(1, 3000) && late == early, "round {round}");
        assert!(gathered == (0..n).flat_map(|k| values(k, 3000)).collect::<Vec<_>>(), "round {round}");
    }
}

fn broadcasts(world: &SimpleCommunicator) {
    let mut data = vec![1_u8; 3000];
    world.process_at_rank(0).broadcast_into(&mut data[..]);
}

fn allgathers(world: &SimpleCommunicator) {
    let mut all = vec![0_u8; 3000 * world.size() as usize];
    world.all_gather_into(&[1_u8; 3000][..], &mut all[..]);
}

fn reduces(world: &SimpleCommunicator) {
    let (own, mut sum) = ([1_u64; 3000], [0_u64; 3000]);
    let root = world.process_at_rank(0);
    match world.rank() {
        0 => root.reduce_into_root(&own[..], &mut sum[..], SystemOperation::sum()),
        _ => root.reduce_into(&own[..], SystemOperation::sum()),
    }
}

/// The launcher ends the job; the others, who wait for it, do not hang.
fn a_rank_dies(which: i32, call: fn(&SimpleCommunicator)) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for round in 0..1000 {
        if round == 20 && world.rank() == which {
            // SAFETY: nothing but ending this process.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
        }
        call(&world);
    }
}

fn broadcasts_of_other_counts() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for round in 0..9 {
        let mut data = vec![0_u64; if round == 8 && world.rank() == 2 { 999 } else { 1000 }];
        world.process_at_rank(0).broadcast_into(&mut data[..]);
    }
    world.barrier();
}

fn allgathers_of_other_counts() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for round in 0..9 {
        let own = vec![0_u64; if round == 8 && world.rank() == 2 { 999 } else { 1000 }];
        let mut all = vec![0_u64; 3 * own.len()];
        world.all_gather_into(&own[..], &mut all[..]);
    }
    world.barrier();
}

fn broadcasts_of_other_types() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(0);
    for round in 0..9 {
        if round == 8 && world.rank() == 2 {
            root.broadcast_into(&mut [0_i64; 1000][..]);
        } else {
            root.broadcast_into(&mut [0.5_f64; 1000][..]);
        }
    }
    world.barrier();
}

/// A value that is none, from a root that sends bytes as what they are not.
fn no_bool() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let root = world.process_at_rank(0);
    for round in 0..9 {
        if world.rank() == 0 {
            let bytes = [if round == 8 { 2_u8 } else { 1 }; 1000];
            let as_bool = bool::equivalent_datatype();
            let mut bytes = bytes;
            // SAFETY: a thousand bytes, which are what is wrong here on purpose; nobody reads them as bool.
            let mut view =
                unsafe { mpi::datatype::MutView::with_count_and_datatype(&mut bytes[..], 1000, &as_bool) };
            root.broadcast_into(&mut view);
        } else {
            root.broadcast_into(&mut [false; 1000][..]);
        }
    }
    world.barrier();
}

/// Every choice is told, and the status shows that the output was looked at.
fn told() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut data = vec![1_u64; 1024];
    for _ in 0..ROUNDS {
        world.process_at_rank(0).broadcast_into(&mut data[..]);
    }
    world.abort(3);
}
