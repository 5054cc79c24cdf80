//! A message that the transport lends out does not leave the closure through what it captures.
use mpi::ext::prelude::*;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut kept: &[i32] = &[];
    world.any_process().receive_ref(|values: &[i32], _status| kept = values);
    assert_eq!(kept.len(), 3);
}
