//! The target's side of active messages: what others ask for is done here, on whatever thread makes progress.
//! One of the files with `unsafe`: it reaches this rank's own memory.

use crate::accumulate::{Place, Site, Trouble};
use crate::create::Flavor;
use crate::encode::{op_of, with_head};
use crate::epoch::LockKind;
use crate::limits::DEFERRED_MAX_BYTES;
use crate::memory::{Laid, block_of, read_block, write_block};
use crate::window::Inner;
use mpi_datatype::{Op, Primitive};
use mpi_p2p::{ErrorClass, Port};
use mpi_wire::rma::{Rma, Run, Runs};
use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// An origin that locked this rank's memory by message.
pub(crate) struct Guest {
    place: mpi_node::Place,
    state: Standing,
    /// What came while it waited.
    deferred: VecDeque<Vec<u8>>,
    bytes: usize,
    /// It knows that it waits.
    told: bool,
}

impl Guest {
    /// Keeps a request until the lock is had.
    fn defer(&mut self, body: &[u8]) -> Result<(), String> {
        self.bytes += body.len();
        if self.bytes > DEFERRED_MAX_BYTES {
            return Err(format!("{} bytes of requests before its lock was granted", self.bytes));
        }
        self.deferred.push_back(body.to_vec());
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waits,
    Inside,
    /// Somebody died with the lock: this rank.
    Refused(u32),
}

/// Why an operation was refused.
type Refusal = (ErrorClass, String);

impl Inner {
    /// A message has come. The error says what the peer did that no peer may do.
    pub(crate) fn receive(
        &self,
        from: u32,
        message: Rma<'_>,
        body: &[u8],
        port: &mut Port<'_>,
    ) -> Result<(), String> {
        match message {
            Rma::Data { .. } | Rma::Ack { .. } | Rma::Fault { .. } => {
                return self.answered(from, message, port);
            }
            Rma::Post => *self.mail().posts.entry(from).or_default() += 1,
            Rma::Complete => *self.mail().completes.entry(from).or_default() += 1,
            Rma::Fence { number, round } => _ = self.mail().fences.insert((number, round)),
            Rma::Look => _ = self.look(port),
            Rma::Queued => self.mail().note_queued(from),
            _ => return self.request(from, message, body, port),
        }
        Ok(())
    }

    /// A request, which waits where its origin waits for a lock.
    fn request(&self, from: u32, message: Rma<'_>, body: &[u8], port: &mut Port<'_>) -> Result<(), String> {
        let (mut standing, mut tell) = (Standing::Inside, false);
        if let Some(guest) = self.mail().guests.get_mut(&from) {
            standing = guest.state;
            if standing == Standing::Waits {
                guest.defer(body)?;
                // Who waits for an answer is to know what for.
                tell = answered(message).is_some() && !std::mem::replace(&mut guest.told, true);
            }
        }
        match standing {
            Standing::Inside => self.execute(from, message, port)?,
            Standing::Waits if tell => self.answer(from, &Rma::Queued, port),
            Standing::Waits => {}
            Standing::Refused(dead) => self.refuse(from, message, dead, port),
        }
        Ok(())
    }

    fn execute(&self, from: u32, message: Rma<'_>, port: &mut Port<'_>) -> Result<(), String> {
        match message {
            Rma::Lock { exclusive } => return self.guest_comes(from, exclusive, port),
            Rma::Unlock { id } => {
                self.guest_goes(from, port)?;
                self.answer(from, &Rma::Ack { id }, port);
            }
            Rma::Flush { id } => self.answer(from, &Rma::Ack { id }, port),
            Rma::Put { at, runs, data } => {
                let done = self.write(at, runs, data);
                self.answer_only_refusal(from, 0, done, port);
            }
            Rma::Accumulate { op, at, runs, data } => {
                let done = self.combine_own(op, at, runs, data, None);
                self.answer_only_refusal(from, 0, done, port);
            }
            Rma::Get { id, at, runs } => {
                let done = self.read(at, runs);
                self.answer_with(from, id, done, port);
            }
            Rma::GetAccumulate { id, op, at, runs, data } => {
                let mut old = Vec::new();
                let done = self.combine_own(op, at, runs, data, Some(&mut old)).map(|()| old);
                self.answer_with(from, id, done, port);
            }
            Rma::CompareAndSwap { id, at, runs, data } => {
                let done = self.exchange(at, runs, data);
                self.answer_with(from, id, done, port);
            }
            _ => {}
        }
        Ok(())
    }

    fn answer(&self, to: u32, message: &Rma<'_>, port: &mut Port<'_>) {
        with_head(|head| {
            message.encode_head(head);
            // One that is gone needs no answer.
            let _ = port.send(to, self.number as i32, head, message.data(), false);
        });
    }

    fn answer_with(&self, to: u32, id: u64, done: Result<Vec<u8>, Refusal>, port: &mut Port<'_>) {
        match done {
            Ok(data) => self.answer(to, &Rma::Data { id, data: &data }, port),
            Err(refusal) => self.answer_only_refusal(to, id, Err(refusal), port),
        }
    }

    fn answer_only_refusal(&self, to: u32, id: u64, done: Result<(), Refusal>, port: &mut Port<'_>) {
        if let Err((class, text)) = done {
            self.answer(to, &Rma::Fault { id, class: class as i32, text: &text }, port);
        }
    }

    // ---- locks

    fn guest_comes(&self, from: u32, exclusive: bool, port: &mut Port<'_>) -> Result<(), String> {
        let lock = &self.my_seat().lock.0.lock;
        if self.mail().guests.contains_key(&from) {
            return Err("it locked a window that it has locked".to_owned());
        }
        let kind = if exclusive { LockKind::Exclusive } else { LockKind::Shared };
        let place = lock.queue(kind.entry());
        let mut state = Standing::Inside;
        if !lock.try_enter(place, from) {
            lock.keep();
            // It may have become its turn before it was said that somebody waits.
            if lock.try_enter(place, from) {
                lock.kept_no_more();
            } else {
                state = Standing::Waits;
                port.look_again();
            }
        }
        let guest = Guest { place, state, deferred: VecDeque::new(), bytes: 0, told: false };
        self.mail().guests.insert(from, guest);
        Ok(())
    }

    fn guest_goes(&self, from: u32, port: &mut Port<'_>) -> Result<(), String> {
        let Some(guest) = self.mail().guests.remove(&from) else {
            return Err("it unlocked a window that it has not locked".to_owned());
        };
        let lock = &self.my_seat().lock.0.lock;
        if guest.state == Standing::Inside && lock.leave(guest.place) {
            port.look_again();
        }
        Ok(())
    }

    /// Lets in whose turn it is. True while somebody waits.
    pub(crate) fn look(&self, port: &mut Port<'_>) -> bool {
        let passive = &self.my_seat().lock.0;
        let waits = loop {
            let mut entered = None;
            let mut waits = false;
            let mut mail = self.mail();
            for (origin, guest) in &mut mail.guests {
                if guest.state != Standing::Waits {
                    continue;
                }
                if passive.lock.try_enter(guest.place, *origin) {
                    passive.lock.kept_no_more();
                    guest.state = Standing::Inside;
                    entered = Some((*origin, std::mem::take(&mut guest.deferred)));
                    break;
                }
                waits = true;
            }
            drop(mail);
            let Some((origin, deferred)) = entered else { break waits };
            if port.gone(origin).is_some() {
                // It died while it waited, so it did nothing that others would have to know of.
                let _ = self.guest_goes(origin, port);
                continue;
            }
            for body in deferred {
                if let Ok(message) = Rma::decode(&body) {
                    let _ = self.execute(origin, message, port);
                }
            }
        };
        if waits {
            if let Some(dead) = self.dead_guest(port) {
                self.refuse_all(dead, port);
                return false;
            }
        }
        waits
    }

    /// A rank that died inside.
    fn dead_guest(&self, port: &mut Port<'_>) -> Option<u32> {
        let passive = &self.my_seat().lock.0;
        if let Some(dead) = passive.broken.load(Ordering::Relaxed).checked_sub(1) {
            return Some(dead);
        }
        let inside: Vec<u32> = {
            let mail = self.mail();
            mail.guests.iter().filter(|(_, g)| g.state == Standing::Inside).map(|(o, _)| *o).collect()
        };
        let dead = inside.into_iter().chain(passive.lock.writer()).find(|rank| port.gone(*rank).is_some())?;
        passive.broken.store(dead + 1, Ordering::Relaxed);
        Some(dead)
    }

    fn refuse_all(&self, dead: u32, port: &mut Port<'_>) {
        let mut all = Vec::new();
        for (origin, guest) in &mut self.mail().guests {
            if guest.state == Standing::Waits {
                guest.state = Standing::Refused(dead);
                all.push((*origin, std::mem::take(&mut guest.deferred)));
            }
        }
        for (origin, deferred) in all {
            for body in deferred {
                if let Ok(message) = Rma::decode(&body) {
                    self.refuse(origin, message, dead, port);
                }
            }
        }
    }

    fn refuse(&self, to: u32, message: Rma<'_>, dead: u32, port: &mut Port<'_>) {
        if let Rma::Unlock { .. } = message {
            self.mail().guests.remove(&to);
        }
        let id = answered(message).unwrap_or(0);
        let text = format!("rank {dead} died holding the lock of rank {}'s memory", self.cx.rank());
        self.answer(to, &Rma::Fault { id, class: ErrorClass::ProcFailed as i32, text: &text }, port);
    }

    // ---- memory

    /// Address of byte 0 and the displacement in bytes from there.
    fn origin_of(&self, at: u64) -> (*mut u8, i128) {
        match self.flavor {
            Flavor::Dynamic => (std::ptr::with_exposed_provenance_mut(0), i128::from(at)),
            _ => (self.base, i128::from(at) * self.unit as i128),
        }
    }

    /// Where a block lies and what it is made of, when it is inside this rank's memory.
    fn block(&self, run: &Run, i: u32, at: u64) -> Result<(*mut u8, usize, Primitive), Refusal> {
        let (base, from) = self.origin_of(at);
        let size = if self.flavor == Flavor::Dynamic { usize::MAX } else { self.size };
        let found = block_of(run, i, from, size).filter(|(offset, p)| {
            self.flavor != Flavor::Dynamic || self.is_attached(*offset, run.count as usize * p.extent())
        });
        match found {
            Some((offset, p)) => Ok((base, offset, p)),
            None => Err(self.outside(run, at)),
        }
    }

    /// All of some bytes are attached, be it in several pieces that touch.
    pub(crate) fn is_attached(&self, from: usize, len: usize) -> bool {
        let all = self.attached.read().unwrap_or_else(PoisonError::into_inner);
        let (mut at, mut left) = (from, len);
        // No two pieces overlap, so each step takes another one.
        while let Some((a, n)) =
            all.iter().find(|(a, n)| at >= *a && (at - a < *n || (left == 0 && at - a == *n)))
        {
            let here = n - (at - a);
            if left <= here {
                return true;
            }
            (at, left) = (at + here, left - here);
        }
        false
    }

    #[cold]
    fn outside(&self, run: &Run, at: u64) -> Refusal {
        let size = Primitive::from_id(run.primitive.into()).map_or(0, Primitive::extent);
        let len = u64::from(run.count) * size as u64;
        match self.flavor {
            Flavor::Dynamic => (
                ErrorClass::RmaRange,
                format!("{len} bytes at {at:#x} (and {} behind) are not attached", run.offset),
            ),
            _ => (
                ErrorClass::RmaRange,
                format!(
                    "displacement {at} (units of {} bytes) and {} bytes behind: {len} bytes in a part of {}",
                    self.unit, run.offset, self.size
                ),
            ),
        }
    }

    /// Calls `f` for every block, with its bytes of `len` in all that the message carries or asks for.
    fn each_block(
        &self,
        at: u64,
        runs: Runs<'_>,
        len: Option<usize>,
        f: &mut dyn FnMut(*mut u8, usize, Primitive, usize, usize) -> Result<(), Refusal>,
    ) -> Result<usize, Refusal> {
        let wrong = |why: &str| (ErrorClass::Type, why.to_owned());
        let mut done = 0_usize;
        for run in runs.iter() {
            for i in 0..run.repeat {
                let (base, offset, p) = self.block(&run, i, at)?;
                let bytes = run.count as usize * p.size();
                let end = done.checked_add(bytes).ok_or_else(|| wrong("too many bytes"))?;
                if end > len.unwrap_or(crate::limits::MESSAGE_MAX_BYTES) || run.count == 0 {
                    return Err(wrong("the data are not as long as their description"));
                }
                f(base, offset, p, run.count as usize, done)?;
                done = end;
            }
        }
        match len {
            Some(len) if len != done => Err(wrong("the data are longer than their description")),
            _ => Ok(done),
        }
    }

    fn write(&self, at: u64, runs: Runs<'_>, data: &[u8]) -> Result<(), Refusal> {
        let mut write = |base, offset, p: Primitive, count: usize, done: usize| {
            // SAFETY: `block` found the elements inside this rank's memory.
            unsafe { write_block(base, offset, p, count, &data[done..done + count * p.size()]) };
            Ok(())
        };
        self.each_block(at, runs, Some(data.len()), &mut write).map(|_| ())
    }

    fn read(&self, at: u64, runs: Runs<'_>) -> Result<Vec<u8>, Refusal> {
        let mut out = Vec::new();
        let mut read = |base, offset, p: Primitive, count: usize, done: usize| {
            out.resize(done + count * p.size(), 0);
            // SAFETY: as in `write`.
            unsafe { read_block(base, offset, p, count, &mut out[done..]) };
            Ok(())
        };
        self.each_block(at, runs, None, &mut read)?;
        Ok(out)
    }

    fn own_site(&self, base: *mut u8) -> Site<'_> {
        let seat = self.my_seat();
        Site {
            board: &self.board,
            seat,
            place: Place::Here(base),
            who: self.cx.rank(),
            own: &seat.own.0,
            lane: 1,
            threads: false,
        }
    }

    fn combine_own(
        &self,
        op: u8,
        at: u64,
        runs: Runs<'_>,
        data: &[u8],
        mut old: Option<&mut Vec<u8>>,
    ) -> Result<(), Refusal> {
        let op = op_of(op).ok_or_else(|| (ErrorClass::Op, format!("operation number {op}")))?;
        let none = matches!(op, Op::NoOp);
        let mut combine = |base, offset, p: Primitive, count: usize, done: usize| {
            if !op.defined_on(p) {
                return Err((ErrorClass::Op, format!("{} is not defined on {}", op.name(), p.name())));
            }
            let mut input = match none {
                true => Laid::new(p, 0),
                false => Laid::of_packed(p, count, &data[done..done + count * p.size()]),
            };
            let mut result = old.is_some().then(|| Laid::new(p, count));
            let to = result.as_mut().map(Laid::ptr);
            // SAFETY: `block` found the elements inside this rank's memory; the temporaries have as many.
            let done = unsafe { self.own_site(base).combine(&op, p, offset, count, input.ptr(), to) };
            done.map_err(refusal)?;
            if let (Some(old), Some(mut result)) = (old.as_deref_mut(), result) {
                old.extend_from_slice(&result.pack());
            }
            Ok(())
        };
        let len = if none { None } else { Some(data.len()) };
        self.each_block(at, runs, len, &mut combine).map(|_| ())
    }

    fn exchange(&self, at: u64, runs: Runs<'_>, data: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut old = Vec::new();
        let mut swap = |base, offset, p: Primitive, count: usize, done: usize| {
            let size = p.size();
            if count != 1 || done != 0 || data.len() != 2 * size || p.pair().is_some() {
                return Err((ErrorClass::Type, "compare and swap is of one element".to_owned()));
            }
            let mut compare = Laid::of_packed(p, 1, &data[..size]);
            let mut new = Laid::of_packed(p, 1, &data[size..]);
            let mut result = Laid::new(p, 1);
            let (c, n, r) = (compare.ptr(), new.ptr(), result.ptr());
            // SAFETY: as in `combine`.
            unsafe { self.own_site(base).compare_and_swap(p, offset, c, n, r) }.map_err(refusal)?;
            old = result.pack();
            Ok(())
        };
        self.each_block(at, runs, None, &mut swap)?;
        Ok(old)
    }
}

/// The number under which a request's origin waits for an answer.
fn answered(request: Rma<'_>) -> Option<u64> {
    match request {
        Rma::Unlock { id }
        | Rma::Flush { id }
        | Rma::Get { id, .. }
        | Rma::GetAccumulate { id, .. }
        | Rma::CompareAndSwap { id, .. } => Some(id),
        _ => None,
    }
}

fn refusal(trouble: Trouble) -> Refusal {
    match trouble {
        Trouble::Dead(rank) => (ErrorClass::ProcFailed, format!("rank {rank} died inside of an accumulate")),
        Trouble::Kernel(error) => (ErrorClass::Other, error.to_string()),
    }
}
