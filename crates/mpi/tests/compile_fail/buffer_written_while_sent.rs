//! A buffer that a running send reads cannot be written.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut data = [1, 2, 3];
    mpi::request::scope(|scope| {
        let send = world.this_process().immediate_send(scope, &data[..]);
        data[0] = 4;
        send.wait();
    });
}
