//! A shared window is borrowed for one epoch at a time.
use mpi::window::SharedWindow;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut shared = SharedWindow::<u64>::allocate(&universe.world(), 4);
    let first = shared.window();
    let second = shared.window();
    first.own(|mine| second.own(|same| mine[0] = same[0]));
}
