//! What is put must live until the epoch is over.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.fence(|epoch| {
        let data = vec![1; 4];
        epoch.put(&data, 0, 0);
    });
}
