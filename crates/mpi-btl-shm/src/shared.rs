//! What the two halves know together: who is who, and the operations that end later.
//!
//! The small-message path reads one counter here and takes no lock; large messages and full rings do.

use crate::offers::Offers;
use crate::takings::Takings;
use mpi_btl::{Ep, OpId};
use mpi_node::inbox::InboxSender;
use mpi_node::ring::RoomWatch;
use mpi_node::segment::{Segment, Sleeper};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A peer of the node that has been named.
pub(crate) struct Peer {
    pub(crate) ep: Ep,
    pub(crate) slot: u32,
    pub(crate) sleeper: Sleeper,
    /// Gone, with or without a goodbye.
    pub(crate) down: AtomicBool,
}

/// Common to both halves.
pub(crate) struct Shared {
    pub(crate) segment: Arc<Segment>,
    pub(crate) job: String,
    /// Copying across processes is allowed by the settings and by the kernel.
    pub(crate) cross_copy: bool,
    /// Operations in `state` that need a look from `poll`. A hint that both halves keep.
    attention: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    /// By slot.
    pub(crate) peers: Vec<Option<Arc<Peer>>>,
    pub(crate) offers: Offers,
    pub(crate) takings: Takings,
    pub(crate) blocked: Vec<Blocked>,
}

/// A peer that answered `Full`.
pub(crate) struct Blocked {
    pub(crate) peer: Arc<Peer>,
    pub(crate) room: Room,
}

/// Where room is awaited.
pub(crate) enum Room {
    Ring(RoomWatch),
    Inbox(InboxSender, usize),
}

impl Room {
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Room::Ring(watch) => watch.is_open(),
            Room::Inbox(inbox, len) => inbox.has_room(*len),
        }
    }
}

/// Something to be told to the engine, once no lock is held.
pub(crate) enum Event {
    Completed(Ep, OpId, Result<(), String>),
    Writable(Ep),
}

impl Shared {
    pub(crate) fn new(segment: Arc<Segment>, job: String, cross_copy: bool) -> Shared {
        let slots = segment.ranks() as usize;
        let state = State { peers: (0..slots).map(|_| None).collect(), ..State::default() };
        Shared { segment, job, cross_copy, attention: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    /// True when [`look`](Self::look) may find something.
    #[inline(always)]
    pub(crate) fn wants_look(&self) -> bool {
        self.attention.load(Ordering::Relaxed) != 0
    }

    /// The state, for the length of a short step without callbacks.
    pub(crate) fn lock(&self) -> Locked<'_> {
        // A panic in a callback cannot leave the state half changed: none runs under the lock.
        Locked { shared: self, state: self.state.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Gives the peer in `slot` its number; the first one stays.
    pub(crate) fn name(&self, slot: u32, ep: Ep) -> Arc<Peer> {
        let mut locked = self.lock();
        let known = &mut locked.state.peers[slot as usize];
        let sleeper = || self.segment.sleeper(slot);
        known
            .get_or_insert_with(|| {
                Arc::new(Peer { ep, slot, sleeper: sleeper(), down: AtomicBool::new(false) })
            })
            .clone()
    }

    /// The peer in `slot`, if it was named.
    pub(crate) fn named(&self, slot: u32) -> Option<Arc<Peer>> {
        self.lock().state.peers.get(slot as usize)?.clone()
    }

    /// Moves all operations on and collects what is to be told. True when something moved.
    #[cold]
    pub(crate) fn look(&self, events: &mut Vec<Event>) -> bool {
        let mut locked = self.lock();
        let state = &mut *locked.state;
        let before = events.len();
        let helped = state.offers.look(&self.segment, events);
        state.takings.look(events);
        state.blocked.retain(|blocked| {
            let open = blocked.room.is_open();
            if open {
                events.push(Event::Writable(blocked.peer.ep));
            }
            !open
        });
        helped || events.len() > before
    }

    /// True when a `look` would find something, before sleeping.
    pub(crate) fn has_work(&self) -> bool {
        let locked = self.lock();
        for blocked in &locked.state.blocked {
            if let Room::Inbox(inbox, _) = &blocked.room {
                inbox.ask_to_be_woken();
            }
        }
        locked.state.offers.has_work(&self.segment)
            || locked.state.takings.has_work()
            || locked.state.blocked.iter().any(|b| b.room.is_open())
    }

    /// Ends all operations with a peer that is gone.
    pub(crate) fn fail(&self, peer: &Arc<Peer>, why: &str, events: &mut Vec<Event>) {
        peer.down.store(true, Ordering::Relaxed);
        let mut locked = self.lock();
        let state = &mut *locked.state;
        state.offers.fail(&self.segment, peer, why, events);
        state.takings.fail(peer, why, events);
        state.blocked.retain(|b| b.peer.ep != peer.ep);
    }
}

/// The locked state; keeps the counter on the way out.
pub(crate) struct Locked<'a> {
    shared: &'a Shared,
    pub(crate) state: MutexGuard<'a, State>,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let state = &self.state;
        let open = state.offers.len() + state.takings.len() + state.blocked.len();
        self.shared.attention.store(open, Ordering::Relaxed);
    }
}
