//! A get needs memory of its own.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let room = [0; 4];
    window.fence(|epoch| epoch.get(&room, 0, 0));
}
