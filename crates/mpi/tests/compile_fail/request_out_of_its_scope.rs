//! A request cannot leave its scope.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = 5;
    let request = mpi::request::scope(|scope| world.this_process().immediate_send(scope, &data));
    request.wait();
}
