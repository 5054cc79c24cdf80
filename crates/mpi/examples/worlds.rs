//! Spawns copies of itself, talks with them, and says how long it all took.
//!
//! ```text
//! cargo run --release --example worlds -- 8
//! ```
//!
//! One process without a launcher will do: it starts `mpiexec` for those that it spawns.

use std::process::Command;
use std::time::Instant;

use mpi::topology::{InterCommunicator, MergeOrder};
use mpi::traits::*;

/// First argument of those that were spawned.
const CHILD: &str = "child";
/// Messages there and back per measurement.
const ROUNDS: u32 = 10_000;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    if let Some(parent) = world.parent() {
        return child(&parent);
    }
    let count = std::env::args().nth(1).map_or(2, |text| text.parse().expect("a number of processes"));
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.arg(CHILD);
    let (inter, spawn) =
        timed(|| world.process_at_rank(0).spawn(&command, count).expect("the root has said what is wrong"));
    let (all, merge) = timed(|| inter.merge(MergeOrder::Low));
    all.barrier();
    if world.rank() == 0 {
        let across = half_round_trip(&inter, true);
        let (inside, _) = inter.process_at_rank(0).receive::<f64>();
        println!("{count} spawned in {spawn:.3} s, merged in {merge:.6} s");
        println!("8 bytes between the worlds {across:.2} us");
        if count > 1 {
            println!("8 bytes inside the new one {inside:.2} us");
        }
    }
    all.barrier();
    drop(all);
    let ((), disconnect) = timed(|| drop(inter));
    if world.rank() == 0 {
        println!("disconnected in {disconnect:.6} s");
    }
}

fn child(parent: &InterCommunicator) {
    let world = mpi::topology::SimpleCommunicator::world();
    let all = parent.merge(MergeOrder::High);
    all.barrier();
    if world.rank() == 0 {
        half_round_trip(parent, false);
    }
    let inside = match (world.rank(), world.size()) {
        (_, 1) => 0.0,
        (0, _) => with_neighbour(&world, true),
        (1, _) => with_neighbour(&world, false),
        _ => 0.0,
    };
    if world.rank() == 0 {
        parent.process_at_rank(0).send(&inside);
    }
    all.barrier();
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed().as_secs_f64())
}

/// Microseconds from one root to the other.
fn half_round_trip(inter: &InterCommunicator, first: bool) -> f64 {
    rounds(&inter.process_at_rank(0), first)
}

/// The same between ranks 0 and 1.
fn with_neighbour(world: &mpi::topology::SimpleCommunicator, first: bool) -> f64 {
    rounds(&world.process_at_rank(i32::from(first)), first)
}

fn rounds<P: Source + Destination>(peer: &P, first: bool) -> f64 {
    let mut value = 0.0f64;
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        if first {
            peer.send(&value);
            peer.receive_into(&mut value);
        } else {
            peer.receive_into(&mut value);
            peer.send(&value);
        }
    }
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(2 * ROUNDS)
}
