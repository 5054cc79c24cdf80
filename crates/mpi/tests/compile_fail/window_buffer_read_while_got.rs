//! What a get fills cannot be read before the epoch is over.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let mut room = [0; 4];
    window.lock_all(|epoch| {
        epoch.get(&mut room, 0, 0);
        epoch.flush(0);
        println!("{}", room[0]);
    });
}
