//! Two ranks that both send first, and wait until the other one receives: neither ever does.
//!
//! `mpiexec --timeout 2 --picture picture.json -n 2 -p mpi-examples --example deadlock`

use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    assert_eq!(world.size(), 2, "this takes two ranks");
    let other = world.process_at_rank(1 - world.rank());
    let (mine, mut theirs) = ([world.rank(); 100], [0; 100]);

    // Standard sends of this size would be buffered, and the mistake stay hidden until the data grow.
    other.synchronous_send(&mine[..]);
    other.receive_into(&mut theirs[..]);

    println!("rank {} has the data of rank {}", world.rank(), theirs[0]);
}
