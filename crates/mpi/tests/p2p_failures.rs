//! What a program that breaks a rule, or whose message does not fit, is told; and how its job ends.

mod support;

use std::panic;
use std::process::ExitCode;

use mpi::traits::*;
use support::{Case, ERROR_STATUS, case};

const CASES: &[Case] = &[
    case("truncated", truncated)
        .on(&[4])
        .fails(ERROR_STATUS, &["receive on \"grid\" from rank 3 tag 7: message of 104 bytes, room for 80"]),
    case("truncated_large", truncated_large)
        .on(&[2])
        .fails(ERROR_STATUS, &["from rank 1 tag 0: message of 800000 bytes, room for 80"]),
    case("mismatched_types", mismatched_types).on(&[2]).fails(ERROR_STATUS, &["f64", "i32"]),
    case("negative_tag", negative_tag).on(&[2]).fails(ERROR_STATUS, &["tag -5", "MPI_COMM_WORLD"]),
    case("no_such_rank", no_such_rank).on(&[2]).fails(101, &["there is no rank 2", "which has 2 ranks"]),
    case("panic_while_others_wait", panic_while_others_wait).on(&[3]).fails(101, &["the heat is off"]),
    case("partial_line_before_a_panic", partial_line_before_a_panic)
        .on(&[2])
        .says_in_order(101, &["before it ends", "rank 1 (pid "]),
    case("panic_with_running_requests", panic_with_running_requests).on(&[2]).fails(101, &["in the middle"]),
    case("dropped_request", dropped_request).on(&[1]).fails(101, &["dropped without being completed"]),
    case("leaked_request", leaked_request).on(&[1]).fails(101, &["dropped without being completed"]),
    case("dropped_collection", dropped_collection).on(&[1]).fails(101, &["dropped without being completed"]),
    case("dropped_message", dropped_message).on(&[1]).fails(101, &["dropped without being received"]),
    case("empty_for_a_value", empty_for_a_value)
        .on(&[1])
        .fails(101, &["from rank 0", "empty message (0 bytes)", "one value of"]),
    case("abort", abort).on(&[2]).fails(7, &["abort(7)"]),
    case("before_initialisation", before_initialisation).on(&[1]).fails(ERROR_STATUS, &["not initialised"]),
    case("after_finalisation", after_finalisation).on(&[1]).fails(ERROR_STATUS, &["finalised"]),
    case("buffer_too_small", buffer_too_small).on(&[1]).fails(ERROR_STATUS, &["buffer"]),
    case("initialised_once", initialised_once).on(&[1]),
    case("panic_that_is_caught", panic_that_is_caught).on(&[2]),
    case("never_initialised", never_initialised).on(&[2]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn truncated() {
    let universe = mpi::initialize().unwrap();
    let grid = universe.world().duplicate();
    grid.set_name("grid");
    if grid.rank() == 3 {
        grid.process_at_rank(0).send_with_tag(&[0_u8; 104][..], 7);
    } else if grid.rank() == 0 {
        grid.any_process().receive_into(&mut [0_u8; 80][..]);
    }
    grid.barrier();
}

fn truncated_large() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        world.process_at_rank(0).send(&vec![0.0_f64; 100_000][..]);
    } else {
        world.process_at_rank(1).receive_into(&mut [0.0_f64; 10][..]);
    }
    world.barrier();
}

fn mismatched_types() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        world.process_at_rank(0).send(&[1.0_f64; 4][..]);
    } else {
        world.process_at_rank(1).receive_into(&mut [0_i32; 8][..]);
    }
    world.barrier();
}

fn negative_tag() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        world.process_at_rank(1).send_with_tag(&1, -5);
    }
    world.barrier();
}

fn no_such_rank() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 0 {
        world.process_at_rank(2).send(&1);
    }
    world.barrier();
}

fn panic_while_others_wait() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        panic!("the heat is off");
    }
    world.process_at_rank(1).receive::<i32>();
}

/// What was printed without a newline stands before the report of the death.
fn partial_line_before_a_panic() {
    let universe = mpi::initialize().unwrap();
    if universe.world().rank() == 1 {
        print!("before it ends");
        panic!("here");
    }
    universe.world().process_at_rank(1).receive::<i32>();
}

/// Neither the guard nor the scope waits for the peer while the panic unwinds.
fn panic_with_running_requests() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = 0;
    mpi::request::scope(|scope| {
        let from = world.process_at_rank(1 - world.rank());
        let _receive = mpi::request::WaitGuard::from(from.immediate_receive_into(scope, &mut room));
        if world.rank() == 0 {
            panic!("in the middle");
        }
    });
}

fn dropped_request() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = 0;
    mpi::request::scope(|scope| {
        drop(world.any_process().immediate_receive_into(scope, &mut room));
    });
}

fn leaked_request() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = 0;
    mpi::request::scope(|scope| {
        std::mem::forget(world.any_process().immediate_receive_into(scope, &mut room));
    });
    unreachable!("the scope ends the job");
}

fn dropped_collection() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = 0;
    mpi::request::multiple_scope(1, |scope, requests| {
        requests.add(world.any_process().immediate_receive_into(scope, &mut room));
    });
    unreachable!("the collection ends the job");
}

fn dropped_message() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.this_process().send(&1);
    drop(world.any_process().matched_probe());
}

fn empty_for_a_value() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.this_process().send::<[i32]>(&[]);
    world.any_process().receive::<i32>();
}

fn abort() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() == 1 {
        world.abort(7);
    }
    world.process_at_rank(1).receive::<i32>();
}

fn before_initialisation() {
    assert!(!mpi::is_initialized());
    mpi::topology::SimpleCommunicator::world();
}

fn after_finalisation() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    drop(universe);
    assert!(mpi::is_initialized() && mpi::is_finalized());
    drop(world); // what was made before may still be dropped
    mpi::topology::SimpleCommunicator::world();
}

fn buffer_too_small() {
    let mut universe = mpi::initialize().unwrap();
    universe.set_buffer_size(1000);
    universe.world().this_process().buffered_send(&[0_u8; 2000][..]);
}

fn initialised_once() {
    let universe = mpi::initialize().unwrap();
    assert!(mpi::initialize().is_none());
    drop(universe);
    assert!(mpi::initialize().is_none());
}

/// A panic that ends inside the universe's scope is the program's own matter.
fn panic_that_is_caught() {
    panic::set_hook(Box::new(|_| {}));
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    assert!(panic::catch_unwind(|| panic!("caught")).is_err());
    world.barrier();
}

fn never_initialised() {}
