//! Two ranks: a window of immediate sends against a window of immediate receives, then an answer.

use std::ffi::c_void;
use std::time::Instant;

use mpi::Count;
use mpi::datatype::SystemDatatype;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use crate::p2p::measure;
use crate::util::*;

const WINDOW_MESSAGES: usize = 64;

/// A place for a message that other receives share, as the C half does it and as is customary in this measurement:
/// the bytes of 64 messages of 1 MiB would otherwise measure the memory instead.
struct Landing {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a byte is what every `Landing` points to.
unsafe impl AsDatatype for Landing {
    type Out = SystemDatatype;

    fn as_datatype(&self) -> SystemDatatype {
        u8::equivalent_datatype()
    }
}

// SAFETY: `bytes` is the length of the allocation at `start`.
unsafe impl Collection for Landing {
    fn count(&self) -> Count {
        self.bytes as Count
    }
}

// SAFETY: `start` is writable for `bytes` bytes while the round runs, and nothing reads it before the round ends.
unsafe impl PointerMut for Landing {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.start.cast()
    }
}

// SAFETY: the three parts above describe one and the same region.
unsafe impl BufferMut for Landing {}

fn windows(world: &SimpleCommunicator, times: i64, out: &[u8], into: &mut [u8]) -> f64 {
    let first = world.rank() == 0;
    let peer = world.process_at_rank(1 - world.rank());
    let mut landings: Vec<Landing> =
        (0..WINDOW_MESSAGES).map(|_| Landing { start: into.as_mut_ptr(), bytes: into.len() }).collect();
    let mut ack = [0_u8; 4];
    let start = Instant::now();
    for _ in 0..times {
        if first {
            mpi::request::multiple_scope(WINDOW_MESSAGES, |scope, requests| {
                for _ in 0..WINDOW_MESSAGES {
                    requests.add(peer.immediate_send_with_tag(scope, out, TAG_DATA));
                }
                requests.wait_all(&mut Vec::with_capacity(WINDOW_MESSAGES));
            });
            peer.receive_into_with_tag(&mut ack[..], TAG_ACK);
        } else {
            mpi::request::multiple_scope(WINDOW_MESSAGES, |scope, requests| {
                for landing in &mut landings {
                    requests.add(peer.immediate_receive_into_with_tag(scope, landing, TAG_DATA));
                }
                requests.wait_all(&mut Vec::with_capacity(WINDOW_MESSAGES));
            });
            peer.send_with_tag(&ack[..], TAG_ACK);
        }
    }
    start.elapsed().as_secs_f64()
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
