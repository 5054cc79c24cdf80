//! Collectives drawn from a seed, on real ranks: checked against a serial model by every rank for itself.

#[path = "../../../mpi-coll/tests/properties/calls/mod.rs"]
mod calls;

use crate::ranks::join;
use calls::{Form, disagreement};
use mpi_btl_sim::Rng;
use mpi_comm::{Comm, ErrorHandler, ThreadLevel};
use std::time::{Duration, Instant};

/// The seed to begin with; a failure names the one that failed.
const SEED_VARIABLE: &str = "MPI_TEST_SEED";
/// How many seeds, one after the other.
const ROUNDS_VARIABLE: &str = "MPI_TEST_ROUNDS";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Every collective, in all forms, on the world and on communicators of other orders and members.
pub fn collectives() {
    let world = join(ThreadLevel::Single);
    let first = number(SEED_VARIABLE, 1);
    for seed in first..first + number(ROUNDS_VARIABLE, 4) {
        let mut rng = Rng::new(seed);
        let turned = world.split(Some(0), world.size() as i32 - world.rank() as i32).unwrap().unwrap();
        let part = world.split(Some((world.rank() % 2) as i32), 0).unwrap().unwrap();
        for (comm, name) in [(&world, "world"), (&turned, "turned round"), (&part, "every second")] {
            round(comm, &mut rng, &format!("{SEED_VARIABLE}={seed}, {} ranks, {name}", comm.size()));
        }
    }
    mpi_comm::finalize().unwrap();
}

fn round(comm: &Comm, rng: &mut Rng, what: &str) {
    // The draws depend on the number of ranks, and the generator goes on alike on all.
    let mut rng = Rng::new(rng.next_u64());
    let draws = calls::drawn(&mut rng, comm.size() as usize);
    calls::run(&draws, what, comm.engine(), comm.team(), comm.rank() as usize);
}

/// The same bits from a sum that depends on the order of additions: in every form, on every rank, in every run.
pub fn same_bits() {
    let world = join(ThreadLevel::Single);
    for count in [1, 600, 9000, 200_000] {
        let r = world.rank() as usize;
        let bits = calls::reductions::inexact(world.engine(), world.team(), r, count);
        let sum = bits.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        // Every rank prints: the launch compares lines, over ranks and runs.
        println!("sum of {count}: {sum:016x}");
    }
    mpi_comm::finalize().unwrap();
}

/// Many immediate collectives at once, waited for in another order by every rank.
pub fn many() {
    let world = join(ThreadLevel::Single);
    for seed in 1..4 {
        calls::many::at_once(world.engine(), world.team(), world.rank() as usize, 40, seed);
    }
    mpi_comm::finalize().unwrap();
}

/// Every collective in every form, called differently by the last rank: all hear of it at once.
pub fn disagrees() {
    const AT_ONCE: Duration = Duration::from_secs(1);
    let world = join(ThreadLevel::Single);
    let n = world.size() as usize;
    for which in disagreement::COLLECTIVES {
        for differs in which.differs {
            for form in [Form::Blocking, Form::Immediate, Form::Persistent] {
                // What failed is not to be used again.
                let comm = world.dup().unwrap();
                comm.set_error_handler(ErrorHandler::Return);
                let other = (comm.rank() as usize == n - 1).then_some(*differs);
                world.barrier().unwrap();
                let begin = Instant::now();
                let result = disagreement::call(which, comm.engine(), comm.team(), form, other);
                let took = begin.elapsed();
                assert!(took < AT_ONCE, "{} differs in {differs:?}: {took:?}", which.name);
                disagreement::names_both_sides(which, *differs, n, result);
            }
        }
    }
    mpi_comm::finalize().unwrap();
}
