//! The sending half.

use crate::boards::NodeBoards;
use crate::head::{compact, mark};
use crate::limits::{EAGER_BYTES, FRAME_BYTES, LAST_PIECE_TURNS, MESSAGES_BEFORE_RING, WAKE_TO_HELP_BYTES};
use crate::offers;
use crate::shared::{Blocked, Peer, Room, Shared};
use mpi_btl::{
    Am, Boards, Body, BtlTx, Caps, ConnectError, Ep, OpId, PeerInfo, RegionKey, RemoteError, SendError, Sent,
    Span,
};
use mpi_node::doorbell::Ringer;
use mpi_node::inbox::InboxSender;
use mpi_node::ring::{Full, HEAD_WORDS, INLINE_BYTES, Producer};
use mpi_node::segment::{Part, Presence, TakeError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The sending half of the shared-memory backend.
pub(crate) struct Tx {
    shared: Arc<Shared>,
    /// By endpoint number.
    ways: Vec<Option<Way>>,
    ringer: Ringer,
    /// Goodbyes that found no room.
    goodbyes: Vec<Ep>,
}

/// The way to a peer.
struct Way {
    /// Present once the pair talks enough.
    ring: Option<Producer>,
    inbox: InboxSender,
    /// Messages sent through the inbox; no further ring is tried once past the limit.
    sent: u32,
    get: bool,
    /// This side has said goodbye, or is about to.
    closed: bool,
    peer: Arc<Peer>,
}

impl Tx {
    pub(crate) fn new(shared: Arc<Shared>) -> Tx {
        Tx { shared, ways: Vec::new(), ringer: Ringer::default(), goodbyes: Vec::new() }
    }

    #[inline(always)]
    fn way(&mut self, ep: Ep) -> Result<&mut Way, SendError> {
        match self.ways.get_mut(ep.0 as usize) {
            Some(Some(way)) => Ok(way),
            _ => Err(SendError::Down("it was never connected".to_owned())),
        }
    }

    fn open_way(&mut self, ep: Ep, slot: u32) {
        let segment = &self.shared.segment;
        // A peer that has not attached yet will be able to do what this process can.
        let get = self.shared.cross_copy
            && (segment.presence(slot) == Presence::Absent || segment.may_cross_copy(slot));
        let peer = self.shared.name(slot, ep);
        let at = ep.0 as usize;
        if self.ways.len() <= at {
            self.ways.resize_with(at + 1, || None);
        }
        if self.ways[at].is_none() {
            let inbox = segment.inbox_sender(slot);
            self.ways[at] = Some(Way { ring: None, inbox, sent: 0, get, closed: false, peer });
        }
    }

    /// Remembers that `ep` waits for room for `len` bytes.
    #[cold]
    fn block(&mut self, ep: Ep, len: usize) -> SendError {
        let shared = self.shared.clone();
        let Ok(way) = self.way(ep) else { return SendError::Full };
        let room = match &way.ring {
            Some(ring) => Room::Ring(ring.watch(len)),
            None => Room::Inbox(shared.segment.inbox_sender(way.peer.slot), len),
        };
        let mut locked = shared.lock();
        locked.state.blocked.retain(|b| b.peer.ep != ep);
        locked.state.blocked.push(Blocked { peer: way.peer.clone(), room });
        SendError::Full
    }

    fn say_goodbyes(&mut self) {
        let waiting = std::mem::take(&mut self.goodbyes);
        for ep in waiting {
            let Ok(way) = self.way(ep) else { continue };
            if way.push(mark::GOODBYE, [0; HEAD_WORDS], &[], &[]).is_err() {
                // A peer that is gone makes no room any more.
                if !way.peer.down.load(Ordering::Relaxed) {
                    self.goodbyes.push(ep);
                }
            } else if let Some(Some(way)) = self.ways.get(ep.0 as usize) {
                way.peer.sleeper.wake_if_asleep(&mut self.ringer);
            }
        }
    }

    /// Where the kernel will not copy: tells the owner, who then sends frames.
    fn refused(why: &str) -> RemoteError {
        RemoteError::Refused(why.to_owned())
    }
}

impl Drop for Tx {
    /// With every goodbye said this rank leaves in good order; else the others see it gone.
    fn drop(&mut self) {
        let done = |way: &Way| way.closed || way.peer.down.load(Ordering::Relaxed);
        if self.goodbyes.is_empty() && self.ways.iter().flatten().all(done) {
            self.shared.segment.leave();
        }
    }
}

impl Way {
    #[inline(always)]
    fn push(&mut self, mark: u8, head: [u32; HEAD_WORDS], first: &[u8], second: &[u8]) -> Result<(), Full> {
        match &mut self.ring {
            Some(ring) => ring.push(mark, head, first, second),
            None => self.inbox.push(mark, head, first, second),
        }
    }

    /// A message whose header does not fit the words.
    #[cold]
    fn push_wide(&mut self, msg: &Am<'_>, first: &[u8], second: &[u8]) -> Result<(), Full> {
        let header = msg.header.encode();
        if second.is_empty() {
            return self.push(mark::WIDE, [0; HEAD_WORDS], &header, first);
        }
        let both = [first, second].concat();
        self.push(mark::WIDE, [0; HEAD_WORDS], &header, &both)
    }

    /// Leaves the inbox for a ring, announced in the inbox so that order is kept.
    #[cold]
    fn upgrade(&mut self, shared: &Shared) {
        self.sent = u32::MAX;
        let segment = &shared.segment;
        if let Some((index, ring)) = segment.claim_ring(self.peer.slot) {
            let announced = self.inbox.push(mark::RING, [index, 0, 0, 0, 0], &[], &[]);
            // A full inbox: the ring stays unused and this pair with the inbox, which is rare.
            if announced.is_ok() {
                self.ring = Some(ring);
            }
        }
    }
}

impl BtlTx for Tx {
    fn caps(&self, ep: Ep) -> Caps {
        let get = self.ways.get(ep.0 as usize).is_some_and(|w| w.as_ref().is_some_and(|w| w.get));
        Caps {
            inline_limit: INLINE_BYTES,
            eager_limit: EAGER_BYTES,
            frame_limit: FRAME_BYTES,
            get,
            lend: false,
            node: true,
        }
    }

    fn connect(&mut self, peer: &PeerInfo) -> Result<(), ConnectError> {
        let segment = &self.shared.segment;
        let slot = match peer.node_slot {
            Some(slot) if slot < segment.ranks() && slot != segment.slot() && peer.job == self.shared.job => {
                slot
            }
            _ => {
                return Err(ConnectError::Unreachable {
                    backend: crate::NAME,
                    world_rank: peer.world_rank,
                    host: peer.host.clone(),
                });
            }
        };
        self.open_way(peer.ep, slot);
        Ok(())
    }

    #[inline]
    fn send(&mut self, ep: Ep, msg: Am<'_>) -> Result<Sent, SendError> {
        let Some(Some(way)) = self.ways.get_mut(ep.0 as usize) else {
            return Err(SendError::Down("it was never connected".to_owned()));
        };
        let (first, second): (&[u8], &[u8]) = match msg.body {
            Body::Bytes(bytes) => (bytes, &[]),
            Body::Two(first, second) => (first, second),
            Body::Lent(..) => return Err(SendError::Down("a body was lent that cannot be".to_owned())),
        };
        if way.closed || way.peer.down.load(Ordering::Relaxed) {
            return Err(way.gone());
        }
        if way.ring.is_none() {
            if way.sent < MESSAGES_BEFORE_RING {
                way.sent += 1;
            } else if way.sent != u32::MAX {
                way.upgrade(&self.shared);
            }
        }
        let pushed = match compact(&msg.header) {
            Some(head) => way.push(mark::COMPACT, head, first, second),
            None => way.push_wide(&msg, first, second),
        };
        if pushed.is_err() {
            return Err(self.block(ep, first.len() + second.len() + mpi_wire::HEADER_LEN));
        }
        way.peer.sleeper.wake_if_asleep(&mut self.ringer);
        Ok(Sent::Done)
    }

    fn flush(&mut self) {
        if !self.goodbyes.is_empty() {
            self.say_goodbyes();
        }
    }

    fn quiet(&self) -> bool {
        self.goodbyes.is_empty()
    }

    fn expose(&mut self, ep: Ep, mem: Span, op: OpId) -> Option<RegionKey> {
        let Some(Some(way)) = self.ways.get(ep.0 as usize) else { return None };
        if !way.get || way.peer.down.load(Ordering::Relaxed) {
            return None;
        }
        self.shared.lock().state.offers.add(&self.shared.segment, &way.peer, mem, op)
    }

    fn withdraw(&mut self, ep: Ep, op: OpId) -> bool {
        let Some(Some(way)) = self.ways.get(ep.0 as usize) else { return false };
        self.shared.lock().state.offers.withdraw(&self.shared.segment, &way.peer, op)
    }

    unsafe fn get(
        &mut self,
        ep: Ep,
        key: &RegionKey,
        offset: u64,
        into: Span,
        op: OpId,
        last: bool,
    ) -> Result<Sent, RemoteError> {
        let Some(Some(way)) = self.ways.get(ep.0 as usize) else { return Err(RemoteError::Key) };
        let offer = offers::decode(key).filter(|o| o.slot == way.peer.slot).ok_or(RemoteError::Key)?;
        if !self.shared.cross_copy {
            self.shared.segment.refuse(offer.slot, offer.index, offer.generation);
            return Err(Self::refused("switched off"));
        }
        let part = Part { offset, target: into.ptr(), length: into.len() as u64 };
        let segment = &self.shared.segment;
        let wake = into.len() >= WAKE_TO_HELP_BYTES;
        let before = |ringer: &mut Ringer| {
            if wake {
                way.peer.sleeper.wake_if_asleep(ringer);
            }
        };
        // SAFETY: handed on to the caller: `into` is valid and untouched until completion.
        let taken = unsafe { segment.take(offer, part, || before(&mut self.ringer)) };
        let (taking, refused) = match taken {
            Ok(taking) => (taking, None),
            Err(TakeError::Key) => return Err(RemoteError::Key),
            Err(TakeError::System(error, taking)) => (taking, Some(error)),
        };
        let mut turns = 0;
        while !taking.is_done()
            && (turns < LAST_PIECE_TURNS || refused.is_some() && !way.peer_is_gone(&self.shared))
        {
            std::hint::spin_loop();
            turns += 1;
        }
        if let Some(error) = refused {
            taking.refuse();
            way.peer.sleeper.wake_if_asleep(&mut self.ringer);
            return Err(Self::refused(&error.to_string()));
        }
        if !taking.is_done() {
            self.shared.lock().state.takings.add(taking, way.peer.clone(), op, last);
            return Ok(Sent::Pending);
        }
        let finished = taking.finish(last);
        way.peer.sleeper.wake_if_asleep(&mut self.ringer);
        match finished {
            Ok(()) => Ok(Sent::Done),
            Err(error) => Err(Self::refused(&error.to_string())),
        }
    }

    fn close(&mut self, ep: Ep) {
        let Ok(way) = self.way(ep) else { return };
        if std::mem::replace(&mut way.closed, true) {
            return;
        }
        self.goodbyes.push(ep);
        self.say_goodbyes();
    }

    fn boards(&self) -> Option<Arc<dyn Boards>> {
        Some(Arc::new(NodeBoards(self.shared.clone())))
    }

    fn place(&self, ep: Ep) -> Option<u32> {
        self.ways.get(ep.0 as usize)?.as_ref().map(|way| way.peer.slot)
    }

    fn wake(&mut self, ep: Ep) {
        if let Some(Some(way)) = self.ways.get(ep.0 as usize) {
            way.peer.sleeper.wake_if_asleep(&mut self.ringer);
        }
    }
}

impl Way {
    #[cold]
    fn gone(&self) -> SendError {
        let fact = if self.closed { "this side has said goodbye" } else { "it has left" };
        SendError::Down(fact.to_owned())
    }

    /// Asks the kernel.
    fn peer_is_gone(&self, shared: &Shared) -> bool {
        matches!(shared.segment.presence(self.peer.slot), Presence::Gone(_))
    }
}
