//! Two gets cannot fill the same memory.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let mut room = [0; 4];
    window.fence(|epoch| {
        epoch.get(&mut room, 0, 0);
        epoch.get(&mut room[2..], 0, 0);
    });
}
