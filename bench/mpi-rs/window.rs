//! The window of messages in mpi-rs's own terms: it has no request collection, and its buffers are byte slices.

use std::time::Instant;

use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use crate::p2p::measure;
use crate::util::*;

const WINDOW_MESSAGES: usize = 64;

fn windows(world: &SimpleCommunicator, times: i64, out: &[u8], into: &mut [u8]) -> f64 {
    let first = world.rank() == 0;
    let peer = world.process_at_rank(1 - world.rank());
    let mut landings = vec![into.to_vec(); WINDOW_MESSAGES];
    let mut ack = [0_u8; 4];
    let start = Instant::now();
    for _ in 0..times {
        if first {
            mpi::request::scope(|scope| {
                let requests = (0..WINDOW_MESSAGES).map(|_| peer.immediate_send_with_tag(scope, out, TAG_DATA));
                mpi::request::wait_all(requests.collect());
            });
            peer.receive_into_with_tag(&mut ack[..], TAG_ACK);
        } else {
            mpi::request::scope(|scope| {
                let post = |landing| peer.immediate_receive_into_with_tag(scope, landing, TAG_DATA);
                mpi::request::wait_all(landings.iter_mut().map(|landing| &mut landing[..]).map(post).collect());
            });
            peer.send_with_tag(&ack[..], TAG_ACK);
        }
    }
    let took = start.elapsed().as_secs_f64();
    into.copy_from_slice(landings.first().map_or(&[], |landing| &landing[..]));
    took
}

/// Microseconds per message with 64 in flight, by size.
pub fn window(world: &SimpleCommunicator, sizes: &[usize]) {
    for &bytes in sizes {
        let seconds = measure(world, bytes, windows);
        if world.rank() == 0 {
            result(&format!("window/{bytes}"), seconds / WINDOW_MESSAGES as f64 * 1e6);
        }
    }
}
