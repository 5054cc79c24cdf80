//! A stencil in one dimension whose domain is cut badly: the last rank has several times as many cells as the others.
//!
//! `mpiexec --report stencil.html -n 4 -p mpi-examples --example stencil [STEPS] [TIMES_AS_MANY_CELLS]`

use mpi::collective::SystemOperation;
use mpi::point_to_point as p2p;
use mpi::traits::*;

/// Cells of a rank that has its fair part.
const CELLS: usize = 20_000;
/// Steps between two looks at how much still changes.
const LOOK_EVERY: usize = 10;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<usize>().expect("a number"));
    let (steps, times) = (arguments.next().unwrap_or(400), arguments.next().unwrap_or(3));
    let own = if rank == size - 1 { CELLS * times } else { CELLS };

    // A cell of each neighbour stands at either end. At the ends of the domain that is the boundary: 1 and 0.
    let mut now = vec![0.0_f64; own + 2];
    if rank == 0 {
        now[0] = 1.0;
    }
    let mut next = now.clone();
    let mut change = 0.0;
    for step in 1..=steps {
        exchange(&world, &mut now);
        for at in 1..=own {
            next[at] = 0.25 * now[at - 1] + 0.5 * now[at] + 0.25 * now[at + 1];
        }
        if step % LOOK_EVERY == 0 {
            let most = (1..=own).map(|at| (next[at] - now[at]).abs()).fold(0.0, f64::max);
            world.all_reduce_into(&most, &mut change, SystemOperation::max());
        }
        next[0] = now[0];
        next[own + 1] = now[own + 1];
        std::mem::swap(&mut now, &mut next);
    }
    if rank == 0 {
        println!("after {steps} steps a cell changes by at most {change:.3e}");
    }
}

/// The outermost cells of each rank go to its neighbours.
fn exchange(world: &impl Communicator, cells: &mut [f64]) {
    let (rank, size, last) = (world.rank(), world.size(), cells.len() - 1);
    if rank + 1 < size {
        let right = world.process_at_rank(rank + 1);
        let (out, mut come) = (cells[last - 1], 0.0);
        p2p::send_receive_into(&out, &right, &mut come, &right);
        cells[last] = come;
    }
    if rank > 0 {
        let left = world.process_at_rank(rank - 1);
        let (out, mut come) = (cells[1], 0.0);
        p2p::send_receive_into(&out, &left, &mut come, &left);
        cells[0] = come;
    }
}
