//! What is put must not change until the epoch is over.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let mut data = [1; 4];
    window.fence(|epoch| {
        epoch.put(&data, 0, 0);
        data[0] = 2;
    });
}
