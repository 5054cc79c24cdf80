use mpi::traits::*;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 4);
    window.fence(|epoch| {
        let mut room = vec![0; 4];
        epoch.get(&mut room, 0, 0);
        drop(room);
    });
}
