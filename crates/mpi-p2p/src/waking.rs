//! Operations that nobody waits for in a call: their completion wakes a task, their memory is had when the message is
//! there, or stays with them when their starter has gone.
//!
//! While a task awaits an operation the engine counts it among those that need progress without calls: the helper
//! thread makes it, and calls the waker, where no thread of the rank is inside.

use crate::context::Context;
use crate::core::{Leftover, State};
use crate::engine::Engine;
use crate::memory::{self, Memory};
use crate::request::{Alloc, AllocFn, Awaited, RequestId, flag};
use crate::status::{Source, Tag};
use crate::store::{Body, Envelope, Kept, Message};
use crate::{Error, ErrorClass, Status};
use mpi_datatype::Datatype;
use std::any::Any;
use std::task::{Poll, Waker};
use std::time::Instant;

impl Engine {
    /// The result of a request, which is gone then; until it is complete, `waker` is called when it is. One waker
    /// for each request: the latest counts.
    pub fn poll_wait(&self, id: RequestId, waker: &Waker) -> Poll<Result<Status, Error>> {
        // To clone a waker is code of the program's, which may call the engine: it is done without the lock.
        let mut clone = None;
        loop {
            let mut core = self.enter();
            core.state.flush_owed();
            let mut found = core.state.take(id);
            if found.is_none() {
                core.state.seek();
                core.poll_all();
                found = core.state.take(id);
            }
            let noted = found.is_some() || core.state.wake_when_done(id, waker, &mut clone);
            self.shared.leave(core);
            match found {
                Some(result) => return Poll::Ready(result),
                None if noted => return Poll::Pending,
                None => clone = Some(waker.clone()),
            }
        }
    }

    /// Starts a receive whose size is known only when its message is here: `give` is called then with the number of
    /// bytes, in the engine, which it must not call. It returns where they go, or null when there is no memory; it
    /// is not called for an empty message.
    ///
    /// # Errors
    /// Rank. All else is the request's: Truncate when the bytes are no whole number of elements, NoMem.
    ///
    /// # Safety
    /// What `give` returns is valid for writes of so many bytes' elements until the request is complete.
    pub unsafe fn irecv_alloc(
        &self,
        cx: &Context,
        source: Source,
        tag: Tag,
        datatype: &Datatype,
        give: Box<AllocFn>,
    ) -> Result<RequestId, Error> {
        let mut core = self.enter();
        let nothing = memory::given(std::ptr::null_mut(), 0, datatype);
        let result = core.state.new_recv(&cx.face, source.raw(), tag.raw(), &nothing).map(|i| {
            let slot = &mut core.state.requests[i];
            slot.memory = Memory::LATE;
            slot.extra().recv = None;
            slot.extra().alloc = Some(Alloc { datatype: datatype.clone(), give });
            let id = core.state.requests.id(i);
            core.state.match_or_post(i);
            id
        });
        self.shared.leave(core);
        result
    }

    /// Lets go of a request whose starter is gone. It goes on, or is cancelled if that is asked for and still possible;
    /// `memory`, which it uses, is dropped when it is over.
    ///
    /// # Errors
    /// Request for a stale id.
    pub fn abandon(&self, id: RequestId, memory: Box<dyn Any + Send>, cancel: bool) -> Result<(), Error> {
        if id == RequestId::DONE {
            return Ok(());
        }
        let mut core = self.enter();
        let found = core.state.requests.find(id);
        // Dropped below, without the lock, where the request has no use for it.
        let mut memory = Some(memory);
        if let Ok(i) = found {
            core.state.abandon(i, &mut memory, cancel);
        }
        self.shared.leave(core);
        found.map(drop)
    }

    /// The bytes of a message that a matched probe took, as they lie in the engine, and its status; `Err` gives the
    /// message back where they are not here, or not of this type.
    pub fn take_bytes(&self, message: Message, datatype: &Datatype) -> Result<(Vec<u8>, Status), Message> {
        let mut core = self.enter();
        let taken = core.state.take_bytes(&message, datatype);
        self.shared.leave(core);
        taken.ok_or(message)
    }
}

impl State {
    /// The waker, of which `clone` is one, is called when the request completes. False where a clone is needed and not
    /// there.
    fn wake_when_done(&mut self, id: RequestId, waker: &Waker, clone: &mut Option<Waker>) -> bool {
        let Some(i) = self.requests.named(id.get()) else { return true };
        let known = self.requests[i].extra().waker.as_ref().is_some_and(|known| known.will_wake(waker));
        if !known {
            let Some(clone) = clone.take() else { return false };
            if let Some(old) = self.requests[i].extra().waker.replace(clone) {
                self.let_go(Leftover::Waker(old));
            }
        }
        let slot = &mut self.requests[i];
        if slot.flags & flag::AWAITED == 0 {
            slot.flags |= flag::AWAITED;
            slot.extra().awaited = Some(Awaited { since: Instant::now(), reported: false });
        }
        self.serve(i);
        true
    }

    /// The starter of a request is gone, which goes on or is cancelled.
    fn abandon(&mut self, i: u32, memory: &mut Option<Box<dyn Any + Send>>, cancel: bool) {
        let slot = &mut self.requests[i];
        slot.flags &= !flag::AWAITED;
        let extra = slot.extra();
        extra.keep = memory.take();
        if let Some(waker) = extra.waker.take() {
            self.let_go(Leftover::Waker(waker));
        }
        if cancel {
            self.cancel(i);
        }
        self.free(i);
    }

    /// The request has completed: its waker is called when the lock is free.
    #[cold]
    pub fn wake_later(&mut self, i: u32) {
        let slot = &mut self.requests[i];
        slot.flags &= !flag::AWAITED;
        if let Some(waker) = slot.extra().waker.take() {
            self.wakers.push(waker);
            self.serve += 1;
        }
    }

    /// Gets the memory of a receive that had none, now that its message is here.
    pub fn allocate(&mut self, i: u32, e: Envelope) -> Result<(), Error> {
        let slot = &mut self.requests[i];
        let Some(Alloc { datatype, mut give }) = slot.extra.as_mut().and_then(|x| x.alloc.take()) else {
            return Ok(());
        };
        let (bytes, size) = (e.total, datatype.size() as u64);
        let count = usize::try_from(bytes.checked_div(size).unwrap_or(0)).unwrap_or(usize::MAX);
        if bytes != size.saturating_mul(count as u64) {
            let detail = format!("message of {bytes} bytes is no whole number of elements of {size}");
            return Err(self.matched_error(i, e, ErrorClass::Truncate, detail));
        }
        let at = give(bytes as usize);
        if at.is_null() {
            let detail = format!("no memory for a message of {bytes} bytes");
            return Err(self.matched_error(i, e, ErrorClass::NoMem, detail));
        }
        let buf = memory::given(at, count, &datatype);
        let slot = &mut self.requests[i];
        slot.memory = Memory::of_recv(&buf);
        if !slot.memory.plain {
            slot.extra().recv = Some(buf.to_mem());
        }
        Ok(())
    }

    fn take_bytes(&mut self, message: &Message, datatype: &Datatype) -> Option<(Vec<u8>, Status)> {
        let m = self.store.probed(message)?;
        let stored = self.store.get(m)?;
        let e = stored.envelope();
        let agreed = mpi_datatype::Signature::agree(e.signature, datatype.signature()) || e.total == 0;
        if !agreed || !matches!(stored.body, Body::Here(_) | Body::Acknowledged(..)) {
            return None;
        }
        let (stored, charge) = self.store.take(m)?;
        self.account_taken(charge);
        let bytes = match stored.body {
            Body::Here(Kept::Long(bytes)) => bytes,
            Body::Here(short) => short.to_vec(),
            Body::Acknowledged(bytes, op) => {
                self.acknowledge(stored.from, op);
                bytes
            }
            Body::Coming(..) | Body::Announced(..) | Body::Own(_) => return None,
        };
        let error = ErrorClass::Success;
        Some((bytes, Status { source: e.source, tag: e.tag, bytes: e.total, cancelled: false, error }))
    }
}
