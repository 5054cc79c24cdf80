//! After the scope a buffer is free again, and reading beside a running send is allowed.
use mpi::traits::*;

fn exchange(world: &impl Communicator) {
    let mut data = [1, 2, 3];
    let mut room = [0; 3];
    mpi::request::scope(|scope| {
        let receive = world.this_process().immediate_receive_into(scope, &mut room[..]);
        let send = world.this_process().immediate_send(scope, &data[..]);
        assert_eq!(data[0], 1);
        receive.wait();
        send.wait();
    });
    data[0] = room[1];
    assert_eq!(data[0], 2);
}

fn main() {
    let _: fn(&mpi::topology::SimpleCommunicator) = |world| exchange(world);
}
