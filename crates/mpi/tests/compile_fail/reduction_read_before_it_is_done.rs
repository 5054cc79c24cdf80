//! The result of a running reduction cannot be read, nor its contribution changed.
use mpi::collective::SystemOperation;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (mut mine, mut sum) = (1, 0);
    mpi::request::scope(|scope| {
        let request = world.immediate_all_reduce_into(scope, &mine, &mut sum, SystemOperation::sum());
        mine += sum;
        request.wait();
    });
}
