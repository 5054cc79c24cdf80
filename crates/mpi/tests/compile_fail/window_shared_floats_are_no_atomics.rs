//! There are atomics of types that a processor handles at once.
use mpi::window::SharedWindow;

fn main() {
    let universe = mpi::initialize().unwrap();
    let shared = SharedWindow::<f64>::allocate(&universe.world(), 4);
    shared.atomics(0).unwrap();
}
