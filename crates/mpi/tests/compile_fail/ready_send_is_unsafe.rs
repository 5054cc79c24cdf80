//! A ready send is a promise that the compiler cannot check.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.this_process().ready_send(&1);
}
