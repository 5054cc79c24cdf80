//! How a figure is taken, clocks, and the median.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// A figure is the median of this many batches of equal length.
pub const BATCHES: usize = 15;
pub const BATCH_SECONDS: f64 = 0.005;
pub const CALIBRATION_SECONDS: f64 = 0.002;
pub const WARM_UP_ROUNDS: i64 = 10;

const PAGE_BYTES: usize = 4096;

pub const TAG_DATA: i32 = 1;
pub const TAG_ACK: i32 = 2;
pub const TAG_PLAN: i32 = 3;

/// Processor time of this process, user and system, all its threads.
pub fn cpu_time() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel tells the processor time");
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 * 1e-6
}

/// Computes: keeps the processor busy and calls nothing of MPI.
pub fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {}
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn result(key: &str, value: f64) {
    println!("RESULT {key} {value:.6}");
}

/// Page-aligned, and touched, so that no page fault falls into a measurement.
pub struct Bytes {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Bytes {
    pub fn new(bytes: usize, fill: u8) -> Bytes {
        let memory = vec![fill | 1; bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        let mut buffer = Bytes { memory, start, bytes };
        buffer.as_mut_slice().fill(fill);
        buffer
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}
