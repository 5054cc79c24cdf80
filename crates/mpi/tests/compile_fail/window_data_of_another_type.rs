//! What is put has the window's type.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let data = [1_i32; 4];
    window.fence(|epoch| epoch.put(&data, 0, 0));
}
