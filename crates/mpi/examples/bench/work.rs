//! What surrounds a message: waiting, queues, overlap, a ring, start and end.

use std::time::{Duration, Instant};

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use crate::util::*;

const IDLE: Duration = Duration::from_secs(3);
const UNEXPECTED_MESSAGES: i32 = 10_000;
const UNEXPECTED_BYTES: usize = 64;
const UNEXPECTED_ROUNDS: usize = 3;
const OVERLAP_BYTES: usize = 4 << 20;
const OVERLAP_ROUNDS: usize = 15;
const OVERLAP_COMPUTE: Duration = Duration::from_millis(50);

/// Cores' worth of processor time that a rank spends blocked in a receive.
pub fn idle(world: &SimpleCommunicator) {
    assert_eq!(world.size(), 2, "idle needs two ranks");
    let peer = world.process_at_rank(1 - world.rank());
    let mut byte = 0_u8;
    let mut used = [0.0_f64; 2];
    world.barrier();
    if world.rank() == 0 {
        std::thread::sleep(IDLE);
        peer.send_with_tag(&byte, TAG_DATA);
        peer.receive_into_with_tag(&mut used[..], TAG_ACK);
        result("idle", used[0] / used[1]);
    } else {
        let (cpu, start) = (cpu_time(), Instant::now());
        peer.receive_into_with_tag(&mut byte, TAG_DATA);
        used[1] = start.elapsed().as_secs_f64();
        used[0] = cpu_time() - cpu;
        peer.send_with_tag(&used[..], TAG_ACK);
    }
}

/// Microseconds per message to take a full unexpected queue in the worst order.
pub fn unexpected(world: &SimpleCommunicator) {
    assert_eq!(world.size(), 2, "unexpected needs two ranks");
    let peer = world.process_at_rank(1 - world.rank());
    let mut message = [b'u'; UNEXPECTED_BYTES];
    let mut rounds = [0.0_f64; UNEXPECTED_ROUNDS];
    for took in &mut rounds {
        world.barrier();
        if world.rank() == 0 {
            // The last tag goes last and is taken first: by then all have arrived.
            for tag in 0..=UNEXPECTED_MESSAGES {
                peer.send_with_tag(&message[..], tag);
            }
            peer.receive_into_with_tag(took, TAG_ACK);
        } else {
            peer.receive_into_with_tag(&mut message[..], UNEXPECTED_MESSAGES);
            let start = Instant::now();
            for tag in (0..UNEXPECTED_MESSAGES).rev() {
                peer.receive_into_with_tag(&mut message[..], tag);
            }
            *took = start.elapsed().as_secs_f64();
            peer.send_with_tag(took, TAG_ACK);
        }
    }
    if world.rank() == 0 {
        result("unexpected", median(&mut rounds) / UNEXPECTED_MESSAGES as f64 * 1e6);
    }
}

/// Seconds left in the wait of a large immediate send after some work; without work, of the whole transfer.
fn send_and_wait(world: &SimpleCommunicator, data: &[u8], compute: Option<Duration>) -> f64 {
    let peer = world.process_at_rank(1);
    let mut ready = 0_u8;
    peer.receive_into_with_tag(&mut ready, TAG_ACK);
    mpi::request::scope(|scope| {
        let mut start = Instant::now();
        let request = peer.immediate_send_with_tag(scope, data, TAG_DATA);
        if let Some(time) = compute {
            spin(time);
            start = Instant::now();
        }
        request.wait();
        start.elapsed().as_secs_f64()
    })
}

/// The wait after 50 ms of work, as a share of the same transfer without work.
pub fn overlap(world: &SimpleCommunicator) {
    assert_eq!(world.size(), 2, "overlap needs two ranks");
    let mut buffer = Bytes::new(OVERLAP_BYTES, b'o');
    let data = buffer.as_mut_slice();
    let mut blocking = [0.0; OVERLAP_ROUNDS];
    let mut left = [0.0; OVERLAP_ROUNDS];
    if world.rank() == 0 {
        blocking.fill_with(|| send_and_wait(world, data, None));
        left.fill_with(|| send_and_wait(world, data, Some(OVERLAP_COMPUTE)));
        let (whole, rest) = (median(&mut blocking), median(&mut left));
        result("overlap", rest / whole);
        result("overlap_blocking_us", whole * 1e6);
        result("overlap_left_us", rest * 1e6);
    } else {
        let peer = world.process_at_rank(0);
        for _ in 0..2 * OVERLAP_ROUNDS {
            mpi::request::scope(|scope| {
                let request = peer.immediate_receive_into_with_tag(scope, &mut *data, TAG_DATA);
                peer.send_with_tag(&0_u8, TAG_ACK);
                request.wait();
            });
        }
    }
}

fn laps(world: &SimpleCommunicator, times: i64) -> f64 {
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let before = world.process_at_rank((rank + size - 1) % size);
    let mut token = 0.0_f64;
    let start = Instant::now();
    for _ in 0..times {
        if rank == 0 {
            next.send_with_tag(&token, TAG_DATA);
            before.receive_into_with_tag(&mut token, TAG_DATA);
        } else {
            before.receive_into_with_tag(&mut token, TAG_DATA);
            token += 1.0;
            next.send_with_tag(&token, TAG_DATA);
        }
    }
    let took = start.elapsed().as_secs_f64();
    assert!(
        rank != 0 || token == times as f64 * f64::from(size - 1),
        "the token was not counted by every rank"
    );
    took
}

/// Microseconds per hop of a token of 8 bytes around all ranks.
pub fn ring(world: &SimpleCommunicator) {
    let (rank, size) = (world.rank(), world.size());
    assert!(size >= 2, "ring needs two ranks or more");
    let mut batches = [0.0; BATCHES];
    let mut times = WARM_UP_ROUNDS;
    // The plan travels around the ring too: the number of laps.
    for phase in 0..BATCHES + 2 {
        if rank != 0 {
            world.process_at_rank(rank - 1).receive_into_with_tag(&mut times, TAG_PLAN);
        }
        if rank != size - 1 {
            world.process_at_rank(rank + 1).send_with_tag(&times, TAG_PLAN);
        }
        let took = laps(world, times);
        if phase >= 2 {
            batches[phase - 2] = took / times as f64;
        } else if rank == 0 {
            times = (times as f64 * (4.0 * BATCH_SECONDS / took)) as i64 + 1;
        }
    }
    if rank == 0 {
        result(&format!("ring/{size}"), median(&mut batches) / f64::from(size) * 1e6);
    }
}

/// The largest resident set so far, in KiB.
fn peak_resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// Starts, meets once, ends; the caller takes the time. Every rank tells its memory.
pub fn empty(world: &SimpleCommunicator) {
    world.barrier();
    result(&format!("rss_kib/{}", world.rank()), peak_resident_kib());
}
