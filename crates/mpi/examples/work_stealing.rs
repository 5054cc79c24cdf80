//! Work that its owner was slow at is taken by others: every rank has a queue of tasks in a window, and who runs out
//! draws from the queues of the rest, one fetch-and-op per task and not a word from the owner.
//!
//! Rank 0 begins with nearly all of the work. In the end every task must have been done once, by somebody.

use mpi::collective::SystemOperation;
use mpi::traits::*;
use mpi::window::{Passive, Window};

const TASKS_OF_FIRST: u64 = 400;
const TASKS_OF_OTHERS: u64 = 10;
/// Words of the window: the next task to be drawn, and how many there are.
const NEXT: usize = 0;
const COUNT: usize = 1;

/// How many tasks a rank begins with.
fn tasks_of(rank: i32) -> u64 {
    if rank == 0 { TASKS_OF_FIRST } else { TASKS_OF_OTHERS }
}

/// Draws a task of a rank's queue, if one is left.
fn draw(queues: &Passive<'_, '_, u64>, rank: i32) -> Option<u64> {
    let task = queues.fetch_and_op(rank, NEXT, 1, SystemOperation::sum());
    (task < queues.read(rank, COUNT)).then_some(task)
}

/// The work of a task: so long that others get their turn.
fn work(rank: i32, task: u64) -> u64 {
    let mut value = rank as u64 * 1000 + task;
    for _ in 0..2000 {
        value = std::hint::black_box(value.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    if value == 0 { 1 } else { rank as u64 * 1_000_000 + task }
}

pub(crate) fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    let (me, size) = (world.rank(), world.size());
    let mut window = Window::<u64>::allocate(&world, 2);
    window.set_name("queues");
    window.own(|queue| queue[COUNT] = tasks_of(me));
    world.barrier();

    let (mut done, mut sum, mut stolen) = (0_u64, 0_u64, 0_u64);
    window.lock_all(|queues| {
        // The own queue first, then those of the others, one after the other.
        for rank in (0..size).map(|i| (me + i) % size) {
            while let Some(task) = draw(queues, rank) {
                sum += work(rank, task);
                done += 1;
                stolen += u64::from(rank != me);
            }
        }
    });

    let mut totals = [0_u64; 3];
    world.all_reduce_into(&[done, sum, stolen][..], &mut totals[..], SystemOperation::sum());
    let all: u64 = (0..size).map(tasks_of).sum();
    let expected: u64 =
        (0..size).flat_map(|rank| (0..tasks_of(rank)).map(move |t| rank as u64 * 1_000_000 + t)).sum();
    assert_eq!(totals[..2], [all, expected], "every task once");
    if me == 0 {
        println!("{all} tasks done once each, {} by others than their owners", totals[2]);
    }
    window.free();
}
