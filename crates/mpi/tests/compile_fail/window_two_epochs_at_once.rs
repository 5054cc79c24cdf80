use mpi::traits::*;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 4);
    window.own(|mine| {
        window.fence(|_| mine[0] = 1);
    });
}
