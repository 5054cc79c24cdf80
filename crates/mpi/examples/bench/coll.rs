//! Collectives: the slowest rank's time, since the root of a broadcast may run ahead.

use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use crate::util::*;

const OVERLAP_REDUCE_BYTES: usize = 1 << 20;
const OVERLAP_ROUNDS: usize = 15;
const OVERLAP_COMPUTE: Duration = Duration::from_millis(50);
/// From here on one round is enough to warm up.
const SLOW_COLLECTIVE_BYTES: usize = 64 << 10;

/// Which collective. Vectors of doubles are reduced, bytes are moved.
#[derive(Clone, Copy)]
enum Collective {
    Barrier,
    Broadcast,
    /// No root runs ahead.
    MetBroadcast,
    Allreduce,
    Reduce,
    Allgather,
    Alltoall,
}

use Collective::*;

/// Bytes of the vector, or of each rank's block.
const OPERATIONS: [(&str, usize, Collective); 17] = [
    ("barrier", 0, Barrier),
    ("broadcast_8", 8, Broadcast),
    ("broadcast_1024", 1 << 10, Broadcast),
    ("broadcast_65536", 64 << 10, Broadcast),
    ("broadcast_1048576", 1 << 20, Broadcast),
    ("broadcast_8388608", 8 << 20, Broadcast),
    ("met_broadcast_1024", 1 << 10, MetBroadcast),
    ("allreduce_8", 8, Allreduce),
    ("allreduce_1024", 1 << 10, Allreduce),
    ("allreduce_65536", 64 << 10, Allreduce),
    ("allreduce_1048576", 1 << 20, Allreduce),
    ("allreduce_8388608", 8 << 20, Allreduce),
    ("reduce_65536", 64 << 10, Reduce),
    ("allgather_1024", 1 << 10, Allgather),
    ("allgather_65536", 64 << 10, Allgather),
    ("alltoall_1024", 1 << 10, Alltoall),
    ("alltoall_65536", 64 << 10, Alltoall),
];

struct Buffers {
    bytes: Bytes,
    more: Bytes,
    doubles: Vec<f64>,
    sums: Vec<f64>,
}

impl Buffers {
    fn new(which: Collective, bytes: usize, ranks: usize) -> Buffers {
        let (moved, reduced) = match which {
            Allreduce | Reduce => (1, bytes / 8),
            Allgather | Alltoall => (bytes * ranks, 0),
            _ => (bytes.max(1), 0),
        };
        Buffers {
            bytes: Bytes::new(moved, 0),
            more: Bytes::new(moved, 0),
            doubles: vec![0.5; reduced],
            sums: vec![1.0; reduced],
        }
    }
}

fn run(world: &SimpleCommunicator, which: Collective, bytes: usize, b: &mut Buffers) {
    let root = world.process_at_rank(0);
    match which {
        Barrier => world.barrier(),
        Broadcast => root.broadcast_into(&mut b.bytes.as_mut_slice()[..bytes]),
        MetBroadcast => {
            world.barrier();
            root.broadcast_into(&mut b.bytes.as_mut_slice()[..bytes]);
        }
        Allreduce => world.all_reduce_into(&b.doubles[..], &mut b.sums[..], SystemOperation::sum()),
        Reduce if world.rank() == 0 => {
            root.reduce_into_root(&b.doubles[..], &mut b.sums[..], SystemOperation::sum());
        }
        Reduce => root.reduce_into(&b.doubles[..], SystemOperation::sum()),
        Allgather => world.all_gather_into(&b.bytes.as_mut_slice()[..bytes], b.more.as_mut_slice()),
        Alltoall => world.all_to_all_into(&*b.bytes.as_mut_slice(), b.more.as_mut_slice()),
    }
}

/// The same answer everywhere: that of the slowest rank.
fn slowest(world: &SimpleCommunicator, took: f64) -> f64 {
    let mut slowest = 0.0;
    world.all_reduce_into(&took, &mut slowest, SystemOperation::max());
    slowest
}

/// Seconds that `times` rounds took on the slowest rank.
fn batch_of(world: &SimpleCommunicator, which: Collective, bytes: usize, times: i64, b: &mut Buffers) -> f64 {
    world.barrier();
    let start = Instant::now();
    for _ in 0..times {
        run(world, which, bytes, b);
    }
    slowest(world, start.elapsed().as_secs_f64())
}

/// Microseconds per operation, of those with a size of the list; of all without a list.
pub fn collectives(world: &SimpleCommunicator, sizes: &[usize]) {
    for (name, bytes, which) in OPERATIONS {
        if !sizes.is_empty() && !sizes.contains(&bytes) {
            continue;
        }
        let mut b = Buffers::new(which, bytes, world.size() as usize);
        let mut times = if bytes < SLOW_COLLECTIVE_BYTES { WARM_UP_ROUNDS } else { 1 };
        for _ in 0..2 {
            let took = batch_of(world, which, bytes, times, &mut b);
            times = (times as f64 * (BATCH_SECONDS / took)) as i64 + 1;
        }
        let mut batches = [0.0; BATCHES];
        batches.fill_with(|| batch_of(world, which, bytes, times, &mut b) / times as f64);
        if let Allreduce = which {
            assert!(b.sums.iter().all(|sum| *sum == 0.5 * f64::from(world.size())), "a wrong sum");
        }
        if world.rank() == 0 {
            result(&format!("{name}/{}", world.size()), median(&mut batches) * 1e6);
        }
    }
}

/// Seconds left in the wait of an immediate allreduce after some work on every rank; without work, of all of it.
fn reduce_and_wait(
    world: &SimpleCommunicator,
    data: &[f64],
    sums: &mut [f64],
    compute: Option<Duration>,
) -> f64 {
    world.barrier();
    let took = mpi::request::scope(|scope| {
        let mut start = Instant::now();
        let request = world.immediate_all_reduce_into(scope, data, sums, SystemOperation::sum());
        if let Some(time) = compute {
            spin(time);
            start = Instant::now();
        }
        request.wait();
        start.elapsed().as_secs_f64()
    });
    slowest(world, took)
}

/// The wait after 50 ms of work, as a share of the same allreduce without work.
pub fn overlap(world: &SimpleCommunicator) {
    let data = vec![0.5; OVERLAP_REDUCE_BYTES / 8];
    let mut sums = data.clone();
    let (mut blocking, mut left) = ([0.0; OVERLAP_ROUNDS], [0.0; OVERLAP_ROUNDS]);
    blocking.fill_with(|| reduce_and_wait(world, &data, &mut sums, None));
    left.fill_with(|| reduce_and_wait(world, &data, &mut sums, Some(OVERLAP_COMPUTE)));
    if world.rank() == 0 {
        let (whole, rest) = (median(&mut blocking), median(&mut left));
        result("overlap_allreduce", rest / whole);
        result("overlap_allreduce_blocking_us", whole * 1e6);
        result("overlap_allreduce_left_us", rest * 1e6);
    }
}

/// Microseconds of one collective by size: bytes of the vector, of a block, or of the whole of an allgather. For
/// `cargo xtask tune`, so it has no half in C.
pub fn tune(world: &SimpleCommunicator, name: &str, sizes: &[usize]) {
    let ranks = world.size() as usize;
    let root = world.process_at_rank(0);
    let at_root = world.rank() == 0;
    let sum = SystemOperation::sum;
    for &bytes in sizes {
        let count = (bytes / 8).max(1);
        let (own, mut got) = (vec![0.5; count], vec![0.5; count]);
        let (all, mut room) = (vec![0.5; count * ranks], vec![0.5; count * ranks]);
        let part = (count / ranks).max(1);
        let mut run = || match name {
            "broadcast" => root.broadcast_into(&mut got[..]),
            "reduce" if at_root => root.reduce_into_root(&own[..], &mut got[..], sum()),
            "reduce" => root.reduce_into(&own[..], sum()),
            "allreduce" => world.all_reduce_into(&own[..], &mut got[..], sum()),
            "gather" if at_root => root.gather_into_root(&own[..], &mut room[..]),
            "gather" => root.gather_into(&own[..]),
            "scatter" if at_root => root.scatter_into_root(&all[..], &mut got[..]),
            "scatter" => root.scatter_into(&mut got[..]),
            "allgather" => world.all_gather_into(&own[..part], &mut room[..part * ranks]),
            "alltoall" => world.all_to_all_into(&all[..], &mut room[..]),
            "reduce_scatter" => {
                world.reduce_scatter_block_into(&all[..part * ranks], &mut got[..part], sum());
            }
            _ => panic!("no collective {name} to tune"),
        };
        let mut batch_of = |times: i64| {
            world.barrier();
            let start = Instant::now();
            for _ in 0..times {
                // No root runs ahead.
                run();
                world.barrier();
            }
            slowest(world, start.elapsed().as_secs_f64())
        };
        let times = (3.0 * BATCH_SECONDS / batch_of(3)) as i64 + 1;
        let mut batches = [0.0; 5];
        batches.fill_with(|| batch_of(times) / times as f64);
        if world.rank() == 0 {
            result(&bytes.to_string(), median(&mut batches) * 1e6);
        }
    }
}
