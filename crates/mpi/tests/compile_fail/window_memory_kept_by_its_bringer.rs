//! Memory that became a window is reached through the window.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut memory = vec![0_u64; 4];
    let window = Window::over(&universe.world(), memory);
    memory[0] = 1;
    window.free();
}
