//! The origin's side of active messages: what is under way, and waiting for it.

use crate::encode::{class_of, flatten, op_id, pair_run, with_head, with_runs};
use crate::epoch::LockKind;
use crate::limits::{
    IN_FLIGHT_MAX_BYTES, MESSAGE_MAX_BYTES, READS_IN_FLIGHT_MAX, SMALL_MAX_BYTES, SMALL_MESSAGE_BYTES,
};
use crate::target::Guest;
use crate::window::Inner;
use mpi_datatype::{Datatype, Op, Primitive, RecvMem, SendBuf};
use mpi_p2p::{Error, ErrorClass, Port, RequestId, Status};
use mpi_wire::rma::{RMA_FIXED_MAX_LEN, Rma, Runs};
use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::Ordering;

/// Keys are ranks and own numbers, which nobody chooses to collide.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Spread>>;

/// Multiplies by the golden ratio, after Knuth.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

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
    /// Targets that said that what they were asked waits for its lock.
    queued: Vec<u32>,
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

    /// A target says that what it was asked waits for its lock.
    pub fn note_queued(&mut self, target: u32) {
        if !self.is_queued(target) {
            self.queued.push(target);
        }
    }

    pub fn is_queued(&self, target: u32) -> bool {
        self.queued.contains(&target)
    }

    /// Targets that were written to and have not said since that all is done.
    fn unconfirmed(&self) -> Vec<u32> {
        self.peers.iter().filter(|(_, p)| p.unconfirmed > 0).map(|(t, _)| *t).collect()
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
        let sent = self.send_errand(e);
        if let (Err(error), true) = (&sent, e.deed.reads()) {
            // The caller takes its memory back: what a first part brings must not be put there.
            self.give_up_on(e.target, error);
        }
        sent
    }

    fn send_errand(&self, e: &Errand<'_>) -> Result<(), Error> {
        if e.bytes <= SMALL_MAX_BYTES && self.run_small(e)? {
            return Ok(());
        }
        let limit = self.engine().with_port(&self.cx, |port| port.limit(e.target));
        let limit = limit.map_err(|error| self.under(e.name, error))?.min(MESSAGE_MAX_BYTES);
        let (mut from, mut runs, mut data) = (0, Vec::new(), Vec::new());
        while from < e.bytes {
            runs.clear();
            let to = match e.deed {
                // Comparand and new value travel together.
                Deed::CompareAndSwap => {
                    pair_run(e).encode(&mut runs);
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

    /// As [`run_errand`](Inner::run_errand) for little data in one message, if there is room for it now. True when it
    /// was sent.
    fn run_small(&self, e: &Errand<'_>) -> Result<bool, Error> {
        with_runs(|runs| self.run_small_by(e, runs))
    }

    fn run_small_by(&self, e: &Errand<'_>, runs: &mut Vec<u8>) -> Result<bool, Error> {
        let (mut packed, bytes) = (None, e.bytes);
        let mut len = bytes;
        match e.deed {
            Deed::CompareAndSwap => {
                pair_run(e).encode(runs);
                len = 2 * bytes;
            }
            _ if flatten(e, 0, SMALL_MESSAGE_BYTES - RMA_FIXED_MAX_LEN, runs) < bytes => {
                return Ok(false);
            }
            _ => {}
        }
        let data = match &e.data {
            Some(buf) if !matches!(e.deed, Deed::Get) => match buf.contiguous() {
                Some(data) if data.len() == len => data,
                _ => {
                    let packed = &mut packed.insert([0; 2 * SMALL_MAX_BYTES])[..len];
                    buf.pack(0, packed);
                    packed
                }
            },
            _ => &[],
        };
        let runs = self.checked(e, runs)?;
        self.engine().with_port(&self.cx, |port| {
            let mut mail = self.mail();
            let peer = mail.peers.get(&e.target);
            let full = peer.is_some_and(|p| {
                p.unconfirmed + bytes > IN_FLIGHT_MAX_BYTES || p.reads >= READS_IN_FLIGHT_MAX
            });
            let limit = port.limit(e.target).map_err(|error| self.under(e.name, error))?;
            if full || limit < SMALL_MESSAGE_BYTES {
                return Ok(false);
            }
            self.send_inside(port, &mut mail, e, 0, bytes, runs, data).map(|()| true)
        })
    }

    fn checked<'r>(&self, e: &Errand<'_>, runs: &'r [u8]) -> Result<Runs<'r>, Error> {
        Runs::new(runs)
            .map_err(|fact| self.error(ErrorClass::Intern, e.name, Some(e.target), fact.to_string()))
    }

    fn send_part(
        &self,
        e: &Errand<'_>,
        from: usize,
        bytes: usize,
        runs: &[u8],
        data: &[u8],
    ) -> Result<(), Error> {
        let runs = self.checked(e, runs)?;
        self.engine()
            .with_port(&self.cx, |port| self.send_inside(port, &mut self.mail(), e, from, bytes, runs, data))
    }

    /// Sends a message of an operation, behind the lock that it needs in an epoch of lock all.
    #[allow(clippy::too_many_arguments, reason = "the parts of one message")]
    fn send_inside(
        &self,
        port: &mut Port<'_>,
        mail: &mut Mail,
        e: &Errand<'_>,
        from: usize,
        bytes: usize,
        runs: Runs<'_>,
        data: &[u8],
    ) -> Result<(), Error> {
        with_head(|head| self.send_inside_by(head, port, mail, e, from, bytes, runs, data))
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one message")]
    #[inline]
    fn send_inside_by(
        &self,
        head: &mut Vec<u8>,
        port: &mut Port<'_>,
        mail: &mut Mail,
        e: &Errand<'_>,
        from: usize,
        bytes: usize,
        runs: Runs<'_>,
        data: &[u8],
    ) -> Result<(), Error> {
        let reads = e.deed.reads();
        let peer = mail.peers.entry(e.target).or_default();
        // A lone read leaves at once: all that is left to do here is done while it is under way. What follows it is held
        // back and leaves together; and so is a lone write, whose flush follows.
        let more = !reads || peer.reads > 0 || peer.unconfirmed > 0;
        let lock = !peer.locked && self.epoch.is_locked_all() && self.seat_of(e.target).is_none();
        if lock && !self.epoch.detail().unchecked {
            Rma::Lock { exclusive: false }.encode_head(head);
            self.post(port, e, head, &[], true)?;
            head.clear();
            peer.locked = true;
        }
        match reads {
            true => peer.reads += 1,
            false => peer.unconfirmed += bytes.max(1),
        }
        let id = if reads { mail.number() } else { 0 };
        let at = e.at;
        let message = match e.deed {
            Deed::Put => Rma::Put { at, runs, data },
            Deed::Get => Rma::Get { id, at, runs },
            Deed::Accumulate(op) => Rma::Accumulate { op: op_id(op), at, runs, data },
            Deed::GetAccumulate(op) => Rma::GetAccumulate { id, op: op_id(op), at, runs, data },
            Deed::CompareAndSwap => Rma::CompareAndSwap { id, at, runs, data },
        };
        message.encode_head(head);
        if let Err(error) = self.post(port, e, head, data, more) {
            if let Some(peer) = mail.peers.get_mut(&e.target) {
                match reads {
                    true => peer.reads -= 1,
                    false => peer.unconfirmed -= bytes.max(1),
                }
            }
            return Err(error);
        }
        if let (Some(to), true) = (&e.to, reads) {
            let read = Read { to: to.clone(), from, bytes, request: e.request };
            mail.pending.insert(id, Pending { target: e.target, read: Some(read) });
            if let Some(request) = e.request {
                *mail.parts.entry(request).or_default() += 1;
            }
        }
        Ok(())
    }

    fn post(
        &self,
        port: &mut Port<'_>,
        e: &Errand<'_>,
        head: &[u8],
        data: &[u8],
        more: bool,
    ) -> Result<(), Error> {
        port.send(e.target, self.number as i32, head, data, more).map_err(|error| self.under(e.name, error))
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
        let confirmed = match target {
            Some(target) => {
                let asks = self.mail().peers.get(&target).is_some_and(|p| p.unconfirmed > 0);
                if asks { self.confirm(op, &[target]) } else { Ok(()) }
            }
            None => {
                let open = self.mail().unconfirmed();
                self.confirm(op, &open)
            }
        };
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
        let mut first = Ok(());
        loop {
            let next = {
                let mail = self.mail();
                let mut open = mail
                    .peers
                    .iter()
                    .filter(|(t, p)| target.is_none_or(|target| target == **t) && p.reads > 0);
                open.next().map(|(t, _)| *t)
            };
            let Some(next) = next else { return first };
            let done = |w: &Inner| w.mail().peers.get(&next).is_none_or(|p| p.reads == 0).then_some(());
            if let Err(e) = self.await_word(op, next, done) {
                // The memory of all reads is the caller's again when this returns: the others are waited for.
                self.give_up_on(next, &e);
                first = first.and(Err(e));
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
        self.ask(op, targets, |id| Rma::Flush { id })
    }

    fn ask(
        &self,
        op: &'static str,
        targets: &[u32],
        message: impl Fn(u64) -> Rma<'static>,
    ) -> Result<(), Error> {
        if let [target] = targets {
            return self.ask_one(op, *target, message);
        }
        let asked: Vec<Result<u64, Error>> = self.engine().with_port(&self.cx, |port| {
            targets.iter().map(|target| self.put_question(port, op, *target, &message)).collect()
        });
        let mut first = Ok(());
        for (target, id) in targets.iter().zip(asked) {
            let done = |w: &Inner, id: u64| (!w.mail().pending.contains_key(&id)).then_some(());
            let word = id.and_then(|id| self.await_word(op, *target, |w| done(w, id)));
            first = first.and(self.heard(*target, word));
        }
        first
    }

    fn ask_one(
        &self,
        op: &'static str,
        target: u32,
        message: impl Fn(u64) -> Rma<'static>,
    ) -> Result<(), Error> {
        // No question has the number 0.
        let (id, refused) = (Cell::new(0), Cell::new(None));
        let question = |port: &mut Port<'_>| match self.put_question(port, op, target, &message) {
            Ok(number) => id.set(number),
            Err(e) => refused.set(Some(e)),
        };
        let done = |w: &Inner| (!w.mail().pending.contains_key(&id.get())).then_some(());
        let word = self.await_word_after(question, op, target, done);
        self.heard(target, refused.take().map_or(word, Err))
    }

    /// Sends what a target answers, under the number that is returned.
    fn put_question(
        &self,
        port: &mut Port<'_>,
        op: &'static str,
        target: u32,
        message: &impl Fn(u64) -> Rma<'static>,
    ) -> Result<u64, Error> {
        let mut mail = self.mail();
        let id = mail.number();
        let sent = with_head(|head| {
            message(id).encode_head(head);
            port.send(target, self.number as i32, head, &[], false)
        });
        sent.map_err(|e| self.under(op, e))?;
        mail.pending.insert(id, Pending { target, read: None });
        Ok(id)
    }

    /// A target's word has come: everything sent to it before is done; or it is gone.
    fn heard(&self, target: u32, word: Result<(), Error>) -> Result<(), Error> {
        match &word {
            Ok(()) => {
                if let Some(peer) = self.mail().peers.get_mut(&target) {
                    peer.unconfirmed = 0;
                }
            }
            Err(e) => self.give_up_on(target, e),
        }
        word
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
        // Whatever it answers, it does so inside of the lock.
        mail.queued.retain(|target| *target != from);
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
