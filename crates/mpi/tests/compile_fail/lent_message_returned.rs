//! A message that the transport lends out does not leave the closure as its result.
use mpi::ext::prelude::*;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let values = world.any_process().receive_ref(|values: &[i32], _status| values);
    assert_eq!(values.len(), 3);
}
