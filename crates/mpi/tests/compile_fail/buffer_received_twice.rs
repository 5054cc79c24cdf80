//! Two running receives cannot share a buffer.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = [0; 3];
    mpi::request::scope(|scope| {
        let first = world.any_process().immediate_receive_into(scope, &mut room[..]);
        let second = world.any_process().immediate_receive_into(scope, &mut room[..]);
        first.wait();
        second.wait();
    });
}
