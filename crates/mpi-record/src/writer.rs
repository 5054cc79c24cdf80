//! A rank's side: counters in its block.
//!
//! One thread at a time writes, or, with several, each adds by an atomic instruction; the launcher
//! reads meanwhile and sees each word whole. What belongs together (calls and their time) may be
//! one operation apart to it.

use crate::clock::ticks;
use crate::layout::{
    ALGORITHMS, BIN_WORDS, EVENT_WORDS, EVENTS, Event, PEER_WORDS, PEERS, SIZES_SENT, TIMELINE, Way, head,
    peer_key, size_class,
};
use crate::limits::{ALGORITHMS_MAX, PEERS_MAX, TIMELINE_BINS};
use crate::ops::{COLLECTIVES, FIRST_COLLECTIVE, Op};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// Places of the table of peers that are tried for one.
const PROBES: usize = 16;

#[derive(Debug)]
pub(crate) struct Writer {
    block: &'static [AtomicU64],
    /// Places for events, a power of two; 0: none are wanted.
    pub events: usize,
    pub several: AtomicBool,
    pub threads: AtomicU16,
    /// Whoever doubles the width of the bins.
    timeline: Mutex<()>,
}

/// The context carries what the library says to itself (making communicators, finalising), which is
/// none of the program's traffic: plane 3 of a communicator.
fn is_management(context: u32) -> bool {
    context & 3 == 3
}

impl Writer {
    pub fn new(block: &'static [AtomicU64], events: usize) -> Writer {
        let writer = Writer {
            block,
            events,
            several: AtomicBool::new(false),
            threads: AtomicU16::new(0),
            timeline: Mutex::new(()),
        };
        writer.set(head::PID, u64::from(std::process::id()));
        writer.set(head::BEGUN, ticks());
        writer
    }

    pub fn several_threads(&self) {
        self.settle();
        self.several.store(true, Ordering::Relaxed);
    }

    pub fn finished(&self) {
        self.settle();
        self.set(head::OP, 0);
        self.set(head::ENDED, ticks());
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.block[at]
    }

    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    pub fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    #[inline]
    pub fn add(&self, at: usize, more: u64) {
        if self.several.load(Ordering::Relaxed) {
            self.word(at).fetch_add(more, Ordering::Relaxed);
        } else {
            self.set(at, self.get(at).wrapping_add(more));
        }
    }

    #[inline]
    pub fn raise(&self, at: usize, value: u64) {
        if value > self.get(at) {
            self.word(at).fetch_max(value, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn sent(&self, peer: u32, context: u32, tag: i32, bytes: u64) {
        if is_management(context) {
            return;
        }
        self.add(head::SENT, 1);
        self.add(head::SENT_BYTES, bytes);
        self.add(SIZES_SENT + size_class(bytes), 1);
        self.traffic(peer, Way::Sent, 1, bytes);
        self.has_sent(bytes, |thread, at| Event::Sent { thread, at, peer, context, tag, bytes });
        // The message is on its way: there is time.
        self.settle();
    }

    #[inline]
    pub fn received(&self, peer: u32, context: u32, tag: i32, bytes: u64) {
        if is_management(context) {
            return self.has_heard();
        }
        match self.may_owe() {
            true => self.owe_message(bytes),
            false => self.count_received(bytes),
        }
        self.has_received(bytes, |thread, at| Event::Received { thread, at, peer, context, tag, bytes });
    }

    pub fn moved(&self, peer: u32, way: Way, bytes: u64) {
        self.add(if way == Way::Put { head::PUT_BYTES } else { head::GOT_BYTES }, bytes);
        self.traffic(peer, way, 1, bytes);
        self.has_moved(way, bytes);
    }

    pub fn unexpected(&self, (messages, bytes): (u64, u64)) {
        self.raise(head::UNEXPECTED, messages);
        self.raise(head::UNEXPECTED_BYTES, bytes);
    }

    pub fn algorithm(&self, collective: Op, by: usize) {
        let row = usize::from(collective.0.wrapping_sub(FIRST_COLLECTIVE));
        if row < COLLECTIVES && by < ALGORITHMS_MAX {
            self.add(ALGORITHMS + row * ALGORITHMS_MAX + by, 1);
        }
    }

    /// Counts what went to a peer, or came from it.
    #[inline]
    fn traffic(&self, peer: u32, way: Way, messages: u64, bytes: u64) {
        let key = peer_key(peer, way);
        let first = key as usize % PEERS_MAX;
        for probe in 0..PROBES {
            let at = PEERS + (first + probe) % PEERS_MAX * PEER_WORDS;
            let mut found = self.get(at);
            if found == 0 {
                let free = self.word(at).compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
                found = free.map_or_else(|other| other, |_| key);
            }
            if found == key {
                self.add(at + 1, messages);
                self.add(at + 2, bytes);
                return;
            }
        }
        self.add(head::OTHER_MESSAGES, messages);
        self.add(head::OTHER_BYTES, bytes);
    }

    /// Draws ticks in MPI, of them waiting, of them copying into the timeline, spread evenly from begin
    /// to end.
    pub fn draw(&self, begin: u64, end: u64, values: [u64; BIN_WORDS]) {
        let origin = self.get(head::BEGUN);
        let (begin, end) = (begin.saturating_sub(origin), end.saturating_sub(origin));
        while (end >> self.get(head::BIN_SHIFT)) as usize >= TIMELINE_BINS {
            self.double_bins(end);
        }
        let shift = self.get(head::BIN_SHIFT);
        let (first, last) = ((begin >> shift) as usize, (end >> shift) as usize);
        if first == last {
            return self.fill(first, values);
        }
        let whole = (end - begin).max(1);
        for bin in first..=last {
            let from = begin.max((bin as u64) << shift);
            let to = end.min((bin as u64 + 1) << shift);
            let part = |of: u64| (u128::from(of) * u128::from(to - from) / u128::from(whole)) as u64;
            self.fill(bin, values.map(part));
        }
    }

    #[inline]
    fn fill(&self, bin: usize, more: [u64; BIN_WORDS]) {
        let at = TIMELINE + bin * BIN_WORDS;
        for (i, more) in more.into_iter().enumerate().filter(|(_, more)| *more > 0) {
            self.add(at + i, more);
        }
    }

    /// Two bins become one. A reader that looks meanwhile sees a part of both.
    #[cold]
    fn double_bins(&self, end: u64) {
        let _guard = self.timeline.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let shift = self.get(head::BIN_SHIFT);
        if ((end >> shift) as usize) < TIMELINE_BINS || shift >= 63 {
            return;
        }
        for bin in 0..TIMELINE_BINS {
            for i in 0..BIN_WORDS {
                let old = |bin: usize| match bin < TIMELINE_BINS {
                    true => self.get(TIMELINE + bin * BIN_WORDS + i),
                    false => 0,
                };
                let both = old(2 * bin) + old(2 * bin + 1);
                self.set(TIMELINE + bin * BIN_WORDS + i, both);
            }
        }
        self.set(head::BIN_SHIFT, shift + 1);
    }

    /// Writes an event into its place; what the launcher has not taken by then is lost.
    pub fn event(&self, event: Event) {
        let number = if self.several.load(Ordering::Relaxed) {
            self.word(head::EVENTS).fetch_add(1, Ordering::Relaxed)
        } else {
            let number = self.get(head::EVENTS);
            self.set(head::EVENTS, number + 1);
            number
        };
        let at = EVENTS + (number as usize & (self.events - 1)) * EVENT_WORDS;
        for (i, word) in event.encode().into_iter().enumerate() {
            self.set(at + i, word);
        }
        // With several threads an event may be announced before one that began earlier is whole; the
        // reader skips what makes no sense.
        self.word(head::EVENTS_DONE).fetch_max(number + 1, Ordering::Release);
    }
}
