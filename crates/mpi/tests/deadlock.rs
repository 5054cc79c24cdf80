//! The picture of a job that hangs: who waits for whom, and why nobody can go on.

mod support;

use mpi::collective::SystemOperation;
use mpi::ext::prelude::*;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::*;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::task::{Context, Waker};
use std::time::Duration;
use support::{Case, case};

const CASES: &[Case] = &[
    case("circle_of_receives", circle_of_receives).on(&[3]).hangs(&[
        "rank 0: receive has been blocked for",
        "on \"MPI_COMM_WORLD\" (context 0) from rank 1, tag 7",
        "a circle: rank 0 waits for rank 1, rank 1 waits for rank 2, rank 2 waits for rank 0",
    ]),
    case("both_send_first", both_send_first).on(&[2]).hangs(&[
        "rank 1: ",
        "send has been blocked for",
        "a circle: rank 0 waits for rank 1, rank 1 waits for rank 0",
    ]),
    case("wrong_tag", wrong_tag).on(&[2]).hangs(&[
        "on \"grid\"",
        "from rank 1, tag 8; 1 unexpected message is here, and none matches: [from rank 1 tag 7 (4 bytes)]",
        "rank 0 waits in vain: rank 1 has called finalize",
    ]),
    case("barrier_that_one_skips", barrier_that_one_skips).on(&[3]).hangs(&[
        "rank 2: in finalize; it waits for rank 0, or one behind it, to call finalize",
        "waits in vain: rank 2 has called finalize, and sends and receives nothing more",
    ]),
    case("all_receive_from_any", all_receive_from_any)
        .on(&[2])
        .hangs(&["from any rank, any tag", "a circle: rank 0 waits for rank 1, rank 1 waits for rank 0"]),
    case("another_root", another_root)
        .on(&[2])
        .hangs(&["a circle: rank 0 waits for rank 1, rank 1 waits for rank 0"]),
    case("receive_inside_a_lock", receive_inside_a_lock)
        .on(&[2])
        .hangs(&["rank 0: receive has been blocked for", "rank 1: lock of a window has been blocked for"]),
    // Who holds a lock is known where the lock lies in shared memory.
    case("two_locks_crosswise", two_locks_crosswise)
        .on(&[2])
        .over(&["shm"])
        .hangs(&["a circle: rank 0 waits for rank 1, rank 1 waits for rank 0"]),
    case("barrier_waits", barrier_waits).on(&[2]).hangs(&[
        "rank 1: barrier has been blocked for",
        "on \"MPI_COMM_WORLD\"",
        "waiting for rank 0",
    ]),
    case("broadcast_waits", broadcast_waits).on(&[2]).hangs(&[
        "rank 1: broadcast has been blocked for",
        "on \"grid\"",
        "waiting for rank 0",
    ]),
    case("large_broadcast_waits", large_broadcast_waits).on(&[2]).hangs(&[
        "rank 1: broadcast has been blocked for",
        "on \"MPI_COMM_WORLD\"",
        "waiting for rank 0",
    ]),
    case("all_reduce_waits", all_reduce_waits).on(&[2]).hangs(&[
        "rank 1: allreduce has been blocked for",
        "on \"MPI_COMM_WORLD\"",
        "waiting for rank 0",
    ]),
    case("gather_waits", gather_waits)
        .on(&[2])
        .hangs(&["rank 0: gather has been blocked for", "waiting for rank 1"]),
    case("immediate_barrier_waits", immediate_barrier_waits)
        .on(&[2])
        .hangs(&["rank 1: barrier has been blocked for", "waiting for rank 0"]),
    case("split_waits", split_waits).on(&[2]).hangs(&[
        "rank 1: split has been blocked for",
        "on \"MPI_COMM_WORLD\"",
        "waiting for rank 0",
    ]),
    case("owned_receives_wait", owned_receives_wait).on(&[3]).hangs(&[
        "rank 0: receive_vec has been blocked for",
        "rank 1: receive_ref has been blocked for",
        "rank 2: receive_on_loan has been blocked for",
        "on \"MPI_COMM_WORLD\" (context 0) from rank 2, tag 5; no unexpected message is here",
    ]),
    case("both_ways_and_a_send_wait", both_ways_and_a_send_wait).on(&[2]).hangs(&[
        "rank 0: send-receive has been blocked for",
        "rank 1: wait has been blocked for",
        "on \"MPI_COMM_WORLD\" (context 0) to rank 0, tag 5; 1 unexpected message is here: [from rank 0 tag 1 (",
        "a circle: rank 0 waits for rank 1, rank 1 waits for rank 0",
    ]),
    case("awaits", awaits).on(&[2]).hangs(&[
        "rank 0: awaited receive has been blocked for",
        "on \"MPI_COMM_WORLD\" (context 0) from rank 1, tag 5",
        "rank 1: awaited send has been blocked for",
        "on \"MPI_COMM_WORLD\" (context 0) to rank 0, tag 6",
        "a circle: rank 0 waits for rank 1, rank 1 waits for rank 0",
    ]),
    // Tests again and again are no blocked call; what they are for is known all the same.
    case("both_poll", both_poll).on(&[2]).hangs(&[
        "rank 0: polls, in vain so far: receive on \"MPI_COMM_WORLD\" from rank 1 tag 5; 0 messages not yet received",
        "a circle, if rank 0 and rank 1, which poll, do nothing else: rank 0 waits for rank 1, rank 1 waits for rank 0",
    ]),
    case("one_probes", one_probes).on(&[2]).hangs(&[
        "rank 0: polls, in vain so far: a message on \"MPI_COMM_WORLD\" from rank 1 tag 6; 0 receives posted, 1 message",
        "a circle, if rank 0, which polls, does nothing else: rank 0 waits for rank 1, rank 1 waits for rank 0",
    ]),
    case("fence_against_receive", fence_against_receive).on(&[2]).hangs(&[
        "rank 1: fence has been blocked for",
        "on \"MPI_COMM_WORLD\" (context",
        ", window \"halo\", waiting for rank 0",
        "a circle: rank 0 waits for rank 1, rank 1 waits for rank 0",
    ]),
    case("fence_without_two", fence_without_two).on(&[4]).over(&["shm"]).hangs(&[
        "fence has been blocked for",
        ", window \"halo\", waiting for ranks 0, 2",
    ]),
    case("lock_names_its_window", lock_names_its_window)
        .on(&[2])
        .hangs(&["rank 1: lock of a window has been blocked for", ", window \"halo\", waiting for rank 0"]),
    case("names_paint_nothing", names_paint_nothing).on(&[1]).hangs(&["on \"a\\u{1b}[31m\\\"b\\n\" (context"]),
    case("one_computes", one_computes).on(&[2]).hangs(&["rank 1: runs outside of MPI"]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn circle_of_receives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let next = (world.rank() + 1) % world.size();
    world.process_at_rank(next).receive_with_tag::<i32>(7);
}

fn both_send_first() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let other = world.process_at_rank(1 - world.rank());
    other.synchronous_send(&1_i32);
    other.receive::<i32>();
}

fn wrong_tag() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let grid = world.split_by_color(Color::with_value(0)).unwrap();
    grid.set_name("grid");
    if grid.rank() == 0 {
        grid.process_at_rank(1).receive_with_tag::<i32>(8);
    } else {
        grid.process_at_rank(0).send_with_tag(&1_i32, 7);
    }
}

fn barrier_that_one_skips() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() != 2 {
        world.barrier();
    }
}

fn all_receive_from_any() {
    let universe = mpi::initialize().unwrap();
    universe.world().any_process().receive::<i32>();
}

/// Each takes the other for the root.
fn another_root() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut data = [0_u8; 100];
    world.process_at_rank(1 - world.rank()).broadcast_into(&mut data[..]);
}

/// Rank 0 waits for a message while it holds the lock that rank 1 wants before it sends.
fn receive_inside_a_lock() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = mpi::window::Window::<u8>::allocate(&world, 8);
    if world.rank() == 0 {
        window.lock_exclusive(0, |_| {
            world.process_at_rank(1).send(&1_i32);
            world.process_at_rank(1).receive::<i32>();
        });
    } else {
        world.process_at_rank(0).receive::<i32>();
        window.lock_exclusive(0, |_| {});
        world.process_at_rank(0).send(&2_i32);
    }
}

/// Each holds the lock of a window and wants that of the other one; all four are of rank 0's memory.
fn two_locks_crosswise() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut windows = [0, 1].map(|_| mpi::window::Window::<u8>::allocate(&world, 8));
    let [first, second] = &mut windows;
    let (mine, others) = if world.rank() == 0 { (first, second) } else { (second, first) };
    mine.lock_exclusive(0, |_| {
        world.barrier();
        others.lock_exclusive(0, |_| {});
    });
}

/// Rank `absent` computes while the others call `operation`.
fn without(absent: i32, operation: impl Fn(&SimpleCommunicator)) {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == absent {
        std::thread::sleep(Duration::from_secs(100));
    }
    operation(&world);
}

fn barrier_waits() {
    without(0, |world| world.barrier());
}

fn broadcast_waits() {
    let universe = mpi::initialize().unwrap();
    let grid = universe.world().duplicate();
    grid.set_name("grid");
    if grid.rank() == 0 {
        std::thread::sleep(Duration::from_secs(100));
    }
    grid.process_at_rank(0).broadcast_into(&mut 0_i32);
}

fn large_broadcast_waits() {
    without(0, |world| world.process_at_rank(0).broadcast_into(&mut vec![0_u64; 1 << 17][..]));
}

fn all_reduce_waits() {
    without(0, |world| world.all_reduce_into(&1, &mut 0, SystemOperation::sum()));
}

fn gather_waits() {
    without(1, |world| world.process_at_rank(0).gather_into_root(&1, &mut [0; 2][..]));
}

fn immediate_barrier_waits() {
    without(0, |world| world.immediate_barrier().wait_without_status());
}

fn split_waits() {
    without(0, |world| drop(world.split_by_color(Color::with_value(0))));
}

fn owned_receives_wait() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let from = world.process_at_rank((world.rank() + 2) % 3);
    match world.rank() {
        0 => drop(from.receive_vec_with_tag::<i32>(5)),
        1 => from.receive_ref_with_tag(5, |_: &[i32], _| ()),
        _ => from.receive_on_loan_with_tag(5, |_: &[i32], _| ()),
    }
}

/// The send of a send-receive is received by nobody, as rank 1 waits for another send.
fn both_ways_and_a_send_wait() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let other = world.process_at_rank(1 - world.rank());
    if world.rank() == 0 {
        mpi::point_to_point::send_receive_with_tags::<_, _, i32, _>(&1_i32, &other, 1, &other, 2);
    } else {
        other.probe();
        mpi::request::scope(|scope| {
            other.immediate_synchronous_send_with_tag(scope, &1, 5).wait();
        });
    }
}

/// Each awaits what the other never does, and nothing else runs.
fn awaits() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let other = world.process_at_rank(1 - world.rank());
    let mut cx = Context::from_waker(Waker::noop());
    if world.rank() == 0 {
        let mut receive = other.irecv_vec_with_tag::<i32>(5);
        assert!(Pin::new(&mut receive).poll(&mut cx).is_pending());
        std::thread::sleep(Duration::from_secs(100));
    } else {
        let mut send = other.issend_owned_with_tag(vec![1], 6);
        assert!(Pin::new(&mut send).poll(&mut cx).is_pending());
        std::thread::sleep(Duration::from_secs(100));
    }
}

fn one_computes() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        world.process_at_rank(1).receive::<i32>();
    } else {
        std::thread::sleep(Duration::from_secs(100));
    }
}

fn both_poll() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut word = 0_i32;
    mpi::request::scope(|scope| {
        let mut open =
            world.process_at_rank(1 - world.rank()).immediate_receive_into_with_tag(scope, &mut word, 5);
        loop {
            match open.test() {
                Ok(_) => break,
                Err(again) => open = again,
            }
        }
    });
}

fn one_probes() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let other = world.process_at_rank(1 - world.rank());
    if world.rank() == 0 {
        while other.immediate_probe_with_tag(6).is_none() {}
    } else {
        other.send_with_tag(&1_i32, 7);
        other.receive::<i32>();
    }
}

fn fence_against_receive() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = mpi::window::Window::<u8>::allocate(&world, 8);
    window.set_name("halo");
    if world.rank() == 0 {
        world.process_at_rank(1).receive::<i32>();
    }
    window.fence(|_| ());
}

fn fence_without_two() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = mpi::window::Window::<u8>::allocate(&world, 8);
    window.set_name("halo");
    // All have been at one.
    window.fence(|_| ());
    if world.rank() % 2 == 0 {
        std::thread::sleep(Duration::from_secs(100));
    }
    window.fence(|_| ());
}

fn lock_names_its_window() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = mpi::window::Window::<u8>::allocate(&world, 8);
    window.set_name("halo");
    let other = world.process_at_rank(1 - world.rank());
    if world.rank() == 0 {
        window.lock_exclusive(0, |_| {
            other.send(&1_i32);
            std::thread::sleep(Duration::from_secs(100));
        });
    } else {
        other.receive::<i32>();
        window.lock_exclusive(0, |_| {});
    }
}

/// What a program calls its communicators does not reach the terminal as it is.
fn names_paint_nothing() {
    let universe = mpi::initialize().unwrap();
    let own = universe.world().duplicate();
    own.set_name("a\x1b[31m\"b\n");
    own.process_at_rank(0).receive::<i32>();
}
