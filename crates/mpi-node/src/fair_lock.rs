//! A fair lock for readers and writers, in memory that processes share.
//!
//! Everybody takes a ticket and is served in that order; readers that follow each other are inside
//! together. This is the ticket lock for readers and writers of Mellor-Crummey and Scott
//! ("Scalable reader-writer synchronization", 1991, in the form with two service counters), with a futex for those
//! who wait long. Uncontended it is two locked instructions to enter and one to leave, and no system call.

use crate::primitive::{AtomicU32, AtomicU64, Ordering, Scope, fence, futex_wait, futex_wake};
use std::time::Duration;

/// The lock. Zeroed memory is a free one.
#[repr(C)]
#[derive(Debug, Default)]
pub struct FairLock {
    /// Low half: the ticket that may enter as a reader. High half: as a writer. In one word, since both
    /// move on together when a writer leaves.
    serving: AtomicU64,
    /// The next ticket.
    next: AtomicU32,
    /// Number of the writer inside plus one; 0 without.
    writer: AtomicU32,
    /// Sleeping processes.
    sleepers: AtomicU32,
    /// Changes whenever service moves on while somebody sleeps: the futex.
    turn: AtomicU32,
    /// Tickets held for those who cannot look themselves; whoever moves service on tells their keeper.
    kept: AtomicU32,
}

/// How somebody wants to be inside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Together with other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// A place in the queue. Given back by leaving the lock, never by dropping it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Place {
    ticket: u32,
    entry: Entry,
}

impl Place {
    /// For leaving as a reader: readers are not told apart.
    pub const fn of_reader() -> Place {
        Place { ticket: 0, entry: Entry::Shared }
    }
}

const WRITER: u64 = 1 << 32;

/// What is sequentially consistent is in one order for all by itself; loom knows that of fences only.
#[inline(always)]
fn in_one_order() {
    if cfg!(loom) {
        fence(Ordering::SeqCst);
    }
}

impl FairLock {
    /// Joins the queue.
    #[inline]
    pub fn queue(&self, entry: Entry) -> Place {
        Place { ticket: self.next.fetch_add(1, Ordering::Relaxed), entry }
    }

    /// Enters if it is the place's turn; `me` is shown to others as the writer inside.
    #[inline]
    pub fn try_enter(&self, place: Place, me: u32) -> bool {
        // SYNC POINT: acquire pairs with the release in `leave`.
        let serving = self.serving.load(Ordering::Acquire);
        match place.entry {
            Entry::Exclusive => {
                let mine = (serving >> 32) as u32 == place.ticket;
                if mine {
                    self.writer.store(me + 1, Ordering::Relaxed);
                }
                mine
            }
            Entry::Shared => {
                let mine = serving as u32 == place.ticket;
                if mine {
                    self.let_next_reader_in();
                }
                mine
            }
        }
    }

    /// Only the reader whose turn it is moves the low half on; the high half may move meanwhile.
    #[inline]
    fn let_next_reader_in(&self) {
        let mut now = self.serving.load(Ordering::Relaxed);
        loop {
            let next = now & !(WRITER - 1) | u64::from((now as u32).wrapping_add(1));
            match self.serving.compare_exchange_weak(now, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(other) => now = other,
            }
        }
        self.wake();
    }

    /// Leaves. True when a keeper is to be told (see [`keep`](FairLock::keep)).
    #[inline]
    pub fn leave(&self, place: Place) -> bool {
        match place.entry {
            Entry::Shared => _ = self.serving.fetch_add(WRITER, Ordering::SeqCst),
            Entry::Exclusive => {
                self.writer.store(0, Ordering::Relaxed);
                let next = u64::from(place.ticket.wrapping_add(1));
                // Nobody else moves service on while a writer is inside.
                self.serving.swap(next << 32 | next, Ordering::SeqCst);
            }
        }
        self.wake();
        self.kept.load(Ordering::SeqCst) != 0
    }

    #[inline]
    fn wake(&self) {
        in_one_order();
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            self.turn.fetch_add(1, Ordering::SeqCst);
            futex_wake(&self.turn, u32::MAX, Scope::Machine);
        }
    }

    /// Sleeps until service moves on, at most for `timeout`; may return early. The caller looks again.
    pub fn sleep(&self, place: Place, timeout: Duration) {
        self.sleep_by(place, |turn, now| futex_wait(turn, now, Scope::Machine, Some(timeout)));
    }

    /// Sleeps by `wait` as long as the word that it is given has the value that it is given.
    fn sleep_by(&self, place: Place, wait: impl FnOnce(&AtomicU32, u32)) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        in_one_order();
        let turn = self.turn.load(Ordering::SeqCst);
        let serving = self.serving.load(Ordering::SeqCst);
        let serves = match place.entry {
            Entry::Exclusive => (serving >> 32) as u32,
            Entry::Shared => serving as u32,
        };
        if serves != place.ticket {
            wait(&self.turn, turn);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// A ticket is kept here for somebody who cannot look; [`try_enter`](FairLock::try_enter) is to be tried
    /// after this once more.
    pub fn keep(&self) {
        self.kept.fetch_add(1, Ordering::SeqCst);
        // SYNC POINT: the look that follows is not before this, as in `leave` the other way round.
        fence(Ordering::SeqCst);
    }

    /// It is not any more.
    pub fn kept_no_more(&self) {
        self.kept.fetch_sub(1, Ordering::SeqCst);
    }

    /// The writer inside, by the number that it gave.
    pub fn writer(&self) -> Option<u32> {
        self.writer.load(Ordering::Relaxed).checked_sub(1)
    }

    /// True when nobody is inside or waits.
    pub fn is_free(&self) -> bool {
        let next = u64::from(self.next.load(Ordering::Acquire));
        self.serving.load(Ordering::Acquire) == next << 32 | next
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

    #[test]
    fn readers_enter_together_writers_alone_and_in_order() {
        let lock = FairLock::default();
        let (a, b) = (lock.queue(Entry::Shared), lock.queue(Entry::Shared));
        let w = lock.queue(Entry::Exclusive);
        let c = lock.queue(Entry::Shared);
        assert!(!lock.try_enter(b, 1), "in order");
        assert!(lock.try_enter(a, 0) && lock.try_enter(b, 1));
        assert!(!lock.try_enter(w, 2) && !lock.try_enter(c, 3), "a reader behind a writer waits");
        lock.leave(b);
        assert!(!lock.try_enter(w, 2));
        lock.leave(a);
        assert!(lock.try_enter(w, 2) && !lock.try_enter(c, 3));
        assert_eq!(lock.writer(), Some(2));
        lock.leave(w);
        assert_eq!(lock.writer(), None);
        assert!(lock.try_enter(c, 3));
        assert!(!lock.is_free());
        lock.leave(c);
        assert!(lock.is_free());
    }

    #[test]
    fn the_counters_wrap() {
        let lock = FairLock::default();
        lock.next.store(u32::MAX, Ordering::Relaxed);
        lock.serving.store(u64::MAX, Ordering::Relaxed);
        for entry in [Entry::Shared, Entry::Exclusive, Entry::Shared] {
            let place = lock.queue(entry);
            assert!(lock.try_enter(place, 0));
            lock.leave(place);
        }
        assert!(lock.is_free());
    }

    #[test]
    fn nobody_is_inside_with_a_writer() {
        let lock = FairLock::default();
        let inside = AtomicI32::new(0);
        std::thread::scope(|s| {
            for t in 0..4 {
                let (lock, inside) = (&lock, &inside);
                s.spawn(move || {
                    for i in 0..300 {
                        let exclusive = (i + t) % 3 == 0;
                        let place = lock.queue(if exclusive { Entry::Exclusive } else { Entry::Shared });
                        while !lock.try_enter(place, t) {
                            lock.sleep(place, Duration::from_millis(50));
                        }
                        if exclusive {
                            assert_eq!(inside.swap(-1, SeqCst), 0);
                            inside.store(0, SeqCst);
                        } else {
                            assert!(inside.fetch_add(1, SeqCst) >= 0);
                            inside.fetch_sub(1, SeqCst);
                        }
                        lock.leave(place);
                    }
                });
            }
        });
        assert!(lock.is_free());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as Inside;

    /// Sleeps without a limit: a wake-up that is lost leaves it here, which loom reports.
    fn sleep_until_woken(turn: &AtomicU32, now: u32) {
        while turn.load(Ordering::Acquire) == now {
            loom::thread::yield_now();
        }
    }

    /// Two come, in these ways, to a lock whose tickets begin at `first`.
    fn two_come(first: u32, one: Entry, other: Entry) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let lock = Arc::new(FairLock::default());
            lock.next.store(first, Ordering::Relaxed);
            lock.serving.store(u64::from(first) << 32 | u64::from(first), Ordering::Relaxed);
            let inside = Arc::new(Inside::new(0));
            let enter = |entry, me| {
                let (lock, inside) = (lock.clone(), inside.clone());
                move || {
                    let place = lock.queue(entry);
                    while !lock.try_enter(place, me) {
                        lock.sleep_by(place, sleep_until_woken);
                        loom::thread::yield_now();
                    }
                    let weight = if entry == Entry::Exclusive { 16 } else { 1 };
                    let before = inside.fetch_add(weight, Ordering::Relaxed);
                    assert!(before == 0 || (before < 16 && weight == 1));
                    inside.fetch_sub(weight, Ordering::Relaxed);
                    lock.leave(place);
                }
            };
            let there = loom::thread::spawn(enter(one, 1));
            enter(other, 0)();
            there.join().unwrap();
            assert!(lock.is_free());
        });
    }

    #[test]
    fn model_a_writer_is_alone_and_nobody_sleeps_for_ever() {
        two_come(0, Entry::Shared, Entry::Exclusive);
        two_come(u32::MAX, Entry::Shared, Entry::Exclusive);
        two_come(0, Entry::Exclusive, Entry::Exclusive);
        two_come(u32::MAX, Entry::Shared, Entry::Shared);
    }
}
