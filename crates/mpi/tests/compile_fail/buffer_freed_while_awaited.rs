//! A future borrows what its request borrowed.
use std::future::IntoFuture;

use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = vec![1, 2, 3];
    mpi::request::scope(|scope| {
        let future = world.this_process().immediate_send(scope, &data[..]).into_future();
        drop(data);
        futures::executor::block_on(future).unwrap();
    });
}
