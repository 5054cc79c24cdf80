//! Threads that wait inside the engine, and waking exactly those that something happened to.

use crate::report::Blocked;
use crate::sleep::{Bed, Doorbell, nudge};
use mpi_node::Parker;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

/// A thread that waits for the one that polls, or is that one.
pub(crate) struct Waiter {
    pub parker: Arc<Parker>,
    pub woken: bool,
    /// Any new message may be what it waits for.
    pub probing: bool,
}

/// The address of a word that somebody sleeps on.
struct SleptOn(*const AtomicU32);

// SAFETY: the address is only ever given to the kernel.
unsafe impl Send for SleptOn {}

/// All waiting threads. One of them polls for all; the others sleep on parkers of their own.
pub(crate) struct Waiters {
    list: Vec<Option<Waiter>>,
    probing: u32,
    /// The waiter that polls, if it waits long enough to be registered.
    pub polling: bool,
    /// The poller's place in the list.
    pub poller: Option<u32>,
    /// The poller sleeps on descriptors, or on this word.
    asleep: bool,
    word: Option<SleptOn>,
    pub doorbell: Arc<Doorbell>,
    /// Blocked operations, by a number of their own.
    pub blocked: Vec<(u64, Instant, Blocked)>,
}

impl Default for Waiters {
    fn default() -> Waiters {
        Waiters {
            list: Vec::new(),
            probing: 0,
            polling: false,
            poller: None,
            asleep: false,
            word: None,
            doorbell: Arc::new(Doorbell::new()),
            blocked: Vec::new(),
        }
    }
}

impl Waiters {
    pub fn register(&mut self, parker: Arc<Parker>, probing: bool) -> u32 {
        let waiter = Some(Waiter { parker, woken: false, probing });
        self.probing += u32::from(probing);
        match self.list.iter().position(Option::is_none) {
            Some(i) => {
                self.list[i] = waiter;
                i as u32
            }
            None => {
                self.list.push(waiter);
                (self.list.len() - 1) as u32
            }
        }
    }

    /// The thread is about to look, and if need be to sleep again.
    pub fn rest(&mut self, w: u32) {
        if let Some(Some(waiter)) = self.list.get_mut(w as usize) {
            waiter.woken = false;
        }
    }

    pub fn leave(&mut self, w: u32) {
        if let Some(waiter) = self.list.get_mut(w as usize).and_then(Option::take) {
            self.probing -= u32::from(waiter.probing);
        }
    }

    /// Something that this thread waits for has happened.
    pub fn wake(&mut self, w: u32) {
        let polls = self.poller == Some(w);
        if let Some(Some(waiter)) = self.list.get_mut(w as usize) {
            if !std::mem::replace(&mut waiter.woken, true) && !polls {
                waiter.parker.unpark();
            }
        }
        if polls {
            self.rouse();
        }
    }

    /// Wakes the thread that sleeps in the backends' arms.
    pub fn rouse(&mut self) {
        if self.asleep {
            match &self.word {
                Some(word) => nudge(word.0),
                None => self.doorbell.ring(),
            }
        }
    }

    pub fn fall_asleep(&mut self, bed: &Bed) {
        self.asleep = true;
        self.word = match bed {
            Bed::Word(word, _) => Some(SleptOn(*word)),
            Bed::Descriptors(_) => None,
        };
    }

    pub fn awake(&mut self) {
        self.asleep = false;
        self.word = None;
    }

    /// A thread sleeps in the backends' arms: it will see what comes.
    pub fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// A message came that nobody had posted a receive for.
    #[inline]
    pub fn wake_probing(&mut self) {
        if self.probing > 0 {
            self.wake_those(|w| w.probing);
        }
    }

    pub fn wake_all(&mut self) {
        self.wake_those(|_| true);
        self.rouse();
    }

    fn wake_those(&mut self, which: impl Fn(&Waiter) -> bool) {
        for w in 0..self.list.len() {
            if self.list[w].as_ref().is_some_and(&which) {
                self.wake(w as u32);
            }
        }
    }

    /// The poller leaves: somebody else who waits has to poll.
    pub fn hand_over(&mut self) {
        self.polling = false;
        self.poller = None;
        let next = self.list.iter().flatten().find(|w| !w.woken);
        if let Some(next) = next.or_else(|| self.list.iter().flatten().next()) {
            next.parker.unpark();
        }
    }
}
