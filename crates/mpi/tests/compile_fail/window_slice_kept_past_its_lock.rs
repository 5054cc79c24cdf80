//! A slice of this rank's memory goes with the lock that it is behind.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let slice = window.own(|mine| mine);
    slice[0] = 1;
}
