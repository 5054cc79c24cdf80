//! Nodes, links and time: everything that the halves share.

use crate::{Rng, SimConfig, memory};
use mpi_btl::{BulkId, Down, Ep, OpId, Span};
use mpi_wire::Header;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a body under way.
pub(crate) enum Stored {
    Own(Vec<u8>),
    /// Still the sender's memory.
    Lent(Span, OpId),
}

impl Stored {
    pub fn len(&self) -> usize {
        match self {
            Stored::Own(bytes) => bytes.len(),
            Stored::Lent(span, _) => span.len(),
        }
    }
    pub fn read(&self, from: usize, to: usize) -> Vec<u8> {
        match self {
            Stored::Own(bytes) => bytes[from..to].to_vec(),
            Stored::Lent(span, _) => memory::read(*span, from..to),
        }
    }
}

/// Where the rest of a message goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goes {
    /// The receiver has not been asked yet.
    Undecided,
    Discard,
    Direct(BulkId, Span),
    Chunks(BulkId),
}

pub(crate) struct Message {
    pub header: Header,
    pub body: Stored,
    /// Bytes handed over so far.
    pub taken: usize,
    /// Bytes that `message` showed.
    pub shown: usize,
    pub goes: Goes,
    /// Waits for the sender's flush.
    pub held: bool,
}

pub(crate) enum What {
    Message(Message),
    End(Down),
}

/// One entry of a link. Times never decrease along a link.
pub(crate) struct Item {
    pub due: u64,
    pub what: What,
}

/// One direction between two nodes.
#[derive(Default)]
pub(crate) struct Link {
    pub items: VecDeque<Item>,
    pub bytes: usize,
    pub last_due: u64,
    /// The sender was refused and waits for `writable`.
    pub refused: bool,
    /// With a body of this length.
    pub refused_len: usize,
    /// A `writable` is on its way.
    pub notified: bool,
}

pub(crate) enum Notice {
    Completed(Ep, OpId, Result<(), String>),
    Writable(usize),
    /// A `get` that completes now: read there, write here.
    Got {
        ep: Ep,
        op: OpId,
        owner: usize,
        region: u64,
        offset: usize,
        into: Span,
        last: bool,
    },
}

pub(crate) struct Region {
    pub mem: Span,
    pub op: OpId,
    pub ep: Ep,
    pub begun: bool,
}

pub(crate) struct Node {
    pub alive: bool,
    taken: bool,
    pub eps: BTreeMap<Ep, usize>,
    pub names: BTreeMap<usize, Ep>,
    /// Peers that were reported down.
    pub down: BTreeMap<usize, String>,
    /// Peers that this node said goodbye to.
    pub closed: BTreeSet<usize>,
    pub notices: VecDeque<(u64, Notice)>,
    pub regions: BTreeMap<u64, Region>,
    /// Operations to report as failed when the peer goes down.
    pub orphans: BTreeMap<usize, Vec<OpId>>,
    pub doorbell: Arc<AtomicU32>,
    /// A thread may sleep on the doorbell.
    pub armed: bool,
}

pub(crate) struct State {
    pub config: SimConfig,
    pub rng: Rng,
    pub now: u64,
    pub nodes: Vec<Node>,
    /// When something comes to a node. What was taken, discarded or put off since may still stand here.
    agenda: BTreeSet<(u64, usize)>,
    /// By receiver, then sender; those that something was ever sent over.
    links: BTreeMap<(usize, usize), Link>,
    /// A connection between the pair exists (or is being made): time from which it carries.
    connected: BTreeMap<(usize, usize), u64>,
    pub next_region: u64,
    pub digest: u64,
}

impl State {
    pub fn new(seed: u64, config: SimConfig) -> State {
        let n = config.endpoints;
        let node = |_| Node {
            alive: true,
            taken: false,
            eps: BTreeMap::new(),
            names: BTreeMap::new(),
            down: BTreeMap::new(),
            closed: BTreeSet::new(),
            notices: VecDeque::new(),
            regions: BTreeMap::new(),
            orphans: BTreeMap::new(),
            doorbell: Arc::new(AtomicU32::new(0)),
            armed: false,
        };
        State {
            config,
            rng: Rng::new(seed),
            now: 0,
            nodes: (0..n).map(node).collect(),
            agenda: BTreeSet::new(),
            links: BTreeMap::new(),
            connected: BTreeMap::new(),
            next_region: 1,
            digest: seed,
        }
    }

    pub fn take(&mut self, index: usize) -> Arc<AtomicU32> {
        let node = &mut self.nodes[index];
        assert!(!node.taken, "endpoint {index} was taken before");
        node.taken = true;
        node.doorbell.clone()
    }

    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        self.links.entry((to, from)).or_default()
    }

    /// Everything that was ever sent to a node, by sender.
    pub fn inbound(&self, to: usize) -> impl Iterator<Item = (usize, &Link)> {
        self.links.range((to, 0)..=(to, usize::MAX)).map(|((_, from), link)| (*from, link))
    }

    /// Folds something observable into the digest.
    pub fn note(&mut self, value: u64) {
        self.digest = (self.digest ^ value).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(17);
    }

    /// When the connection of a pair carries data; makes it if it is not there.
    fn connect_pair(&mut self, a: usize, b: usize) -> u64 {
        let key = (a.min(b), a.max(b));
        if let Some(&at) = self.connected.get(&key) {
            return at;
        }
        let at = self.now + self.rng.below(self.config.connect_ns + 1);
        self.connected.insert(key, at);
        at
    }

    pub fn is_connected(&self, a: usize, b: usize) -> bool {
        self.connected.contains_key(&(a.min(b), a.max(b)))
    }

    /// The time at which something of `bytes` sent now over a link is there.
    fn arrival(&mut self, from: usize, to: usize, bytes: usize) -> u64 {
        let ready = self.connect_pair(from, to);
        let mut due = self.now.max(ready) + self.config.latency_ns;
        due += self.rng.below(self.config.jitter_ns + 1);
        if self.rng.chance(self.config.stall_per_mille) {
            due += self.config.stall_ns;
        }
        let busy = bytes as u64 * self.config.kilobyte_ns / 1000;
        let link = self.link(from, to);
        due = due.max(link.last_due) + busy;
        link.last_due = due;
        due
    }

    pub fn push(&mut self, from: usize, to: usize, what: What) {
        let bytes = match &what {
            What::Message(m) => m.body.len(),
            What::End(_) => 0,
        };
        let due = self.arrival(from, to, bytes);
        let link = self.link(from, to);
        link.bytes += bytes;
        link.items.push_back(Item { due, what });
        self.expect(to, due);
    }

    /// Something comes to a node at `due`, or has come.
    pub fn expect(&mut self, node: usize, due: u64) {
        if due > self.now {
            self.agenda.insert((due, node));
        } else {
            self.ring(node);
        }
    }

    fn ring(&mut self, node: usize) {
        if let Some(word) = self.tell(node) {
            memory::wake(&word);
        }
    }

    /// Changes a node's word; returns it if a thread may sleep on it.
    fn tell(&mut self, node: usize) -> Option<Arc<AtomicU32>> {
        let node = &mut self.nodes[node];
        node.doorbell.fetch_add(1, Ordering::Release);
        std::mem::take(&mut node.armed).then(|| node.doorbell.clone())
    }

    pub fn notify(&mut self, node: usize, delay: bool, notice: Notice) {
        if !self.nodes[node].alive {
            return;
        }
        let extra = if delay { self.rng.below(self.config.jitter_ns + 1) } else { 0 };
        let due = self.now + extra;
        // Kept in order of time; equal times in order of arrival.
        let at = self.nodes[node].notices.partition_point(|(t, _)| *t <= due);
        self.nodes[node].notices.insert(at, (due, notice));
        self.expect(node, due);
    }

    /// `None`: nothing comes any more. Else who is to be woken, once the lock is free.
    pub fn advance(&mut self) -> Option<Vec<Arc<AtomicU32>>> {
        while let Some((due, node)) = self.agenda.pop_first() {
            if !self.nodes[node].alive {
                continue;
            }
            self.now = due;
            let mut sleepers = Vec::new();
            sleepers.extend(self.tell(node));
            while let Some((_, other)) = self.agenda.first().copied().filter(|(at, _)| *at == due) {
                self.agenda.pop_first();
                sleepers.extend(self.tell(other));
            }
            return Some(sleepers);
        }
        None
    }

    /// Something waits for node `at` to poll.
    pub fn has_due(&self, at: usize) -> bool {
        let now = self.now;
        self.nodes[at].notices.front().is_some_and(|(due, _)| *due <= now)
            || self
                .inbound(at)
                .any(|(_, link)| link.items.front().is_some_and(|i| i.due <= now && !is_held(i)))
    }

    /// Nothing is there for node `at`, and nothing is on its way to it.
    pub fn has_nothing(&self, at: usize) -> bool {
        let noticed = self.nodes[at].notices.front().is_some_and(|(due, _)| *due <= self.now);
        !noticed && self.inbound(at).all(|(_, link)| link.items.is_empty())
    }

    pub fn in_flight(&self) -> usize {
        let alive = self.links.iter().filter(|((to, _), _)| self.nodes[*to].alive);
        let queued: usize = alive.map(|(_, link)| link.items.len()).sum();
        let noticed: usize = self.nodes.iter().filter(|n| n.alive).map(|n| n.notices.len()).sum();
        queued + noticed
    }

    pub fn kill(&mut self, dead: usize) {
        if !self.nodes[dead].alive {
            return;
        }
        self.nodes[dead].alive = false;
        for peer in 0..self.nodes.len() {
            if peer == dead {
                continue;
            }
            self.orphan(peer, dead, 0);
            let len = self.link(dead, peer).items.len();
            let keep = self.rng.upto(len);
            let link = self.link(dead, peer);
            link.items.truncate(keep);
            // What stays is what the network had taken: it is no longer the dead one's memory.
            for item in &mut link.items {
                if let What::Message(m) = &mut item.what {
                    m.held = false;
                    m.body = Stored::Own(m.body.read(0, m.body.len()));
                }
            }
            self.ring(peer);
            if self.is_connected(dead, peer) && !self.nodes[peer].down.contains_key(&dead) {
                let why = Down::Reset(format!("endpoint {dead} was killed"));
                self.push(dead, peer, What::End(why));
            }
        }
        self.nodes[dead].notices.clear();
        self.nodes[dead].regions.clear();
    }

    pub fn garbage(&mut self, from: usize, to: usize) {
        let why = Down::Protocol("header starts with 0x61626364".to_owned());
        self.push(from, to, What::End(why));
    }

    /// Takes what `from` still has under way to `to`, from item `keep` on, out of the network and
    /// remembers the operations that fail by it.
    pub fn orphan(&mut self, from: usize, to: usize, keep: usize) {
        let link = self.link(from, to);
        let gone: Vec<Item> = link.items.drain(keep.min(link.items.len())..).collect();
        link.bytes = link.items.iter().map(item_len).sum();
        for item in gone {
            if let What::Message(Message { body: Stored::Lent(_, op), .. }) = item.what {
                self.nodes[from].orphans.entry(to).or_default().push(op);
            }
        }
    }

    /// The sender of a link may hear that there is room again.
    pub fn relieve(&mut self, from: usize, to: usize) {
        let (messages, bytes) = (self.config.queue_messages, self.config.queue_bytes);
        let link = self.link(from, to);
        let roomy = link.items.is_empty()
            || (link.items.len() <= messages / 2
                && link.bytes <= bytes / 2
                && link.bytes + link.refused_len <= bytes);
        if link.refused && !link.notified && roomy {
            link.notified = true;
            self.notify(from, true, Notice::Writable(to));
        }
    }
}

fn is_held(item: &Item) -> bool {
    matches!(&item.what, What::Message(m) if m.held)
}

fn item_len(item: &Item) -> usize {
    match &item.what {
        What::Message(m) => m.body.len(),
        What::End(_) => 0,
    }
}
