//! A buffer that a running send reads cannot be given away.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let data = vec![1, 2, 3];
    mpi::request::scope(|scope| {
        let send = world.this_process().immediate_send(scope, &data[..]);
        drop(data);
        send.wait();
    });
}
