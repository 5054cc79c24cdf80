//! Receives: posted, matched, filled, and probes.

use crate::context::Face;
use crate::core::State;
use crate::direct::{Direct, Outcome};
use crate::matching::PostedKey;
use crate::memory::Memory;
use crate::request::{Kind, Phase, RequestId, flag};
use crate::silent::ALL_GONE;
use crate::status::ANY;
use crate::store::{Body, Envelope, Message, Stored};
use crate::{Error, ErrorClass, Status, record};
use mpi_btl::Ep;
use mpi_datatype::{RecvBuf, Signature};

impl State {
    /// Starts a receive.
    #[inline]
    pub fn irecv(
        &mut self,
        face: &Face,
        source: i32,
        tag: i32,
        buf: &RecvBuf<'_>,
        owner: Option<u32>,
    ) -> Result<RequestId, Error> {
        let i = self.new_recv(face, source, tag, buf)?;
        self.own(i, owner);
        let id = self.requests.id(i);
        self.match_or_post(i);
        Ok(id)
    }

    /// A receive that is not posted yet.
    #[inline]
    pub fn new_recv(&mut self, face: &Face, source: i32, tag: i32, buf: &RecvBuf<'_>) -> Result<u32, Error> {
        let ep = self.source_ep(face, source)?;
        let memory = Memory::of_recv(buf);
        let i = self.requests.alloc(Kind::Recv);
        let slot = &mut self.requests[i];
        slot.key = PostedKey::new(source, tag);
        slot.ep = ep;
        slot.context = face.id;
        slot.memory = memory;
        slot.signature = buf.datatype().signature();
        if !memory.plain {
            slot.extra().recv = Some(buf.to_mem());
        }
        Ok(i)
    }

    #[inline]
    pub fn own(&mut self, i: u32, owner: Option<u32>) {
        if let Some(owner) = owner {
            let slot = &mut self.requests[i];
            slot.owner = owner;
            slot.flags |= flag::OWNED;
        }
    }

    /// The peer of a receive, itself for a wildcard.
    #[inline]
    fn source_ep(&self, face: &Face, source: i32) -> Result<Ep, Error> {
        if self.closed {
            return Err(after_the_end(face, "receive"));
        }
        if source == ANY {
            return Ok(self.me);
        }
        face.peers.get(source as usize).copied().ok_or_else(|| no_rank(face, source, "receive"))
    }

    /// Takes a message that is here, or posts the receive.
    #[inline]
    pub fn match_or_post(&mut self, i: u32) {
        let slot = &self.requests[i];
        let (context, key) = (slot.context, slot.key);
        if self.lanes.get(context).is_some_and(|lane| lane.fate.is_some()) && self.refuse_receive(i) {
            return;
        }
        let slot = &self.requests[i];
        let Some(lane) = self.lanes.get_mut(context) else { return self.no_context(i) };
        if let Some(m) = lane.unexpected.take(&mut self.store, key.source, key.tag) {
            return self.consume(m, i);
        }
        let sure = match key.source {
            ANY => self.silent + self.lost == 0,
            _ => self.peers.get(slot.ep).is_none_or(|p| p.fast_below != 0),
        };
        match sure {
            true => lane.posted.post(&mut self.requests, i),
            false => self.post_unsure(i),
        }
    }

    /// Posts a receive whose message may never come: its peer is gone, or not yet called.
    #[cold]
    fn post_unsure(&mut self, i: u32) {
        let slot = &self.requests[i];
        let (context, source, ep) = (slot.context, slot.key.source, slot.ep);
        if source == ANY {
            if self.is_in_vain(context) {
                return self.fail_alone(i);
            }
        } else if let Some(why) = self.peers.at(ep).gone() {
            let e = self.error_of(i, ErrorClass::ProcFailed, why);
            return self.fail(i, e);
        }
        if let Some(lane) = self.lanes.get_mut(context) {
            lane.posted.post(&mut self.requests, i);
        }
        // Posted before, so that it fails where the call does.
        if source != ANY {
            self.call(ep);
        }
    }

    /// The whole of a blocking receive whose message is here, where a copy is all that it needs.
    #[inline]
    pub fn recv_here(&mut self, context: u32, source: i32, tag: i32, buf: &RecvBuf<'_>) -> Option<Status> {
        if self.closed {
            return None;
        }
        let lane = self.lanes.get_mut(context)?;
        if lane.fate.is_some() {
            return None;
        }
        let m = lane.unexpected.find(&mut self.store, source, tag)?;
        let stored = self.store.get(m)?;
        let Body::Here(bytes) = &stored.body else { return None };
        let (e, memory) = (stored.envelope(), Memory::of_recv(buf));
        let agrees = Signature::agree(e.signature, buf.datatype().signature()) || e.total == 0;
        if !memory.plain || !agrees || e.total > memory.bytes as u64 {
            return None;
        }
        memory.fill(0, bytes);
        record::received(|| stored.from.0, context, e.tag, e.total);
        lane.unexpected.remove(&mut self.store, m);
        if let Some(charge) = self.store.discard(m) {
            self.account_taken(charge);
        }
        Some(Status { source: e.source, tag: e.tag, bytes: e.total, ..Status::EMPTY })
    }

    #[cold]
    fn no_context(&mut self, i: u32) {
        let e = self.error_of(i, ErrorClass::Comm, "the communicator was freed");
        self.fail(i, e);
    }

    /// The waiting receive becomes a request, to go on as one.
    #[cold]
    pub fn promote_direct(&mut self) -> u32 {
        let d = std::mem::replace(&mut self.direct, Direct::off());
        let i = self.requests.alloc(Kind::Recv);
        let slot = &mut self.requests[i];
        slot.key = PostedKey::new(d.source, d.tag);
        slot.ep = d.from;
        slot.context = d.context;
        slot.memory = d.memory;
        slot.signature = d.signature;
        self.direct.outcome = Outcome::Request(i);
        i
    }

    /// Gives a message out of the store, no longer queued, to receive `i`.
    pub fn consume(&mut self, m: u32, i: u32) {
        if let Some(Stored { body: Body::Coming(_, taken), from, .. }) = self.store.get_mut(m) {
            *taken = Some(i);
            let slot = &mut self.requests[i];
            slot.phase = Phase::Arriving;
            // Also of a receive from any source: it fails when this peer is lost before the rest is here.
            slot.ep = *from;
            return;
        }
        let Some((stored, charge)) = self.store.take(m) else { return };
        self.account_taken(charge);
        let envelope = stored.envelope();
        match stored.body {
            Body::Here(bytes) => self.finish_recv(i, envelope, &bytes),
            Body::Coming(bytes, _) => self.finish_recv(i, envelope, &bytes),
            Body::Acknowledged(bytes, op) => {
                self.acknowledge(stored.from, op);
                self.finish_recv(i, envelope, &bytes);
            }
            Body::Announced(op, region) => self.begin_transfer(i, stored.from, envelope, op, region),
            Body::Own(send) => self.take_own(send, i, envelope),
        }
    }

    /// The whole message is here: puts it in place.
    #[inline]
    pub fn finish_recv(&mut self, i: u32, e: Envelope, bytes: &[u8]) {
        let slot = &mut self.requests[i];
        if slot.memory.plain && slot.takes(&e) {
            slot.memory.fill(0, bytes);
            return self.received(i, e);
        }
        self.finish_recv_rare(i, e, bytes);
    }

    #[cold]
    fn finish_recv_rare(&mut self, i: u32, e: Envelope, bytes: &[u8]) {
        if let Err(error) = self.check_match(i, e) {
            return self.fail(i, error);
        }
        let slot = &mut self.requests[i];
        if slot.memory.plain {
            slot.memory.fill(0, bytes);
        } else if let Some(recv) = slot.extra.as_ref().and_then(|x| x.recv.as_ref()) {
            recv.buf().unpack(0, bytes);
        }
        self.received(i, e);
    }

    /// All data is in place.
    #[inline]
    pub fn received(&mut self, i: u32, e: Envelope) {
        let context = self.requests[i].context;
        record::received(|| self.number_of(context, e.source), context, e.tag, e.total);
        let slot = &mut self.requests[i];
        slot.status = Status {
            source: e.source,
            tag: e.tag,
            bytes: e.total,
            cancelled: false,
            error: ErrorClass::Success,
        };
        if !slot.memory.plain {
            return self.received_typed(i, e);
        }
        self.complete(i);
    }

    /// The process behind a rank, for records.
    fn number_of(&self, context: u32, rank: i32) -> u32 {
        let face = self.lanes.get(context).and_then(|lane| lane.face.as_ref());
        face.and_then(|face| face.peers.get(rank as usize)).map_or(u32::MAX, |ep| ep.0)
    }

    #[cold]
    fn received_typed(&mut self, i: u32, e: Envelope) {
        let recv = self.requests[i].extra.as_ref().and_then(|x| x.recv.as_ref());
        match recv.map(|r| r.buf().sanitize(e.total as usize)) {
            Some(Err(wrong)) => {
                let error = self.matched_error(i, e, ErrorClass::Type, wrong.to_string());
                self.fail(i, error);
            }
            _ => self.complete(i),
        }
    }

    /// Sender's and receiver's types agree and there is room.
    #[inline]
    pub fn check_match(&mut self, i: u32, e: Envelope) -> Result<(), Error> {
        if self.requests[i].takes(&e) { Ok(()) } else { self.check_late(i, e) }
    }

    /// The same where the receive has no memory yet, or does not fit.
    #[cold]
    fn check_late(&mut self, i: u32, e: Envelope) -> Result<(), Error> {
        self.allocate(i, e)?;
        if self.requests[i].takes(&e) { Ok(()) } else { Err(self.mismatch(i, e)) }
    }

    #[cold]
    fn mismatch(&mut self, i: u32, e: Envelope) -> Error {
        let (room, wanted) = (self.requests[i].memory.bytes, self.requests[i].signature);
        let status = &mut self.requests[i].status;
        *status = Status { source: e.source, tag: e.tag, bytes: e.total, ..Status::EMPTY };
        if e.total > room as u64 {
            let detail = format!("message of {} bytes, room for {room}", e.total);
            return sized(self.matched_error(i, e, ErrorClass::Truncate, detail), e.total, room);
        }
        let (have, want) = (Signature::describe(e.signature), Signature::describe(wanted));
        let detail = format!("message of type {have}, the receive asks for {want}");
        sized(self.matched_error(i, e, ErrorClass::Type, detail), e.total, room)
    }

    /// An error of a receive that names the message's sender and tag instead of wildcards.
    pub fn matched_error(&self, i: u32, e: Envelope, class: ErrorClass, detail: String) -> Error {
        let mut error = self.error_of(i, class, detail);
        error.peer = Some(e.source);
        error.tag = Some(e.tag);
        error
    }

    // ---- probes

    /// The first message that matches, left where it is.
    pub fn iprobe(&mut self, face: &Face, source: i32, tag: i32) -> Result<Option<Status>, Error> {
        Ok(self.look(face, source, tag)?.and_then(|m| self.store.get(m)).map(|s| probe_status(s.envelope())))
    }

    /// The first message that matches, taken out of the queue.
    pub fn improbe(
        &mut self,
        face: &Face,
        source: i32,
        tag: i32,
    ) -> Result<Option<(Message, Status)>, Error> {
        let Some(m) = self.look(face, source, tag)? else { return Ok(None) };
        let Some(lane) = self.lanes.get_mut(face.id) else { return Ok(None) };
        lane.unexpected.remove(&mut self.store, m);
        let Some(stored) = self.store.get_mut(m) else { return Ok(None) };
        stored.probed = true;
        let status = probe_status(stored.envelope());
        Ok(self.store.handle(m).map(|handle| (handle, status)))
    }

    fn look(&mut self, face: &Face, source: i32, tag: i32) -> Result<Option<u32>, Error> {
        let ep = self.source_ep(face, source)?;
        let Some(lane) = self.lanes.get_mut(face.id) else { return Ok(None) };
        let found = lane.unexpected.find(&mut self.store, source, tag);
        if lane.fate.is_some() {
            self.check_probe(face, source, tag, found.is_some())?;
        }
        if found.is_some() || self.silent + self.lost == 0 {
            return Ok(found);
        }
        self.look_for(face, source, tag, ep).map(|()| None)
    }

    /// Nothing is here: can anything come?
    #[cold]
    fn look_for(&mut self, face: &Face, source: i32, tag: i32, ep: Ep) -> Result<(), Error> {
        let why = match source {
            ANY if self.is_in_vain(face.id) => Some(ALL_GONE.to_owned()),
            ANY => None,
            _ => self.peers.get(ep).and_then(|p| p.gone()),
        };
        if let Some(why) = why {
            let mut e = self.error_on(face.id, "probe", ErrorClass::ProcFailed, why);
            (e.peer, e.tag) = (Some(source), Some(tag));
            return Err(e);
        }
        if source != ANY {
            self.call(ep);
        }
        Ok(())
    }

    /// Starts the receive of a message that a matched probe took.
    pub fn imrecv(&mut self, message: Message, buf: &RecvBuf<'_>) -> Result<RequestId, Error> {
        let Some(m) = self.store.probed(&message) else {
            let detail = "the message was received already";
            return Err(self.error_on(message.context, "receive", ErrorClass::Request, detail));
        };
        if self.closed {
            return Err(self.error_on(message.context, "receive", ErrorClass::Other, FINALISED));
        }
        let memory = Memory::of_recv(buf);
        let (from, key) = match self.store.get(m) {
            Some(s) => (s.from, PostedKey::new(s.key.source, s.key.tag)),
            None => (self.me, PostedKey::new(ANY, ANY)),
        };
        let i = self.requests.alloc(Kind::Recv);
        let slot = &mut self.requests[i];
        slot.key = key;
        slot.ep = from;
        slot.context = message.context;
        slot.memory = memory;
        slot.signature = buf.datatype().signature();
        if !memory.plain {
            slot.extra().recv = Some(buf.to_mem());
        }
        let id = self.requests.id(i);
        self.consume(m, i);
        Ok(id)
    }
}

/// The error with the sizes of both sides.
fn sized(mut error: Error, bytes: u64, room: usize) -> Error {
    error.bytes = Some(bytes);
    error.room = Some(room as u64);
    error
}

fn probe_status(e: Envelope) -> Status {
    Status { source: e.source, tag: e.tag, bytes: e.total, cancelled: false, error: ErrorClass::Success }
}

#[cold]
pub(crate) fn no_rank(face: &Face, rank: i32, op: &'static str) -> Error {
    let detail = format!("rank {rank} of a communicator of {}", face.peers.len());
    Error::new(ErrorClass::Rank, op, detail).on(face.name(), face.id)
}

/// What is said of an operation after the engine was closed.
pub const FINALISED: &str = "MPI is finalised (finalize was called, or the value that initialisation gave was \
                             dropped: keep it as long as MPI is used)";

/// An operation after the engine was closed.
#[cold]
pub(crate) fn after_the_end(face: &Face, op: &'static str) -> Error {
    Error::new(ErrorClass::Other, op, FINALISED).on(face.name(), face.id)
}
