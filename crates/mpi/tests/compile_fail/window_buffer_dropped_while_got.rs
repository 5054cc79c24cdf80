//! What a get fills must live until the epoch is over.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.lock(0, |epoch| {
        let mut room = vec![0; 4];
        epoch.get(&mut room, 0, 0);
        epoch.flush(0);
    });
}
