//! A window is in one epoch at a time.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.lock(0, |_| window.lock(1, |_| ()));
}
