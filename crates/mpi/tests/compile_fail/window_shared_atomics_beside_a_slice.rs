//! Atomics of a shared window are not held while its memory is a plain slice.
use mpi::window::SharedWindow;
use std::sync::atomic::Ordering;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut shared = SharedWindow::<u64>::allocate(&universe.world(), 4);
    let words = shared.atomics(0).unwrap();
    shared.window().own(|mine| mine[0] = words[0].load(Ordering::Relaxed));
}
