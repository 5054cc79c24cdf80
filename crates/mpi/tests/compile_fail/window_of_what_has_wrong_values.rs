//! Others may write any bytes: not every type has values for all of them.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    Window::<bool>::allocate(&universe.world(), 4);
    Window::<char>::allocate(&universe.world(), 4);
    Window::<&u64>::allocate(&universe.world(), 4);
}
