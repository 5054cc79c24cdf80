//! The operand of a get-accumulate cannot be where its result goes.
use mpi::collective::SystemOperation;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    let mut data = [1; 4];
    window.fence(|epoch| epoch.get_accumulate(&data, &mut data, 0, 0, SystemOperation::sum()));
}
