//! What is accumulated must not change until the epoch is over.
use mpi::collective::SystemOperation;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let mut data = vec![1; 4];
    window.access(&[0], |epoch| {
        epoch.accumulate(&data, 0, 0, SystemOperation::sum());
        data.push(2);
    });
}
