//! What every transport must do, as functions over a small harness.
//!
//! A backend's `tests/conformance.rs` implements [`Harness`] and calls [`run_all`], or the single
//! tests. Every wait is bounded; a broken promise is a panic that names the test and the fact.

mod bodies;
mod ending;
mod flow;
mod order;
mod recorder;
mod remote;
mod waking;

pub use bodies::{
    direct_chunks_and_discarded_bodies, lent_bodies_complete_once, revoked_bodies_are_left_alone,
};
pub use ending::{death_is_a_reset, garbage_is_a_protocol_error, goodbye_comes_after_everything};
pub use flow::{budget_is_respected, full_then_writable};
pub use order::{
    crossing_connections, order_under_mixed_sizes, poll_from_finds_the_named_peer, strangers_are_introduced,
};
pub use recorder::{Arrival, Event, Policy, Recorder};
pub use remote::exposed_memory;
pub use waking::arming_misses_nothing;

use mpi_btl::{Am, Body, BtlRx, BtlTx, Ep, PeerInfo, Polled, SendError, Sent, Span};
use mpi_wire::Header;
use std::time::{Duration, Instant};

/// How long a test waits for what must come.
const WAIT: Duration = Duration::from_secs(30);

/// One endpoint under test.
pub struct End {
    /// Sending half.
    pub tx: Box<dyn BtlTx>,
    /// Receiving half.
    pub rx: Box<dyn BtlRx>,
    /// What the others need to know of it. `ep` is its number among the endpoints made with it.
    pub info: PeerInfo,
}

/// Makes endpoints of one backend.
pub trait Harness {
    /// `n` fresh endpoints that can reach each other; none has called `connect`.
    fn make(&mut self, n: usize) -> Vec<End>;
    /// Called when no endpoint moved: lets time pass.
    fn idle(&mut self);
    /// The endpoint dies without a word, as a killed process does. `false`: cannot be had here.
    fn kill(&mut self, index: usize, end: End) -> bool {
        let _ = index;
        drop(end);
        true
    }
    /// Endpoint `from`, of the last ones made, which has not sent anything yet, sends `to` bytes
    /// that are no message. `false`: cannot be had here.
    fn garbage(&mut self, from: usize, to: usize) -> bool;
}

/// Runs every test.
///
/// # Panics
/// When the backend breaks a promise.
pub fn run_all(harness: &mut dyn Harness) {
    order_under_mixed_sizes(harness);
    crossing_connections(harness);
    poll_from_finds_the_named_peer(harness);
    strangers_are_introduced(harness);
    full_then_writable(harness);
    budget_is_respected(harness);
    lent_bodies_complete_once(harness);
    direct_chunks_and_discarded_bodies(harness);
    revoked_bodies_are_left_alone(harness);
    exposed_memory(harness);
    goodbye_comes_after_everything(harness);
    death_is_a_reset(harness);
    garbage_is_a_protocol_error(harness);
    arming_misses_nothing(harness);
}

/// Endpoints with a recorder each, all connected.
struct World<'h> {
    harness: &'h mut dyn Harness,
    ends: Vec<Option<End>>,
    logs: Vec<Recorder>,
    test: &'static str,
}

impl<'h> World<'h> {
    fn new(harness: &'h mut dyn Harness, test: &'static str, n: usize) -> World<'h> {
        let mut world = World::unconnected(harness, test, n);
        for i in 0..n {
            for j in (0..n).filter(|j| *j != i) {
                world.connect(i, j);
            }
        }
        world
    }

    fn unconnected(harness: &'h mut dyn Harness, test: &'static str, n: usize) -> World<'h> {
        let ends = harness.make(n).into_iter().map(Some).collect();
        World { harness, ends, logs: (0..n).map(|i| Recorder::new(i as u32)).collect(), test }
    }

    fn connect(&mut self, from: usize, to: usize) {
        let info = self.end(to).info.clone();
        if let Err(e) = self.end(from).tx.connect(&info) {
            panic!("{}: {from} cannot connect to {to}: {e}", self.test);
        }
    }

    fn end(&mut self, i: usize) -> &mut End {
        match &mut self.ends[i] {
            Some(end) => end,
            None => panic!("{}: endpoint {i} is gone", self.test),
        }
    }

    /// Polls one endpoint. True when something moved.
    fn poll(&mut self, i: usize, budget: usize) -> bool {
        match &mut self.ends[i] {
            Some(end) => end.rx.poll(budget, &mut self.logs[i]) == Polled::Progress,
            None => false,
        }
    }

    /// Polls everyone once; lets time pass when nobody moved.
    fn step(&mut self) {
        let mut moved = false;
        for i in 0..self.ends.len() {
            moved |= self.poll(i, 16);
        }
        if !moved {
            self.harness.idle();
        }
    }

    /// Steps until `done`, for a bounded time.
    fn until(&mut self, what: &str, mut done: impl FnMut(&World<'h>) -> bool) {
        let deadline = Instant::now() + WAIT;
        while !done(self) {
            assert!(Instant::now() < deadline, "{}: {what} did not come within {WAIT:?}", self.test);
            self.step();
        }
    }

    /// Steps a number of times, for what must not happen.
    fn settle(&mut self) {
        for _ in 0..300 {
            self.step();
        }
    }

    /// Offers a message once.
    fn offer(
        &mut self,
        from: usize,
        to: usize,
        tag: i32,
        body: Body<'_>,
        more: bool,
    ) -> Result<Sent, SendError> {
        let header = Header {
            tag,
            source: from as i32,
            dest: to as i32,
            length: body.len() as u64,
            ..Header::default()
        };
        self.end(from).tx.send(Ep(to as u32), Am { header, body, more })
    }

    /// Sends a message, waiting for room as long as it takes.
    fn send(&mut self, from: usize, to: usize, tag: i32, body: Body<'_>, more: bool) -> Sent {
        let deadline = Instant::now() + WAIT;
        loop {
            let before = self.logs[from].writable(Ep(to as u32));
            match self.offer(from, to, tag, body, more) {
                Ok(sent) => return sent,
                Err(SendError::Full) => {
                    // What is held must leave before there can be room.
                    self.end(from).tx.flush();
                    while self.logs[from].writable(Ep(to as u32)) == before {
                        assert!(Instant::now() < deadline, "{}: Full, and writable never came", self.test);
                        self.step();
                    }
                }
                Err(e) => panic!("{}: {from} cannot send to {to}: {e}", self.test),
            }
        }
    }
}

/// The body of message `tag` from `from`, `len` bytes: recognisable at every byte.
fn pattern(from: usize, tag: i32, len: usize) -> Vec<u8> {
    let start = (from as u32).wrapping_mul(97) ^ (tag as u32).wrapping_mul(0x9E37_79B1);
    (0..len as u32).map(|i| (start.wrapping_add(i) ^ (i >> 8).wrapping_mul(31)) as u8).collect()
}

/// Memory as a span; the vector must stay as long as the span is in use, and be left alone.
fn span(bytes: &mut [u8]) -> Span {
    Span::new(bytes.as_mut_ptr(), bytes.len())
}
