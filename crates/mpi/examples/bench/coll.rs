//! Small collectives: the slowest rank's time, since the root of a broadcast may run ahead.

use std::time::Instant;

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use crate::util::*;

const COLLECTIVE_BYTES: usize = 1024;

type Operation = fn(world: &SimpleCommunicator, out: &mut [u8], into: &mut [u8]);

const OPERATIONS: [(&str, Operation); 5] = [
    ("barrier", |world, _, _| world.barrier()),
    ("broadcast_8", |world, out, _| world.process_at_rank(0).broadcast_into(&mut out[..8])),
    ("allreduce_8", |world, _, _| {
        let mut sum = 0.0_f64;
        world.all_reduce_into(&1.0_f64, &mut sum, SystemOperation::sum());
        assert_eq!(sum, f64::from(world.size()));
    }),
    ("allgather_1024", |world, out, into| world.all_gather_into(&out[..COLLECTIVE_BYTES], into)),
    ("alltoall_1024", |world, out, into| world.all_to_all_into(&*out, into)),
];

/// Seconds that `times` rounds took on the slowest rank; the same answer everywhere.
fn batch_of(world: &SimpleCommunicator, run: Operation, times: i64, out: &mut [u8], into: &mut [u8]) -> f64 {
    world.barrier();
    let start = Instant::now();
    for _ in 0..times {
        run(world, out, into);
    }
    let took = start.elapsed().as_secs_f64();
    let mut slowest = 0.0;
    world.all_reduce_into(&took, &mut slowest, SystemOperation::max());
    slowest
}

/// Microseconds per operation.
pub fn collectives(world: &SimpleCommunicator) {
    let mut out = vec![0; COLLECTIVE_BYTES * world.size() as usize];
    let mut into = out.clone();
    for (name, run) in OPERATIONS {
        let mut times = WARM_UP_ROUNDS;
        for _ in 0..2 {
            let took = batch_of(world, run, times, &mut out, &mut into);
            times = (times as f64 * (BATCH_SECONDS / took)) as i64 + 1;
        }
        let mut batches = [0.0; BATCHES];
        batches.fill_with(|| batch_of(world, run, times, &mut out, &mut into) / times as f64);
        if world.rank() == 0 {
            result(&format!("{name}/{}", world.size()), median(&mut batches) * 1e6);
        }
    }
}
