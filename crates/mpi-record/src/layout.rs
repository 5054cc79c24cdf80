//! Where in the file everything stands: words of 8 bytes, a page for the file, then a block per rank.

use crate::limits::{
    ALGORITHMS_MAX, EVENTS_BYTES, EVENTS_MAX, EVENTS_MIN, OPS_MAX, PEERS_MAX, SIZE_CLASSES, TIMELINE_BINS,
};
use crate::ops::COLLECTIVES;

/// First word: "MPIrecd1" read little-endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"MPIrecd1");
/// Changes whenever the layout or the meaning of a word changes.
pub(crate) const VERSION: u64 = 2;
/// Words of a page.
pub(crate) const PAGE_WORDS: usize = 512;

/// Words of the file's first page.
pub(crate) mod file {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    pub const RANKS: usize = 2;
    /// Places for events of a rank; 0: no events are wanted.
    pub const EVENTS: usize = 3;
    /// 1: ticks are the processor's.
    pub const COUNTER: usize = 4;
    pub const START_TICKS: usize = 5;
    pub const START_NANOS: usize = 6;
    pub const COUNT: usize = 7;
}

/// Words at the beginning of a rank's block.
pub(crate) mod head {
    pub const PID: usize = 0;
    /// When it began to record.
    pub const BEGUN: usize = 1;
    /// When it finalised; 0 before.
    pub const ENDED: usize = 2;
    /// Ticks inside of MPI, in operations that have ended.
    pub const INSIDE: usize = 3;
    pub const WAITING: usize = 4;
    pub const COPYING: usize = 5;
    pub const SENT: usize = 6;
    pub const SENT_BYTES: usize = 7;
    pub const RECEIVED: usize = 8;
    pub const RECEIVED_BYTES: usize = 9;
    /// The most unexpected messages at a time, and the most bytes.
    pub const UNEXPECTED: usize = 10;
    pub const UNEXPECTED_BYTES: usize = 11;
    /// One more than the operation under way; 0 outside of MPI.
    pub const OP: usize = 12;
    pub const OP_SINCE: usize = 13;
    /// One more than the peer of the operation under way.
    pub const OP_PEER: usize = 14;
    /// Since when it waits; 0 when it does not.
    pub const WAIT_SINCE: usize = 15;
    /// One more than the first of those it waits for, once it has waited for long.
    pub const WAITS_FOR: usize = 16;
    /// Traffic with peers that have no place of their own.
    pub const OTHER_MESSAGES: usize = 17;
    pub const OTHER_BYTES: usize = 18;
    /// Width of a bin of the timeline, as a power of two of ticks.
    pub const BIN_SHIFT: usize = 19;
    /// Events written so far.
    pub const EVENTS: usize = 20;
    /// The same, for the reader: written after the event.
    pub const EVENTS_DONE: usize = 21;
    /// Bytes put into and got out of the memory of others directly.
    pub const PUT_BYTES: usize = 22;
    pub const GOT_BYTES: usize = 23;
    /// One more than a receive that has ended and is not counted yet, and its bytes.
    pub const OWED_OP: usize = 24;
    pub const OWED_OP_BYTES: usize = 25;
    /// One more than the bytes of a message that has come and is not counted yet.
    pub const OWED_MESSAGE: usize = 26;
    pub const COUNT: usize = 32;
}

/// Words of an operation's counters.
pub(crate) mod op {
    pub const CALLS: usize = 0;
    pub const TICKS: usize = 1;
    pub const WAITING: usize = 2;
    pub const SENT_BYTES: usize = 3;
    pub const RECEIVED_BYTES: usize = 4;
    pub const LONGEST: usize = 5;
    pub const COUNT: usize = 6;
}

/// Words of a bin of the timeline: ticks in MPI, of them waiting, of them copying.
pub(crate) const BIN_WORDS: usize = 3;
/// Words of a peer: its key, messages, bytes.
pub(crate) const PEER_WORDS: usize = 3;

/// Which way bytes went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// To the peer, in messages.
    Sent,
    /// Into the peer's memory, by the hand of the rank that writes this down.
    Put,
    /// Out of the peer's memory, by the hand of the rank that writes this down.
    Got,
}

/// Under which a peer is in the table: never 0.
#[inline]
pub(crate) fn peer_key(peer: u32, way: Way) -> u64 {
    (u64::from(peer) << 2 | way as u64) + 1
}

/// The peer and the way of a key; `None` where none is.
pub(crate) fn peer_of(key: u64) -> Option<(u32, Way)> {
    let pair = key.checked_sub(1)?;
    let way = [Way::Sent, Way::Put, Way::Got].into_iter().find(|way| *way as u64 == pair & 3)?;
    Some((u32::try_from(pair >> 2).ok()?, way))
}

/// Words of an event.
pub(crate) const EVENT_WORDS: usize = 6;

/// Offsets inside of a block, in words.
pub(crate) const OPS: usize = head::COUNT;
pub(crate) const SIZES_SENT: usize = OPS + OPS_MAX * op::COUNT;
pub(crate) const SIZES_RECEIVED: usize = SIZES_SENT + SIZE_CLASSES;
pub(crate) const ALGORITHMS: usize = SIZES_RECEIVED + SIZE_CLASSES;
pub(crate) const TIMELINE: usize = ALGORITHMS + COLLECTIVES * ALGORITHMS_MAX;
pub(crate) const PEERS: usize = TIMELINE + TIMELINE_BINS * BIN_WORDS;
pub(crate) const EVENTS: usize = PEERS + PEERS_MAX * PEER_WORDS;

/// Sizes of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub ranks: usize,
    pub events: usize,
}

impl Layout {
    pub fn new(ranks: u32, events: bool) -> Layout {
        let ranks = ranks as usize;
        let room = EVENTS_BYTES / 8 / EVENT_WORDS / ranks.max(1);
        // A power of two, so that a place is found by a mask.
        let room = 1 << room.max(1).ilog2();
        Layout { ranks, events: if events { room.clamp(EVENTS_MIN, EVENTS_MAX) } else { 0 } }
    }

    /// From the words of a file's first page; `None` for what cannot be.
    pub fn of(words: &[u64]) -> Option<Layout> {
        let ranks = usize::try_from(*words.get(file::RANKS)?).ok().filter(|r| (1..=1 << 16).contains(r))?;
        let events = usize::try_from(*words.get(file::EVENTS)?).ok()?;
        let good = events == 0 || (events.is_power_of_two() && events <= EVENTS_MAX);
        good.then_some(Layout { ranks, events })
    }

    /// Words of a block without its events.
    pub const fn counters() -> usize {
        EVENTS
    }

    /// Words of a block: whole pages.
    pub fn block(&self) -> usize {
        (EVENTS + self.events * EVENT_WORDS).next_multiple_of(PAGE_WORDS)
    }

    /// Where a rank's block begins.
    pub fn start(&self, rank: usize) -> usize {
        PAGE_WORDS + rank * self.block()
    }

    /// Words of the whole file.
    pub fn total(&self) -> usize {
        self.start(self.ranks)
    }
}

/// The class of a message's size.
#[inline]
pub(crate) fn size_class(bytes: u64) -> usize {
    match bytes {
        0 => 0,
        n => (n.ilog2() as usize + 1).min(SIZE_CLASSES - 1),
    }
}

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An operation, from begin to end in ticks.
    Op {
        /// Which, by its place in the table.
        op: u16,
        /// Thread of the rank, in the order in which they came to MPI.
        thread: u16,
        /// Begin.
        begin: u64,
        /// End.
        end: u64,
        /// The peer, where there is one.
        peer: Option<u32>,
        /// Bytes sent meanwhile.
        sent: u64,
        /// Bytes received meanwhile.
        received: u64,
    },
    /// A wait inside of an operation.
    Wait {
        /// Thread.
        thread: u16,
        /// Begin.
        begin: u64,
        /// End.
        end: u64,
    },
    /// A message left.
    Sent {
        /// Thread.
        thread: u16,
        /// When.
        at: u64,
        /// To whom.
        peer: u32,
        /// In which context.
        context: u32,
        /// Under which tag.
        tag: i32,
        /// Its bytes.
        bytes: u64,
    },
    /// A message is in its place.
    Received {
        /// Thread.
        thread: u16,
        /// When.
        at: u64,
        /// From whom.
        peer: u32,
        /// In which context.
        context: u32,
        /// Under which tag.
        tag: i32,
        /// Its bytes.
        bytes: u64,
    },
}

const OP_EVENT: u64 = 1;
const WAIT_EVENT: u64 = 2;
const SENT_EVENT: u64 = 3;
const RECEIVED_EVENT: u64 = 4;

impl Event {
    /// The same with every time converted.
    #[must_use]
    pub fn timed_by(mut self, convert: impl Fn(u64) -> u64) -> Event {
        match &mut self {
            Event::Op { begin, end, .. } | Event::Wait { begin, end, .. } => {
                (*begin, *end) = (convert(*begin), convert(*end));
            }
            Event::Sent { at, .. } | Event::Received { at, .. } => *at = convert(*at),
        }
        self
    }

    pub(crate) fn encode(self) -> [u64; EVENT_WORDS] {
        let first = |kind: u64, op: u16, thread: u16| kind << 32 | u64::from(op) << 16 | u64::from(thread);
        let pair = |context: u32, tag: i32| u64::from(context) << 32 | u64::from(tag as u32);
        match self {
            Event::Op { op, thread, begin, end, peer, sent, received } => {
                let peer = peer.map_or(0, |peer| u64::from(peer) + 1);
                [first(OP_EVENT, op, thread), begin, end, peer, sent, received]
            }
            Event::Wait { thread, begin, end } => [first(WAIT_EVENT, 0, thread), begin, end, 0, 0, 0],
            Event::Sent { thread, at, peer, context, tag, bytes } => {
                [first(SENT_EVENT, 0, thread), at, peer.into(), pair(context, tag), bytes, 0]
            }
            Event::Received { thread, at, peer, context, tag, bytes } => {
                [first(RECEIVED_EVENT, 0, thread), at, peer.into(), pair(context, tag), bytes, 0]
            }
        }
    }

    /// `None` for what no rank writes.
    pub(crate) fn decode(words: &[u64]) -> Option<Event> {
        let &[first, a, b, c, d, e] = words else { return None };
        let (op, thread) = ((first >> 16) as u16, first as u16);
        let (context, tag) = ((c >> 32) as u32, c as u32 as i32);
        let peer = u32::try_from(b).ok();
        Some(match first >> 32 {
            OP_EVENT => {
                let peer = c.checked_sub(1).map(u32::try_from).transpose().ok()?;
                Event::Op { op, thread, begin: a, end: b, peer, sent: d, received: e }
            }
            WAIT_EVENT => Event::Wait { thread, begin: a, end: b },
            SENT_EVENT => Event::Sent { thread, at: a, peer: peer?, context, tag, bytes: d },
            RECEIVED_EVENT => Event::Received { thread, at: a, peer: peer?, context, tag, bytes: d },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_are_whole_pages_apart() {
        for (ranks, events) in [(1, false), (3, true), (4096, true), (4096, false)] {
            let layout = Layout::new(ranks, events);
            assert_eq!(layout.block() % PAGE_WORDS, 0);
            assert!(layout.block() >= EVENTS + layout.events * EVENT_WORDS);
            assert_eq!(layout.total(), PAGE_WORDS + ranks as usize * layout.block());
        }
        // Counters of a rank: a few tens of KiB.
        assert!(Layout::new(1, false).block() * 8 <= 64 << 10);
    }

    #[test]
    fn sizes_fall_into_classes() {
        assert_eq!([0, 1, 2, 3, 4, 1023, 1024].map(size_class), [0, 1, 2, 2, 3, 10, 11]);
        assert_eq!(size_class(u64::MAX), SIZE_CLASSES - 1);
    }

    proptest! {
        #[test]
        fn events_round_trip(
            thread: u16, op: u16, begin: u64, end: u64, peer in 0..u32::MAX, context: u32, tag: i32, bytes: u64,
        ) {
            for event in [
                Event::Op { op, thread, begin, end, peer: Some(peer), sent: bytes, received: 7 },
                Event::Op { op, thread, begin, end, peer: None, sent: 0, received: bytes },
                Event::Wait { thread, begin, end },
                Event::Sent { thread, at: begin, peer, context, tag, bytes },
                Event::Received { thread, at: end, peer, context, tag, bytes },
            ] {
                prop_assert_eq!(Event::decode(&event.encode()), Some(event));
            }
        }

        #[test]
        fn what_no_rank_writes_is_no_event(words in proptest::collection::vec(any::<u64>(), 0..8)) {
            let _ = Event::decode(&words);
            let _ = Layout::of(&words);
        }
    }
}
