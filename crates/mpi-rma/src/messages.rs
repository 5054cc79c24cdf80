//! The origin's side of active messages: what is under way, and waiting for it.

use crate::epoch::{LockKind, access};
use crate::limits::{IN_FLIGHT_MAX_BYTES, MESSAGE_MAX_BYTES, READS_IN_FLIGHT_MAX};
use crate::target::Guest;
use crate::window::Inner;
use mpi_datatype::{Datatype, Op, Primitive, RecvMem, SendBuf, Strip};
use mpi_p2p::{Error, ErrorClass, Port, RequestId, Status};
use mpi_wire::limits::RMA_RUNS_MAX;
use mpi_wire::rma::{RMA_FIXED_MAX_LEN, RUN_LEN, Rma, Run, Runs};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

/// Everything about messages of one window. Empty while there are none.
#[derive(Default)]
pub(crate) struct Mail {
    next: u64,
    /// Operations that wait for an answer.
    pending: HashMap<u64, Pending>,
    /// Targets that something was sent to and that have not said that all of it is done.
    peers: HashMap<u32, Peer>,
    /// Parts of requests that are still to come.
    parts: HashMap<RequestId, usize>,
    /// Exposures of others, and accesses that they completed.
    pub posts: HashMap<u32, u32>,
    pub completes: HashMap<u32, u32>,
    /// Rounds of fences that have come.
    pub fences: HashSet<(u64, u32)>,
    /// Origins that locked this rank's memory by message.
    pub guests: HashMap<u32, Guest>,
}

struct Pending {
    target: u32,
    /// Where data go; `None` for a mere acknowledgement.
    read: Option<Read>,
}

struct Read {
    to: RecvMem,
    from: usize,
    bytes: usize,
    request: Option<RequestId>,
}

#[derive(Default)]
struct Peer {
    /// Writes since the target last said that all is done, in bytes (at least one each).
    unconfirmed: usize,
    reads: usize,
    locked: bool,
    fault: Option<Error>,
}

impl Mail {
    /// Targets that were locked on first use.
    pub fn locked(&self) -> Vec<u32> {
        self.peers.iter().filter(|(_, p)| p.locked).map(|(t, _)| *t).collect()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn tidy(&mut self, target: u32) {
        if self
            .peers
            .get(&target)
            .is_some_and(|p| p.unconfirmed == 0 && p.reads == 0 && !p.locked && p.fault.is_none())
        {
            self.peers.remove(&target);
        }
    }

    fn take_fault(&mut self, target: Option<u32>) -> Result<(), Error> {
        let mut first = Ok(());
        for (t, peer) in &mut self.peers {
            if target.is_none_or(|target| target == *t) {
                if let (Some(e), true) = (peer.fault.take(), first.is_ok()) {
                    first = Err(e);
                }
            }
        }
        first
    }
}

/// What is to be done with the target's memory.
#[derive(Clone, Copy)]
pub(crate) enum Deed<'a> {
    Put,
    Get,
    Accumulate(&'a Op),
    GetAccumulate(&'a Op),
    CompareAndSwap,
}

/// An operation that goes by message.
pub(crate) struct Errand<'a> {
    pub name: &'static str,
    pub deed: Deed<'a>,
    pub target: u32,
    /// Displacement in the target's units.
    pub at: u64,
    pub count: usize,
    pub datatype: &'a Datatype,
    /// What to write; for a compare-and-swap comparand and new value, packed.
    pub data: Option<SendBuf<'a>>,
    /// Where to read to.
    pub to: Option<RecvMem>,
    /// Bytes of packed data at the target.
    pub bytes: usize,
    /// For combining: the primitive that everything consists of.
    pub primitive: Option<Primitive>,
    pub request: Option<RequestId>,
}

impl Deed<'_> {
    fn reads(self) -> bool {
        !matches!(self, Deed::Put | Deed::Accumulate(_))
    }
}

impl Inner {
    /// Sends an operation, in as many messages as it takes. Its data have been copied when this returns.
    pub(crate) fn run_errand(&self, e: &Errand<'_>) -> Result<(), Error> {
        self.dirty.store(1, Ordering::Relaxed);
        let limit = self.engine().with_port(&self.cx, |port| port.limit(e.target));
        let limit = limit.map_err(|error| self.under(e.name, error))?.min(MESSAGE_MAX_BYTES);
        let (mut from, mut runs, mut data) = (0, Vec::new(), Vec::new());
        while from < e.bytes {
            runs.clear();
            let to = match e.deed {
                // Comparand and new value travel together.
                Deed::CompareAndSwap => {
                    Run { primitive: prim_id(e.primitive), offset: 0, count: 1, stride: 0, repeat: 1 }
                        .encode(&mut runs);
                    e.bytes
                }
                _ => flatten(e, from, limit - RMA_FIXED_MAX_LEN, &mut runs),
            };
            if to == from {
                let detail = format!("no part of the operation fits a message of {limit} bytes");
                return Err(self.error(ErrorClass::Intern, e.name, Some(e.target), detail));
            }
            data.clear();
            if let (Some(buf), false) = (&e.data, matches!(e.deed, Deed::Get)) {
                let (first, len) = match e.deed {
                    Deed::CompareAndSwap => (0, 2 * e.bytes),
                    _ => (from, to - from),
                };
                data.resize(len, 0);
                buf.pack(first, &mut data);
            }
            self.make_room(e, to - from)?;
            self.send_part(e, from, to - from, &runs, &data)?;
            from = to;
        }
        Ok(())
    }

    fn send_part(
        &self,
        e: &Errand<'_>,
        from: usize,
        bytes: usize,
        runs: &[u8],
        data: &[u8],
    ) -> Result<(), Error> {
        let runs = Runs::new(runs)
            .map_err(|fact| self.error(ErrorClass::Intern, e.name, Some(e.target), fact.to_string()))?;
        let lock = self.epoch.access() == access::LOCK_ALL && !self.epoch.detail().unchecked;
        self.engine().with_port(&self.cx, |port| {
            let mut mail = self.mail();
            let mut head = Vec::with_capacity(64);
            if lock && self.seat_of(e.target).is_none() && !mail.peers.entry(e.target).or_default().locked {
                Rma::Lock { exclusive: false }.encode_head(&mut head);
                self.post(port, e, &head, &[])?;
                head.clear();
                mail.peers.entry(e.target).or_default().locked = true;
            }
            let id = if e.deed.reads() { mail.number() } else { 0 };
            let at = e.at;
            let message = match e.deed {
                Deed::Put => Rma::Put { at, runs, data },
                Deed::Get => Rma::Get { id, at, runs },
                Deed::Accumulate(op) => Rma::Accumulate { op: op_id(op), at, runs, data },
                Deed::GetAccumulate(op) => Rma::GetAccumulate { id, op: op_id(op), at, runs, data },
                Deed::CompareAndSwap => Rma::CompareAndSwap { id, at, runs, data },
            };
            message.encode_head(&mut head);
            self.post(port, e, &head, data)?;
            let peer = mail.peers.entry(e.target).or_default();
            match &e.to {
                Some(to) if e.deed.reads() => {
                    peer.reads += 1;
                    let read = Read { to: to.clone(), from, bytes, request: e.request };
                    mail.pending.insert(id, Pending { target: e.target, read: Some(read) });
                    if let Some(request) = e.request {
                        *mail.parts.entry(request).or_default() += 1;
                    }
                }
                _ => peer.unconfirmed += bytes.max(1),
            }
            Ok(())
        })
    }

    fn post(&self, port: &mut Port<'_>, e: &Errand<'_>, head: &[u8], data: &[u8]) -> Result<(), Error> {
        port.send(e.target, self.number as i32, head, data, true).map_err(|error| self.under(e.name, error))
    }

    /// Waits while too much is under way to the target.
    fn make_room(&self, e: &Errand<'_>, bytes: usize) -> Result<(), Error> {
        let (unconfirmed, reads) =
            self.mail().peers.get(&e.target).map_or((0, 0), |p| (p.unconfirmed, p.reads));
        if unconfirmed > 0 && unconfirmed + bytes > IN_FLIGHT_MAX_BYTES {
            self.confirm(e.name, &[e.target])?;
        }
        if reads >= READS_IN_FLIGHT_MAX && e.deed.reads() {
            self.await_word(e.name, e.target, |w| {
                let few = |p: &Peer| p.reads < READS_IN_FLIGHT_MAX;
                w.mail().peers.get(&e.target).is_none_or(few).then_some(())
            })?;
        }
        Ok(())
    }

    /// Waits until everything sent to a target (`None`: to all) is done there and here.
    pub(crate) fn flush_mail(&self, op: &'static str, target: Option<u32>) -> Result<(), Error> {
        if self.dirty.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let open: Vec<u32> = {
            let mail = self.mail();
            let open = mail
                .peers
                .iter()
                .filter(|(t, p)| target.is_none_or(|target| target == **t) && p.unconfirmed > 0);
            open.map(|(t, _)| *t).collect()
        };
        let confirmed = self.confirm(op, &open);
        let read = self.await_reads(op, target);
        let mut mail = self.mail();
        let fault = mail.take_fault(target);
        if target.is_none() {
            let all: Vec<u32> = mail.peers.keys().copied().collect();
            all.into_iter().for_each(|t| mail.tidy(t));
        } else if let Some(target) = target {
            mail.tidy(target);
        }
        if mail.peers.values().all(|p| p.unconfirmed == 0 && p.reads == 0 && p.fault.is_none()) {
            self.dirty.store(0, Ordering::Relaxed);
        }
        fault.and(confirmed).and(read)
    }

    /// Waits for all data that are being read.
    pub(crate) fn await_reads(&self, op: &'static str, target: Option<u32>) -> Result<(), Error> {
        loop {
            let next = {
                let mail = self.mail();
                let mut open = mail
                    .peers
                    .iter()
                    .filter(|(t, p)| target.is_none_or(|target| target == **t) && p.reads > 0);
                open.next().map(|(t, _)| *t)
            };
            let Some(next) = next else { return Ok(()) };
            let done = |w: &Inner| w.mail().peers.get(&next).is_none_or(|p| p.reads == 0).then_some(());
            if let Err(e) = self.await_word(op, next, done) {
                self.give_up_on(next, &e);
                return Err(e);
            }
        }
    }

    /// A target is gone: nothing of it is waited for again.
    fn give_up_on(&self, target: u32, why: &Error) {
        self.engine().with_port(&self.cx, |port| {
            let mut mail = self.mail();
            let lost: Vec<u64> =
                mail.pending.iter().filter(|(_, p)| p.target == target).map(|(id, _)| *id).collect();
            for id in lost {
                if let Some(Pending { read: Some(Read { request: Some(request), .. }), .. }) =
                    mail.pending.remove(&id)
                {
                    mail.parts.remove(&request);
                    port.finish(request, Err(why.clone()));
                }
            }
            mail.peers.remove(&target);
        });
    }

    /// Asks targets whether all is done, all at once, and waits for their word.
    fn confirm(&self, op: &'static str, targets: &[u32]) -> Result<(), Error> {
        self.ask(op, targets, |id| Rma::Flush { id })?;
        Ok(())
    }

    fn ask(
        &self,
        op: &'static str,
        targets: &[u32],
        message: impl Fn(u64) -> Rma<'static>,
    ) -> Result<(), Error> {
        let mut asked = Vec::with_capacity(targets.len());
        let mut first = Ok(());
        self.engine().with_port(&self.cx, |port| {
            for target in targets {
                let mut mail = self.mail();
                let id = mail.number();
                let mut head = Vec::with_capacity(16);
                message(id).encode_head(&mut head);
                match port.send(*target, self.number as i32, &head, &[], false) {
                    Ok(()) => {
                        mail.pending.insert(id, Pending { target: *target, read: None });
                        asked.push((*target, id));
                    }
                    Err(e) => {
                        mail.peers.remove(target);
                        first = Err(self.under(op, e));
                    }
                }
            }
        });
        for (target, id) in asked {
            let done = |w: &Inner| (!w.mail().pending.contains_key(&id)).then_some(());
            match self.await_word(op, target, done) {
                Ok(()) => {
                    if let Some(peer) = self.mail().peers.get_mut(&target) {
                        peer.unconfirmed = 0;
                    }
                }
                Err(e) => {
                    self.give_up_on(target, &e);
                    first = first.and(Err(e));
                }
            }
        }
        first
    }

    /// Locks a target by message, without waiting for it.
    pub(crate) fn mail_lock(&self, target: u32, kind: LockKind) -> Result<(), Error> {
        let mut head = Vec::new();
        Rma::Lock { exclusive: kind == LockKind::Exclusive }.encode_head(&mut head);
        self.engine().with_port(&self.cx, |port| {
            port.send(target, self.number as i32, &head, &[], true).map_err(|e| self.under("lock", e))
        })
    }

    /// Gives locks had by message back; everything is done at the targets.
    pub(crate) fn mail_unlock(&self, targets: &[u32]) -> Result<(), Error> {
        let given = self.ask("unlock", targets, |id| Rma::Unlock { id });
        let mut faults = Ok(());
        for target in targets {
            let read = self.await_reads("unlock", Some(*target));
            let mut mail = self.mail();
            if let Some(peer) = mail.peers.get_mut(target) {
                peer.locked = false;
            }
            faults = faults.and(mail.take_fault(Some(*target))).and(read);
            mail.tidy(*target);
        }
        faults.and(given)
    }

    /// An answer has come.
    pub(crate) fn answered(&self, from: u32, message: Rma<'_>, port: &mut Port<'_>) -> Result<(), String> {
        let mut mail = self.mail();
        let (id, result) = match message {
            Rma::Data { id, data } => (id, Ok(data)),
            Rma::Ack { id } => (id, Ok(&[][..])),
            Rma::Fault { id, class, text } => {
                let class = class_of(class);
                (id, Err(self.error(class, "one-sided", Some(from), text)))
            }
            _ => return Ok(()),
        };
        let Some(pending) = mail.pending.get(&id) else {
            if let Err(e) = result {
                let peer = mail.peers.entry(from).or_default();
                peer.fault.get_or_insert(e);
                self.dirty.store(1, Ordering::Relaxed);
            }
            return Ok(());
        };
        if pending.target != from {
            return Err(format!("an answer to what was asked of rank {}", pending.target));
        }
        let Some(Pending { read, .. }) = mail.pending.remove(&id) else { return Ok(()) };
        let Some(read) = read else {
            if let Err(e) = result {
                mail.peers.entry(from).or_default().fault.get_or_insert(e);
            }
            return Ok(());
        };
        let peer = mail.peers.entry(from).or_default();
        peer.reads = peer.reads.saturating_sub(1);
        let done = match result {
            Ok(data) if data.len() == read.bytes => {
                read.to.buf().unpack(read.from, data);
                Ok(())
            }
            Ok(data) => return Err(format!("{} bytes were asked for, {} came", read.bytes, data.len())),
            Err(e) => Err(e),
        };
        let Some(request) = read.request else {
            if let Err(e) = done {
                peer.fault.get_or_insert(e);
            }
            return Ok(());
        };
        let left = mail.parts.get_mut(&request).map_or(0, |n| {
            *n -= 1;
            *n
        });
        if let Err(e) = done {
            mail.parts.remove(&request);
            port.finish(request, Err(e));
        } else if left == 0 && mail.parts.remove(&request).is_some() {
            port.finish(request, Ok(Status::EMPTY));
        }
        Ok(())
    }
}

/// The runs of an operation from byte `from` of its packed data on that fit `room` bytes together with the
/// data; where they end.
fn flatten(e: &Errand<'_>, from: usize, room: usize, out: &mut Vec<u8>) -> usize {
    let item = e.primitive.map_or(1, Primitive::size);
    let most = room.saturating_sub(RUN_LEN).max(item) / item * item;
    let to = e.bytes.min(from + most);
    if let Some(p) = e.primitive.filter(|p| p.pair().is_some()) {
        // Values with their index are not taken apart.
        let (first, n) = (from / item, (to - from) / item);
        let offset = (first * p.extent()) as i64;
        Run { primitive: p as u8, offset, count: n as u32, stride: 0, repeat: 1 }.encode(out);
        return to;
    }
    let (mut end, mut runs, mut full) = (from, 0, false);
    e.datatype.strips(e.count, from, to, &mut |mut strip: Strip| {
        if strip.repeat == 1 {
            // What is swapped as one is not taken apart, wherever the walk was cut.
            strip.bytes -= strip.bytes % strip.unit;
        }
        let bytes = strip.bytes * strip.repeat;
        let fits = (runs + 1) * RUN_LEN + (end - from) + bytes <= room && runs < RMA_RUNS_MAX;
        full |= !fits || bytes == 0;
        if full {
            return;
        }
        let (primitive, size) = match e.primitive {
            Some(p) => (p as u8, p.size()),
            None => by_unit(strip.unit),
        };
        let (count, repeat) = ((strip.bytes / size) as u32, strip.repeat as u32);
        let (offset, stride) = (strip.offset as i64, strip.stride as i64);
        Run { primitive, offset, count, stride, repeat }.encode(out);
        runs += 1;
        end += bytes;
    });
    end
}

/// A primitive that is swapped as the unit is, and its size.
fn by_unit(unit: usize) -> (u8, usize) {
    match unit {
        2 => (Primitive::U16 as u8, 2),
        4 => (Primitive::U32 as u8, 4),
        8 => (Primitive::U64 as u8, 8),
        _ => (Primitive::Byte as u8, 1),
    }
}

fn prim_id(p: Option<Primitive>) -> u8 {
    p.map_or(0, |p| p as u8)
}

/// Predefined operations by their number on the wire.
const OPS: [Op; 14] = [
    Op::Sum,
    Op::Prod,
    Op::Max,
    Op::Min,
    Op::Land,
    Op::Lor,
    Op::Lxor,
    Op::Band,
    Op::Bor,
    Op::Bxor,
    Op::MinLoc,
    Op::MaxLoc,
    Op::Replace,
    Op::NoOp,
];

fn op_id(op: &Op) -> u8 {
    let same = |o: &Op| std::mem::discriminant(o) == std::mem::discriminant(op);
    OPS.iter().position(same).unwrap_or(OPS.len()) as u8
}

pub(crate) fn op_of(id: u8) -> Option<Op> {
    OPS.get(usize::from(id)).cloned()
}

/// Classes that a target may answer with.
const CLASSES: [ErrorClass; 8] = [
    ErrorClass::RmaRange,
    ErrorClass::RmaSync,
    ErrorClass::RmaAttach,
    ErrorClass::RmaConflict,
    ErrorClass::Op,
    ErrorClass::Type,
    ErrorClass::ProcFailed,
    ErrorClass::Win,
];

fn class_of(class: i32) -> ErrorClass {
    CLASSES.into_iter().find(|c| *c as i32 == class).unwrap_or(ErrorClass::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_numbers() {
        for (i, op) in OPS.iter().enumerate() {
            assert_eq!(usize::from(op_id(op)), i);
            assert_eq!(op_of(i as u8).unwrap().name(), op.name());
        }
        assert!(op_of(14).is_none());
    }

    #[test]
    fn long_and_ragged_types_are_cut_where_they_fit() {
        let double = Datatype::predefined(Primitive::F64);
        let ragged: Vec<isize> = (0..300).map(|i| i * 3 + i % 2).collect();
        let ragged = Datatype::indexed_block(1, &ragged, &double).unwrap();
        for (datatype, count) in [(&double, 1000), (&ragged, 3)] {
            let e = Errand {
                name: "put",
                deed: Deed::Put,
                target: 0,
                at: 0,
                count,
                datatype,
                data: None,
                to: None,
                bytes: count * datatype.size(),
                primitive: None,
                request: None,
            };
            let (mut from, mut parts) = (0, 0);
            while from < e.bytes {
                let mut out = Vec::new();
                let to = flatten(&e, from, 900, &mut out);
                assert!(to > from && out.len() + to - from <= 900);
                let sum: usize =
                    Runs::new(&out).unwrap().iter().map(|r| r.count as usize * r.repeat as usize * 8).sum();
                assert_eq!(sum, to - from);
                (from, parts) = (to, parts + 1);
            }
            assert_eq!(from, e.bytes);
            assert!(parts > 1);
        }
    }
}
