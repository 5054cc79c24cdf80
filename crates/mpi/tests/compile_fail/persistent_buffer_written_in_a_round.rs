//! What a persistent operation lends out is given back before its next round starts.
use mpi::ext::prelude::*;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut send = world.this_process().send_init(vec![1, 2, 3]);
    let data = send.data_mut();
    send.start();
    data[0] = 4;
    send.wait();
}
