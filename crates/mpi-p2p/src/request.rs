//! Requests: their ids, and the slab that holds them. A slot is used again and again; its generation
//! tells an old id from a new one.

use crate::activity::Activity;
use crate::matching::{PostedKey, PostedNodes};
use crate::memory::Memory;
use crate::status::{ANY, SendMode};
use crate::store::Envelope;
use crate::{Error, ErrorClass, Status};
use mpi_btl::{Ep, RegionKey};
use mpi_datatype::{Datatype, RecvMem, SendMem, Signature};
use std::any::Any;
use std::num::NonZeroU64;
use std::task::Waker;
use std::time::Instant;

/// Names a running operation until it is waited for (or tested, or freed).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(NonZeroU64);

impl RequestId {
    /// An operation that was complete when it was started. Never goes stale; waiting for it any
    /// number of times gives an empty status.
    pub const DONE: RequestId = RequestId::new(u32::MAX, NonZeroU64::MIN.get() as u32);

    pub(crate) const fn new(slot: u32, generation: u32) -> RequestId {
        match NonZeroU64::new((generation as u64) << 32 | slot as u64) {
            Some(id) => RequestId(id),
            None => RequestId(NonZeroU64::MAX),
        }
    }

    pub(crate) fn slot(self) -> u32 {
        self.0.get() as u32
    }

    fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// The id as a number, never zero.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The id from its number.
    pub fn from_raw(id: u64) -> Option<RequestId> {
        NonZeroU64::new(id).map(RequestId)
    }
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Free,
    Recv,
    Send,
    /// An activity that the engine owns.
    Activity,
    /// An activity that a thread runs inline.
    Runner,
    Generalized,
}

/// How far an operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Persistent and not started.
    Inactive,
    /// Receive: posted. Send: waits for room towards the peer. Others: running.
    Waiting,
    /// Receive: the body is on its way into place.
    Arriving,
    /// Receive: being pulled out of the sender's memory.
    Pulling,
    /// Receive: cleared the sender to send, data comes in frames.
    Framed,
    /// Send: announced, not yet answered.
    Announced,
    /// Send: cleared to send, not all frames are out.
    Streaming,
    /// Send: all frames are out, some memory is still lent.
    Draining,
    /// Complete.
    Done,
}

/// What else happens when a request completes.
pub(crate) mod flag {
    /// Its owner, an activity, is to be advanced.
    pub const OWNED: u8 = 1;
    /// A thread sleeps for it.
    pub const WATCHED: u8 = 2;
    /// Nobody will ask: free it.
    pub const DETACHED: u8 = 4;
    /// Counted among the operations that need progress while the rank computes.
    pub const SERVED: u8 = 8;
    /// A waker is to be called.
    pub const AWAITED: u8 = 16;
}

/// One request.
pub(crate) struct Slot {
    generation: u32,
    pub kind: Kind,
    pub phase: Phase,
    pub flags: u8,
    pub mode: SendMode,
    pub persistent: bool,
    /// Source and tag asked for; for a send destination and tag.
    pub key: PostedKey,
    /// The peer, once known.
    pub ep: Ep,
    pub context: u32,
    pub memory: Memory,
    pub signature: u32,
    pub count: u64,
    pub status: Status,
    /// Activity that is advanced when this completes.
    pub owner: u32,
    /// Thread that is woken when this completes.
    pub watcher: u32,
    /// Of a message above the eager limit.
    pub transfer: Transfer,
    pub extra: Option<Box<Extra>>,
}

/// What only some requests need.
#[derive(Default)]
pub(crate) struct Extra {
    /// Send memory that is not plain.
    pub send: Option<SendMem>,
    /// Receive memory that is not plain.
    pub recv: Option<RecvMem>,
    /// Memory of the engine's own that the operation sends from.
    pub owned: Option<Box<[u8]>>,
    pub error: Option<Error>,
    pub activity: Option<Box<dyn Activity>>,
    /// Bytes of the attached buffer that are given back on completion.
    pub buffered: usize,
    pub cancel_asked: bool,
    /// It was called back for this reason, and fails if that succeeds.
    pub verdict: Option<Error>,
    /// Called when the operation completes.
    pub waker: Option<Waker>,
    /// Gives the memory of a receive whose size is known only when its message is here.
    pub alloc: Option<Alloc>,
    /// Memory of the operation that its starter gave up.
    pub keep: Option<Box<dyn Any + Send>>,
    /// Since when a task awaits it; none does before the first time.
    pub awaited: Option<Awaited>,
}

impl Extra {
    /// It holds what the program gave, whose end may be code of the program's.
    pub fn is_of_program(&self) -> bool {
        self.waker.is_some() || self.keep.is_some() || self.alloc.is_some() || self.activity.is_some()
    }
}

/// A task awaits the operation.
pub(crate) struct Awaited {
    pub since: Instant,
    /// The hook was told that it takes long.
    pub reported: bool,
}

/// Where a message goes whose size is known only when it is here: the datatype of its elements, and what gives the
/// memory for so many bytes, or none.
pub(crate) struct Alloc {
    pub datatype: Datatype,
    pub give: Box<AllocFn>,
}

/// Gives memory for so many bytes; null where there is none.
pub type AllocFn = dyn FnMut(usize) -> *mut u8 + Send;

/// A message above the eager limit on its way.
#[derive(Default)]
pub(crate) struct Transfer {
    /// Bytes of the message.
    pub total: usize,
    /// Bytes that are through.
    pub offset: usize,
    /// Where the sender stops.
    pub end: usize,
    /// The other side's name for it.
    pub remote: u64,
    /// Frames lent to the transport.
    pub lent: u32,
    /// Where the receiver pulls from; at the sender: what it exposed.
    pub region: Option<RegionKey>,
    /// Piece of packed data being pulled.
    pub piece: Vec<u8>,
}

impl Slot {
    fn free() -> Slot {
        Slot {
            generation: 1,
            kind: Kind::Free,
            phase: Phase::Waiting,
            flags: 0,
            mode: SendMode::Standard,
            persistent: false,
            key: PostedKey::new(ANY, ANY),
            ep: Ep(0),
            context: 0,
            memory: Memory::NOTHING,
            signature: 0,
            count: 0,
            status: Status::EMPTY,
            owner: 0,
            watcher: 0,
            transfer: Transfer::default(),
            extra: None,
        }
    }

    /// A message of this envelope has room and the right type.
    #[inline]
    pub fn takes(&self, e: &Envelope) -> bool {
        e.total <= self.memory.bytes as u64 && (Signature::agree(e.signature, self.signature) || e.total == 0)
    }

    /// The rare part, made on first use.
    pub fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}

/// All requests of an engine.
#[derive(Default)]
pub(crate) struct Requests {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Requests {
    /// A slot of the given kind, waiting; flags clear, everything else as its last user left it.
    #[inline]
    pub fn alloc(&mut self, kind: Kind) -> u32 {
        let i = match self.free.pop() {
            Some(i) => i,
            None => self.grow(),
        };
        let slot = &mut self.slots[i as usize];
        slot.kind = kind;
        slot.phase = Phase::Waiting;
        i
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot::free());
        (self.slots.len() - 1) as u32
    }

    /// Gives the slot back; its id is stale from now on. What it held is the caller's.
    #[inline]
    #[must_use = "what the program gave is dropped where no lock is held"]
    pub fn release(&mut self, i: u32) -> Option<Box<Extra>> {
        let slot = &mut self.slots[i as usize];
        slot.generation = slot.generation.checked_add(1).unwrap_or(1);
        slot.kind = Kind::Free;
        slot.flags = 0;
        slot.persistent = false;
        if slot.transfer.total != 0 {
            slot.transfer = Transfer::default();
        }
        let extra = if slot.extra.is_some() { slot.extra.take() } else { None };
        self.free.push(i);
        extra
    }

    #[inline]
    pub fn id(&self, i: u32) -> RequestId {
        RequestId::new(i, self.slots[i as usize].generation)
    }

    /// The slot of an id that a peer or a transport gave back; `None` when it is no longer that.
    #[inline]
    pub fn named(&self, id: u64) -> Option<u32> {
        let id = RequestId::from_raw(id)?;
        let slot = self.slots.get(id.slot() as usize)?;
        (slot.generation == id.generation() && slot.kind != Kind::Free).then_some(id.slot())
    }

    /// The slot of an id that the user gave.
    ///
    /// # Errors
    /// The request is gone: waited for before, or freed.
    #[inline]
    pub fn find(&self, id: RequestId) -> Result<u32, Error> {
        self.named(id.get()).ok_or_else(|| stale(id))
    }

    /// Slots in use, whatever they hold.
    pub fn in_use(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.slots.len() as u32).filter(|i| self.slots[*i as usize].kind != Kind::Free)
    }
}

#[cold]
fn stale(id: RequestId) -> Error {
    Error::new(
        ErrorClass::Request,
        "request",
        format!("request {:#x} is complete or freed already", id.get()),
    )
}

impl std::ops::Index<u32> for Requests {
    type Output = Slot;
    #[inline]
    fn index(&self, i: u32) -> &Slot {
        &self.slots[i as usize]
    }
}

impl std::ops::IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, i: u32) -> &mut Slot {
        &mut self.slots[i as usize]
    }
}

impl PostedNodes for Requests {
    #[inline]
    fn key(&mut self, i: u32) -> &mut PostedKey {
        &mut self.slots[i as usize].key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_id_finds_nothing() {
        let mut all = Requests::default();
        let i = all.alloc(Kind::Send);
        let id = all.id(i);
        assert_eq!(all.find(id).ok(), Some(i));
        assert!(all.release(i).is_none());
        assert_eq!(all.find(id).unwrap_err().class, ErrorClass::Request);
        let again = all.alloc(Kind::Recv);
        assert_eq!(again, i);
        assert!(all.find(id).is_err());
        assert_ne!(all.id(again), id);
        assert_ne!(all.id(again), RequestId::DONE);
        // Also when the generations go round.
        all.slots[i as usize].generation = u32::MAX;
        let last = all.id(i);
        assert!(all.release(i).is_none());
        assert_eq!(all.alloc(Kind::Send), i);
        assert!(all.find(last).is_err() && all.find(all.id(i)).is_ok());
        assert!(all.named(0).is_none() && all.named(u64::MAX).is_none());
    }
}
