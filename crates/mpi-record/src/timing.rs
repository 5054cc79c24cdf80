//! What a thread is in, and how long that takes.
//!
//! Reading the clock costs as much as a tenth of a small message's way. So a call is timed from its
//! beginning while its operation has been called a few times only ([`EXACT_CALLS`]), and of the further
//! ones one in [`SAMPLE_CALLS`], which then stands for that many. Any other call is timed from where it
//! turns out to be long, and what went before that is what it was for calls timed from the beginning.
//! With events wanted every call is timed.
//!
//! What a receive leaves behind is written down at leisure: while the thread waits for the next message,
//! or after the next one has been sent. Until then it stands in the block as what is owed, which the
//! launcher adds by itself: nothing is missing of a rank that is killed.

use crate::clock::ticks;
use crate::layout::{Event, OPS, SIZES_RECEIVED, Way, head, op as words, size_class};
use crate::limits::{EXACT_CALLS, LONG_COPY_BYTES, LONG_WAIT_TURNS, SAMPLE_CALLS, TIMED_COPY_BYTES};
use crate::ops::{Op, WAIT};
use crate::writer::Writer;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// What a thread is in.
pub(crate) struct Thread {
    number: Cell<u16>,
    /// Operations one inside the other; the outermost is recorded.
    depth: Cell<u32>,
    op: Cell<Op>,
    /// One more than the peer, as in the block.
    peer: Cell<u64>,
    /// Since when the operation is timed; 0: it is not.
    since: Cell<u64>,
    /// For how many calls it stands if it is short; 0: it was not timed from its beginning.
    weight: Cell<u64>,
    /// It has turned out to be long.
    long: Cell<bool>,
    /// Calls until one is timed.
    countdown: Cell<u32>,
    random: Cell<u32>,
    /// How long calls last until they turn out to be long.
    lead: Cell<u64>,
    wait: Cell<Kind>,
    turns: Cell<u32>,
    /// Since when the wait is timed; 0: it is not.
    wait_since: Cell<u64>,
    /// Copying up to then, which is no waiting.
    wait_copying: Cell<u64>,
    /// What the operation came to so far.
    waiting: Cell<u64>,
    copying: Cell<u64>,
    sent: Cell<u64>,
    received: Cell<u64>,
}

/// A wait, by what ends it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Not,
    /// The next message.
    Message,
    /// Its guard.
    Guard,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            number: Cell::new(u16::MAX),
            depth: Cell::new(0),
            op: Cell::new(WAIT),
            peer: Cell::new(0),
            since: Cell::new(0),
            weight: Cell::new(0),
            long: Cell::new(false),
            countdown: Cell::new(SAMPLE_CALLS),
            random: Cell::new(0x9e37_79b9),
            lead: Cell::new(0),
            wait: Cell::new(Kind::Not),
            turns: Cell::new(0),
            wait_since: Cell::new(0),
            wait_copying: Cell::new(0),
            waiting: Cell::new(0),
            copying: Cell::new(0),
            sent: Cell::new(0),
            received: Cell::new(0),
        }
    };
}

/// A wait under way.
#[derive(Debug)]
pub(crate) struct Wait {
    /// It is an operation itself.
    alone: bool,
}

fn add_to(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get().wrapping_add(more));
}

impl Thread {
    /// Calls until the next one that is timed: as often more as fewer than [`SAMPLE_CALLS`], by chance, so
    /// that no program's period meets one operation only.
    fn draw_lot(&self) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        SAMPLE_CALLS / 2 + x % (SAMPLE_CALLS + 1)
    }
}

impl Writer {
    #[inline(always)]
    pub fn begin(&self, op: Op, peer: impl FnOnce() -> Option<u32>) {
        if !THREAD.with(|thread| self.begins_untimed(thread, op)) {
            let peer = peer().map_or(0, |peer| u64::from(peer) + 1);
            THREAD.with(|thread| self.begin_timed(thread, peer));
        }
    }

    /// True when nothing else is to be done.
    #[inline(always)]
    fn begins_untimed(&self, thread: &Thread, op: Op) -> bool {
        let depth = thread.depth.get();
        thread.depth.set(depth + 1);
        if depth > 0 {
            return true;
        }
        thread.op.set(op);
        let left = thread.countdown.get();
        let exact = self.events > 0 || self.get(OPS + op.place() * words::COUNT + words::CALLS) < EXACT_CALLS;
        if exact || left <= 1 {
            return false;
        }
        thread.countdown.set(left - 1);
        thread.weight.set(0);
        true
    }

    #[inline(never)]
    fn begin_timed(&self, thread: &Thread, peer: u64) {
        thread.peer.set(peer);
        let calls = self.get(OPS + thread.op.get().place() * words::COUNT + words::CALLS);
        if self.events > 0 || calls < EXACT_CALLS {
            thread.weight.set(1);
        } else {
            thread.countdown.set(thread.draw_lot());
            thread.weight.set(u64::from(SAMPLE_CALLS));
        }
        self.time_from(thread, ticks());
    }

    /// The operation is timed from here on, and the launcher can see it.
    #[inline(never)]
    fn time_from(&self, thread: &Thread, now: u64) {
        thread.since.set(now);
        self.set(head::OP_SINCE, now);
        self.set(head::OP_PEER, thread.peer.get());
        self.set(head::OP, u64::from(thread.op.get().0) + 1);
    }

    /// The operation, or its wait, has turned out to be long.
    #[cold]
    fn is_long(&self, thread: &Thread) {
        if thread.depth.get() == 0 || thread.long.replace(true) {
            return;
        }
        let now = ticks();
        if thread.since.get() == 0 {
            // Nobody has asked whom it is with; who waits says so.
            thread.peer.set(0);
            self.time_from(thread, now);
        } else if thread.weight.get() > 0 {
            // An eighth of each new one, so that it follows what the program does.
            let (lead, new) = (thread.lead.get(), now.saturating_sub(thread.since.get()));
            thread.lead.set(if lead == 0 { new } else { lead - lead / 8 + new / 8 });
        }
        if thread.wait.get() != Kind::Not && thread.wait_since.get() == 0 {
            self.time_wait_from(thread, now);
        }
    }

    #[inline(always)]
    pub fn end(&self, op: Op) {
        THREAD.with(|thread| {
            let depth = thread.depth.get().saturating_sub(1);
            thread.depth.set(depth);
            if depth > 0 {
                return;
            }
            if thread.wait.get() == Kind::Message {
                self.end_wait_of(thread);
            }
            if thread.since.get() == 0 {
                self.end_untimed(thread, op);
            } else {
                self.end_timed(thread, op);
            }
        });
    }

    #[inline(always)]
    fn end_untimed(&self, thread: &Thread, op: Op) {
        let (sent, received) = (thread.sent.take(), thread.received.take());
        if sent == 0 && received > 0 && self.may_owe() {
            self.settle_op();
            self.set(head::OWED_OP_BYTES, received);
            return self.set(head::OWED_OP, u64::from(op.0) + 1);
        }
        let at = OPS + op.place() * words::COUNT;
        self.add(at + words::CALLS, 1);
        self.add(at + words::SENT_BYTES, sent);
        self.add(at + words::RECEIVED_BYTES, received);
    }

    #[cold]
    fn end_timed(&self, thread: &Thread, op: Op) {
        let (begin, end) = (thread.since.take(), ticks());
        let (sent, received) = (thread.sent.take(), thread.received.take());
        let (mut waiting, copying) = (thread.waiting.take(), thread.copying.take());
        let mut time = end.saturating_sub(begin);
        let weight = match (thread.weight.get(), thread.long.replace(false)) {
            (0, _) => {
                let lead = thread.lead.get();
                time += lead;
                waiting += if waiting > 0 { lead } else { 0 };
                1
            }
            (_, true) => 1,
            (weight, false) => weight,
        };
        let at = OPS + op.place() * words::COUNT;
        self.add(at + words::CALLS, 1);
        self.add(at + words::TICKS, time * weight);
        self.add(at + words::WAITING, waiting * weight);
        self.add(at + words::SENT_BYTES, sent);
        self.add(at + words::RECEIVED_BYTES, received);
        self.raise(at + words::LONGEST, time);
        self.add(head::INSIDE, time * weight);
        self.add(head::WAITING, waiting * weight);
        self.add(head::COPYING, copying * weight);
        self.set(head::OP, 0);
        if weight == 1 {
            self.draw(begin, end, [time, waiting, copying]);
        } else {
            self.draw(end, end, [time, waiting, copying].map(|ticks| ticks * weight));
        }
        if self.events > 0 {
            let peer = thread.peer.get().checked_sub(1).map(|peer| peer as u32);
            let thread = self.number(thread);
            self.event(Event::Op { op: op.0, thread, begin, end, peer, sent, received });
        }
    }

    /// The thread finds that it has to wait, also again and again; `None`: it waits already.
    pub fn begin_wait(&self) -> Option<Wait> {
        THREAD.with(|thread| {
            if thread.wait.get() != Kind::Not {
                self.turn(thread);
                return None;
            }
            let alone = thread.depth.get() == 0;
            if alone && !self.begins_untimed(thread, WAIT) {
                self.begin_timed(thread, 0);
            }
            self.wait_of(thread, Kind::Guard);
            Some(Wait { alone })
        })
    }

    /// The wait goes on.
    pub fn still_waiting(&self) {
        THREAD.with(|thread| self.turn(thread));
    }

    pub fn end_wait(&self, wait: Wait) {
        THREAD.with(|thread| self.end_wait_of(thread));
        if wait.alone {
            self.end(WAIT);
        }
    }

    #[inline]
    pub fn begin_message_wait(&self) {
        THREAD.with(|thread| match thread.wait.get() {
            Kind::Not => self.wait_of(thread, Kind::Message),
            _ => self.turn(thread),
        });
    }

    /// The wait of this thread will be long: it hands its processor over.
    pub fn waits_long(&self) {
        THREAD.with(|thread| self.is_long(thread));
    }

    fn wait_of(&self, thread: &Thread, kind: Kind) {
        thread.wait.set(kind);
        thread.turns.set(0);
        // Nothing has come: there is time.
        self.settle();
        if thread.since.get() != 0 {
            self.time_wait_from(thread, ticks());
        }
    }

    fn time_wait_from(&self, thread: &Thread, now: u64) {
        thread.wait_since.set(now);
        thread.wait_copying.set(thread.copying.get());
        self.set(head::WAIT_SINCE, now);
    }

    #[inline]
    fn turn(&self, thread: &Thread) {
        let turns = thread.turns.get().wrapping_add(1);
        thread.turns.set(turns);
        if turns == LONG_WAIT_TURNS {
            self.is_long(thread);
        }
    }

    #[inline]
    fn end_wait_of(&self, thread: &Thread) {
        thread.wait.set(Kind::Not);
        if thread.wait_since.get() != 0 {
            self.end_timed_wait(thread);
        }
    }

    #[cold]
    fn end_timed_wait(&self, thread: &Thread) {
        let (since, end) = (thread.wait_since.take(), ticks());
        let copying = thread.copying.get().wrapping_sub(thread.wait_copying.get());
        add_to(&thread.waiting, end.saturating_sub(since).saturating_sub(copying));
        self.set(head::WAIT_SINCE, 0);
        self.set(head::WAITS_FOR, 0);
        if self.events > 0 {
            self.event(Event::Wait { thread: self.number(thread), begin: since, end });
        }
    }

    pub fn waits_for(&self, peer: Option<u32>) {
        self.waits_long();
        self.set(head::WAITS_FOR, peer.map_or(0, |peer| u64::from(peer) + 1));
    }

    /// The beginning of a copy; 0 where it is not timed.
    pub fn copying(&self, bytes: usize) -> u64 {
        THREAD.with(|thread| {
            let long = bytes >= LONG_COPY_BYTES;
            if long && thread.since.get() == 0 {
                self.is_long(thread);
            }
            let timed = long || (bytes >= TIMED_COPY_BYTES && thread.since.get() != 0);
            if timed { ticks() } else { 0 }
        })
    }

    pub fn copied(&self, since: u64) {
        let time = ticks().saturating_sub(since);
        THREAD.with(|thread| match thread.depth.get() {
            0 => self.add(head::COPYING, time),
            _ => add_to(&thread.copying, time),
        });
    }

    /// The operation under way has sent so much more.
    #[inline]
    pub(crate) fn has_sent(&self, bytes: u64, event: impl FnOnce(u16, u64) -> Event) {
        THREAD.with(|thread| {
            add_to(&thread.sent, bytes);
            if self.events > 0 {
                self.event(event(self.number(thread), ticks()));
            }
        });
    }

    /// The operation under way has received so much more, which ends a wait for a message.
    #[inline]
    pub(crate) fn has_received(&self, bytes: u64, event: impl FnOnce(u16, u64) -> Event) {
        THREAD.with(|thread| {
            self.end_message_wait(thread);
            add_to(&thread.received, bytes);
            if self.events > 0 {
                self.event(event(self.number(thread), ticks()));
            }
        });
    }

    /// The operation under way has moved so much without a message.
    pub(crate) fn has_moved(&self, way: Way, bytes: u64) {
        THREAD.with(|thread| add_to(if way == Way::Put { &thread.sent } else { &thread.received }, bytes));
    }

    /// What the library says to itself has come.
    pub(crate) fn has_heard(&self) {
        THREAD.with(|thread| self.end_message_wait(thread));
    }

    #[inline]
    fn end_message_wait(&self, thread: &Thread) {
        if thread.wait.get() == Kind::Message {
            self.end_wait_of(thread);
        }
    }

    fn number(&self, thread: &Thread) -> u16 {
        if thread.number.get() == u16::MAX {
            thread.number.set(self.threads.fetch_add(1, Ordering::Relaxed));
        }
        thread.number.get()
    }

    /// Something may be left to be written down later: only one thread writes, and no event tells when.
    #[inline]
    pub(crate) fn may_owe(&self) -> bool {
        self.events == 0 && !self.several.load(Ordering::Relaxed)
    }

    /// Writes down what is owed.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.get(head::OWED_MESSAGE) != 0 {
            self.settle_message();
        }
        self.settle_op();
    }

    #[inline(always)]
    fn settle_op(&self) {
        if let Some(place) = self.get(head::OWED_OP).checked_sub(1) {
            let at = OPS + place as usize * words::COUNT;
            self.set(head::OWED_OP, 0);
            self.add(at + words::CALLS, 1);
            self.add(at + words::RECEIVED_BYTES, self.get(head::OWED_OP_BYTES));
        }
    }

    /// A message that was received.
    #[inline]
    pub(crate) fn owe_message(&self, bytes: u64) {
        if self.get(head::OWED_MESSAGE) != 0 {
            self.settle_message();
        }
        self.set(head::OWED_MESSAGE, bytes + 1);
    }

    #[inline]
    fn settle_message(&self) {
        let bytes = self.get(head::OWED_MESSAGE).wrapping_sub(1);
        self.set(head::OWED_MESSAGE, 0);
        self.count_received(bytes);
    }

    #[inline]
    pub(crate) fn count_received(&self, bytes: u64) {
        self.add(head::RECEIVED, 1);
        self.add(head::RECEIVED_BYTES, bytes);
        self.add(SIZES_RECEIVED + size_class(bytes), 1);
    }
}
