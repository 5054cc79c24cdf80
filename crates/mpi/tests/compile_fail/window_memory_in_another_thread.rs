//! What is looked at value by value belongs to the epoch's thread, too.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.fence(|epoch| {
        let local = epoch.local();
        std::thread::scope(|scope| {
            scope.spawn(|| local.set(0, 1));
        });
    });
}
