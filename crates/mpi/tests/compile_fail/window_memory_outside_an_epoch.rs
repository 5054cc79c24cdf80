use mpi::traits::*;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 4);
    let kept = window.lock_all(|epoch| epoch.local());
    kept.set(0, 1);
}
