//! Sends: at once where possible, announced where large or synchronous, queued where there is no room.

use crate::context::Face;
use crate::core::State;
use crate::limits::{BUFFERED_OVERHEAD_BYTES, LEND_ABOVE_BYTES, SELF_EAGER_MAX_BYTES};
use crate::matching::PostedKey;
use crate::memory::Memory;
use crate::recv::{after_the_end, no_rank};
use crate::request::{Kind, Phase, RequestId, flag};
use crate::status::SendMode;
use crate::store::{Body as Stored, Envelope, Kept};
use crate::{Error, ErrorClass, record};
use mpi_btl::{Am, Body, Ep, OpId, RegionKey, SendError, Sent};
use mpi_datatype::{RecvBuf, SendBuf};
use mpi_wire::control::{ANNOUNCEMENT_LEN, Announcement};
use mpi_wire::{ANNOUNCEMENT, Header};

/// What came of offering a message to a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// Taken, or settled otherwise.
    Taken,
    /// No room: offer again later, in order.
    Full,
}

impl State {
    /// The whole of a small contiguous send, where nothing stands in its way. `false`: go the long way.
    #[inline]
    pub fn send_now(&mut self, face: &Face, dest: u32, tag: i32, buf: &SendBuf<'_>, more: bool) -> bool {
        match record::on() {
            true => self.send_now_recorded(face, dest, tag, buf, more),
            false => self.send_now_plainly(face, dest, tag, buf, more),
        }
    }

    #[inline(never)]
    fn send_now_recorded(&mut self, face: &Face, dest: u32, tag: i32, buf: &SendBuf<'_>, more: bool) -> bool {
        let copying = record::copying(buf.bytes());
        let sent = self.send_now_plainly(face, dest, tag, buf, more);
        if let (true, Some(ep)) = (sent, face.peers.get(dest as usize)) {
            record::copied(copying);
            record::sent(ep.0, face.id, tag, buf.bytes() as u64);
        }
        sent
    }

    #[inline(always)]
    fn send_now_plainly(&mut self, face: &Face, dest: u32, tag: i32, buf: &SendBuf<'_>, more: bool) -> bool {
        let Some(&ep) = face.peers.get(dest as usize) else { return false };
        let peer = self.peers.at(ep);
        if face.is_stopped()
            || buf.bytes() >= peer.fast_below
            || (more && buf.bytes() >= self.limits.lend_in_burst_bytes && peer.caps.lend)
        {
            return false;
        }
        let Some(bytes) = buf.contiguous() else { return false };
        let header = Header {
            context: face.id,
            source: face.rank as i32,
            dest: dest as i32,
            tag,
            count: buf.count() as u64,
            datatype: buf.datatype().signature(),
            length: bytes.len() as u64,
        };
        match self.tx[usize::from(peer.route)].send(ep, Am { header, body: Body::Bytes(bytes), more }) {
            Ok(Sent::Done) => true,
            Ok(_) => {
                self.owed = true;
                true
            }
            // The long way meets the same answer and deals with it.
            Err(_) => false,
        }
    }

    /// Starts a send.
    #[inline]
    pub fn isend(
        &mut self,
        face: &Face,
        dest: u32,
        tag: i32,
        buf: &SendBuf<'_>,
        mode: SendMode,
        owner: Option<u32>,
    ) -> Result<RequestId, Error> {
        if matches!(mode, SendMode::Standard | SendMode::Ready) {
            // What the transport keeps back of a burst leaves with the next wait or test.
            let more = self.since_flush > 0;
            if self.send_now(face, dest, tag, buf, more) {
                self.since_flush += 1;
                return Ok(RequestId::DONE);
            }
        }
        self.isend_long(face, dest, tag, buf, mode, owner)
    }

    #[cold]
    fn isend_long(
        &mut self,
        face: &Face,
        dest: u32,
        tag: i32,
        buf: &SendBuf<'_>,
        mode: SendMode,
        owner: Option<u32>,
    ) -> Result<RequestId, Error> {
        let i = self.new_send(face, dest, tag, buf, mode)?;
        self.own(i, owner);
        if mode == SendMode::Buffered {
            self.buffer(i)?;
        }
        let id = self.requests.id(i);
        self.start_send(i);
        self.since_flush += 1;
        // A buffered send is complete for its caller; the request lives on by itself.
        Ok(if mode == SendMode::Buffered { RequestId::DONE } else { id })
    }

    /// A send that is not started yet.
    pub fn new_send(
        &mut self,
        face: &Face,
        dest: u32,
        tag: i32,
        buf: &SendBuf<'_>,
        mode: SendMode,
    ) -> Result<u32, Error> {
        let Some(&ep) = face.peers.get(dest as usize) else {
            return Err(no_rank(face, dest as i32, mode.operation()));
        };
        if self.closed {
            return Err(after_the_end(face, mode.operation()));
        }
        let i = self.requests.alloc(Kind::Send);
        let slot = &mut self.requests[i];
        slot.key = PostedKey::new(dest as i32, tag);
        slot.ep = ep;
        slot.context = face.id;
        slot.mode = mode;
        slot.memory = Memory::of_send(buf);
        slot.signature = buf.datatype().signature();
        slot.count = buf.count() as u64;
        slot.status = crate::Status::EMPTY;
        slot.extra = None;
        if !slot.memory.plain {
            slot.extra().send = Some(buf.to_mem());
        }
        Ok(i)
    }

    /// Copies the data of a buffered send into the engine's own memory, on the attached buffer's
    /// account.
    pub fn buffer(&mut self, i: u32) -> Result<(), Error> {
        let need = self.requests[i].memory.bytes.saturating_add(BUFFERED_OVERHEAD_BYTES);
        let free = self.attached.room.map(|room| room.saturating_sub(self.attached.used));
        if free.is_none_or(|free| need > free) {
            let detail = match free {
                None => format!("needs {need} bytes, no buffer is attached"),
                Some(free) => format!("needs {need} bytes, {free} are free in the attached buffer"),
            };
            let e = self.error_of(i, ErrorClass::Buffer, detail);
            self.release(i);
            return Err(e);
        }
        self.attached.used += need;
        let mut owned = vec![0; self.requests[i].memory.bytes].into_boxed_slice();
        self.pack_from(i, 0, &mut owned);
        let slot = &mut self.requests[i];
        slot.memory = Memory::of_owned(&mut owned);
        slot.flags |= flag::DETACHED;
        let extra = slot.extra();
        (extra.send, extra.owned, extra.buffered) = (None, Some(owned), need);
        Ok(())
    }

    /// Packs data of send `i` from byte `from` until `out` is full.
    pub fn pack_from(&self, i: u32, from: usize, out: &mut [u8]) {
        let slot = &self.requests[i];
        if slot.memory.plain {
            out.copy_from_slice(&slot.memory.slice()[from..from + out.len()]);
        } else if let Some(send) = slot.extra.as_ref().and_then(|x| x.send.as_ref()) {
            send.buf().pack(from, out);
        }
    }

    /// Sets a send going that is filled in.
    pub fn start_send(&mut self, i: u32) {
        let slot = &self.requests[i];
        let ep = slot.ep;
        if self.lanes.get(slot.context).is_some_and(|lane| lane.fate.is_some()) && self.refuse_send(i) {
            return;
        }
        let slot = &self.requests[i];
        record::sent(ep.0, slot.context, slot.key.tag, slot.memory.bytes as u64);
        if ep == self.me {
            return self.send_own(i);
        }
        if let Err(why) = self.reach(ep) {
            return self.fail_gone(i, why);
        }
        self.spoken_to(ep);
        let queued = self.peers.at(ep).queues.as_ref().is_some_and(|q| q.full || !q.pending.is_empty());
        if queued || self.offer(i) == Offer::Full {
            self.requests[i].phase = Phase::Waiting;
            self.serve(i);
            let peer = self.peers.at(ep);
            peer.queues().pending.push_back(i);
            peer.refresh();
        }
    }

    #[cold]
    pub fn fail_gone(&mut self, i: u32, why: String) {
        let e = self.error_of(i, ErrorClass::ProcFailed, why);
        self.fail(i, e);
    }

    /// Offers a send to its transport: the data, or its announcement.
    pub fn offer(&mut self, i: u32) -> Offer {
        let slot = &self.requests[i];
        let total = slot.memory.bytes;
        let peer = self.peers.at(slot.ep);
        let small = total <= peer.caps.eager_limit && !peer.announce;
        match (small, slot.mode == SendMode::Synchronous) {
            (true, false) => self.offer_eager(i),
            (true, true)
                if total <= LEND_ABOVE_BYTES && total + ANNOUNCEMENT_LEN <= peer.caps.frame_limit =>
            {
                self.offer_announced(i, true)
            }
            _ => self.offer_announced(i, false),
        }
    }

    fn offer_eager(&mut self, i: u32) -> Offer {
        let slot = &self.requests[i];
        let (ep, memory) = (slot.ep, slot.memory);
        let burst = self.since_flush > 0 && memory.bytes >= self.limits.lend_in_burst_bytes;
        if memory.plain
            && (burst || memory.bytes > self.limits.lend_above_bytes)
            && self.peers.at(ep).caps.lend
        {
            return self.offer_lent(i);
        }
        let result = self.with_data(i, |state, bytes| {
            let header = state.header_of(i, bytes.len());
            state.transmit(state.requests[i].ep, header, Body::Bytes(bytes))
        });
        match result {
            Ok(_) => {
                self.complete(i);
                Offer::Taken
            }
            Err(e) => self.refused(i, e),
        }
    }

    /// A long eager message: what the transport has no room for stays where it is until it has.
    fn offer_lent(&mut self, i: u32) -> Offer {
        let (ep, memory) = (self.requests[i].ep, self.requests[i].memory);
        let header = self.header_of(i, memory.bytes);
        let id = OpId(self.requests.id(i).get());
        // In a burst the transport may keep it until the flush, to send many at once.
        let more = self.since_flush > 0;
        match self.transmit_more(ep, header, Body::Lent(memory.span(0, memory.bytes), id), more) {
            Ok(Sent::Pending) => {
                self.owed |= more;
                let slot = &mut self.requests[i];
                slot.phase = Phase::Draining;
                slot.transfer.lent = 1;
                self.serve(i);
                Offer::Taken
            }
            Ok(_) => {
                self.complete(i);
                Offer::Taken
            }
            Err(e) => self.refused(i, e),
        }
    }

    /// Sends the announcement, with all the data behind it where that is `inline`.
    fn offer_announced(&mut self, i: u32, inline: bool) -> Offer {
        let slot = &self.requests[i];
        let (ep, total, memory) = (slot.ep, slot.memory.bytes, slot.memory);
        let op = self.requests.id(i).get();
        let mut region = slot.transfer.region;
        if !inline && region.is_none() && memory.plain && total > 0 {
            let route = usize::from(self.peers.at(ep).route);
            region = self.tx[route].expose(ep, memory.span(0, total), OpId(op));
        }
        let sync = slot.mode == SendMode::Synchronous;
        let transfer = &mut self.requests[i].transfer;
        transfer.total = total;
        transfer.region = region;
        let pull = region.map(|r: RegionKey| r.bytes);
        let fixed = Announcement { total: total as u64, op, sync, pull }.encode();
        let offer = |state: &mut State, bytes: &[u8]| {
            let mut header = state.header_of(i, ANNOUNCEMENT_LEN + bytes.len());
            header.datatype |= ANNOUNCEMENT;
            state.transmit(ep, header, Body::Two(&fixed, bytes))
        };
        let result = if inline { self.with_data(i, offer) } else { offer(self, &[]) };
        match result {
            Ok(_) => {
                self.requests[i].phase = Phase::Announced;
                self.serve(i);
                Offer::Taken
            }
            Err(e) => self.refused(i, e),
        }
    }

    /// Runs `f` on the data of a send, packed first where it has gaps.
    fn with_data<T>(&mut self, i: u32, f: impl FnOnce(&mut State, &[u8]) -> T) -> T {
        let memory = self.requests[i].memory;
        if memory.plain {
            return f(self, memory.slice());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(memory.bytes, 0);
        self.pack_from(i, 0, &mut scratch);
        let result = f(self, &scratch);
        self.scratch = scratch;
        result
    }

    fn header_of(&self, i: u32, length: usize) -> Header {
        let slot = &self.requests[i];
        let source = self.lanes.get(slot.context).and_then(|l| l.face.as_ref()).map_or(0, |f| f.rank);
        Header {
            context: slot.context,
            source: source as i32,
            dest: slot.key.source,
            tag: slot.key.tag,
            count: slot.count,
            datatype: slot.signature,
            length: length as u64,
        }
    }

    /// Hands a message to the peer's backend.
    pub fn transmit(&mut self, ep: Ep, header: Header, body: Body<'_>) -> Result<Sent, SendError> {
        self.transmit_more(ep, header, body, false)
    }

    /// The same; with `more`, the backend may hold the message back for others that follow.
    pub fn transmit_more(
        &mut self,
        ep: Ep,
        header: Header,
        body: Body<'_>,
        more: bool,
    ) -> Result<Sent, SendError> {
        let route = usize::from(self.peers.at(ep).route);
        let copying = record::copying(body.len());
        let sent = self.tx[route].send(ep, Am { header, body, more });
        record::copied(copying);
        let sent = sent?;
        self.owed |= sent == Sent::Held;
        Ok(sent)
    }

    fn refused(&mut self, i: u32, e: SendError) -> Offer {
        match e {
            SendError::Full => {
                let ep = self.requests[i].ep;
                self.peers.at(ep).queues().full = true;
                self.peers.at(ep).refresh();
                Offer::Full
            }
            SendError::Down(why) => {
                self.fail_gone(i, format!("the peer is gone: {why}"));
                Offer::Taken
            }
        }
    }

    // ---- to oneself

    fn send_own(&mut self, i: u32) {
        let slot = &self.requests[i];
        let context = slot.context;
        let (mode, total) = (slot.mode, slot.memory.bytes);
        let Some(lane) = self.lanes.get_mut(context) else { return self.no_own_context(i) };
        let source = lane.face.as_ref().map_or(0, |f| f.rank) as i32;
        let e = Envelope { source, tag: slot.key.tag, signature: slot.signature, total: total as u64 };
        if let Some(recv) = lane.posted.take(&mut self.requests, e.source, e.tag) {
            self.take_own(i, recv, e);
            return self.forget_if_closing(context);
        }
        let (body, done) = if mode != SendMode::Synchronous && total <= SELF_EAGER_MAX_BYTES {
            let mut bytes = vec![0; total];
            self.pack_from(i, 0, &mut bytes);
            (Stored::Here(Kept::Long(bytes)), true)
        } else {
            (Stored::Own(i), false)
        };
        self.requests[i].phase = Phase::Announced;
        self.keep(self.me, context, e, body);
        if done {
            self.complete(i);
        }
    }

    #[cold]
    fn no_own_context(&mut self, i: u32) {
        let e = self.error_of(i, ErrorClass::Comm, "the communicator was freed");
        self.fail(i, e);
    }

    /// Send and receive of this process meet: one typed copy, both are complete.
    pub fn take_own(&mut self, send: u32, recv: u32, e: Envelope) {
        if let Err(error) = self.check_match(recv, e) {
            self.fail(recv, error);
            return self.complete(send);
        }
        let (from, to) = (self.requests[send].memory, self.requests[recv].memory);
        if from.plain && to.plain {
            to.fill(0, from.slice());
        } else {
            let own_recv = self.requests[recv].extra.as_mut().and_then(|x| x.recv.take());
            let own_send = self.requests[send].extra.as_mut().and_then(|x| x.send.take());
            match (&own_send, &own_recv) {
                (Some(s), Some(r)) => copy_typed(s.buf(), r.buf()),
                (None, Some(r)) => _ = r.buf().unpack(0, from.slice()),
                (Some(s), None) => to.receive_packed(|out| _ = s.buf().pack(0, out), e.total as usize),
                (None, None) => {}
            }
            self.requests[recv].extra().recv = own_recv;
            if let Some(s) = own_send {
                self.requests[send].extra().send = Some(s);
            }
        }
        self.received(recv, e);
        self.complete(send);
    }
}

/// Types were compared at the match; what is left cannot fail.
fn copy_typed(from: SendBuf<'_>, to: RecvBuf<'_>) {
    let result = mpi_datatype::copy(from, to);
    debug_assert!(result.is_ok(), "{result:?}");
}
