//! The heat equation in two dimensions, on as many ranks as it is started with.
//!
//! A square plate is cut into one block per rank on a Cartesian grid of ranks. In every step each rank exchanges the
//! edges of its block with its neighbours, rows as they lie in memory and columns through a vector datatype, and
//! every tenth step all ranks agree on the largest change by an all-reduce. In the end rank 0 gathers the blocks,
//! computes the same plate alone, fails unless the two agree to 1e-12, and paints the plate as `heat.png`.
//!
//! Usage: `mpiexec -n 4 heat [CELLS [STEPS]]`: cells along one side, 256 unless told; steps at most, 4000.

mod block;
mod picture;
mod plate;
mod progress;

use std::time::Instant;

use mpi::collective::SystemOperation;
use mpi::topology::{CartesianCommunicator, SimpleCommunicator};
use mpi::traits::*;

use block::{Block, balanced};
use plate::{Plate, Tile, largest_difference};
use progress::Progress;

const STEPS_PER_RESIDUAL: usize = 10;
const RESIDUAL_WANTED: f64 = 1e-7;
const TOLERANCE: f64 = 1e-12;
/// Updates of a cell up to which the serial solution is computed, too: some seconds of one processor.
const COMPARED_CELL_UPDATES: usize = 1_000_000_000;
const TAG_RESULT: i32 = 5;

fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    let (cells, steps) = match arguments() {
        Ok(numbers) => numbers,
        Err(problem) => give_up(&world, &problem),
    };

    let dims = balanced(world.size());
    if dims.iter().any(|&ranks| ranks as usize > cells) {
        give_up(
            &world,
            &format!("a plate of {cells} x {cells} cells is too small for {} ranks", world.size()),
        );
    }
    // No reordering: rank 0 stays the one that owns the terminal.
    let grid =
        world.create_cartesian_communicator(&dims, &[false, false], false).expect("all ranks take part");

    let mut block = Block::new(&grid, cells);
    let start = Instant::now();
    let (taken, residual) = simulate(&grid, &mut block, steps);
    let parallel = start.elapsed();

    let Some(plate) = gather(&grid, &block, cells) else { return };
    println!(
        "{cells} x {cells} cells on {} x {} ranks: {taken} steps in {:.2} s, last change {residual:.2e}",
        dims[0],
        dims[1],
        parallel.as_secs_f64(),
    );
    compare(&world, &plate, cells, taken);
    match picture::write("heat.png", &plate, cells) {
        Ok(()) => println!("the temperature field is in heat.png"),
        Err(error) => give_up(&world, &format!("cannot write heat.png: {error}")),
    }
}

fn arguments() -> Result<(usize, usize), String> {
    let mut numbers = [256, 4000];
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.len() > numbers.len() {
        return Err("usage: heat [CELLS [STEPS]]".into());
    }
    for (number, text) in numbers.iter_mut().zip(&given) {
        *number = text.parse().map_err(|_| format!("{text:?} is no number"))?;
        if *number == 0 {
            return Err("at least one cell and one step".into());
        }
    }
    Ok((numbers[0], numbers[1]))
}

/// Steps until the plate hardly changes or the steps are used up; returns the steps taken and the last change.
fn simulate(grid: &CartesianCommunicator, block: &mut Block, steps: usize) -> (usize, f64) {
    let mut progress = (grid.rank() == 0).then(|| Progress::new(steps));
    let mut residual = f64::INFINITY;
    for step in 1..=steps {
        block.exchange_edges(grid);
        let change = block.tile.step();
        if step % STEPS_PER_RESIDUAL == 0 || step == steps {
            grid.all_reduce_into(&change, &mut residual, SystemOperation::max());
            if let Some(progress) = &mut progress {
                progress.show(step, residual);
            }
            if residual < RESIDUAL_WANTED {
                return (step, residual);
            }
        }
    }
    (steps, residual)
}

/// The whole plate on rank 0.
fn gather(grid: &CartesianCommunicator, block: &Block, cells: usize) -> Option<Plate> {
    let inner = block.tile.inner();
    if grid.rank() != 0 {
        grid.process_at_rank(0).send_with_tag(&inner[..], TAG_RESULT);
        return None;
    }
    let mut plate = Plate::new(cells);
    plate.place(&block.part, &inner);
    for rank in 1..grid.size() {
        let (inner, _status) = grid.process_at_rank(rank).receive_vec_with_tag::<f64>(TAG_RESULT);
        plate.place(&Block::part_of(grid, rank, cells), &inner);
    }
    Some(plate)
}

/// The other ranks wait meanwhile: only for what one rank does in a few seconds.
fn compare(world: &SimpleCommunicator, plate: &Plate, cells: usize, taken: usize) {
    if (cells * cells).saturating_mul(taken) > COMPARED_CELL_UPDATES {
        return println!("not compared with the serial solution, which would take one rank too long");
    }
    let start = Instant::now();
    let difference = largest_difference(plate, &serial(cells, taken));
    if !difference.is_finite() || difference > TOLERANCE {
        give_up(
            world,
            &format!("differs from the serial solution by {difference:e}, more than {TOLERANCE:e}"),
        );
    }
    let alone = start.elapsed().as_secs_f64();
    println!("agrees with the serial solution: largest difference {difference:e} (alone {alone:.2} s)");
}

/// The same steps on one rank, without a message.
fn serial(cells: usize, steps: usize) -> Plate {
    let mut tile = Tile::new(&(0..cells, 0..cells), cells);
    for _ in 0..steps {
        tile.step();
    }
    let mut plate = Plate::new(cells);
    plate.place(&(0..cells, 0..cells), &tile.inner());
    plate
}

fn give_up(world: &SimpleCommunicator, problem: &str) -> ! {
    eprintln!("heat: {problem}");
    world.abort(1)
}
