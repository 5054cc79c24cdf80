//! A request without a scope takes only buffers that live for ever.
use mpi::request::StaticScope;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = 5;
    world.this_process().immediate_send(StaticScope, &data).wait();
}
