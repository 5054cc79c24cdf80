//! Messages and collectives while system calls fail, fall short and come late on purpose (`MPI_FAULTS`).
//!

mod support;

use std::process::ExitCode;

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use support::{Case, ERROR_STATUS, case};

/// Status of a rank that could not start.
const START_STATUS: i32 = 3;
/// Everything that costs nothing but time.
const DISTURBED: &[(&str, &str)] =
    &[("MPI_FAULTS", "seed=5,short=0.3,eintr=0.3,eagain=0.3,delay=0.01,cma=0.3")];
const REFUSED: &[(&str, &str)] = &[("MPI_FAULTS", "seed=6,cma=refuse,membarrier=refuse,short=0.5")];
/// Connecting is tried again; what happens after that is an error.
const RESET: &[(&str, &str)] = &[("MPI_FAULTS", "seed=7,reset=0.05")];
const NO_DESCRIPTORS: &[(&str, &str)] = &[("MPI_FAULTS", "seed=8,fds=exhausted")];

const CASES: &[Case] = &[
    case("order_under_mixed_sizes", order_under_mixed_sizes).on(&[3]).slow().with(DISTURBED),
    case("without_other_processes_memory", order_under_mixed_sizes).on(&[3]).slow().with(REFUSED),
    case("collectives", collectives).on(&[4]).slow().with(DISTURBED),
    case("reset", collectives).on(&[2]).over(&["tcp"]).with(RESET).fails(ERROR_STATUS, &["the peer is gone"]),
    case("no_descriptors", collectives)
        .on(&[2])
        .with(NO_DESCRIPTORS)
        .fails(START_STATUS, &["Too many open files"]),
];

fn main() -> ExitCode {
    support::main(CASES)
}

/// Most are short; some need a rendezvous.
fn length(n: u64) -> usize {
    let h = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    match h % 16 {
        0 => (h >> 4) as usize % 60_000,
        1..=3 => (h >> 4) as usize % 4_000,
        _ => (h >> 4) as usize % 40,
    }
}

fn written(from: u64, n: u64) -> Vec<u64> {
    (0..length(n) as u64 + 1)
        .map(|i| (n << 24 | from << 16 | i).wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .collect()
}

fn order_under_mixed_sizes() {
    const MESSAGES: u64 = 600;
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if world.rank() != 0 {
        for n in 0..MESSAGES {
            world.process_at_rank(0).send(&written(world.rank() as u64, n)[..]);
        }
        return;
    }
    let mut next = vec![0; world.size() as usize];
    for _ in 0..MESSAGES * (world.size() as u64 - 1) {
        let (got, status) = world.any_process().receive_vec::<u64>();
        let n = &mut next[status.source_rank() as usize];
        assert!(got == written(status.source_rank() as u64, *n), "message {n} of {status:?} has other bytes");
        *n += 1;
    }
}

fn collectives() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    for round in 0..60 {
        one_round(&world, round);
    }
}

fn one_round(world: &SimpleCommunicator, round: u64) {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let root = (round % size) as i32;
    let mut data = match world.rank() == root {
        true => written(root as u64, round),
        false => vec![0; length(round) + 1],
    };
    world.process_at_rank(root).broadcast_into(&mut data[..]);
    assert!(data == written(root as u64, round), "a broadcast has other bytes");
    let mine = vec![rank + round; length(round + 1) + 1];
    let mut sum = vec![0; mine.len()];
    world.all_reduce_into(&mine[..], &mut sum[..], SystemOperation::sum());
    assert!(sum.iter().all(|s| *s == size * (size - 1) / 2 + size * round), "a sum is wrong");
    let mut all = vec![0; size as usize];
    world.all_gather_into(&(rank * 7 + round), &mut all[..]);
    assert!(all.iter().enumerate().all(|(i, v)| *v == i as u64 * 7 + round));
    world.barrier();
}
