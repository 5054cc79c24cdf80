//! A window that was freed is gone.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::over(&universe.world(), vec![0_u64; 4]);
    let memory = window.free();
    window.fence(|epoch| epoch.put(&memory, 0, 0));
}
