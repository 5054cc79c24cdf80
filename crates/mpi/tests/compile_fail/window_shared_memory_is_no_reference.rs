//! A part of a shared window is an address, for which the program answers.
use mpi::window::SharedWindow;

fn main() {
    let universe = mpi::initialize().unwrap();
    let shared = SharedWindow::<u64>::allocate(&universe.world(), 4);
    let (base, _) = shared.part(0).unwrap();
    *base = 1;
}
