use mpi::traits::*;
use mpi::window::Window;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 4);
    let mut room = [0; 4];
    window.lock_all(|epoch| {
        epoch.get(&mut room, 0, 0);
        println!("{}", room[0]);
    });
}
