//! Nothing is begun in a batch that is over.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let data = [1; 4];
    window.lock_all(|epoch| {
        let mut kept = None;
        epoch.batch(|batch| kept = Some(batch));
        kept.unwrap().put(&data, 0, 0);
    });
}
