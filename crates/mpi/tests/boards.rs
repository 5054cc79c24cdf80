//! Collectives where ranks outnumber processors, so that they meet on a board of the node: long enough for the
//! communicator to have one, with ranks that come late, when the others are asleep.

mod support;

use std::process::ExitCode;
use std::time::Duration;

use mpi::collective::SystemOperation;
use mpi::traits::*;
use support::{Case, case};

/// More than any machine that tests has processors for, at the second number.
const CROWD: &[u32] = &[3, 9];
/// Well above the calls after which a communicator asks for a board.
const ROUNDS: i32 = 60;
/// Longer than a waiting rank hands its processor over before it sleeps.
const LATE: Duration = Duration::from_millis(8);

const CASES: &[Case] = &[
    case("late_ranks_wake_the_others", late_ranks_wake_the_others).on(CROWD).over(&["shm"]),
    case("communicators_come_and_go", communicators_come_and_go).on(CROWD),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn late_ranks_wake_the_others() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (n, r) = (world.size(), world.rank());
    for round in 0..ROUNDS {
        if round % n == r {
            std::thread::sleep(LATE);
        }
        let mut sum = 0;
        world.all_reduce_into(&(round * 100 + r), &mut sum, SystemOperation::sum());
        assert_eq!(sum, n * round * 100 + n * (n - 1) / 2, "round {round}");
        world.barrier();
    }
}

/// Each gets a board of its own while there are some, and messages later.
fn communicators_come_and_go() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (n, r) = (world.size(), world.rank());
    for generation in 0..7 {
        let half = world.split_by_color(mpi::topology::Color::with_value((r + generation) % 2)).unwrap();
        let both = [&world.duplicate(), &half];
        for round in 0..30 {
            for comm in both {
                let mut max = -1;
                comm.all_reduce_into(&(round * 100 + r), &mut max, SystemOperation::max());
                let top = if comm.size() == n || (n - 1 + generation) % 2 == (r + generation) % 2 {
                    n - 1
                } else {
                    n - 2
                };
                assert_eq!(max, round * 100 + top, "round {round} of generation {generation}");
                comm.barrier();
            }
        }
    }
}
