//! Sleeping until another thread of this process says so.

use crate::primitive::{AtomicU32, Ordering, Scope, futex_wait, futex_wake};
use std::time::Duration;

const EMPTY: u32 = 0;
const PARKED: u32 = 1;
const NOTIFIED: u32 = 2;

/// A place where one thread sleeps and any thread of the process wakes it. A wake-up before the
/// sleep is kept: the next [`park`](Parker::park) returns at once.
#[derive(Debug)]
pub struct Parker {
    word: AtomicU32,
}

impl Default for Parker {
    fn default() -> Parker {
        Parker::new()
    }
}

impl Parker {
    /// A parker without a kept wake-up.
    pub fn new() -> Parker {
        Parker { word: AtomicU32::new(EMPTY) }
    }

    /// Sleeps until [`unpark`](Parker::unpark), or for `timeout`. True when woken. Only one thread
    /// at a time may park.
    pub fn park(&self, timeout: Option<Duration>) -> bool {
        // SYNC POINT: pairs with the release in `unpark`.
        if self.word.swap(PARKED, Ordering::Acquire) == NOTIFIED {
            self.word.store(EMPTY, Ordering::Relaxed);
            return true;
        }
        let deadline = timeout.map(|t| std::time::Instant::now() + t);
        loop {
            let left = deadline.map(|d| d.saturating_duration_since(std::time::Instant::now()));
            if left.is_some_and(|l| l.is_zero()) {
                // A notice that comes between the last look and this swap is not lost: it is
                // what the swap returns.
                return self.word.swap(EMPTY, Ordering::Acquire) == NOTIFIED;
            }
            futex_wait(&self.word, PARKED, Scope::Process, left);
            if self.word.load(Ordering::Acquire) == NOTIFIED {
                self.word.store(EMPTY, Ordering::Relaxed);
                return true;
            }
        }
    }

    /// Wakes the sleeper, or makes the next `park` return at once.
    pub fn unpark(&self) {
        // SYNC POINT: pairs with the acquires in `park`.
        if self.word.swap(NOTIFIED, Ordering::Release) == PARKED {
            futex_wake(&self.word, 1, Scope::Process);
        }
    }
}
