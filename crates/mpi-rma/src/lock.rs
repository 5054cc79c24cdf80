//! Passive target: lock, lock all, flush (MPI 5.0, section 12.5.3).
//!
//! A rank of the node is locked in shared memory, without a message unless somebody off the node waits. Others are
//! locked by messages: the lock travels with the first operation, and nobody waits for it to be granted;
//! the target keeps what follows until it is.

use crate::epoch::{Assert, Held, How, LockKind, access};
use crate::window::{Inner, Window};
use mpi_node::{Entry, Place};
use mpi_p2p::{Error, ErrorClass, Port, record};
use mpi_wire::rma::Rma;
use std::sync::atomic::{Ordering, fence};

/// What a rank that has to wait for a lock is said to be in.
pub(crate) const LOCK: &str = "lock of a window";

impl LockKind {
    pub(crate) fn entry(self) -> Entry {
        match self {
            LockKind::Shared => Entry::Shared,
            LockKind::Exclusive => Entry::Exclusive,
        }
    }
}

impl Window {
    /// Opens a passive epoch on a target.
    ///
    /// # Errors
    /// `RmaSync` when it is locked already or another epoch is open; `Rank`; `ProcFailed` naming a rank that
    /// died with the lock, or the target when that has failed.
    pub fn lock(&self, kind: LockKind, target: u32, assert: Assert) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("lock") }, || None);
        let w = self.alive("lock")?;
        w.may_lock("lock")?;
        w.check_rank("lock", target)?;
        w.check_living("lock", Some(target))?;
        if w.epoch.access() != access::LOCKS {
            w.epoch.check_idle(w, "lock")?;
        }
        if w.epoch.detail().locks.contains_key(&target) {
            return Err(w.error(ErrorClass::RmaSync, "lock", Some(target), "it is locked already"));
        }
        let how = match w.seat_of(target) {
            _ if assert.no_check => How::Unchecked,
            Some(seat) => How::Here(w.enter(seat, target, kind.entry())?),
            None => {
                w.mail_lock(target, kind)?;
                How::Mail
            }
        };
        w.epoch.detail().locks.insert(target, Held { kind, how });
        w.epoch.set_access(access::LOCKS);
        Ok(())
    }

    /// Closes it: everything is done at the target.
    ///
    /// # Errors
    /// `RmaSync` when it is not locked; what an operation of the epoch left behind.
    pub fn unlock(&self, target: u32) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("unlock") }, || None);
        let w = self.alive("unlock")?;
        let (held, last) = {
            let mut detail = w.epoch.detail();
            let held = detail.locks.remove(&target);
            (held, detail.locks.is_empty())
        };
        let Some(held) = held else {
            return Err(w.error(ErrorClass::RmaSync, "unlock", Some(target), "it is not locked"));
        };
        let flushed = match held.how {
            How::Mail => w.mail_unlock(&[target]),
            _ => w.flush_mail("unlock", Some(target)),
        };
        fence(Ordering::SeqCst);
        if let (How::Here(place), Some(seat)) = (held.how, w.seat_of(target)) {
            w.leave(seat, target, place);
        }
        if last {
            w.epoch.set_access(access::NONE);
        }
        flushed.and(w.check_living("unlock", Some(target)))
    }

    /// The kind of lock that this rank holds on a target.
    pub fn locked(&self, target: u32) -> Option<LockKind> {
        match self.0.epoch.access() {
            access::LOCK_ALL => Some(LockKind::Shared),
            _ => self.0.epoch.detail().locks.get(&target).map(|held| held.kind),
        }
    }

    /// Opens a shared passive epoch on every rank. Not collective.
    ///
    /// # Errors
    /// As [`lock`](Window::lock).
    pub fn lock_all(&self, assert: Assert) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("lock-all") }, || None);
        let w = self.alive("lock all")?;
        w.may_lock("lock all")?;
        w.epoch.check_idle(w, "lock all")?;
        w.check_living("lock all", None)?;
        w.epoch.detail().unchecked = assert.no_check;
        if !assert.no_check {
            for seat in 0..w.board.seats() {
                let target = w.board.seat(seat).rank.load(Ordering::Relaxed);
                if let Err(e) = w.enter(seat, target, Entry::Shared) {
                    (0..seat).for_each(|seat| w.leave_shared(seat));
                    return Err(e);
                }
            }
        }
        // Ranks elsewhere are locked with the first operation on them.
        w.epoch.set_access(access::LOCK_ALL);
        Ok(())
    }

    /// Closes it: everything is done at all targets.
    ///
    /// # Errors
    /// `RmaSync` when it is not open; what an operation of the epoch left behind.
    pub fn unlock_all(&self) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("unlock-all") }, || None);
        let w = self.alive("unlock all")?;
        if w.epoch.access() != access::LOCK_ALL {
            return Err(w.error(ErrorClass::RmaSync, "unlock all", None, "outside of an epoch of lock all"));
        }
        let locked = if w.mail.get().is_some() { w.mail().locked() } else { Vec::new() };
        let flushed = w.flush_mail("unlock all", None).and(w.mail_unlock(&locked));
        fence(Ordering::SeqCst);
        if !w.epoch.detail().unchecked {
            (0..w.board.seats()).for_each(|seat| w.leave_shared(seat));
        }
        w.epoch.set_access(access::NONE);
        flushed.and(w.check_living("unlock all", None))
    }

    /// Everything so far is done, here and at the target.
    ///
    /// # Errors
    /// `RmaSync` outside of a passive epoch; what an operation left behind.
    #[inline]
    pub fn flush(&self, target: u32) -> Result<(), Error> {
        if self.is_flushed() {
            fence(Ordering::AcqRel);
            return Ok(());
        }
        self.flush_long(target)
    }

    fn flush_long(&self, target: u32) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("flush") }, || None);
        let w = self.alive("flush")?;
        if w.epoch.access() != access::LOCK_ALL {
            w.epoch.check_passive(w, "flush", Some(target))?;
        }
        // What went by memory is done already, for everybody that looks after this.
        fence(Ordering::AcqRel);
        let flushed =
            if w.dirty.load(Ordering::Relaxed) == 0 { Ok(()) } else { w.flush_mail("flush", Some(target)) };
        flushed.and(w.check_living("flush", Some(target)))
    }

    /// The same for all targets.
    ///
    /// # Errors
    /// As [`flush`](Window::flush).
    #[inline]
    pub fn flush_all(&self) -> Result<(), Error> {
        if self.is_flushed() {
            fence(Ordering::AcqRel);
            return Ok(());
        }
        self.flush_all_long()
    }

    fn flush_all_long(&self) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("flush-all") }, || None);
        let w = self.alive("flush all")?;
        w.epoch.check_passive(w, "flush all", None)?;
        fence(Ordering::AcqRel);
        let flushed =
            if w.dirty.load(Ordering::Relaxed) == 0 { Ok(()) } else { w.flush_mail("flush all", None) };
        flushed.and(w.check_living("flush all", None))
    }

    /// Everything so far is done here: buffers may be used again.
    ///
    /// # Errors
    /// As [`flush`](Window::flush).
    #[inline]
    pub fn flush_local(&self, target: u32) -> Result<(), Error> {
        if self.is_flushed() {
            fence(Ordering::AcqRel);
            return Ok(());
        }
        self.flush_local_long(target)
    }

    fn flush_local_long(&self, target: u32) -> Result<(), Error> {
        let w = self.alive("flush local")?;
        w.epoch.check_passive(w, "flush local", Some(target))?;
        if w.dirty.load(Ordering::Relaxed) == 0 { Ok(()) } else { w.await_reads("flush local", Some(target)) }
    }

    /// The same for all targets.
    ///
    /// # Errors
    /// As [`flush`](Window::flush).
    pub fn flush_local_all(&self) -> Result<(), Error> {
        if self.is_flushed() {
            fence(Ordering::AcqRel);
            return Ok(());
        }
        self.flush_local_all_long()
    }

    fn flush_local_all_long(&self) -> Result<(), Error> {
        let w = self.alive("flush local all")?;
        w.epoch.check_passive(w, "flush local all", None)?;
        if w.dirty.load(Ordering::Relaxed) == 0 { Ok(()) } else { w.await_reads("flush local all", None) }
    }

    /// Orders loads and stores to the window's memory with those of others (`MPI_Win_sync`).
    ///
    /// # Errors
    /// `Win` when it was freed.
    pub fn sync(&self) -> Result<(), Error> {
        self.alive("sync")?;
        fence(Ordering::SeqCst);
        Ok(())
    }
}

impl Inner {
    pub(crate) fn check_rank(&self, op: &'static str, target: u32) -> Result<(), Error> {
        if target < self.cx.size() {
            return Ok(());
        }
        let detail = format!("rank {target} of a window of {} ranks", self.cx.size());
        Err(self.error(ErrorClass::Rank, op, None, detail))
    }

    /// Not after the promise that there would be no lock.
    fn may_lock(&self, op: &'static str) -> Result<(), Error> {
        match self.no_locks.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(self.error(ErrorClass::RmaSync, op, None, "its hint no_locks is true")),
        }
    }

    fn count_locks(&self, by: i32) {
        let locks = &self.my_seat().own.0.locks;
        locks.fetch_add(by as u32, Ordering::Relaxed);
    }

    /// Takes the lock in a seat.
    fn enter(&self, seat: u32, target: u32, entry: Entry) -> Result<Place, Error> {
        let passive = &self.board.seat(seat).lock.0;
        self.count_locks(1);
        let place = passive.lock.queue(entry);
        let me = self.cx.rank();
        if passive.lock.try_enter(place, me) {
            return Ok(place);
        }
        // Who has it is whom the picture of a deadlock should name; many readers have no name.
        let holder = passive.lock.writer().unwrap_or(target);
        let result = self.wait_outside(
            || self.about(LOCK, vec![holder]),
            || passive.lock.try_enter(place, me),
            |port| self.dead_holder(seat, port).map(|rank| self.holder_died("lock", target, rank)),
            &|slice| passive.lock.sleep(place, slice),
        );
        result.map(|()| place)
    }

    /// A rank that died holding the lock in a seat, or waiting for it: whoever is behind waits in vain.
    pub(crate) fn dead_holder(&self, seat: u32, port: &mut Port<'_>) -> Option<u32> {
        let passive = &self.board.seat(seat).lock.0;
        if let Some(rank) = passive.broken.load(Ordering::Relaxed).checked_sub(1) {
            return Some(rank);
        }
        let writer = passive.lock.writer().filter(|rank| port.gone(*rank).is_some());
        let dead = writer.or_else(|| {
            self.dead_neighbour(port, |at| {
                at != self.me && self.board.seat(at).own.0.locks.load(Ordering::Relaxed) > 0
            })
        });
        if let Some(rank) = dead {
            passive.broken.store(rank + 1, Ordering::Relaxed);
        }
        dead
    }

    #[cold]
    pub(crate) fn holder_died(&self, op: &'static str, target: u32, rank: u32) -> Error {
        let detail =
            format!("rank {rank} died holding the lock of rank {target}'s memory, or waiting for it");
        self.error(ErrorClass::ProcFailed, op, Some(target), detail)
    }

    fn leave(&self, seat: u32, target: u32, place: Place) {
        self.count_locks(-1);
        if self.board.seat(seat).lock.0.lock.leave(place) {
            self.tell_keeper(target);
        }
    }

    /// A reader's way out needs no more than that it is one.
    fn leave_shared(&self, seat: u32) {
        let target = self.board.seat(seat).rank.load(Ordering::Relaxed);
        self.leave(seat, target, Place::of_reader());
    }

    /// The target keeps places of ranks elsewhere: it is to look whether one of them may enter.
    #[cold]
    fn tell_keeper(&self, target: u32) {
        self.engine().with_port(&self.cx, |port| {
            if target == self.cx.rank() {
                self.hub.look(port);
            } else {
                let mut head = Vec::new();
                Rma::Look.encode_head(&mut head);
                // One that is gone keeps nothing.
                let _ = port.send(target, self.number as i32, &head, &[], false);
            }
        });
    }
}
