//! Announced messages, receiver's side: pulled out of the sender's memory, or cleared and received in
//! frames.

use crate::ErrorClass;
use crate::core::State;
use crate::limits::PIECE_MAX_BYTES;
use crate::request::{Kind, Phase};
use crate::sink::Bulk;
use crate::store::Envelope;
use mpi_btl::{Ep, OpId, Place, RegionKey, RemoteError, Sent, Span};
use mpi_wire::control::{Acknowledge, ClearToSend, Outcome};
use mpi_wire::{Header, reserved};

impl State {
    /// Receive `i` has matched an announced message of `from`.
    pub fn begin_transfer(&mut self, i: u32, from: Ep, e: Envelope, op: u64, region: Option<RegionKey>) {
        if let Some(why) = self.peers.get(from).and_then(|p| p.gone()) {
            let error = self.matched_error(i, e, ErrorClass::ProcFailed, why);
            return self.fail(i, error);
        }
        if let Err(error) = self.check_match(i, e) {
            self.acknowledge(from, op);
            return self.fail(i, error);
        }
        let slot = &mut self.requests[i];
        slot.ep = from;
        slot.status.source = e.source;
        slot.status.tag = e.tag;
        let signature = e.signature;
        let transfer = &mut slot.transfer;
        (transfer.total, transfer.offset, transfer.remote) = (e.total as usize, 0, op);
        transfer.region = region;
        slot.count = u64::from(signature);
        match region {
            _ if e.total == 0 => {
                self.acknowledge(from, op);
                self.transferred(i);
            }
            Some(_) => {
                self.requests[i].phase = Phase::Pulling;
                self.serve(i);
                self.pull(i);
            }
            None => self.clear_to_send(i),
        }
    }

    /// All data of an announced message is in place.
    fn transferred(&mut self, i: u32) {
        let slot = &mut self.requests[i];
        let total = slot.transfer.total as u64;
        let (source, tag) = (slot.status.source, slot.status.tag);
        self.received(i, Envelope { source, tag, signature: 0, total });
    }

    /// Pulls the next piece; plain memory in one.
    pub fn pull(&mut self, i: u32) {
        loop {
            let id = OpId(self.requests.id(i).get());
            let slot = &mut self.requests[i];
            let (memory, ep) = (slot.memory, slot.ep);
            let t = &mut slot.transfer;
            let (offset, left) = (t.offset, t.total - t.offset);
            let Some(key) = t.region else { return self.clear_to_send(i) };
            let into = if memory.plain {
                memory.span(offset, left)
            } else {
                t.piece.resize(left.min(PIECE_MAX_BYTES), 0);
                Span::new(t.piece.as_mut_ptr(), t.piece.len())
            };
            let route = usize::from(self.peers.at(ep).route);
            let last = into.len() == left;
            // The span is memory of this receive, or its own piece, which nobody touches until
            // the operation completes.
            match crate::memory::get(&mut *self.tx[route], ep, &key, offset as u64, into, id, last) {
                Ok(Sent::Pending) => return,
                Ok(_) if self.pulled(i) => return,
                Ok(_) => {}
                Err(RemoteError::Busy) => return self.retry.push(i),
                Err(RemoteError::Refused(_)) => return self.clear_to_send(i),
                Err(e) => {
                    let detail = format!("the message cannot be read from its sender: {e}");
                    let error = self.error_of(i, ErrorClass::Other, detail);
                    return self.fail(i, error);
                }
            }
        }
    }

    /// The piece asked for is here. True when it was the last.
    pub fn pulled(&mut self, i: u32) -> bool {
        let slot = &mut self.requests[i];
        let plain = slot.memory.plain;
        let t = &mut slot.transfer;
        if plain {
            t.offset = t.total;
        } else {
            if let Some(recv) = slot.extra.as_ref().and_then(|x| x.recv.as_ref()) {
                recv.buf().unpack(t.offset, &t.piece);
            }
            t.offset += t.piece.len();
        }
        let all = t.offset >= t.total;
        if all {
            self.transferred(i);
        }
        all
    }

    /// Has the sender send, from the beginning: what could be read so far may be a part only.
    pub fn clear_to_send(&mut self, i: u32) {
        let into = self.requests.id(i).get();
        let slot = &mut self.requests[i];
        slot.phase = Phase::Framed;
        let ep = slot.ep;
        let t = &mut slot.transfer;
        (t.region, t.offset) = (None, 0);
        let cts = ClearToSend { op: t.remote, into, offset: 0, length: t.total as u64 };
        self.serve(i);
        self.control(ep, reserved::CLEAR_TO_SEND, &cts.encode());
    }

    /// Tells the sender that its announced message is matched and wants no data (any more).
    pub fn acknowledge(&mut self, ep: Ep, op: u64) {
        let ack = Acknowledge { op, outcome: Outcome::Taken };
        self.control(ep, reserved::ACKNOWLEDGE, &ack.encode());
    }

    /// A frame of an announced message.
    pub fn frame(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        let Some(i) = self.requests.named(header.count) else {
            // Its receive failed meanwhile; the bytes are nobody's.
            return Place::Done;
        };
        let slot = &mut self.requests[i];
        if slot.kind != Kind::Recv || slot.ep != from {
            return self
                .violation(from, format!("data for operation {:#x}, which is another peer's", header.count));
        }
        if slot.phase != Phase::Framed {
            return Place::Done;
        }
        let memory = slot.memory;
        let (offset, left) = (slot.transfer.offset, slot.transfer.total - slot.transfer.offset);
        if total == 0 || total > left as u64 {
            return self.violation(from, format!("{total} bytes of data where {left} are to come"));
        }
        let total = total as usize;
        if memory.plain {
            memory.fill(offset, have);
        } else if let Some(recv) = slot.extra.as_ref().and_then(|x| x.recv.as_ref()) {
            recv.buf().unpack(offset, have);
        }
        if have.len() == total {
            self.framed(i, total);
            return Place::Done;
        }
        if memory.plain {
            let into = memory.span(offset + have.len(), total - have.len());
            Place::Direct { bulk: self.bulks.add(from, Bulk::Frame { recv: i, len: total }), into }
        } else {
            self.framed(i, have.len());
            Place::Chunks(self.bulks.add(from, Bulk::FrameUnpacked { recv: i }))
        }
    }

    /// `len` more bytes are in place.
    pub fn framed(&mut self, i: u32, len: usize) {
        let t = &mut self.requests[i].transfer;
        t.offset += len;
        if t.offset >= t.total {
            self.transferred(i);
        }
    }
}
