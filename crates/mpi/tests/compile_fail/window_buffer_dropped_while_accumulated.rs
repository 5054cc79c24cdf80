//! What is accumulated must live until the epoch is over.
use mpi::collective::SystemOperation;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let data = vec![1; 4];
    window.fence(|epoch| {
        epoch.accumulate(&data, 0, 0, SystemOperation::sum());
        drop(data);
    });
}
