//! The launcher's side: a rank's block as plain values, read while the rank runs or after its end.

use crate::RecordError;
use crate::clock::Rate;
use crate::layout::{
    ALGORITHMS, BIN_WORDS, EVENT_WORDS, EVENTS, Event, Layout, OPS, PEER_WORDS, PEERS, SIZES_RECEIVED,
    SIZES_SENT, TIMELINE, Way, file, head, op as words, peer_of, size_class,
};
use crate::limits::{ALGORITHMS_MAX, OPS_MAX, PEERS_MAX, SIZE_CLASSES, TIMELINE_BINS};
use crate::map::{check, read};
use crate::ops::{COLLECTIVES, FIRST_COLLECTIVE, Op};
use std::fs::File;
use std::os::fd::BorrowedFd;

/// Reads the records of the ranks of a world.
#[derive(Debug)]
pub struct Reader {
    all: File,
    layout: Layout,
    pub(crate) start: (u64, u64),
    counter: bool,
}

/// What a rank has written down. Times are in nanoseconds.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Block {
    /// The process; 0: it has not initialised MPI.
    pub pid: u32,
    /// When it initialised MPI, from the start of the job.
    pub begun: u64,
    /// When it finalised; `None`: it has not.
    pub ended: Option<u64>,
    /// From its beginning to its end, or until now.
    pub elapsed: u64,
    /// In MPI, the operation under way included.
    pub inside: u64,
    /// Of that: waiting for others.
    pub waiting: u64,
    /// Of that: copying, as far as the copies are large enough to be timed.
    pub copying: u64,
    /// Messages and bytes sent.
    pub sent: (u64, u64),
    /// Messages and bytes received.
    pub received: (u64, u64),
    /// Bytes put into, and got out of, the memory of others directly.
    pub direct: (u64, u64),
    /// The most unexpected messages at a time, and the most bytes.
    pub unexpected: (u64, u64),
    /// Operations that were called.
    pub ops: Vec<OpCounts>,
    /// Messages sent by size: empty ones, then a class per power of two.
    pub sizes_sent: Vec<u64>,
    /// The same of messages received.
    pub sizes_received: Vec<u64>,
    /// Algorithms of collectives: of which, by which (its place among the algorithms), how often.
    pub algorithms: Vec<(Op, usize, u64)>,
    /// Messages to each peer, in the order of their numbers.
    pub peers: Vec<Peer>,
    /// What the rank itself put into the memory of each peer.
    pub put: Vec<Peer>,
    /// What the rank itself got out of the memory of each peer.
    pub got: Vec<Peer>,
    /// Messages and bytes to peers that are not told apart.
    pub others: (u64, u64),
    /// Width of a bin of the timeline.
    pub bin: u64,
    /// The timeline from the rank's beginning, up to its last operation.
    pub timeline: Vec<Bin>,
    /// What it does now.
    pub now: Option<Now>,
}

/// Counters of an operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OpCounts {
    /// Which.
    pub op: Op,
    /// Calls that have returned.
    pub calls: u64,
    /// Their time.
    pub time: u64,
    /// Of that: waiting.
    pub waiting: u64,
    /// Bytes sent meanwhile.
    pub sent: u64,
    /// Bytes received meanwhile.
    pub received: u64,
    /// The longest call.
    pub longest: u64,
    /// Calls that have not returned; their time up to now is in all of the above.
    pub open: u64,
}

/// Traffic with a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its number, as the rank counts that wrote this down.
    pub peer: u32,
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A piece of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bin {
    /// Time in MPI.
    pub inside: u64,
    /// Of that: waiting.
    pub waiting: u64,
    /// Of that: copying.
    pub copying: u64,
}

/// What a rank does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The operation.
    pub op: Op,
    /// For how long.
    pub time: u64,
    /// Its peer, or the first of those it waits for.
    pub peer: Option<u32>,
    /// For how long it has waited, if it does.
    pub waits: Option<u64>,
}

/// How far the events of a rank were read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tail {
    next: u64,
    /// Events that came faster than they were read.
    pub lost: u64,
}

impl Reader {
    /// Of the file behind `fd`.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn new(fd: BorrowedFd<'_>) -> Result<Reader, RecordError> {
        let own = fd.try_clone_to_owned();
        let all =
            File::from(own.map_err(|error| RecordError::System { what: "descriptor", bytes: 0, error })?);
        let (layout, words) = check(&all)?;
        let start = (words[file::START_TICKS], words[file::START_NANOS]);
        Ok(Reader { all, layout, start, counter: words[file::COUNTER] == 1 })
    }

    /// Ranks that have a block.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.layout.ranks
    }

    /// How ticks become nanoseconds since the start, the better the longer the job has run.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate::since(self.start.0, self.start.1, self.counter)
    }

    /// When the job began, by this machine's monotonic clock in nanoseconds.
    #[must_use]
    pub fn start_nanos(&self) -> u64 {
        self.start.1
    }

    /// The words of a rank's counters.
    pub(crate) fn words(&self, rank: usize) -> std::io::Result<Vec<u64>> {
        if rank >= self.layout.ranks {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        read(&self.all, self.layout.start(rank), Layout::counters())
    }

    /// What a rank has written down so far.
    ///
    /// # Errors
    /// There is no such rank, or the file cannot be read.
    pub fn block(&self, rank: usize) -> std::io::Result<Block> {
        self.block_until(rank, crate::clock::ticks())
    }

    /// The same of a rank whose process has ended, by ticks of the clock, without having said so.
    ///
    /// # Errors
    /// As [`block`](Reader::block).
    pub fn block_until(&self, rank: usize, ended: u64) -> std::io::Result<Block> {
        Ok(block_of(self.words(rank)?, &self.rate(), ended))
    }

    /// The events of a rank that came since the last time, oldest first.
    ///
    /// # Errors
    /// As [`block`](Reader::block).
    pub fn events(&self, rank: usize, tail: &mut Tail) -> std::io::Result<Vec<Event>> {
        let places = self.layout.events as u64;
        if rank >= self.layout.ranks || places == 0 {
            return Ok(Vec::new());
        }
        let start = self.layout.start(rank);
        let done = read(&self.all, start + head::EVENTS_DONE, 1)?[0];
        let oldest = done.saturating_sub(places);
        tail.lose_before(oldest);
        let mut events = Vec::new();
        let from = tail.next;
        while tail.next < done {
            let place = tail.next % places;
            let count = (places - place).min(done - tail.next);
            let at = start + EVENTS + place as usize * EVENT_WORDS;
            let words = read(&self.all, at, count as usize * EVENT_WORDS)?;
            events.extend(words.chunks_exact(EVENT_WORDS).map(Event::decode));
            tail.next += count;
        }
        // What was written over while it was read.
        let begun = read(&self.all, start + head::EVENTS, 1)?[0];
        let torn = (begun.saturating_sub(places).saturating_sub(from) as usize).min(events.len());
        tail.lost += torn as u64;
        Ok(events.into_iter().skip(torn).flatten().collect())
    }
}

impl Tail {
    fn lose_before(&mut self, oldest: u64) {
        if oldest > self.next {
            self.lost += oldest - self.next;
            self.next = oldest;
        }
    }
}

/// Counts what the rank owes to its counters.
fn settle(words: &mut [u64]) {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let (op, op_bytes, message) = (word(head::OWED_OP), word(head::OWED_OP_BYTES), word(head::OWED_MESSAGE));
    let mut add = |at: usize, more: u64| {
        if let Some(word) = words.get_mut(at) {
            *word = word.wrapping_add(more);
        }
    };
    if let Some(place) = op.checked_sub(1).filter(|place| *place < OPS_MAX as u64) {
        let at = OPS + place as usize * words::COUNT;
        add(at + words::CALLS, 1);
        add(at + words::RECEIVED_BYTES, op_bytes);
    }
    if let Some(bytes) = message.checked_sub(1) {
        add(head::RECEIVED, 1);
        add(head::RECEIVED_BYTES, bytes);
        add(SIZES_RECEIVED + size_class(bytes), 1);
    }
}

/// A block by its counters, as they stand at `now`.
pub(crate) fn block_of(mut words: Vec<u64>, rate: &Rate, now: u64) -> Block {
    settle(&mut words);
    let words = words.as_slice();
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let span = |at: usize| rate.span(word(at));
    if word(head::PID) == 0 {
        return Block::default();
    }
    let ended = Some(word(head::ENDED)).filter(|ended| *ended != 0);
    let doing = now_of(words, rate, now).filter(|_| ended.is_none());
    let open = doing.map_or(0, |doing| doing.time);
    let elapsed = rate.span(ended.unwrap_or(now).saturating_sub(word(head::BEGUN)));
    // What stands for many calls may stand for a little too much.
    let inside = (span(head::INSIDE) + open).min(elapsed);
    let waiting = (span(head::WAITING) + doing.and_then(|doing| doing.waits).unwrap_or(0)).min(inside);
    Block {
        pid: word(head::PID) as u32,
        begun: rate.at(word(head::BEGUN)),
        ended: ended.map(|ended| rate.at(ended)),
        elapsed,
        inside,
        waiting,
        copying: span(head::COPYING).min(inside - waiting),
        sent: (word(head::SENT), word(head::SENT_BYTES)),
        received: (word(head::RECEIVED), word(head::RECEIVED_BYTES)),
        direct: (word(head::PUT_BYTES), word(head::GOT_BYTES)),
        unexpected: (word(head::UNEXPECTED), word(head::UNEXPECTED_BYTES)),
        ops: with_open(ops_of(words, rate), doing),
        sizes_sent: (0..SIZE_CLASSES).map(|class| word(SIZES_SENT + class)).collect(),
        sizes_received: (0..SIZE_CLASSES).map(|class| word(SIZES_RECEIVED + class)).collect(),
        algorithms: algorithms_of(words),
        peers: peers_of(words, Way::Sent),
        put: peers_of(words, Way::Put),
        got: peers_of(words, Way::Got),
        others: (word(head::OTHER_MESSAGES), word(head::OTHER_BYTES)),
        bin: rate.span(1 << word(head::BIN_SHIFT).min(62)),
        timeline: timeline_of(words, rate),
        now: doing,
    }
}

fn now_of(words: &[u64], rate: &Rate, now: u64) -> Option<Now> {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let op = Op::at((word(head::OP) as usize).checked_sub(1)?)?;
    let peer = |at: usize| word(at).checked_sub(1).and_then(|peer| u32::try_from(peer).ok());
    let since = |at: usize| rate.span(now.saturating_sub(word(at)));
    Some(Now {
        op,
        time: since(head::OP_SINCE),
        peer: peer(head::WAITS_FOR).or_else(|| peer(head::OP_PEER)),
        waits: (word(head::WAIT_SINCE) != 0).then(|| since(head::WAIT_SINCE)),
    })
}

fn ops_of(words: &[u64], rate: &Rate) -> Vec<OpCounts> {
    let counts = |place: usize| {
        let word = |field: usize| words.get(OPS + place * words::COUNT + field).copied().unwrap_or(0);
        Some(OpCounts {
            op: Op::at(place)?,
            calls: word(words::CALLS),
            time: rate.span(word(words::TICKS)),
            waiting: rate.span(word(words::WAITING)),
            sent: word(words::SENT_BYTES),
            received: word(words::RECEIVED_BYTES),
            longest: rate.span(word(words::LONGEST)),
            open: 0,
        })
    };
    (0..OPS_MAX).filter_map(counts).filter(|counts| counts.calls > 0).collect()
}

/// The counters with the call under way, the one that is looked for where a job hangs.
fn with_open(mut ops: Vec<OpCounts>, doing: Option<Now>) -> Vec<OpCounts> {
    let Some(now) = doing else { return ops };
    let at = ops.iter().position(|counts| counts.op == now.op).unwrap_or_else(|| {
        let none =
            OpCounts { op: now.op, calls: 0, time: 0, waiting: 0, sent: 0, received: 0, longest: 0, open: 0 };
        ops.push(none);
        ops.len() - 1
    });
    if let Some(counts) = ops.get_mut(at) {
        counts.open += 1;
        counts.time += now.time;
        counts.waiting += now.waits.unwrap_or(0).min(now.time);
        counts.longest = counts.longest.max(now.time);
    }
    ops
}

fn algorithms_of(words: &[u64]) -> Vec<(Op, usize, u64)> {
    let cells = (0..COLLECTIVES).flat_map(|row| (0..ALGORITHMS_MAX).map(move |by| (row, by)));
    cells
        .filter_map(|(row, by)| {
            let count = *words.get(ALGORITHMS + row * ALGORITHMS_MAX + by)?;
            Some((Op::at(usize::from(FIRST_COLLECTIVE) + row)?, by, count))
        })
        .filter(|(_, _, count)| *count > 0)
        .collect()
}

fn peers_of(words: &[u64], wanted: Way) -> Vec<Peer> {
    let table = words.get(PEERS..PEERS + PEERS_MAX * PEER_WORDS).unwrap_or_default();
    let mut peers: Vec<Peer> = table
        .chunks_exact(PEER_WORDS)
        .filter_map(|entry| {
            let (peer, way) = peer_of(entry[0])?;
            (way == wanted).then_some(Peer { peer, messages: entry[1], bytes: entry[2] })
        })
        .collect();
    peers.sort_by_key(|peer| peer.peer);
    peers
}

fn timeline_of(words: &[u64], rate: &Rate) -> Vec<Bin> {
    let table = words.get(TIMELINE..TIMELINE + TIMELINE_BINS * BIN_WORDS).unwrap_or_default();
    let bin = |entry: &[u64]| Bin {
        inside: rate.span(entry[0]),
        waiting: rate.span(entry[1]),
        copying: rate.span(entry[2]),
    };
    let mut bins: Vec<Bin> = table.chunks_exact(BIN_WORDS).map(bin).collect();
    let used = bins.iter().rposition(|bin| *bin != Bin::default()).map_or(0, |last| last + 1);
    bins.truncate(used);
    bins
}
