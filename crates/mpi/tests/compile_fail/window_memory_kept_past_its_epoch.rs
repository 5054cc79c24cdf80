//! This rank's memory is reached inside of the epoch only.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let kept = window.lock_all(|epoch| epoch.local());
    kept.set(0, 1);
}
