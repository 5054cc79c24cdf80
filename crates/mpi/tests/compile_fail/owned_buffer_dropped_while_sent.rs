//! A vector that an operation owns cannot be freed by the program.
use mpi::ext::prelude::*;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = vec![1, 2, 3];
    let send = world.this_process().isend_owned(data);
    drop(data);
    send.wait();
}
