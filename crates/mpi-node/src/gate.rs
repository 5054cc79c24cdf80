//! A barrier of processes, in memory that they share: a counter, and a word that changes when all are
//! there.

use crate::primitive::{AtomicU32, Ordering, Scope, futex_wait, futex_wake};
use std::time::Duration;

/// The barrier. Zeroed memory is one at which nobody has arrived.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Gate {
    arrived: Line<AtomicU32>,
    turn: Line<AtomicU32>,
    sleepers: Line<AtomicU32>,
}

/// On a cache line of its own: those who arrive do not disturb those who look.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Line<T>(T);

/// A process's wait at the gate: the turn that has to pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn(u32);

impl Gate {
    /// Arrives as one of `all`. The last one opens the gate.
    #[inline]
    pub fn arrive(&self, all: u32) -> Turn {
        let turn = self.turn.0.load(Ordering::Relaxed);
        // SYNC POINT: what each did before happens before what all do after: a chain of these, then
        // the release of `turn` below.
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == all {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.turn.0.swap(turn.wrapping_add(1), Ordering::SeqCst);
            if self.sleepers.0.load(Ordering::SeqCst) != 0 {
                futex_wake(&self.turn.0, u32::MAX, Scope::Machine);
            }
        }
        Turn(turn)
    }

    /// True when all have arrived.
    #[inline]
    pub fn is_open(&self, turn: Turn) -> bool {
        // SYNC POINT: pairs with the swap in `arrive`.
        self.turn.0.load(Ordering::Acquire) != turn.0
    }

    /// Sleeps until the gate opens, at most for `timeout`; may return early.
    pub fn sleep(&self, turn: Turn, timeout: Duration) {
        self.sleepers.0.fetch_add(1, Ordering::SeqCst);
        if self.turn.0.load(Ordering::SeqCst) == turn.0 {
            futex_wait(&self.turn.0, turn.0, Scope::Machine, Some(timeout));
        }
        self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn nobody_passes_before_all_are_there() {
        let (gate, count) = (Gate::default(), AtomicU32::new(0));
        // The turns go round on the way.
        gate.turn.0.store(u32::MAX - 50, Relaxed);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for round in 1..=200 {
                        count.fetch_add(1, Relaxed);
                        let turn = gate.arrive(4);
                        while !gate.is_open(turn) {
                            gate.sleep(turn, Duration::from_millis(50));
                        }
                        assert!(count.load(Relaxed) >= 4 * round);
                    }
                });
            }
        });
        assert_eq!(count.load(Relaxed), 800);
    }
}
