//! The receiving half.

use crate::head::{expand, mark, split_wide};
use crate::limits::{IDLE_POLLS_PER_CLOCK, LIVENESS_PERIOD, RING_BURST};
use crate::shared::{Event, Peer, Shared};
use crate::unnamed::Unnamed;
use mpi_btl::{Armed, BtlRx, BulkId, Down, Ep, Place, Polled, Sink, WakeBy};
use mpi_node::doorbell::{Doorbell, Ringer};
use mpi_node::inbox::InboxReceiver;
use mpi_node::ring::{Consumer, Message, Popped};
use mpi_node::segment::{Presence, SleepOn};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The receiving half of the shared-memory backend.
pub(crate) struct Rx {
    shared: Arc<Shared>,
    inbox: InboxReceiver,
    /// Rings that peers have announced.
    rings: Vec<Ring>,
    /// By endpoint number: place in `rings` plus one.
    ring_of: Vec<u32>,
    /// Peers by slot, as far as they were looked up.
    peers: Vec<Option<Arc<Peer>>>,
    unnamed: Unnamed,
    /// The ring whose turn it is.
    turn: usize,
    events: Vec<Event>,
    ringer: Ringer,
    bell: Option<Doorbell>,
    idle_polls: u32,
    looked_at: Instant,
}

struct Ring {
    consumer: Consumer,
    peer: Arc<Peer>,
}

/// What a record asks for beyond its delivery.
enum After {
    Nothing,
    OpenRing(u32),
    Goodbye,
    Fault(String),
}

impl Rx {
    pub(crate) fn new(shared: Arc<Shared>, inbox: InboxReceiver) -> Rx {
        let slots = shared.segment.ranks() as usize;
        Rx {
            shared,
            inbox,
            rings: Vec::new(),
            ring_of: Vec::new(),
            peers: vec![None; slots],
            unnamed: Unnamed::default(),
            turn: 0,
            events: Vec::new(),
            ringer: Ringer::default(),
            bell: None,
            idle_polls: 0,
            looked_at: Instant::now(),
        }
    }

    /// Takes at most `budget` messages from one ring.
    #[inline]
    fn poll_ring(&mut self, at: usize, budget: usize, sink: &mut dyn Sink) -> usize {
        let mut taken = 0;
        while taken < budget {
            let Some(ring) = self.rings.get_mut(at) else { break };
            let mut after = After::Nothing;
            let ep = ring.peer.ep;
            match ring.consumer.pop(|message| deliver(ep, message, sink, &mut after)) {
                Popped::Empty => break,
                Popped::Message => {}
                Popped::Returned => ring.peer.sleeper.wake_if_asleep(&mut self.ringer),
                Popped::Corrupt => after = After::Fault("a cell of its ring refers outside it".to_owned()),
            }
            taken += 1;
            if !matches!(after, After::Nothing) {
                let peer = ring.peer.clone();
                self.follow_up(&peer, after, sink);
                break;
            }
        }
        taken
    }

    /// What a rare record asks for.
    #[cold]
    fn follow_up(&mut self, peer: &Arc<Peer>, after: After, sink: &mut dyn Sink) {
        match after {
            After::Nothing => {}
            After::OpenRing(index) => match self.shared.segment.open_ring(index) {
                Some(consumer) => self.add_ring(consumer, peer.clone()),
                None => self.lose(
                    peer,
                    Down::Protocol(format!("it announced ring {index}, which it cannot have")),
                    sink,
                ),
            },
            After::Goodbye => self.lose(peer, Down::Goodbye, sink),
            After::Fault(fact) => self.lose(peer, Down::Protocol(fact), sink),
        }
    }

    fn add_ring(&mut self, consumer: Consumer, peer: Arc<Peer>) {
        let at = peer.ep.0 as usize;
        if self.ring_of.len() <= at {
            self.ring_of.resize(at + 1, 0);
        }
        self.rings.push(Ring { consumer, peer });
        self.ring_of[at] = self.rings.len() as u32;
    }

    /// The peer is gone: ends its operations, then says so, once.
    fn lose(&mut self, peer: &Arc<Peer>, why: Down, sink: &mut dyn Sink) {
        if peer.down.load(Ordering::Relaxed) {
            return;
        }
        self.shared.fail(peer, &describe(&why), &mut self.events);
        self.tell(sink);
        if let Some(at) = self.ring_of.get(peer.ep.0 as usize).copied().filter(|at| *at > 0) {
            self.rings.swap_remove(at as usize - 1);
            self.ring_of[peer.ep.0 as usize] = 0;
            if let Some(moved) = self.rings.get(at as usize - 1) {
                self.ring_of[moved.peer.ep.0 as usize] = at;
            }
        }
        sink.down(peer.ep, why);
    }

    /// Hands collected events to the engine.
    fn tell(&mut self, sink: &mut dyn Sink) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            match event {
                Event::Completed(ep, op, result) => sink.completed(ep, op, result),
                Event::Writable(ep) => sink.writable(ep),
            }
        }
        if self.events.is_empty() {
            self.events = events;
        }
    }

    /// Large operations and full rings.
    #[cold]
    fn look(&mut self, sink: &mut dyn Sink) -> bool {
        let moved = self.shared.look(&mut self.events);
        self.tell(sink);
        moved
    }

    fn peer(&mut self, slot: u32) -> Option<Arc<Peer>> {
        let known = self.peers.get_mut(slot as usize)?;
        if known.is_none() {
            *known = self.shared.named(slot);
        }
        known.clone()
    }

    /// The peer in `slot`, introduced to the engine if it must be.
    fn peer_or_introduce(&mut self, slot: u32, sink: &mut dyn Sink) -> Option<Arc<Peer>> {
        if let Some(peer) = self.peer(slot) {
            return Some(peer);
        }
        if slot >= self.shared.segment.ranks() {
            return None;
        }
        let world_rank = u32::try_from(self.shared.segment.label(slot)).ok()?;
        let ep = sink.introduced(&self.shared.job, world_rank)?;
        Some(self.shared.name(slot, ep))
    }

    /// Takes at most `budget` records from the inbox.
    fn poll_inbox(&mut self, budget: usize, sink: &mut dyn Sink) -> usize {
        let mut taken = 0;
        if !self.unnamed.is_empty() {
            taken += self.poll_unnamed(budget, sink);
        }
        while taken < budget && self.inbox.ready() && !self.unnamed.is_full() {
            let mut outcome = None;
            // The peer is looked up between peeking and popping, since it needs all of `self`.
            let Some(slot) = self.inbox.sender() else { break };
            let peer = self.peer_or_introduce(slot, sink);
            let known = peer.as_ref().filter(|_| !self.unnamed.holds(slot));
            let unnamed = &mut self.unnamed;
            let popped = self.inbox.pop(|_, message| match known {
                Some(peer) if peer.down.load(Ordering::Relaxed) => {}
                Some(peer) => deliver(peer.ep, message, sink, outcome.insert(After::Nothing)),
                None => unnamed.keep(slot, message),
            });
            if popped == Popped::Corrupt {
                // Nobody in particular can be blamed, and nothing behind it can be read.
                self.unnamed.give_up();
                if let Some(peer) = peer {
                    self.lose(
                        &peer,
                        Down::Protocol("a record of the inbox lies about its size".to_owned()),
                        sink,
                    );
                }
                break;
            }
            taken += 1;
            if let (Some(peer), Some(after)) = (peer, outcome) {
                self.follow_up(&peer, after, sink);
            }
        }
        if self.inbox.drained() {
            let Rx { inbox, shared, ringer, .. } = self;
            inbox.tell_blocked(|slot| {
                if slot < shared.segment.ranks() {
                    shared.segment.sleeper(slot).wake_if_asleep(ringer);
                }
            });
        }
        taken
    }

    /// Delivers what was set aside from peers that have a name now.
    #[cold]
    fn poll_unnamed(&mut self, budget: usize, sink: &mut dyn Sink) -> usize {
        let mut taken = 0;
        for slot in self.unnamed.slots() {
            let Some(peer) = self.peer_or_introduce(slot, sink) else { continue };
            while taken < budget {
                let Some(record) = self.unnamed.take(slot) else { break };
                let mut after = After::Nothing;
                deliver(peer.ep, record.message(), sink, &mut after);
                self.follow_up(&peer, after, sink);
                taken += 1;
            }
        }
        taken
    }

    /// Counts idle polls and sometimes looks whether the peers live.
    #[inline]
    fn idle(&mut self, sink: &mut dyn Sink) {
        self.idle_polls += 1;
        if self.idle_polls >= IDLE_POLLS_PER_CLOCK {
            self.idle_polls = 0;
            if self.looked_at.elapsed() >= LIVENESS_PERIOD {
                self.look_for_dead(sink);
            }
        }
    }

    #[cold]
    fn look_for_dead(&mut self, sink: &mut dyn Sink) {
        self.looked_at = Instant::now();
        for slot in 0..self.shared.segment.ranks() {
            let Some(peer) = self.peer(slot) else { continue };
            if peer.down.load(Ordering::Relaxed) {
                continue;
            }
            let why = match self.shared.segment.presence(slot) {
                Presence::Gone(pid) => Down::Reset(format!("its process {pid} ended without a goodbye")),
                // It knew nothing of this rank, to which it therefore said nothing.
                Presence::Left => Down::Goodbye,
                Presence::Absent | Presence::Present => continue,
            };
            {
                // What it sent before comes first.
                while self.poll_inbox(usize::MAX, sink) > 0 {}
                while let Some(at) = self.ring_of.get(peer.ep.0 as usize).copied().filter(|at| *at > 0) {
                    if self.poll_ring(at as usize - 1, usize::MAX, sink) == 0 {
                        break;
                    }
                }
                self.lose(&peer, why, sink);
            }
        }
    }

    /// True when a poll would find something.
    fn has_work(&self) -> bool {
        self.inbox.ready()
            || self.rings.iter().any(|r| r.consumer.ready())
            || (self.shared.wants_look() && self.shared.has_work())
    }
}

/// Hands a record's message to the engine. `after` is touched only by the rare ones.
#[inline(always)]
fn deliver(ep: Ep, message: Message<'_>, sink: &mut dyn Sink, after: &mut After) {
    if message.mark != mark::COMPACT {
        *after = deliver_rare(ep, message, sink);
        return;
    }
    let header = expand(message.head, message.body.len());
    let place = sink.message(ep, &header, message.body, header.length);
    if place != Place::Done {
        close_place(ep, place, sink);
    }
}

#[cold]
fn deliver_rare(ep: Ep, message: Message<'_>, sink: &mut dyn Sink) -> After {
    match message.mark {
        mark::WIDE => match split_wide(message.body) {
            Ok((header, body)) => {
                let place = sink.message(ep, &header, body, header.length);
                close_place(ep, place, sink);
                After::Nothing
            }
            Err(fact) => After::Fault(fact),
        },
        mark::RING => After::OpenRing(message.head[0]),
        mark::GOODBYE => After::Goodbye,
        other => After::Fault(format!("it sent a record of unknown kind {other}")),
    }
}

/// Messages come whole: a place for the rest is complete at once.
#[cold]
fn close_place(ep: Ep, place: Place, sink: &mut dyn Sink) {
    match place {
        Place::Done => {}
        Place::Direct { bulk, .. } => sink.arrived(ep, bulk),
        Place::Chunks(bulk) => sink.chunk(ep, bulk, &[], true),
    }
}

fn describe(why: &Down) -> String {
    match why {
        Down::Goodbye => "the peer has left".to_owned(),
        Down::Reset(fact) | Down::Protocol(fact) | Down::Unreachable(fact) => fact.clone(),
    }
}

impl BtlRx for Rx {
    fn poll(&mut self, budget: usize, sink: &mut dyn Sink) -> Polled {
        let mut taken = 0;
        for _ in 0..self.rings.len() {
            if taken >= budget {
                break;
            }
            self.turn = if self.turn + 1 < self.rings.len() { self.turn + 1 } else { 0 };
            taken += self.poll_ring(self.turn, RING_BURST.min(budget - taken), sink);
        }
        if taken < budget && (self.inbox.wants_look() || !self.unnamed.is_empty()) {
            taken += self.poll_inbox(budget - taken, sink);
        }
        let moved = self.shared.wants_look() && self.look(sink);
        if taken > 0 || moved {
            return Polled::Progress;
        }
        self.idle(sink);
        Polled::Idle
    }

    #[inline]
    fn poll_from(&mut self, ep: Ep, sink: &mut dyn Sink) -> Polled {
        let taken = match self.ring_of.get(ep.0 as usize) {
            Some(&at) if at > 0 => self.poll_ring(at as usize - 1, 1, sink),
            _ if self.inbox.wants_look() || !self.unnamed.is_empty() => self.poll_inbox(1, sink),
            _ => 0,
        };
        if taken > 0 || (self.shared.wants_look() && self.look(sink)) {
            Polled::Progress
        } else {
            Polled::Idle
        }
    }

    fn arm(&mut self, by: WakeBy) -> Armed<'_> {
        let on = match by {
            WakeBy::Futex => SleepOn::Word,
            WakeBy::Descriptor => {
                if self.bell.is_none() {
                    self.bell = self.shared.segment.doorbell().ok();
                }
                match &self.bell {
                    Some(bell) => bell.silence(),
                    // No descriptor left: the caller must go on polling.
                    None => return Armed::Ready,
                }
                SleepOn::Bell
            }
        };
        self.shared.segment.fall_asleep(on);
        if self.has_work() {
            self.shared.segment.wake_up();
            return Armed::Ready;
        }
        match (on, &self.bell) {
            (SleepOn::Bell, Some(bell)) => Armed::Descriptor(bell.descriptor()),
            _ => {
                let (word, expected) = self.shared.segment.sleep_word();
                Armed::Word { word, expected }
            }
        }
    }

    fn disarm(&mut self) {
        self.shared.segment.wake_up();
    }

    fn revoke(&mut self, _bulk: BulkId) {
        // Messages come whole: no place outlives its callback.
    }

    fn service_descriptor(&self) -> Option<RawFd> {
        None
    }
}
