//! An epoch belongs to the thread that opened it.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.lock_exclusive(0, |epoch| {
        std::thread::scope(|scope| {
            scope.spawn(|| epoch.flush(0));
        });
    });
}
