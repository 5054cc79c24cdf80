//! A buffer stays borrowed while a collection of requests holds its request.
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut room = [0; 2];
    mpi::request::multiple_scope(1, |scope, requests| {
        requests.add(world.any_process().immediate_receive_into(scope, &mut room));
        println!("{}", room[0]);
        requests.wait_all(&mut Vec::new());
    });
}
