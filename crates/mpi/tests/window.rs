//! Windows: every kind of epoch and operation by real processes over both transports.

mod support;

use std::process::ExitCode;

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi::window::Window;
use support::{Case, case};

const CASES: &[Case] = &[
    case("fence_puts_and_gets", fence_puts_and_gets),
    case("fetch_and_op_draws_tickets", fetch_and_op_draws_tickets),
];

fn main() -> ExitCode {
    support::main(CASES)
}

fn neighbours(world: &SimpleCommunicator) -> (mpi::Rank, mpi::Rank) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

fn fence_puts_and_gets() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (next, previous) = neighbours(&world);
    let me = world.rank() as u64;
    for memory in [true, false] {
        let mut window = match memory {
            true => Window::<u64>::allocate(&world, 5000),
            false => Window::over(&world, vec![0; 5000]),
        };
        let sent: Vec<u64> = (0..5000).map(|i| i * 1000 + me).collect();
        window.fence(|epoch| epoch.put(&sent, next, 0));
        let mut back = vec![0; 4990];
        window.fence(|epoch| {
            let local = epoch.local();
            assert!((0..5000).all(|i| local.get(i) == i as u64 * 1000 + previous as u64));
            epoch.get(&mut back, next, 10);
        });
        assert!(back.iter().enumerate().all(|(i, v)| *v == (i as u64 + 10) * 1000 + me));
        window.free();
    }
}

fn fetch_and_op_draws_tickets() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let mut window = Window::<u64>::allocate(&world, 2);
    let mine = window.lock_all(|epoch| {
        (0..100).map(|_| epoch.fetch_and_op(0, 1, 1, SystemOperation::sum())).collect::<Vec<_>>()
    });
    assert!(mine.windows(2).all(|w| w[0] < w[1]));
    let mut all = vec![0; 100 * world.size() as usize];
    world.all_gather_into(&mine[..], &mut all[..]);
    all.sort_unstable();
    assert!(all.iter().enumerate().all(|(i, v)| i as u64 == *v));
    drop(window);
}
