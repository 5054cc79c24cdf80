//! Active target: fence, and post, start, complete, wait (MPI 5.0, sections 12.5.1 and 12.5.2).

use crate::epoch::{Assert, access};
use crate::lock::LOCK;
use crate::window::{Inner, Window};
use mpi_p2p::{Error, ErrorClass, Port, record};
use mpi_wire::rma::Rma;
use std::sync::atomic::{Ordering, fence};

impl Window {
    /// Closes the epoch before and opens one after, of access and of exposure, on all ranks. Collective.
    ///
    /// # Errors
    /// `RmaSync` inside of an epoch of another kind; `ProcFailed`; what an operation of the epoch left behind.
    pub fn fence(&self, assert: Assert) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("fence") }, || None);
        let w = self.alive("fence")?;
        if !matches!(w.epoch.access(), access::NONE | access::FENCE | access::FENCE_USED) {
            w.epoch.check_idle(w, "fence")?;
        }
        if w.epoch.is_exposed() {
            return Err(w.error(ErrorClass::RmaSync, "fence", None, "inside of an epoch of post"));
        }
        let flushed = match w.dirty.load(Ordering::Relaxed) {
            0 => Ok(()),
            _ => w.flush_mail("fence", None),
        };
        w.meet()?;
        w.epoch.set_access(if assert.no_succeed { access::NONE } else { access::FENCE });
        flushed
    }

    /// Exposes this rank's memory to the ranks of a group. Does not wait.
    ///
    /// # Errors
    /// `RmaSync` when it is exposed already; `Rank`; `ProcFailed`.
    pub fn post(&self, origins: &[u32], assert: Assert) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("post") }, || None);
        let w = self.alive("post")?;
        origins.iter().try_for_each(|rank| w.check_rank("post", *rank))?;
        if w.epoch.is_exposed() {
            return Err(w.error(ErrorClass::RmaSync, "post", None, "inside of an epoch of post"));
        }
        w.epoch.detail().origins = origins.into();
        w.epoch.set_exposed(true);
        fence(Ordering::SeqCst);
        if assert.no_check {
            // The matching start promised the same, and waits for nothing.
            return Ok(());
        }
        w.tell_all("post", origins, Rma::Post)
    }

    /// Opens access to the memory of the ranks of a group, which they [`post`](Window::post).
    ///
    /// # Errors
    /// `RmaSync` when an access epoch is open; `Rank`; `ProcFailed`.
    pub fn start(&self, targets: &[u32], assert: Assert) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("start epoch") }, || None);
        let w = self.alive("start")?;
        targets.iter().try_for_each(|rank| w.check_rank("start", *rank))?;
        w.epoch.check_idle(w, "start")?;
        w.epoch.detail().targets = targets.into();
        w.epoch.set_access(access::START);
        if !assert.no_check {
            for target in targets {
                w.await_word("start", *target, |w| {
                    let mut mail = w.mail();
                    take_one(mail.posts.entry(*target).or_default())
                })?;
            }
        }
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Ends the access epoch: everything has left; it is done at the targets when they return from
    /// [`wait`](Window::wait).
    ///
    /// # Errors
    /// `RmaSync` outside of an epoch of start; what an operation of the epoch left behind.
    pub fn complete(&self) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("complete") }, || None);
        let w = self.alive("complete")?;
        if w.epoch.access() != access::START {
            return Err(w.error(ErrorClass::RmaSync, "complete", None, "outside of an epoch of start"));
        }
        let targets = std::mem::take(&mut w.epoch.detail().targets);
        w.epoch.set_access(access::NONE);
        let flushed = w.flush_mail("complete", None);
        fence(Ordering::SeqCst);
        w.tell_all("complete", &targets, Rma::Complete).and(flushed)
    }

    /// Waits until the ranks of the exposure's group have completed their accesses.
    ///
    /// # Errors
    /// `RmaSync` outside of an epoch of post; `ProcFailed`.
    pub fn wait(&self) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("wait epoch") }, || None);
        let w = self.exposed("wait")?;
        let origins = w.epoch.detail().origins.clone();
        for origin in &origins {
            let came = |w: &Inner| w.mail().completes.get(origin).is_some_and(|n| *n > 0).then_some(());
            w.await_word("wait", *origin, came)?;
        }
        self.end_exposure();
        Ok(())
    }

    /// As [`wait`](Window::wait) without waiting: true when the exposure is over.
    ///
    /// # Errors
    /// As there.
    pub fn test(&self) -> Result<bool, Error> {
        let w = self.exposed("test")?;
        w.engine().progress();
        let over = {
            let (detail, mail) = (w.epoch.detail(), w.mail());
            detail.origins.iter().all(|origin| mail.completes.get(origin).is_some_and(|n| *n > 0))
        };
        if over {
            self.end_exposure();
        }
        Ok(over)
    }

    fn exposed(&self, op: &'static str) -> Result<&Inner, Error> {
        let w = self.alive(op)?;
        match w.epoch.is_exposed() {
            true => Ok(w),
            false => Err(w.error(ErrorClass::RmaSync, op, None, "outside of an epoch of post")),
        }
    }

    fn end_exposure(&self) {
        let w = &*self.0;
        let origins = std::mem::take(&mut w.epoch.detail().origins);
        let mut mail = w.mail();
        for origin in origins {
            let _ = take_one(mail.completes.entry(origin).or_default());
        }
        w.epoch.set_exposed(false);
        fence(Ordering::SeqCst);
    }
}

fn take_one(count: &mut u32) -> Option<()> {
    *count = count.checked_sub(1)?;
    Some(())
}

impl Inner {
    /// Waits until all ranks are here.
    fn meet(&self) -> Result<(), Error> {
        match self.cx.size() {
            1 => Ok(()),
            _ if self.all_here => self.meet_here(),
            _ => self.meet_by_mail(),
        }
    }

    fn meet_here(&self) -> Result<(), Error> {
        let gate = &self.board.head().gate;
        let own = &self.my_seat().own.0.fences;
        let number = own.load(Ordering::Relaxed).wrapping_add(1);
        // For those who ask who is missing.
        own.store(number, Ordering::Relaxed);
        let absent = || {
            let seats = (0..self.board.seats()).map(|at| self.board.seat(at));
            let behind =
                seats.filter(|s| (s.own.0.fences.load(Ordering::Relaxed).wrapping_sub(number) as i32) < 0);
            behind.map(|s| s.rank.load(Ordering::Relaxed)).collect()
        };
        let turn = gate.arrive(self.me, self.board.seats(), self.full_fence);
        self.wait_outside(
            || self.about("fence", absent()),
            || gate.is_open(turn),
            |port| {
                let dead = self.dead_neighbour(port, |at| at != self.me)?;
                Some(self.died("fence", dead, "before it came to the fence"))
            },
            &|slice| gate.sleep(turn, slice, self.full_fence),
        )
    }

    /// A dissemination barrier (Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization", 1988).
    fn meet_by_mail(&self) -> Result<(), Error> {
        let number = self.fences.fetch_add(1, Ordering::Relaxed);
        let (rank, size) = (self.cx.rank(), self.cx.size());
        let (mut distance, mut round) = (1, 0);
        while distance < size {
            let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
            self.tell_all("fence", &[to], Rma::Fence { number, round })?;
            self.await_word("fence", from, |w| w.mail().fences.remove(&(number, round)).then_some(()))?;
            distance *= 2;
            round += 1;
        }
        Ok(())
    }

    /// Sends a short message to each of some ranks.
    fn tell_all(&self, op: &'static str, ranks: &[u32], message: Rma<'_>) -> Result<(), Error> {
        let mut head = Vec::new();
        message.encode_head(&mut head);
        let me = self.cx.rank();
        self.engine().with_port(&self.cx, |port| {
            for rank in ranks {
                if *rank == me {
                    // To oneself it is said at once.
                    let _ = self.receive(me, message, &head, port);
                    port.wake();
                } else {
                    port.send(*rank, self.number as i32, &head, &[], false).map_err(|e| self.under(op, e))?;
                }
            }
            Ok(())
        })
    }

    /// The same error under an operation's name.
    #[cold]
    pub(crate) fn under(&self, op: &'static str, mut error: Error) -> Error {
        error.op = op;
        error.detail = format!("{}: {}", self.title(), error.detail);
        error
    }

    /// Waits for something that a message from `peer` brings.
    pub(crate) fn await_word<R>(
        &self,
        op: &'static str,
        peer: u32,
        f: impl FnMut(&Inner) -> Option<R>,
    ) -> Result<R, Error> {
        self.await_word_after(|_| (), op, peer, f)
    }

    /// The same after `first`, which mostly sends what is answered.
    #[inline]
    pub(crate) fn await_word_after<R>(
        &self,
        first: impl FnOnce(&mut Port<'_>),
        op: &'static str,
        peer: u32,
        mut f: impl FnMut(&Inner) -> Option<R>,
    ) -> Result<R, Error> {
        // Where the lock is not had yet, that is what is waited for, whatever call it is.
        let about = || self.about(if self.mail().is_queued(peer) { LOCK } else { op }, vec![peer]);
        self.engine().wait_after(&self.cx, first, about, |port: &mut Port<'_>| {
            if let Some(result) = f(self) {
                return Some(Ok(result));
            }
            let why = port.gone(peer)?;
            Some(Err(self.error(ErrorClass::ProcFailed, op, Some(peer), why)))
        })
    }
}
