//! A window is not freed while an epoch is open.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.fence(|_| window.free());
}
