//! What a persistent receive lends out is given back before its next round starts.
use mpi::ext::prelude::*;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut receive = world.this_process().receive_init(vec![0; 3]);
    let data = receive.data();
    receive.start();
    assert_eq!(data[0], 0);
    receive.wait();
}
