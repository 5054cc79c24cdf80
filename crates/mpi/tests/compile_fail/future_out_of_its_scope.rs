//! A future does not leave the scope of its request.
use std::future::IntoFuture;

use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = vec![1, 2, 3];
    let future = mpi::request::scope(|scope| {
        world.this_process().immediate_send(scope, &data[..]).into_future()
    });
    futures::executor::block_on(future).unwrap();
}
