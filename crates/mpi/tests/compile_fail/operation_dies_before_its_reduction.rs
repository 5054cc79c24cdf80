//! The closure of a reduction lives as long as the reduction runs.
use mpi::collective::UserOperation;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (mine, mut sum) = (1, 0);
    mpi::request::scope(|scope| {
        let factor = 3;
        let scaled = UserOperation::commutative(|x, y| {
            let (x, y) = (x.downcast::<i32>().unwrap(), y.downcast::<i32>().unwrap());
            y[0] += factor * x[0];
        });
        world.immediate_all_reduce_into(scope, &mine, &mut sum, &scaled).wait();
    });
}
