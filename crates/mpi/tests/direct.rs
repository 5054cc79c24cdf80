//! Allreduce straight out of the other ranks' memory, and through memory that they share, on real ranks: all that it may
//! be called with, and all that may go on beside it.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use mpi::collective::{SystemOperation, UserOperation};
use mpi::datatype::Equivalence;
use mpi::topology::Color;
use mpi::traits::*;
use support::{Case, case};

const RANKS: &[u32] = &[2, 3, 8];
const DIRECT: &[(&str, &str)] = &[("MPI_COLL_ALLREDUCE", "direct")];
const STAGED: &[(&str, &str)] = &[("MPI_COLL_ALLREDUCE", "staged")];
/// Forced, where the kernel's copy is switched off: by messages then.
const REFUSED: &[(&str, &str)] = &[("MPI_COLL_ALLREDUCE", "direct"), ("MPI_SHM_CMA", "0")];
const TOLD: &[(&str, &str)] = &[("MPI_COLL_ALLREDUCE", "direct"), ("MPI_COLL_VERBOSE", "1")];
/// None, one, odd ones around the least that goes this way, pieces and a bit, and many pieces.
const COUNTS: &[usize] = &[0, 1, 31, 32, 33, 129, 1023, 4099, 8192, 70_001];
/// More than the calls after which a communicator asks for a board.
const ROUNDS: usize = 5;

const CASES: &[Case] = &[
    case("any_count_and_operation", any_count_and_operation).on(RANKS).with(DIRECT),
    case("refused", any_count_and_operation).on(RANKS).over(&["shm"]).with(REFUSED),
    case("as_the_table_says", any_count_and_operation).on(RANKS).over(&["shm"]),
    case("same_bits_everywhere", same_bits_everywhere).on(RANKS).with(DIRECT),
    case("many_communicators", many_communicators).on(RANKS).over(&["shm"]).with(DIRECT),
    case("beside_immediate_ones", beside_immediate_ones).on(RANKS).over(&["shm"]).with(DIRECT),
    case("a_rank_dies", a_rank_dies).on(&[3]).over(&["shm"]).with(DIRECT).fails(137, &["rank 1"]),
    case("staged_any_count_and_operation", any_count_and_operation).on(RANKS).with(STAGED),
    case("staged_same_bits_everywhere", same_bits_everywhere).on(RANKS).over(&["shm"]).with(STAGED),
    case("staged_many_communicators", many_communicators).on(RANKS).over(&["shm"]).with(STAGED),
    case("staged_beside_immediate_ones", beside_immediate_ones).on(RANKS).over(&["shm"]).with(STAGED),
    case("staged_and_a_rank_dies", a_rank_dies).on(&[3]).over(&["shm"]).with(STAGED).fails(137, &["rank 1"]),
    case("told", told)
        .on(&[2])
        .over(&["shm"])
        .with(TOLD)
        .fails(3, &["allreduce on", "8192 bytes: direct; as MPI_COLL_ALLREDUCE says"]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

/// Element `i` of rank `r`.
fn value(r: i32, i: usize) -> i64 {
    i64::from(r + 1) * 1_000_003 + i as i64 * 17
}

fn any_count_and_operation() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (n, r) = (world.size(), world.rank());
    // The right operand wins where it is not zero: what is left tells the order.
    let last = UserOperation::associative(|input, inout| {
        let (input, inout) = (input.downcast::<i64>().unwrap(), inout.downcast::<i64>().unwrap());
        for (a, b) in input.iter().zip(inout) {
            *b = if *b == 0 { *a } else { *b };
        }
    });
    for _ in 0..ROUNDS {
        for &count in COUNTS {
            let own: Vec<i64> = (0..count).map(|i| value(r, i)).collect();
            let mut got = vec![-1; count];
            world.all_reduce_into(&own[..], &mut got[..], SystemOperation::sum());
            let sum = |i: usize| (0..n).map(|k| value(k, i)).sum::<i64>();
            assert!(got.iter().enumerate().all(|(i, x)| *x == sum(i)), "sum of {count}");
            world.all_reduce_into(&own[..], &mut got[..], SystemOperation::min());
            assert!(got.iter().enumerate().all(|(i, x)| *x == value(0, i)), "least of {count}");
            let own: Vec<i64> = (0..count).map(|i| if r == n - 1 { 0 } else { value(r, i) }).collect();
            world.all_reduce_into(&own[..], &mut got[..], &last);
            assert!(got.iter().enumerate().all(|(i, x)| *x == value(n - 2, i)), "last of {count}");
            let own: Vec<bool> = (0..count).map(|i| i as i32 % n == r).collect();
            let mut any = vec![false; count];
            world.all_reduce_into(&own[..], &mut any[..], SystemOperation::logical_or());
            assert!(any.iter().all(|x| *x), "one of {count}");
        }
        columns(&world);
    }
}

/// The columns of a matrix, a derived type.
fn columns(world: &impl Communicator) {
    const ROWS: usize = 500;
    let column = mpi::datatype::UserDatatype::vector(ROWS as i32, 1, 3, &f64::equivalent_datatype());
    let matrix: Vec<f64> = (0..3 * ROWS).map(|i| i as f64).collect();
    let mut sums = vec![-1.0; 3 * ROWS];
    // SAFETY: one element of the type spans the matrix but for the last two places.
    let (own, mut got) = unsafe {
        (
            mpi::datatype::View::with_count_and_datatype(&matrix[..], 1, &column),
            mpi::datatype::MutView::with_count_and_datatype(&mut sums[..], 1, &column),
        )
    };
    world.all_reduce_into(&own, &mut got, SystemOperation::sum());
    let n = f64::from(world.size());
    for (i, sum) in sums.iter().enumerate() {
        assert_eq!(*sum, if i % 3 == 0 { n * i as f64 } else { -1.0 }, "element {i}");
    }
}

/// Sums of doubles depend on the order: it is the same on all ranks, every time, and as by messages.
fn same_bits_everywhere() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let r = f64::from(world.rank());
    for count in [40, 1000, 20_001] {
        let own: Vec<f64> = (0..count).map(|i| 1.0 / (1.0 + 13.0 * r + f64::from(i))).collect();
        let mut by_messages = vec![0.0; own.len()];
        mpi::request::scope(|scope| {
            let sum = SystemOperation::sum();
            world.immediate_all_reduce_into(scope, &own[..], &mut by_messages[..], sum).wait();
        });
        for round in 0..ROUNDS {
            let mut got = vec![0.0; own.len()];
            world.all_reduce_into(&own[..], &mut got[..], SystemOperation::sum());
            assert!(got == by_messages, "{count} doubles in round {round}");
        }
        let mut all = vec![0.0; own.len() * world.size() as usize];
        world.all_gather_into(&by_messages[..], &mut all[..]);
        assert!(all.chunks(own.len()).all(|theirs| theirs == &by_messages[..]), "{count} doubles");
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
            let own = vec![comm.rank() + round; 3000];
            let mut got = vec![0; 3000];
            comm.all_reduce_into(&own[..], &mut got[..], SystemOperation::max());
            assert!(got.iter().all(|x| *x == comm.size() - 1 + round));
        }
    }
}

/// Immediate collectives of the same communicator are under way meanwhile, and end in any order.
fn beside_immediate_ones() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (n, r) = (world.size(), world.rank());
    let own = vec![i64::from(r); 20_000];
    let expected = i64::from(n * (n - 1) / 2);
    for round in 0..10 {
        let (mut one, mut two, mut three) = (vec![0; 20_000], vec![0; 20_000], vec![0; 20_000]);
        mpi::request::scope(|scope| {
            let first =
                world.immediate_all_reduce_into(scope, &own[..], &mut one[..], SystemOperation::sum());
            world.all_reduce_into(&own[..], &mut two[..], SystemOperation::sum());
            let third =
                world.immediate_all_reduce_into(scope, &own[..], &mut three[..], SystemOperation::sum());
            if (round + r) % 2 == 0 {
                std::thread::sleep(Duration::from_millis(4));
            }
            world.barrier();
            third.wait();
            first.wait();
        });
        for got in [&one, &two, &three] {
            assert!(got.iter().all(|x| *x == expected), "round {round}");
        }
    }
}

/// The launcher ends the job; the others, who wait for it, do not hang.
fn a_rank_dies() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (own, mut got) = (vec![1; 50_000], vec![0; 50_000]);
    for round in 0..1000 {
        if round == 20 && world.rank() == 1 {
            // SAFETY: nothing but ending this process.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
        }
        world.all_reduce_into(&own[..], &mut got[..], SystemOperation::sum());
    }
}

/// Every choice is told, and the status shows that the output was looked at.
fn told() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (own, mut got) = (vec![1_u64; 1024], vec![0; 1024]);
    for _ in 0..ROUNDS {
        world.all_reduce_into(&own[..], &mut got[..], SystemOperation::sum());
    }
    world.abort(3);
}
