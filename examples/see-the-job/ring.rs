//! A token goes round a ring of ranks, and one of them is slow: whom do the others wait for?
//!
//! `mpiexec --report ring.html -n 4 -p mpi-examples --example ring [SLOW_RANK] [MILLISECONDS] [ROUNDS]`

use mpi::traits::*;
use std::time::Duration;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<i32>().expect("a number"));
    let mut next = |default: i32| arguments.next().unwrap_or(default);
    let (slow, milliseconds, rounds) = (next(1), next(50), next(10));

    let left = world.process_at_rank((rank + size - 1) % size);
    let right = world.process_at_rank((rank + 1) % size);
    let mut token = vec![0_u8; 4096];
    for _ in 0..rounds {
        if rank != 0 {
            left.receive_into(&mut token[..]);
        }
        if rank == slow {
            std::thread::sleep(Duration::from_millis(milliseconds.unsigned_abs().into()));
        }
        right.send(&token[..]);
        if rank == 0 {
            left.receive_into(&mut token[..]);
        }
    }
    if rank == 0 {
        println!("the token went round {rounds} times");
    }
}
