//! What a future receives cannot be read before it is ready.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = [0; 3];
    mpi::request::scope(|scope| {
        let receive = async { world.this_process().immediate_receive_into(scope, &mut room[..]).await };
        assert_eq!(room[0], 0);
        futures::executor::block_on(receive).unwrap();
    });
}
