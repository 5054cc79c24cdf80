//! Nothing is begun in an epoch that is over.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let data = [1; 4];
    let mut kept = None;
    window.lock_all(|epoch| kept = Some(epoch));
    kept.unwrap().put(&data, 0, 0);
}
