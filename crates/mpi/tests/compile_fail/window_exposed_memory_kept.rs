//! This rank's memory is reached while the exposure lasts only.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let mut kept = None;
    window.expose(&[0], |local| kept = Some(local));
    kept.unwrap().set(0, 1);
}
