//! One-sided communication: rank 0 reaches the memory of rank 1, which waits in a receive or computes; all ranks draw
//! tickets from one counter; fences.

use std::ptr;
use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use mpi::window::{Passive, Window};

use crate::util::*;

const WORDS_MAX: usize = (1 << 20) / 8;
const DRAWS: u64 = 4000;
const FENCES: u32 = 2000;
const COMPUTE: Duration = Duration::from_millis(200);
const COMPUTE_ROUNDS: usize = 5;

type Step = fn(epoch: &Passive<'_, '_, f64>, data: &mut [f64]);

/// Seconds for one step, as other figures are taken.
fn batches(epoch: &Passive<'_, '_, f64>, data: &mut [f64], step: Step) -> f64 {
    let mut round = |times: i64| {
        let start = Instant::now();
        for _ in 0..times {
            step(epoch, data);
        }
        start.elapsed().as_secs_f64()
    };
    let mut times = WARM_UP_ROUNDS;
    loop {
        let took = round(times);
        if took >= CALIBRATION_SECONDS {
            times = (times as f64 * (BATCH_SECONDS / took)) as i64 + 1;
            break;
        }
        times *= 2;
    }
    let mut all: Vec<f64> = (0..BATCHES).map(|_| round(times) / times as f64).collect();
    median(&mut all)
}

fn put(epoch: &Passive<'_, '_, f64>, data: &mut [f64]) {
    epoch.write(data, 1, 0);
    epoch.flush(1);
}

fn get(epoch: &Passive<'_, '_, f64>, data: &mut [f64]) {
    epoch.read_into(data, 1, 0);
    epoch.flush(1);
}

fn accumulate(epoch: &Passive<'_, '_, f64>, data: &mut [f64]) {
    epoch.combine(data, 1, 0, SystemOperation::sum());
    epoch.flush(1);
}

fn fetch(epoch: &Passive<'_, '_, f64>, data: &mut [f64]) {
    data[0] = epoch.fetch_and_op(1, 0, 1.0, SystemOperation::sum());
    epoch.flush(1);
}

/// Microseconds for an operation and its flush, by size.
/// `created`: the window is on memory that was there before, which ranks of one machine cannot share behind the
/// transport's back.
pub fn one_sided(world: &SimpleCommunicator, sizes: &[usize], created: bool) {
    assert_eq!(world.size(), 2, "this case needs two ranks");
    let mut window = match created {
        true => Window::over(world, vec![0.0; WORDS_MAX]),
        false => Window::<f64>::allocate(world, WORDS_MAX),
    };
    let peer = world.process_at_rank(1 - world.rank());
    if world.rank() == 0 {
        let mut data = vec![1.0; WORDS_MAX];
        let steps: [(&str, Step); 4] = [("put", put), ("get", get), ("acc", accumulate), ("fop", fetch)];
        window.lock_all(|epoch| {
            // Small before large: what one size changes must not be felt by another.
            for (name, step) in steps {
                let all = if name == "fop" { &sizes[..1] } else { sizes };
                for bytes in all.iter().filter(|bytes| **bytes == 8) {
                    let seconds = batches(epoch, &mut data[..bytes / 8], step);
                    result(&format!("{name}/{bytes}"), seconds * 1e6);
                }
            }
            for (name, step) in &steps[..3] {
                for bytes in sizes.iter().filter(|bytes| **bytes > 8) {
                    let seconds = batches(epoch, &mut data[..bytes / 8], *step);
                    result(&format!("{name}/{bytes}"), seconds * 1e6);
                }
            }
        });
        peer.send_with_tag(&0_i32, TAG_PLAN);
    } else {
        peer.receive_with_tag::<i32>(TAG_PLAN);
    }
    window.free();
}

/// Microseconds per ticket when all ranks draw from one counter.
pub fn tickets(world: &SimpleCommunicator) {
    let mut window = Window::<u64>::allocate(world, 1);
    let mut times = [0.0; 5];
    for time in &mut times {
        world.barrier();
        let start = Instant::now();
        window.lock_all(|epoch| {
            for _ in 0..DRAWS {
                epoch.fetch_and_op(0, 0, 1, SystemOperation::sum());
                epoch.flush(0);
            }
        });
        world.barrier();
        *time = start.elapsed().as_secs_f64() / (DRAWS * world.size() as u64) as f64;
    }
    if world.rank() == 0 {
        result("tickets", median(&mut times) * 1e6);
    }
    window.free();
}

/// Microseconds per fence.
pub fn fences(world: &SimpleCommunicator) {
    let mut base: *mut u8 = ptr::null_mut();
    // SAFETY: a constant.
    let mut window = unsafe { ffi::RSMPI_WIN_NULL };
    // SAFETY: the communicator lives; the window is freed below.
    unsafe {
        let comm = world.as_raw();
        ffi::MPI_Win_allocate(64, 1, ffi::RSMPI_INFO_NULL, comm, (&raw mut base).cast(), &mut window);
    }
    let mut times = [0.0; 5];
    for time in &mut times {
        world.barrier();
        let start = Instant::now();
        for _ in 0..FENCES {
            // SAFETY: the window lives.
            unsafe { ffi::MPI_Win_fence(0, window) };
        }
        *time = start.elapsed().as_secs_f64() / f64::from(FENCES);
    }
    if world.rank() == 0 {
        result("fence", median(&mut times) * 1e6);
    }
    // SAFETY: the last use of the window.
    unsafe { ffi::MPI_Win_free(&mut window) };
}

/// Microseconds for a lock, a put and an unlock while the target computes.
pub fn computing(world: &SimpleCommunicator) {
    let mut window = Window::over(world, vec![0.0; 8]);
    let mut times = [0.0; COMPUTE_ROUNDS];
    for time in &mut times {
        world.barrier();
        if world.rank() == 0 {
            // The target is computing by then.
            std::thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            window.lock(1, |epoch| {
                epoch.write(&[2.0], 1, 0);
                epoch.flush(1);
            });
            *time = start.elapsed().as_secs_f64();
        } else {
            spin(COMPUTE);
        }
    }
    world.barrier();
    if world.rank() == 0 {
        result("computing", median(&mut times) * 1e6);
    }
    window.free();
}
