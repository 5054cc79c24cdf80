//! A buffer must outlive the scope of its request.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    mpi::request::scope(|scope| {
        let data = [1, 2, 3];
        world.this_process().immediate_send(scope, &data[..]).wait();
    });
}
