//! A buffer that a running receive writes cannot be read.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = [0; 3];
    mpi::request::scope(|scope| {
        let receive = world.any_process().immediate_receive_into(scope, &mut room[..]);
        println!("{:?}", room);
        receive.wait();
    });
}
