//! What a get in a batch fills cannot be read before the batch is over.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.lock_all(|epoch| {
        let mut room = [0; 4];
        epoch.batch(|batch| {
            batch.get(&mut room, 0, 0);
            println!("{}", room[0]);
        });
    });
}
