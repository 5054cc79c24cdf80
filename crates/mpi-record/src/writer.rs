//! A rank's side: counters in its block.
//!
//! One thread at a time writes, or, with several, each adds by an atomic instruction; the launcher
//! reads meanwhile and sees each word whole. What belongs together (calls and their time) may be
//! one operation apart to it.

use crate::clock::ticks;
use crate::layout::{
    ALGORITHMS, BIN_WORDS, EVENT_WORDS, EVENTS, Event, OPS, PEER_WORDS, PEERS, SIZES_RECEIVED, SIZES_SENT,
    TIMELINE, head, op as words, size_class,
};
use crate::limits::{ALGORITHMS_MAX, PEERS_MAX, TIMELINE_BINS};
use crate::ops::{COLLECTIVES, FIRST_COLLECTIVE, Op, WAIT};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// Places of the table of peers that are tried for one.
const PROBES: usize = 16;

#[derive(Debug)]
pub(crate) struct Writer {
    block: &'static [AtomicU64],
    /// Places for events, a power of two; 0: none are wanted.
    events: usize,
    several: AtomicBool,
    threads: AtomicU16,
    /// Whoever doubles the width of the bins.
    timeline: Mutex<()>,
}

/// What a thread has done since it began, and what it does.
struct Thread {
    number: Cell<u16>,
    /// Operations one inside the other; the outermost is recorded.
    depth: Cell<u32>,
    waits: Cell<bool>,
    /// A wait that ends with the next message, since when and with how much copying before.
    message_wait: Cell<Option<(u64, u64)>>,
    since: Cell<u64>,
    peer: Cell<Option<u32>>,
    waiting: Cell<u64>,
    copying: Cell<u64>,
    sent: Cell<u64>,
    received: Cell<u64>,
    /// The four before the operation under way.
    before: Cell<[u64; 4]>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            number: Cell::new(u16::MAX),
            depth: Cell::new(0),
            waits: Cell::new(false),
            message_wait: Cell::new(None),
            since: Cell::new(0),
            peer: Cell::new(None),
            waiting: Cell::new(0),
            copying: Cell::new(0),
            sent: Cell::new(0),
            received: Cell::new(0),
            before: Cell::new([0; 4]),
        }
    };
}

/// The context carries what the library says to itself (making communicators, finalising), which is
/// none of the program's traffic: plane 3 of a communicator.
fn is_management(context: u32) -> bool {
    context & 3 == 3
}

/// A wait under way.
#[derive(Debug)]
pub(crate) struct Wait {
    since: u64,
    /// Copying up to then, which is no waiting.
    copying: u64,
    /// It is an operation itself.
    alone: bool,
}

impl Thread {
    fn sums(&self) -> [u64; 4] {
        [self.waiting.get(), self.copying.get(), self.sent.get(), self.received.get()]
    }
}

fn add_to(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get().wrapping_add(more));
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
        self.several.store(true, Ordering::Relaxed);
    }

    pub fn finished(&self) {
        self.set(head::OP, 0);
        self.set(head::ENDED, ticks());
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        &self.block[at]
    }

    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    #[inline]
    fn add(&self, at: usize, more: u64) {
        if self.several.load(Ordering::Relaxed) {
            self.word(at).fetch_add(more, Ordering::Relaxed);
        } else {
            self.set(at, self.get(at).wrapping_add(more));
        }
    }

    #[inline]
    fn raise(&self, at: usize, value: u64) {
        if value > self.get(at) {
            self.word(at).fetch_max(value, Ordering::Relaxed);
        }
    }

    fn number(&self, thread: &Thread) -> u16 {
        if thread.number.get() == u16::MAX {
            thread.number.set(self.threads.fetch_add(1, Ordering::Relaxed));
        }
        thread.number.get()
    }

    pub fn begin(&self, op: Op, peer: Option<u32>) {
        THREAD.with(|thread| {
            let depth = thread.depth.get();
            thread.depth.set(depth + 1);
            if depth > 0 {
                return;
            }
            let now = ticks();
            thread.since.set(now);
            thread.peer.set(peer);
            thread.before.set(thread.sums());
            self.set(head::OP_SINCE, now);
            self.set(head::OP_PEER, peer.map_or(0, |peer| u64::from(peer) + 1));
            self.set(head::OP, u64::from(op.0) + 1);
        });
    }

    pub fn end(&self, op: Op) {
        THREAD.with(|thread| {
            let depth = thread.depth.get().saturating_sub(1);
            thread.depth.set(depth);
            if depth > 0 {
                return;
            }
            self.end_message_wait(thread);
            let (begin, end) = (thread.since.get(), ticks());
            let (after, before) = (thread.sums(), thread.before.get());
            let [waiting, copying, sent, received] =
                std::array::from_fn(|i| after[i].wrapping_sub(before[i]));
            let ticks = end.saturating_sub(begin);
            let at = OPS + op.place() * words::COUNT;
            self.add(at + words::CALLS, 1);
            self.add(at + words::TICKS, ticks);
            self.add(at + words::WAITING, waiting);
            self.add(at + words::SENT_BYTES, sent);
            self.add(at + words::RECEIVED_BYTES, received);
            self.raise(at + words::LONGEST, ticks);
            self.add(head::INSIDE, ticks);
            self.set(head::OP, 0);
            self.draw(begin, end, waiting, copying);
            if self.events > 0 {
                let (thread, peer) = (self.number(thread), thread.peer.get());
                self.event(Event::Op { op: op.0, thread, begin, end, peer, sent, received });
            }
        });
    }

    pub fn begin_wait(&self) -> Option<Wait> {
        THREAD.with(|thread| {
            if thread.waits.replace(true) {
                return None;
            }
            let alone = thread.depth.get() == 0;
            if alone {
                self.begin(WAIT, None);
            }
            let since = ticks();
            self.set(head::WAIT_SINCE, since);
            Some(Wait { since, copying: thread.copying.get(), alone })
        })
    }

    pub fn end_wait(&self, wait: Wait) {
        THREAD.with(|thread| self.over(thread, wait.since, wait.copying));
        if wait.alone {
            self.end(WAIT);
        }
    }

    /// A wait of a thread is over.
    fn over(&self, thread: &Thread, since: u64, copying: u64) {
        thread.waits.set(false);
        let end = ticks();
        let copying = thread.copying.get().wrapping_sub(copying);
        let waiting = end.saturating_sub(since).saturating_sub(copying);
        add_to(&thread.waiting, waiting);
        self.add(head::WAITING, waiting);
        self.set(head::WAIT_SINCE, 0);
        self.set(head::WAITS_FOR, 0);
        if self.events > 0 {
            self.event(Event::Wait { thread: self.number(thread), begin: since, end });
        }
    }

    pub fn begin_message_wait(&self) {
        THREAD.with(|thread| {
            if !thread.waits.replace(true) {
                let since = ticks();
                thread.message_wait.set(Some((since, thread.copying.get())));
                self.set(head::WAIT_SINCE, since);
            }
        });
    }

    #[inline]
    fn end_message_wait(&self, thread: &Thread) {
        if let Some((since, copying)) = thread.message_wait.take() {
            self.over(thread, since, copying);
        }
    }

    pub fn waits_for(&self, peer: Option<u32>) {
        self.set(head::WAITS_FOR, peer.map_or(0, |peer| u64::from(peer) + 1));
    }

    pub fn copied(&self, since: u64) {
        let time = ticks().saturating_sub(since);
        THREAD.with(|thread| add_to(&thread.copying, time));
        self.add(head::COPYING, time);
    }

    pub fn sent(&self, peer: u32, context: u32, tag: i32, bytes: u64) {
        if is_management(context) {
            return;
        }
        self.add(head::SENT, 1);
        self.add(head::SENT_BYTES, bytes);
        self.add(SIZES_SENT + size_class(bytes), 1);
        self.traffic(peer, 1, bytes);
        THREAD.with(|thread| {
            add_to(&thread.sent, bytes);
            if self.events > 0 {
                let thread = self.number(thread);
                self.event(Event::Sent { thread, at: ticks(), peer, context, tag, bytes });
            }
        });
    }

    pub fn received(&self, peer: u32, context: u32, tag: i32, bytes: u64) {
        if is_management(context) {
            return THREAD.with(|thread| self.end_message_wait(thread));
        }
        self.add(head::RECEIVED, 1);
        self.add(head::RECEIVED_BYTES, bytes);
        self.add(SIZES_RECEIVED + size_class(bytes), 1);
        THREAD.with(|thread| {
            self.end_message_wait(thread);
            add_to(&thread.received, bytes);
            if self.events > 0 {
                let thread = self.number(thread);
                self.event(Event::Received { thread, at: ticks(), peer, context, tag, bytes });
            }
        });
    }

    pub fn moved(&self, peer: u32, out: bool, bytes: u64) {
        self.add(if out { head::PUT_BYTES } else { head::GOT_BYTES }, bytes);
        self.traffic(peer, 1, bytes);
        THREAD.with(|thread| add_to(if out { &thread.sent } else { &thread.received }, bytes));
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

    /// Counts what went to a peer.
    fn traffic(&self, peer: u32, messages: u64, bytes: u64) {
        let (first, key) = (peer as usize % PEERS_MAX, u64::from(peer) + 1);
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

    /// Draws an operation into the timeline; its waiting and copying are spread over it evenly.
    fn draw(&self, begin: u64, end: u64, waiting: u64, copying: u64) {
        let origin = self.get(head::BEGUN);
        let (begin, end) = (begin.saturating_sub(origin), end.saturating_sub(origin));
        while (end >> self.get(head::BIN_SHIFT)) as usize >= TIMELINE_BINS {
            self.double_bins(end);
        }
        let shift = self.get(head::BIN_SHIFT);
        let (first, last) = ((begin >> shift) as usize, (end >> shift) as usize);
        if first == last {
            return self.fill(first, [end - begin, waiting, copying]);
        }
        let whole = (end - begin).max(1);
        for bin in first..=last {
            let from = begin.max((bin as u64) << shift);
            let to = end.min((bin as u64 + 1) << shift);
            let part = |of: u64| (u128::from(of) * u128::from(to - from) / u128::from(whole)) as u64;
            self.fill(bin, [to - from, part(waiting), part(copying)]);
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
    fn event(&self, event: Event) {
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
