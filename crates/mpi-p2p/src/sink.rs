//! What a transport delivers: found its receive, put in place, or kept.

use crate::core::State;
use crate::direct::Outcome;
use crate::limits::{EAGER_FRAME_MAX_BYTES, MESSAGE_MAX_BYTES};
use crate::peer::Link;
use crate::report::Fatal;
use crate::request::{Kind, Phase};
use crate::store::{Body, Envelope, Kept};
use crate::{ErrorClass, Status, record};
use mpi_btl::{BulkId, Down, Ep, OpId, Place, RegionKey, Sink, Span};
use mpi_datatype::Signature;
use mpi_wire::control::{ANNOUNCEMENT_LEN, Announcement, abort_text};
use mpi_wire::{ANNOUNCEMENT, Header, reserved};
use std::collections::HashMap;

/// A body that arrives in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bulk {
    /// The rest of an eager message, straight into the buffer of receive `recv`.
    Receive { recv: u32, envelope: Envelope },
    /// The same in pieces to be unpacked, `offset` of them done.
    Unpack { recv: u32, envelope: Envelope, offset: usize },
    /// The rest of an unexpected message, into the store.
    Keep { message: u32 },
    /// The rest of a frame of `len` bytes, straight into place.
    Frame { recv: u32, len: usize },
    /// The same in pieces to be unpacked.
    FrameUnpacked { recv: u32 },
    /// An announcement or control message that does not come in one piece: gathered first.
    Gather,
}

/// All bodies on their way. Ids carry a generation, so that a late one finds nothing.
#[derive(Debug, Default)]
pub(crate) struct Bulks {
    slots: Vec<(u32, Option<(Ep, Bulk)>)>,
    free: Vec<u32>,
    gathered: HashMap<u64, (Ep, Header, Vec<u8>)>,
}

impl Bulks {
    pub fn add(&mut self, from: Ep, bulk: Bulk) -> BulkId {
        let i = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[i as usize];
        slot.0 = slot.0.wrapping_add(1);
        slot.1 = Some((from, bulk));
        BulkId(u64::from(slot.0) << 32 | u64::from(i))
    }

    fn get_mut(&mut self, id: BulkId) -> Option<&mut Bulk> {
        let slot = self.slots.get_mut(id.0 as u32 as usize)?;
        if slot.0 != (id.0 >> 32) as u32 {
            return None;
        }
        slot.1.as_mut().map(|(_, bulk)| bulk)
    }

    fn take(&mut self, id: BulkId) -> Option<Bulk> {
        self.get_mut(id)?;
        let i = id.0 as u32;
        let taken = self.slots.get_mut(i as usize)?.1.take().map(|(_, bulk)| bulk);
        self.free.push(i);
        taken
    }

    /// A message of which `have` is here, to be gathered; where the rest goes.
    fn gather(&mut self, from: Ep, header: &Header, have: &[u8], total: usize) -> Place {
        let mut bytes = Vec::with_capacity(total);
        bytes.extend_from_slice(have);
        bytes.resize(total, 0);
        let rest = &mut bytes[have.len()..];
        // The vector's memory stays where it is while the vector moves.
        let into = Span::new(rest.as_mut_ptr(), rest.len());
        let bulk = self.add(from, Bulk::Gather);
        self.gathered.insert(bulk.0, (from, *header, bytes));
        Place::Direct { bulk, into }
    }

    /// Forgets everything that comes from a peer; gives the messages that were to be kept, and what the peer's transport
    /// must not write any more: the memory is somebody else's from now on.
    pub fn drop_of(&mut self, ep: Ep) -> (Vec<u32>, Vec<BulkId>) {
        self.gathered.retain(|_, g| g.0 != ep);
        let (mut kept, mut all) = (Vec::new(), Vec::new());
        for (i, slot) in self.slots.iter_mut().enumerate() {
            if slot.1.is_some_and(|(from, _)| from == ep) {
                all.push(BulkId(u64::from(slot.0) << 32 | i as u64));
                if let Some((_, Bulk::Keep { message })) = slot.1.take() {
                    kept.push(message);
                }
                self.free.push(i as u32);
            }
        }
        (kept, all)
    }
}

impl Sink for State {
    #[inline]
    fn message(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        if self.direct.takes(from, header) {
            return self.message_direct(from, header, have, total);
        }
        self.message_matched(from, header, have, total)
    }

    fn chunk(&mut self, from: Ep, bulk: BulkId, bytes: &[u8], last: bool) {
        let next = match self.bulks.get_mut(bulk) {
            Some(Bulk::Unpack { recv, envelope, offset }) => {
                let at = *offset;
                *offset += bytes.len();
                (*recv, Some((*envelope, at)))
            }
            Some(Bulk::FrameUnpacked { recv }) => (*recv, None),
            _ => return,
        };
        if last {
            self.bulks.take(bulk);
        }
        match next {
            (recv, Some((envelope, at))) => {
                if let Some(mem) = self.requests[recv].extra.as_ref().and_then(|x| x.recv.as_ref()) {
                    mem.buf().unpack(at, bytes);
                }
                if last {
                    self.received(recv, envelope);
                }
            }
            (recv, None) => self.more_of_frame(from, recv, bytes),
        }
    }

    fn arrived(&mut self, _from: Ep, bulk: BulkId) {
        match self.bulks.take(bulk) {
            Some(Bulk::Receive { recv, envelope }) => self.received(recv, envelope),
            Some(Bulk::Keep { message }) => self.kept(message),
            Some(Bulk::Frame { recv, len }) => self.framed(recv, len),
            Some(Bulk::Gather) => {
                if let Some((from, header, bytes)) = self.bulks.gathered.remove(&bulk.0) {
                    self.message(from, &header, &bytes, bytes.len() as u64);
                }
            }
            Some(Bulk::Unpack { .. } | Bulk::FrameUnpacked { .. }) | None => {}
        }
    }

    fn completed(&mut self, _ep: Ep, op: OpId, result: Result<(), String>) {
        let Some(i) = self.requests.named(op.0) else { return };
        let slot = &mut self.requests[i];
        if let Err(why) = result {
            // What cannot be read can still be sent; a sender that is gone is reported by itself.
            if (slot.kind, slot.phase) == (Kind::Recv, Phase::Pulling) {
                return self.clear_to_send(i);
            }
            if slot.phase != Phase::Done {
                let e = self.error_of(i, ErrorClass::ProcFailed, format!("the transfer failed: {why}"));
                self.fail(i, e);
            }
            return;
        }
        match (slot.kind, slot.phase) {
            // The receiver has pulled all of what was exposed.
            (Kind::Send, Phase::Announced) => self.complete(i),
            (Kind::Send, Phase::Streaming) => slot.transfer.lent -= 1,
            (Kind::Send, Phase::Draining) => {
                slot.transfer.lent -= 1;
                if slot.transfer.lent == 0 {
                    self.complete(i);
                }
            }
            (Kind::Recv, Phase::Pulling) if !self.pulled(i) => self.pull(i),
            _ => {}
        }
    }

    fn writable(&mut self, ep: Ep) {
        self.dirty.push(ep);
    }

    fn down(&mut self, ep: Ep, why: Down) {
        let link = match why {
            Down::Goodbye => Link::Left,
            Down::Reset(why) => Link::Down(why.into()),
            Down::Protocol(why) => Link::Down(format!("it broke the protocol: {why}").into()),
            Down::Unreachable(why) => Link::Down(format!("it cannot be reached: {why}").into()),
        };
        if let (Link::Down(how), false) = (&link, self.closed) {
            self.fatal.push(Fatal::PeerGone { ep, how: how.to_string() });
        }
        self.peer_gone(ep, link);
    }

    fn notice(&mut self, text: String) {
        self.fatal.push(Fatal::Notice { text });
    }

    fn introduced(&mut self, job: &str, world_rank: u32) -> Option<Ep> {
        let ep = self.directory.identify(job, world_rank)?;
        self.reach(ep).ok()?;
        Some(ep)
    }
}

impl State {
    /// The message is that of the receive that a thread waits in.
    #[inline]
    fn message_direct(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        if self.direct.look.is_some() {
            return self.message_lent(from, header, have, total);
        }
        let d = &mut self.direct;
        let simple = have.len() as u64 == total
            && have.len() <= d.memory.bytes
            && header.datatype & ANNOUNCEMENT == 0
            && (total == 0 || Signature::agree(header.datatype, d.signature));
        if !simple {
            if header.datatype & ANNOUNCEMENT != 0 && have.len() as u64 != total {
                return self.gather(from, header, have, total);
            }
            let i = self.promote_direct();
            return self.deliver(i, from, header, have, total);
        }
        d.memory.fill(0, have);
        record::received(|| from.0, header.context, header.tag, total);
        d.outcome = Outcome::Done(Status {
            source: header.source,
            tag: header.tag,
            bytes: total,
            cancelled: false,
            error: ErrorClass::Success,
        });
        Place::Done
    }

    #[inline]
    pub fn message_matched(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        let Some(lane) = self.lanes.get_mut(header.context) else {
            return self.message_elsewhere(from, header, have, total);
        };
        let Some(face) = &lane.face else { return self.message_elsewhere(from, header, have, total) };
        if face.peers.get(header.source as usize) != Some(&from) {
            return self.wrong_source(from, header);
        }
        if header.datatype & ANNOUNCEMENT != 0 && have.len() as u64 != total {
            return self.gather(from, header, have, total);
        }
        match lane.posted.take(&mut self.requests, header.source, header.tag) {
            Some(i) => {
                if lane.closing {
                    self.forget_if_closing(header.context);
                }
                self.deliver(i, from, header, have, total)
            }
            None => self.message_kept(from, header, have, total),
        }
    }

    #[cold]
    fn wrong_source(&mut self, from: Ep, header: &Header) -> Place {
        self.violation(
            from,
            format!("message as rank {} of context {}, which it is not", header.source, header.context),
        )
    }

    /// A message meets its receive.
    #[inline]
    fn deliver(&mut self, i: u32, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        if header.datatype & ANNOUNCEMENT != 0 {
            return self.deliver_announced(i, from, header, have);
        }
        let e = Envelope { source: header.source, tag: header.tag, signature: header.datatype, total };
        if have.len() as u64 == total {
            self.finish_recv(i, e, have);
            return Place::Done;
        }
        self.deliver_part(i, from, e, have)
    }

    /// The first part of an eager message; the rest is told where to go.
    fn deliver_part(&mut self, i: u32, from: Ep, e: Envelope, have: &[u8]) -> Place {
        if let Err(error) = self.check_match(i, e) {
            self.fail(i, error);
            return Place::Done;
        }
        let slot = &mut self.requests[i];
        slot.phase = Phase::Arriving;
        slot.ep = from;
        if slot.memory.plain {
            slot.memory.fill(0, have);
            let into = slot.memory.span(have.len(), e.total as usize - have.len());
            Place::Direct { bulk: self.bulks.add(from, Bulk::Receive { recv: i, envelope: e }), into }
        } else {
            if let Some(recv) = slot.extra.as_ref().and_then(|x| x.recv.as_ref()) {
                recv.buf().unpack(0, have);
            }
            let offset = have.len();
            Place::Chunks(self.bulks.add(from, Bulk::Unpack { recv: i, envelope: e, offset }))
        }
    }

    fn deliver_announced(&mut self, i: u32, from: Ep, header: &Header, have: &[u8]) -> Place {
        match read_announcement(header, have) {
            Ok((e, a, inline)) if inline.len() as u64 == e.total && a.pull.is_none() => {
                self.acknowledge(from, a.op);
                self.finish_recv(i, e, inline);
                Place::Done
            }
            Ok((e, a, _)) => {
                self.begin_transfer(i, from, e, a.op, a.pull.map(|bytes| RegionKey { bytes }));
                Place::Done
            }
            Err(fact) => {
                self.requests[i].ep = from;
                self.requests[i].phase = Phase::Arriving;
                self.violation(from, fact)
            }
        }
    }

    /// An announcement or a control message comes in parts. What follows it from this peer comes
    /// after its last part, so order is kept.
    #[cold]
    fn gather(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        let limit = self.eager_limit(from) + ANNOUNCEMENT_LEN as u64;
        if total > limit {
            return self.violation(from, format!("announcement of {total} bytes, the limit is {limit}"));
        }
        self.bulks.gather(from, header, have, total as usize)
    }

    /// The largest unannounced message that the peer may send.
    fn eager_limit(&mut self, from: Ep) -> u64 {
        EAGER_FRAME_MAX_BYTES.max(self.peers.at(from).caps.eager_limit as u64)
    }

    /// No receive asks for it yet.
    fn message_kept(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        if self.lanes.get(header.context).is_some_and(|lane| lane.service.is_some()) {
            return self.message_served(from, header, have, total);
        }
        if header.source < 0 || header.tag < 0 {
            return self
                .violation(from, format!("message from rank {} with tag {}", header.source, header.tag));
        }
        if header.datatype & ANNOUNCEMENT != 0 {
            if have.len() as u64 != total {
                return self.gather(from, header, have, total);
            }
            return match read_announcement(header, have) {
                Ok((e, a, inline)) => {
                    let body = if inline.len() as u64 == e.total && a.pull.is_none() {
                        Body::Acknowledged(inline.to_vec(), a.op)
                    } else {
                        Body::Announced(a.op, a.pull.map(|bytes| RegionKey { bytes }))
                    };
                    self.keep(from, header.context, e, body);
                    Place::Done
                }
                Err(fact) => self.violation(from, fact),
            };
        }
        let limit = self.eager_limit(from);
        if total > limit {
            return self
                .violation(from, format!("unannounced message of {total} bytes, the limit is {limit}"));
        }
        let e = Envelope { source: header.source, tag: header.tag, signature: header.datatype, total };
        if have.len() as u64 == total {
            self.keep(from, header.context, e, Body::Here(Kept::copy_of(have)));
            return Place::Done;
        }
        let mut bytes = Vec::with_capacity(total as usize);
        bytes.extend_from_slice(have);
        bytes.resize(total as usize, 0);
        let rest = &mut bytes[have.len()..];
        // The vector's memory stays where it is while the vector moves.
        let into = Span::new(rest.as_mut_ptr(), rest.len());
        let message = self.keep(from, header.context, e, Body::Coming(bytes, None));
        Place::Direct { bulk: self.bulks.add(from, Bulk::Keep { message }), into }
    }

    /// An active message: it goes to its service as soon as it is whole.
    fn message_served(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        if header.datatype & ANNOUNCEMENT != 0 {
            return self.violation(from, "an active message was announced".to_owned());
        }
        if have.len() as u64 != total {
            return self.gather(from, header, have, total);
        }
        self.serve_message(from, header.context, header.source, header.tag, have);
        Place::Done
    }

    /// Puts a message into the store and, where its context is known, into the queue.
    pub fn keep(&mut self, from: Ep, context: u32, e: Envelope, body: Body) -> u32 {
        let (m, charge) = self.store.insert(from, context, e, body);
        if let Some(lane) = self.lanes.get_mut(context) {
            if lane.face.is_some() {
                lane.unexpected.push(&mut self.store, m);
                self.waiters.wake_probing();
            } else {
                lane.early.push(m);
            }
        }
        self.account_kept(charge);
        record::unexpected(|| (self.store.len() as u64, self.unexpected_bytes));
        m
    }

    /// A message that came early, now that its context is known.
    pub fn claim(&mut self, face: &crate::context::Face, m: u32) {
        let Some(stored) = self.store.get(m) else { return };
        let (from, source) = (stored.from, stored.key.source);
        if face.peers.get(source as usize) != Some(&from) {
            self.throw_away(m);
            self.violated(from, format!("message as rank {source} of context {}, which it is not", face.id));
        } else if let Some(lane) = self.lanes.get_mut(face.id) {
            lane.unexpected.push(&mut self.store, m);
        }
    }

    /// Drops an unexpected message that is in no queue.
    pub fn throw_away(&mut self, m: u32) {
        if let Some(crate::store::Stored { body: Body::Coming(..), .. }) = self.store.get(m) {
            // Its bytes are still coming; it goes when they are here.
            if let Some(s) = self.store.get_mut(m) {
                s.probed = true;
                s.context = u32::MAX;
            }
            return;
        }
        let Some((stored, charge)) = self.store.take(m) else { return };
        self.account_taken(charge);
        match stored.body {
            Body::Own(send) => self.complete(send),
            Body::Acknowledged(_, op) | Body::Announced(op, _) => self.acknowledge(stored.from, op),
            Body::Here(_) | Body::Coming(..) => {}
        }
    }

    /// A message that was coming into the store is complete.
    fn kept(&mut self, m: u32) {
        let Some(stored) = self.store.get_mut(m) else { return };
        let Body::Coming(bytes, taken) = &mut stored.body else { return };
        let (bytes, taken) = (std::mem::take(bytes), *taken);
        stored.body = Body::Here(Kept::Long(bytes));
        if stored.context == u32::MAX {
            self.throw_away(m);
        } else if let Some(recv) = taken {
            self.consume(m, recv);
        }
    }

    /// A message whose rest never comes.
    pub fn lose_coming(&mut self, m: u32) {
        let Some(stored) = self.store.get(m) else { return };
        let queued = !stored.probed && matches!(stored.body, Body::Coming(_, None));
        if let (true, Some(lane)) = (queued, self.lanes.get_mut(stored.context)) {
            match lane.early.iter().position(|e| *e == m) {
                Some(at) => _ = lane.early.remove(at),
                None => lane.unexpected.remove(&mut self.store, m),
            }
        }
        if let Some(charge) = self.store.discard(m) {
            self.account_taken(charge);
        }
    }

    fn more_of_frame(&mut self, from: Ep, recv: u32, bytes: &[u8]) {
        let slot = &self.requests[recv];
        let offset = slot.transfer.offset;
        if bytes.len() > slot.transfer.total - offset {
            return self.violated(from, "more data than announced".to_owned());
        }
        if let Some(mem) = slot.extra.as_ref().and_then(|x| x.recv.as_ref()) {
            mem.buf().unpack(offset, bytes);
        }
        self.framed(recv, bytes.len());
    }

    /// A control message, a message for a context that is not known (yet), or nonsense.
    #[cold]
    fn message_elsewhere(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        if !reserved::is_reserved(header.context) {
            let Some(lane) = self.lanes.make(header.context) else {
                return self.violation(from, format!("message for context {:#x}", header.context));
            };
            debug_assert!(lane.face.is_none());
            return self.message_kept(from, header, have, total);
        }
        if header.context == reserved::RENDEZVOUS_DATA {
            return self.frame(from, header, have, total);
        }
        if have.len() as u64 != total {
            return self.gather(from, header, have, total);
        }
        match header.context {
            reserved::CLEAR_TO_SEND => self.on_clear_to_send(from, have),
            reserved::ACKNOWLEDGE => self.on_acknowledge(from, have),
            reserved::FLOW => self.on_flow(from, have),
            reserved::CANCEL => self.on_cancel(from, have),
            reserved::REVOKE => self.on_revoke(from, header.count),
            reserved::ASIDE => return self.on_aside(from, header, have),
            reserved::GOODBYE => self.peer_gone(from, Link::Left),
            reserved::ABORT => {
                let text = abort_text(have).unwrap_or_default().to_owned();
                self.fatal.push(Fatal::Abort { ep: from, code: header.tag, text });
            }
            other => return self.violation(from, format!("control message of unknown kind {other:#x}")),
        }
        Place::Done
    }

    /// The peer did what no peer may do: it is treated as gone.
    #[cold]
    pub fn violation(&mut self, from: Ep, fact: String) -> Place {
        self.violated(from, fact);
        Place::Done
    }

    #[cold]
    pub fn violated(&mut self, from: Ep, fact: String) {
        let how = format!("it broke the protocol: {fact}");
        self.fatal.push(Fatal::PeerGone { ep: from, how: how.clone() });
        self.peer_gone(from, Link::Down(how.into()));
    }
}

fn read_announcement<'a>(
    header: &Header,
    body: &'a [u8],
) -> Result<(Envelope, Announcement, &'a [u8]), String> {
    let (a, inline) = Announcement::decode(body).map_err(|e| e.to_string())?;
    if a.total > MESSAGE_MAX_BYTES {
        return Err(format!("announces a message of {} bytes", a.total));
    }
    let signature = header.datatype & !ANNOUNCEMENT;
    Ok((Envelope { source: header.source, tag: header.tag, signature, total: a.total }, a, inline))
}
