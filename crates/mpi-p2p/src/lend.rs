//! Receives that lend the message as it lies in the transport. One of the files with `unsafe`.
//!
//! A message that comes whole while a thread waits for it is in the transport's memory for the length of one
//! delivery. Whoever wants only to look at it does so there, with the engine's lock held, and nothing is copied.

use crate::context::Context;
use crate::core::State;
use crate::direct::{Direct, Outcome};
use crate::engine::Engine;
use crate::memory::Memory;
use crate::peer::Link;
use crate::status::Tag;
use crate::{ErrorClass, Status, record};
use mpi_btl::{Ep, Place};
use mpi_wire::{ANNOUNCEMENT, Header};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::thread::ThreadId;

/// What looks at a message: its bytes, and what else is known of it. False: it does not take it so.
type LookFn<'a> = dyn FnMut(&[u8], Status) -> bool + 'a;

/// The closure of a waiting thread. Called by that thread alone, while it is in [`Engine::recv_lent`].
#[derive(Debug)]
pub(crate) struct Look {
    call: NonNull<LookFn<'static>>,
    of: ThreadId,
}

// SAFETY: the closure is called only by the thread that it belongs to.
unsafe impl Send for Look {}

/// Takes the receive back however the wait ends.
pub(crate) struct Standing<'a, 'b>(pub &'a mut mpi_node::Guard<'b, crate::core::Core>);

impl Drop for Standing<'_, '_> {
    fn drop(&mut self) {
        self.0.state.direct.look = None;
        self.0.state.direct.outcome = Outcome::Off;
    }
}

impl Engine {
    /// Waits for a message from a rank, and lends it to `look` as it lies in the transport: true when it has. False
    /// when the message cannot be had that way (it was here before, it comes in parts or is of another type, other
    /// receives wait, or `look` says no): then nothing was received.
    ///
    /// `look` runs inside the engine: it must not call it, which panics.
    pub fn recv_lent(
        &self,
        cx: &Context,
        rank: u32,
        tag: Tag,
        signature: u32,
        look: &mut dyn FnMut(&[u8], Status) -> bool,
    ) -> bool {
        let mut core = self.enter();
        let (id, source) = (cx.face.id, rank as i32);
        let Some((ep, route)) = core.state.way_for_direct(cx, rank) else {
            self.shared.leave(core);
            return false;
        };
        core.state.flush_owed();
        // A panic must not cut through the transport's delivery: it goes on from here.
        let mut panicked = None;
        let mut look = |bytes: &[u8], status| {
            let taken = catch_unwind(AssertUnwindSafe(|| look(bytes, status)));
            taken.unwrap_or_else(|why| {
                panicked = Some(why);
                true
            })
        };
        let look: &mut LookFn<'_> = &mut look;
        let look: NonNull<LookFn<'_>> = NonNull::from(look);
        // SAFETY: only the lifetime is another; `Standing` forgets the closure before this call ends.
        let call = unsafe { std::mem::transmute::<NonNull<LookFn<'_>>, NonNull<LookFn<'static>>>(look) };
        let look = Some(Look { call, of: std::thread::current().id() });
        core.state.direct = Direct {
            outcome: Outcome::Waiting,
            from: ep,
            context: id,
            source,
            tag: tag.raw(),
            signature,
            memory: Memory::NOTHING,
            look,
        };
        let standing = Standing(&mut core);
        self.wait_direct(standing.0, ep, route);
        let lent = matches!(standing.0.state.direct.outcome, Outcome::Done(_));
        drop(standing);
        self.shared.leave(core);
        if let Some(why) = panicked {
            resume_unwind(why);
        }
        lent
    }

    /// Runs `f` as a closure of [`recv_lent`](Engine::recv_lent) runs: inside the engine, which it must not call.
    pub fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        let core = self.enter();
        let result = f();
        self.shared.leave(core);
        result
    }
}

impl State {
    /// The way by which the next message of a rank comes, if a thread may wait for it there: nothing of it is here and
    /// nothing else waits for it.
    fn way_for_direct(&mut self, cx: &Context, rank: u32) -> Option<(Ep, usize)> {
        let lane = self.lanes.get(cx.face.id)?;
        let clear =
            lane.unexpected.len() == 0 && lane.posted.is_clear_for(rank as i32) && lane.fate.is_none();
        let ep = *cx.face.peers.get(rank as usize)?;
        if !clear || self.multiple || self.closed || ep == self.me {
            return None;
        }
        if self.peers.at(ep).link != Link::Up {
            self.reach(ep).ok()?;
        }
        Some((ep, usize::from(self.peers.at(ep).route)))
    }

    /// The message is that of a receive that only looks at it; else it goes the way of all others.
    #[inline(never)]
    pub fn message_lent(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        let simple = have.len() as u64 == total
            && header.datatype & ANNOUNCEMENT == 0
            && mpi_datatype::Signature::agree(header.datatype, self.direct.signature);
        // The helper may have come in between, in whose thread the closure has no business.
        let look = self.direct.look.take().filter(|look| simple && look.of == std::thread::current().id());
        let Some(mut look) = look else {
            self.direct.outcome = Outcome::Off;
            return self.message_matched(from, header, have, total);
        };
        let status = Status {
            source: header.source,
            tag: header.tag,
            bytes: total,
            cancelled: false,
            error: ErrorClass::Success,
        };
        self.direct.outcome = Outcome::Done(status);
        // SAFETY: this is the thread that waits, deep inside `recv_lent`, which keeps the closure; nobody else has it.
        if (unsafe { look.call.as_mut() })(have, status) {
            record::received(|| from.0, header.context, header.tag, total);
            return Place::Done;
        }
        self.direct.outcome = Outcome::Off;
        self.message_matched(from, header, have, total)
    }
}
