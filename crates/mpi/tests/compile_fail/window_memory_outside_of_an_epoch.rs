//! A window has no memory to look at outside of an epoch.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let window = Window::<u64>::allocate(&universe.world(), 4);
    window.local().set(0, 1);
}
