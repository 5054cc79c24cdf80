//! What a get-accumulate fills cannot be read before the epoch is over.
use mpi::collective::SystemOperation;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let (data, mut old) = ([1; 4], [0; 4]);
    window.fence(|epoch| {
        epoch.get_accumulate(&data, &mut old, 0, 0, SystemOperation::sum());
        println!("{}", old[0]);
    });
}
