//! Atomics of a shared window go with it.
use mpi::window::SharedWindow;
use std::sync::atomic::Ordering;

fn main() {
    let universe = mpi::initialize().unwrap();
    let shared = SharedWindow::<u64>::allocate(&universe.world(), 4);
    let words = shared.atomics(0).unwrap();
    shared.free();
    words[0].store(1, Ordering::Relaxed);
}
