//! No epoch while this rank has its memory for itself.
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let mut window = Window::<u64>::allocate(&universe.world(), 4);
    window.own(|mine| window.fence(|_| mine[0] = 1));
}
