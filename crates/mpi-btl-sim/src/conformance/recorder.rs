//! A sink that checks what it is told and writes it down.

use mpi_btl::{BulkId, Down, Ep, OpId, Place, Sink, Span};
use mpi_wire::Header;
use std::collections::BTreeMap;

/// Where the recorder puts bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// By turns, every way there is except throwing bytes away.
    Mixed,
    /// Always [`Place::Direct`].
    Direct,
    /// Always [`Place::Chunks`].
    Chunks,
    /// Always [`Place::Done`]: what is not there yet is thrown away.
    Discard,
}

/// A message that arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Who sent it.
    pub from: Ep,
    /// Its header.
    pub header: Header,
    /// Its body; only the part that was there at first, when the rest was thrown away.
    pub body: Vec<u8>,
}

/// Anything but a body, in the order told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// [`Sink::message`], by tag.
    Message(Ep, i32),
    /// [`Sink::completed`].
    Completed(Ep, OpId, Result<(), String>),
    /// [`Sink::writable`].
    Writable(Ep),
    /// [`Sink::down`].
    Down(Ep, Down),
}

struct Open {
    from: Ep,
    header: Header,
    body: Vec<u8>,
    direct: bool,
}

/// Writes down what a backend tells.
pub struct Recorder {
    /// Number of the endpoint it records for.
    pub me: u32,
    /// How bodies are placed.
    pub policy: Policy,
    /// Messages whose body is complete, in order of completion.
    pub arrivals: Vec<Arrival>,
    /// Everything else.
    pub events: Vec<Event>,
    /// Number to give to a peer that introduces itself.
    pub introduce_as: Option<Ep>,
    /// Peers that introduced themselves, by world rank.
    pub introduced: Vec<u32>,
    /// What people were to be told.
    pub notices: Vec<String>,
    open: BTreeMap<u64, Open>,
    next_bulk: u64,
}

impl Recorder {
    /// An empty record for endpoint `me`.
    pub fn new(me: u32) -> Recorder {
        Recorder {
            me,
            policy: Policy::Mixed,
            arrivals: Vec::new(),
            events: Vec::new(),
            introduce_as: None,
            introduced: Vec::new(),
            notices: Vec::new(),
            open: BTreeMap::new(),
            next_bulk: 0,
        }
    }

    /// Tags of the messages begun by `from`, in order.
    pub fn tags(&self, from: Ep) -> Vec<i32> {
        let of = |e: &Event| if let Event::Message(f, tag) = e { (*f == from).then_some(*tag) } else { None };
        self.events.iter().filter_map(of).collect()
    }

    /// How often `writable` was told for `ep`.
    pub fn writable(&self, ep: Ep) -> usize {
        self.events.iter().filter(|e| **e == Event::Writable(ep)).count()
    }

    /// What was told of the end of `ep`.
    pub fn downs(&self, ep: Ep) -> Vec<Down> {
        let of = |e: &Event| if let Event::Down(p, why) = e { (*p == ep).then(|| why.clone()) } else { None };
        self.events.iter().filter_map(of).collect()
    }

    /// Results told for an operation.
    pub fn completions(&self, op: OpId) -> Vec<Result<(), String>> {
        let of = |e: &Event| {
            if let Event::Completed(_, o, result) = e { (*o == op).then(|| result.clone()) } else { None }
        };
        self.events.iter().filter_map(of).collect()
    }

    /// Bodies that are not complete.
    pub fn open_bodies(&self) -> Vec<BulkId> {
        self.open.keys().map(|k| BulkId(*k)).collect()
    }

    /// Takes the memory of a revoked body back.
    pub fn reclaim(&mut self, bulk: BulkId) -> Option<Vec<u8>> {
        self.open.remove(&bulk.0).map(|o| o.body)
    }

    fn finish(&mut self, from: Ep, bulk: BulkId, direct: bool) {
        let Some(open) = self.open.remove(&bulk.0) else {
            panic!("endpoint {}: {bulk:?} of {from:?} is complete, and no such body is open", self.me)
        };
        assert_eq!((open.from, open.direct), (from, direct), "{bulk:?} completed the wrong way");
        assert_eq!(open.body.len() as u64, open.header.length, "{bulk:?} is complete with another length");
        self.arrivals.push(Arrival { from, header: open.header, body: open.body });
    }
}

impl Sink for Recorder {
    fn message(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        assert_eq!(total, header.length, "total is the header's length");
        assert!(have.len() as u64 <= total, "more bytes than the body has");
        assert!(self.downs(from).is_empty(), "a message after down, from {from:?}");
        assert!(self.open.values().all(|o| o.from != from), "two bodies of one peer at once, from {from:?}");
        self.events.push(Event::Message(from, header.tag));
        let bulk = self.next_bulk;
        self.next_bulk += 1;
        let rest = total as usize - have.len();
        let policy = match self.policy {
            Policy::Mixed if rest == 0 && bulk % 4 < 2 => Policy::Discard,
            Policy::Mixed if bulk % 2 == 0 => Policy::Direct,
            Policy::Mixed => Policy::Chunks,
            policy => policy,
        };
        let mut body = have.to_vec();
        if policy == Policy::Discard {
            self.arrivals.push(Arrival { from, header: *header, body });
            return Place::Done;
        }
        let direct = policy == Policy::Direct;
        if direct {
            body.resize(total as usize, 0xEE);
        }
        let open = self.open.entry(bulk).or_insert(Open { from, header: *header, body, direct });
        if direct {
            let into = Span::new(open.body[have.len()..].as_mut_ptr(), rest);
            Place::Direct { bulk: BulkId(bulk), into }
        } else {
            Place::Chunks(BulkId(bulk))
        }
    }

    fn chunk(&mut self, from: Ep, bulk: BulkId, bytes: &[u8], last: bool) {
        let Some(open) = self.open.get_mut(&bulk.0) else { panic!("a chunk of {bulk:?}, which is not open") };
        open.body.extend_from_slice(bytes);
        if last {
            self.finish(from, bulk, false);
        }
    }

    fn arrived(&mut self, from: Ep, bulk: BulkId) {
        self.finish(from, bulk, true);
    }

    fn completed(&mut self, ep: Ep, op: OpId, result: Result<(), String>) {
        assert!(self.downs(ep).is_empty(), "an operation with {ep:?} completed after its down");
        self.events.push(Event::Completed(ep, op, result));
    }

    fn writable(&mut self, ep: Ep) {
        self.events.push(Event::Writable(ep));
    }

    fn down(&mut self, ep: Ep, why: Down) {
        self.open.retain(|_, o| o.from != ep);
        self.events.push(Event::Down(ep, why));
    }

    fn introduced(&mut self, _job: &str, world_rank: u32) -> Option<Ep> {
        self.introduced.push(world_rank);
        self.introduce_as
    }

    fn notice(&mut self, text: String) {
        self.notices.push(text);
    }
}
