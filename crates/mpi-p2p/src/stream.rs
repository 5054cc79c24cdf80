//! Towards a peer: control messages, what waits for room, and the data of cleared sends.

use crate::ErrorClass;
use crate::Status;
use crate::core::State;
use crate::limits::{PACKED_FRAME_BYTES, PIECE_MAX_BYTES};
use crate::peer::Link;
use crate::recv::FINALISED;
use crate::request::{Kind, Phase, flag};
use crate::send::Offer;
use crate::silent::ALL_GONE;
use crate::status::ANY;
use crate::store::Body as Stored;
use mpi_btl::{Body, Ep, OpId, SendError, Sent};
use mpi_wire::control::{Acknowledge, ClearToSend, Flow, Outcome};
use mpi_wire::{Header, reserved};

impl State {
    /// Sends a control message; it passes everything else that waits.
    pub fn control(&mut self, ep: Ep, context: u32, body: &[u8]) {
        self.control_with(ep, Header { context, ..Header::default() }, body);
    }

    /// The same with more in its header than its kind.
    pub fn control_with(&mut self, ep: Ep, header: Header, body: &[u8]) {
        if self.reach(ep).is_err() {
            return;
        }
        let header = Header { length: body.len() as u64, ..header };
        let full = self.peers.at(ep).queues.as_ref().is_some_and(|q| q.full || !q.control.is_empty());
        if !full {
            match self.transmit(ep, header, Body::Bytes(body)) {
                // The peer's end is reported by its backend.
                Ok(_) | Err(SendError::Down(_)) => return,
                Err(SendError::Full) => {}
            }
        }
        let peer = self.peers.at(ep);
        peer.queues().full = true;
        peer.queues().control.push_back((header, body.to_vec()));
        peer.refresh();
    }

    /// Sends to the peer as much of what waits as there is room for.
    pub fn pump(&mut self, ep: Ep) {
        if self.peers.get(ep).is_none_or(|p| p.link != Link::Up) {
            return;
        }
        if let Some(q) = &mut self.peers.at(ep).queues {
            q.full = false;
        }
        let full = self.pump_control(ep) == Offer::Full
            || self.pump_pending(ep) == Offer::Full
            || self.pump_streams(ep) == Offer::Full;
        let peer = self.peers.at(ep);
        if let Some(q) = &mut peer.queues {
            q.full = full;
            if q.is_empty() && !full {
                peer.queues = None;
            }
        }
        peer.refresh();
    }

    fn pump_control(&mut self, ep: Ep) -> Offer {
        while let Some((header, body)) = self.peers.at(ep).queues.as_mut().and_then(|q| q.control.pop_front())
        {
            if let Err(SendError::Full) = self.transmit(ep, header, Body::Bytes(&body)) {
                self.peers.at(ep).queues().control.push_front((header, body));
                return Offer::Full;
            }
        }
        Offer::Taken
    }

    fn pump_pending(&mut self, ep: Ep) -> Offer {
        while let Some(i) = self.peers.at(ep).queues.as_ref().and_then(|q| q.pending.front().copied()) {
            if self.offer(i) == Offer::Full {
                return Offer::Full;
            }
            if let Some(q) = self.peers.at(ep).queues.as_mut() {
                q.pending.pop_front();
            }
        }
        Offer::Taken
    }

    fn pump_streams(&mut self, ep: Ep) -> Offer {
        while let Some(i) = self.peers.at(ep).queues.as_mut().and_then(|q| q.streams.pop_front()) {
            if self.stream(i) == Offer::Full {
                self.peers.at(ep).queues().streams.push_front(i);
                return Offer::Full;
            }
        }
        Offer::Taken
    }

    /// Sends frames of a cleared send until all are out or there is no room.
    fn stream(&mut self, i: u32) -> Offer {
        let id = OpId(self.requests.id(i).get());
        loop {
            let slot = &mut self.requests[i];
            let (ep, memory) = (slot.ep, slot.memory);
            let (dest, tag, signature) = (slot.key.source, slot.key.tag, slot.signature);
            let t = &mut slot.transfer;
            let (offset, end, remote) = (t.offset, t.end, t.remote);
            if offset >= end {
                if t.lent > 0 {
                    slot.phase = Phase::Draining;
                } else {
                    self.complete(i);
                }
                return Offer::Taken;
            }
            let caps = self.peers.at(ep).caps;
            let limit = match (memory.plain, caps.lend) {
                (true, _) => caps.frame_limit,
                (false, true) => caps.frame_limit.min(PIECE_MAX_BYTES),
                // Where frames are cheap they are short, so that the receiver unpacks while this side packs.
                (false, false) => caps.frame_limit.min(PACKED_FRAME_BYTES),
            };
            let len = (end - offset).min(limit.max(1));
            let header = Header {
                context: reserved::RENDEZVOUS_DATA,
                source: 0,
                dest,
                tag,
                count: remote,
                datatype: signature,
                length: len as u64,
            };
            let sent = if memory.plain && caps.lend {
                self.transmit(ep, header, Body::Lent(memory.span(offset, len), id))
            } else if memory.plain {
                self.transmit(ep, header, Body::Bytes(&memory.slice()[offset..offset + len]))
            } else {
                let mut scratch = std::mem::take(&mut self.scratch);
                scratch.resize(len, 0);
                self.pack_from(i, offset, &mut scratch);
                let sent = self.transmit(ep, header, Body::Bytes(&scratch));
                self.scratch = scratch;
                sent
            };
            let t = &mut self.requests[i].transfer;
            match sent {
                Ok(sent) => {
                    t.offset += len;
                    t.lent += u32::from(sent == Sent::Pending);
                }
                Err(SendError::Full) => return Offer::Full,
                Err(SendError::Down(why)) => {
                    self.fail_gone(i, format!("the peer is gone: {why}"));
                    return Offer::Taken;
                }
            }
        }
    }

    // ---- answers to announcements

    /// The announced send that a peer speaks of, if it is that peer's and still unanswered.
    fn announced(&mut self, from: Ep, op: u64) -> Option<u32> {
        let i = self.requests.named(op)?;
        let slot = &self.requests[i];
        (slot.kind == Kind::Send && slot.ep == from && slot.phase == Phase::Announced).then_some(i)
    }

    /// Takes back what was exposed for the receiver to pull. False when it pulls already.
    fn withdraw(&mut self, i: u32) -> bool {
        let id = OpId(self.requests.id(i).get());
        let ep = self.requests[i].ep;
        match self.requests[i].transfer.region.take() {
            Some(_) => {
                let route = usize::from(self.peers.at(ep).route);
                self.tx[route].withdraw(ep, id)
            }
            None => true,
        }
    }

    pub fn on_clear_to_send(&mut self, from: Ep, body: &[u8]) {
        let cts = match ClearToSend::decode(body) {
            Ok(cts) => cts,
            Err(e) => return self.violated(from, e.to_string()),
        };
        let Some(i) = self.announced(from, cts.op) else {
            return self.violated(
                from,
                format!("clear to send for operation {:#x}, which is not announced", cts.op),
            );
        };
        let total = self.requests[i].memory.bytes as u64;
        if cts.offset + cts.length > total || !self.withdraw(i) {
            return self.violated(
                from,
                format!("clear to send beyond the {total} bytes announced, or while pulling"),
            );
        }
        let slot = &mut self.requests[i];
        slot.phase = Phase::Streaming;
        let t = &mut slot.transfer;
        t.offset = cts.offset as usize;
        t.end = (cts.offset + cts.length) as usize;
        t.remote = cts.into;
        self.peers.at(from).queues().streams.push_back(i);
        self.dirty.push(from);
    }

    pub fn on_acknowledge(&mut self, from: Ep, body: &[u8]) {
        let ack = match Acknowledge::decode(body) {
            Ok(ack) => ack,
            Err(e) => return self.violated(from, e.to_string()),
        };
        let Some(i) = self.announced(from, ack.op) else {
            return self
                .violated(from, format!("acknowledges operation {:#x}, which is not announced", ack.op));
        };
        if !self.withdraw(i) {
            return self.violated(from, "acknowledges a message while it pulls it".to_owned());
        }
        let slot = &mut self.requests[i];
        let cancelled = ack.outcome == Outcome::Dropped && slot.extra().cancel_asked;
        if cancelled {
            return self.cancelled(i);
        }
        slot.status = Status::EMPTY;
        self.complete(i);
    }

    pub fn on_flow(&mut self, from: Ep, body: &[u8]) {
        match Flow::decode(body) {
            Ok(flow) => {
                let peer = self.peers.at(from);
                peer.announce = flow.announce;
                peer.refresh();
            }
            Err(e) => self.violated(from, e.to_string()),
        }
    }

    // ---- cancel

    /// Cancels a request where that is still possible. A wait returns in any case: an unmatched
    /// receive and an unsent message at once, an announced one when its receiver has answered.
    pub fn cancel(&mut self, i: u32) {
        let (kind, phase) = (self.requests[i].kind, self.requests[i].phase);
        let (context, ep) = (self.requests[i].context, self.requests[i].ep);
        match (kind, phase) {
            (Kind::Recv, Phase::Waiting) => {
                if let Some(lane) = self.lanes.get_mut(context) {
                    lane.posted.remove(&mut self.requests, i);
                }
                self.cancelled(i);
                self.forget_if_closing(context);
            }
            (Kind::Send, Phase::Waiting) => {
                if let Some(q) = &mut self.peers.at(ep).queues {
                    q.pending.retain(|p| *p != i);
                }
                self.peers.at(ep).refresh();
                if self.withdraw(i) {
                    self.cancelled(i);
                }
            }
            (Kind::Send, Phase::Announced) if ep == self.me => self.cancel_own(i, context),
            (Kind::Send, Phase::Announced) => {
                self.requests[i].extra().cancel_asked = true;
                let ask = Acknowledge { op: self.requests.id(i).get(), outcome: Outcome::Dropped };
                self.control(ep, reserved::CANCEL, &ask.encode());
            }
            _ => {}
        }
    }

    pub fn cancelled(&mut self, i: u32) {
        if let Some(verdict) = self.requests[i].extra.as_mut().and_then(|extra| extra.verdict.take()) {
            return self.fail(i, verdict);
        }
        self.requests[i].status = Status { cancelled: true, ..Status::EMPTY };
        self.complete(i);
    }

    fn cancel_own(&mut self, i: u32, context: u32) {
        let found =
            self.store.all().find(|(_, s)| matches!(s.body, Stored::Own(send) if send == i) && !s.probed);
        if let (Some((m, _)), Some(lane)) = (found, self.lanes.get_mut(context)) {
            lane.unexpected.remove(&mut self.store, m);
            if let Some(charge) = self.store.discard(m) {
                self.account_taken(charge);
            }
            self.cancelled(i);
        }
    }

    /// The peer wants an announced message back. If nobody has matched it, it is dropped and the peer
    /// told so; else it goes its way.
    pub fn on_cancel(&mut self, from: Ep, body: &[u8]) {
        let op = match Acknowledge::decode(body) {
            Ok(ask) => ask.op,
            Err(e) => return self.violated(from, e.to_string()),
        };
        let found = self.store.all().find(|(_, s)| {
            let named = matches!(s.body, Stored::Announced(o, _) | Stored::Acknowledged(_, o) if o == op);
            named && s.from == from && !s.probed
        });
        let Some((m, stored)) = found else { return };
        let context = stored.context;
        if let Some(lane) = self.lanes.get_mut(context) {
            match lane.early.iter().position(|e| *e == m) {
                Some(at) => _ = lane.early.remove(at),
                None => lane.unexpected.remove(&mut self.store, m),
            }
        }
        if let Some(charge) = self.store.discard(m) {
            self.account_taken(charge);
        }
        let ack = Acknowledge { op, outcome: Outcome::Dropped };
        self.control(from, reserved::ACKNOWLEDGE, &ack.encode());
    }

    // ---- the end of a peer

    /// Nothing goes to or comes from the peer any more: all operations with it fail.
    pub fn peer_gone(&mut self, ep: Ep, link: Link) {
        let peer = self.peers.at(ep);
        if matches!(peer.link, Link::Left | Link::Down(_)) {
            // That it cannot be reached may have been known before it was known to have failed.
            self.note_gone(ep, matches!(link, Link::Down(_)));
            return self.waiters.wake_all();
        }
        let failed = matches!(link, Link::Down(_));
        peer.link = link;
        if std::mem::take(&mut peer.silent) {
            self.silent -= 1;
        }
        self.lost += 1;
        let peer = self.peers.at(ep);
        peer.queues = None;
        peer.announce = false;
        peer.refresh();
        let why = peer.gone().unwrap_or_default();
        if self.direct.outcome == crate::direct::Outcome::Waiting && self.direct.from == ep {
            let i = self.promote_direct();
            self.fail_gone(i, why.clone());
        }
        let route = usize::from(self.peers.at(ep).route);
        let (lost, bulks) = self.bulks.drop_of(ep);
        self.revoked.extend(bulks.into_iter().map(|bulk| (route, bulk)));
        for m in lost {
            self.lose_coming(m);
        }
        let all: Vec<u32> = self.requests.in_use().collect();
        for i in all {
            let slot = &self.requests[i];
            let unfinished = !matches!(slot.phase, Phase::Done | Phase::Inactive);
            let with_peer = match slot.kind {
                Kind::Send => slot.ep == ep,
                Kind::Recv => slot.ep == ep && (slot.key.source != ANY || slot.phase != Phase::Waiting),
                _ => false,
            };
            if unfinished && with_peer {
                self.unpost(i);
                match !failed && self.ending {
                    true => self.fail_finalised(i),
                    false => self.fail_gone(i, why.clone()),
                }
            } else if unfinished && slot.kind == Kind::Recv && slot.phase == Phase::Waiting {
                self.fail_if_alone(i);
            }
        }
        self.note_gone(ep, failed);
        self.waiters.wake_all();
    }

    pub fn unpost(&mut self, i: u32) {
        let slot = &self.requests[i];
        let context = slot.context;
        if slot.kind == Kind::Recv && slot.phase == Phase::Waiting {
            if let Some(lane) = self.lanes.get_mut(context) {
                lane.posted.remove(&mut self.requests, i);
            }
            self.forget_if_closing(context);
        }
    }

    /// A receive from any source can never be met once every peer of its communicator is gone.
    fn fail_if_alone(&mut self, i: u32) {
        let Some(face) = self.lanes.get(self.requests[i].context).and_then(|l| l.face.clone()) else {
            return;
        };
        let me = self.me;
        let possible = |ep: &Ep| *ep == me || self.peers.get(*ep).is_none_or(|p| p.gone().is_none());
        let others = face.peers.iter().filter(|ep| **ep != me).count();
        if others > 0 && !face.peers.iter().any(|ep| *ep != me && possible(ep)) {
            self.unpost(i);
            if self.ending {
                return self.fail_finalised(i);
            }
            self.fail_alone(i);
        }
    }

    pub fn fail_alone(&mut self, i: u32) {
        let e = self.error_of(i, ErrorClass::ProcFailed, ALL_GONE);
        self.fail(i, e);
    }

    /// Nothing comes any more for receives that other threads wait in.
    pub fn fail_posted(&mut self) {
        let posted = |i: &u32| {
            let slot = &self.requests[*i];
            slot.kind == Kind::Recv && slot.phase == Phase::Waiting
        };
        let all: Vec<u32> = self.requests.in_use().filter(posted).collect();
        for i in all {
            self.unpost(i);
            self.fail_finalised(i);
        }
        self.waiters.wake_all();
    }

    /// Another thread finalises meanwhile.
    fn fail_finalised(&mut self, i: u32) {
        let e = self.error_of(i, ErrorClass::Other, FINALISED);
        self.fail(i, e);
    }

    /// Frees a request the user does not want to hear of again.
    pub fn free(&mut self, i: u32) {
        let slot = &mut self.requests[i];
        slot.persistent = false;
        match slot.phase {
            Phase::Done | Phase::Inactive => self.release(i),
            _ => slot.flags |= flag::DETACHED,
        }
    }
}
