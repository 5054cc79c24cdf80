//! A vector that an operation owns cannot be read until the operation gives it back.
use mpi::ext::prelude::*;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = vec![1, 2, 3];
    let send = world.this_process().isend_owned(data);
    let first = data[0];
    assert_eq!(send.wait()[0], first);
}
