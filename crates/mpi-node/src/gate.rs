//! A barrier of processes, in memory that they share. Two have a count each, which the other looks at; more have a
//! common counter, and a word that changes when all are there.

use crate::primitive::{AtomicU32, Ordering, Scope, futex_wait, futex_wake};
use crate::sleep::{AWAKE, heavy_fence, is_asleep};
use std::time::Duration;

/// The barrier. Zeroed memory is one at which nobody has arrived.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Gate {
    /// Of a crowd: how many have arrived, and a word that changes when all have. Of a pair: how often the first and how
    /// often the second has arrived.
    words: [Line<AtomicU32>; 2],
    sleepers: Line<AtomicU32>,
}

/// On a cache line of its own: those who arrive do not disturb those who look.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Line<T>(T);

const ARRIVED: usize = 0;
const TURN: usize = 1;

/// A process's wait at the gate: the word that has to change, and the value at which it is not there yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    word: usize,
    closed: u32,
}

impl Gate {
    /// The process in seat `me` of `all` arrives. The last one opens the gate. `full_fence`, the same for all: some of
    /// them cannot make the others' processors pass a barrier.
    #[inline]
    pub fn arrive(&self, me: u32, all: u32, full_fence: bool) -> Turn {
        if all == 2 {
            return self.arrive_as_pair(me as usize & 1, full_fence);
        }
        let closed = self.words[TURN].0.load(Ordering::Relaxed);
        // SYNC POINT: what each did before happens before what all do after: a chain of these, then
        // the release of the turn below.
        if self.words[ARRIVED].0.fetch_add(1, Ordering::AcqRel) + 1 == all {
            self.words[ARRIVED].0.store(0, Ordering::Relaxed);
            self.words[TURN].0.store(closed.wrapping_add(1), Ordering::Release);
            self.rouse(TURN, full_fence);
        }
        Turn { word: TURN, closed }
    }

    /// Neither waits for a line that both write, nor for its own to be had: the two counts cross.
    #[inline]
    fn arrive_as_pair(&self, me: usize, full_fence: bool) -> Turn {
        // The other has passed as many turns as this one: it has arrived as often as that, or once more.
        let closed = self.words[me].0.load(Ordering::Relaxed);
        // SYNC POINT: releases what was done before to the other's look in `is_open`.
        self.words[me].0.store(closed.wrapping_add(1), Ordering::Release);
        self.rouse(me, full_fence);
        Turn { word: 1 - me, closed }
    }

    #[inline]
    fn rouse(&self, word: usize, full_fence: bool) {
        // SYNC POINT: the change of the word, then the look at the sleepers; against their count, then their look at the
        // word, in `sleep`.
        if is_asleep(&self.sleepers.0, full_fence) {
            futex_wake(&self.words[word].0, u32::MAX, Scope::Machine);
        }
    }

    /// True when all have arrived.
    #[inline]
    pub fn is_open(&self, turn: Turn) -> bool {
        // SYNC POINT: pairs with the store in `arrive`.
        self.words[turn.word].0.load(Ordering::Acquire) != turn.closed
    }

    /// Sleeps until the gate opens, at most for `timeout`; may return early.
    pub fn sleep(&self, turn: Turn, timeout: Duration, full_fence: bool) {
        const { assert!(AWAKE == 0) };
        self.sleepers.0.fetch_add(1, Ordering::SeqCst);
        heavy_fence(full_fence);
        if !self.is_open(turn) {
            futex_wait(&self.words[turn.word].0, turn.closed, Scope::Machine, Some(timeout));
        }
        self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn nobody_passes_before_all_are_there() {
        let able = crate::membarrier::register().global;
        for (all, full_fence) in [(1, true), (2, true), (4, true), (2, !able), (4, !able)] {
            let (gate, count) = (Gate::default(), AtomicU32::new(0));
            // The turns, and the counts of a pair, go round on the way.
            gate.words[TURN].0.store(u32::MAX - 50, Relaxed);
            gate.words[ARRIVED].0.store(if all == 2 { u32::MAX - 50 } else { 0 }, Relaxed);
            let (gate, count) = (&gate, &count);
            std::thread::scope(|s| {
                for me in 0..all {
                    s.spawn(move || {
                        for round in 1..=200 {
                            count.fetch_add(1, Relaxed);
                            let turn = gate.arrive(me, all, full_fence);
                            while !gate.is_open(turn) {
                                gate.sleep(turn, Duration::from_secs(5), full_fence);
                            }
                            assert!(count.load(Relaxed) >= all * round);
                        }
                    });
                }
            });
            assert_eq!(count.load(Relaxed), all * 200);
        }
    }
}

/// Two rounds of two processes with up to two preemptions: nobody passes early, what was written before is seen after, and nobody sleeps
/// for good.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    fn rounds(all: u32, rounds: u32, full_fence: bool) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let shared = Arc::new((Gate::default(), [(); 3].map(|()| AtomicU32::new(0))));
            let run = move |me: u32, shared: Arc<(Gate, [AtomicU32; 3])>| {
                for round in 1..=rounds {
                    let (gate, written) = &*shared;
                    written[me as usize].store(round, Ordering::Relaxed);
                    let turn = gate.arrive(me, all, full_fence);
                    while !gate.is_open(turn) {
                        gate.sleep(turn, Duration::MAX, full_fence);
                    }
                    for other in &written[..all as usize] {
                        assert!(other.load(Ordering::Relaxed) >= round);
                    }
                }
            };
            let others: Vec<_> = (1..all)
                .map(|me| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || run(me, shared))
                })
                .collect();
            run(0, shared);
            others.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn a_pair() {
        rounds(2, 2, false);
        rounds(2, 2, true);
    }
}
