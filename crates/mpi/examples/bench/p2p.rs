//! Two ranks: one-way time by size, and the measuring loop that `window` shares.

use std::time::Instant;

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use crate::util::*;

/// Moves the buffers `times` over and returns the seconds it took here.
pub type Round = fn(world: &SimpleCommunicator, times: i64, out: &[u8], into: &mut [u8]) -> f64;

/// Rank 0 finds how many rounds fill a batch and tells rank 1 each time; 0 ends.
pub fn measure(world: &SimpleCommunicator, bytes: usize, round: Round) -> f64 {
    assert_eq!(world.size(), 2, "this case needs two ranks");
    let peer = world.process_at_rank(1 - world.rank());
    let (mut out, mut into) = (Bytes::new(bytes, b'a' + world.rank() as u8), Bytes::new(bytes, 0));
    let (out, into) = (out.as_mut_slice(), into.as_mut_slice());
    let mut times = WARM_UP_ROUNDS;

    if world.rank() == 0 {
        loop {
            peer.send_with_tag(&times, TAG_PLAN);
            let took = round(world, times, out, into);
            if took >= CALIBRATION_SECONDS {
                times = (times as f64 * (BATCH_SECONDS / took)) as i64 + 1;
                break;
            }
            times *= 2;
        }
        let mut batches = [0.0; BATCHES];
        for batch in &mut batches {
            peer.send_with_tag(&times, TAG_PLAN);
            *batch = round(world, times, out, into) / times as f64;
        }
        peer.send_with_tag(&0_i64, TAG_PLAN);
        median(&mut batches)
    } else {
        loop {
            peer.receive_into_with_tag(&mut times, TAG_PLAN);
            if times == 0 {
                break;
            }
            round(world, times, out, into);
        }
        assert!(into.iter().all(|&byte| byte == b'a'), "the data did not arrive");
        0.0
    }
}

fn ping_pong(world: &SimpleCommunicator, times: i64, out: &[u8], into: &mut [u8]) -> f64 {
    let first = world.rank() == 0;
    let peer = world.process_at_rank(1 - world.rank());
    let start = Instant::now();
    for _ in 0..times {
        if first {
            peer.send_with_tag(out, TAG_DATA);
            peer.receive_into_with_tag(into, TAG_DATA);
        } else {
            peer.receive_into_with_tag(into, TAG_DATA);
            peer.send_with_tag(out, TAG_DATA);
        }
    }
    start.elapsed().as_secs_f64()
}

/// Microseconds one way, by size.
pub fn latency(world: &SimpleCommunicator, sizes: &[usize]) {
    for &bytes in sizes {
        let seconds = measure(world, bytes, ping_pong);
        if world.rank() == 0 {
            result(&format!("latency/{bytes}"), seconds / 2.0 * 1e6);
        }
    }
}
