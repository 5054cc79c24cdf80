//! Programs that run inside the engine: nonblocking collectives and the like.

use crate::core::State;
use crate::status::{Source, Tag};
use crate::{Context, Error, RequestId, Status};
use mpi_datatype::{RecvBuf, SendBuf};

/// What an activity says after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It waits for a request of its own.
    Pending,
    /// It is complete.
    Done(Status),
}

/// A program whose steps the engine runs: once when started, then whenever one of the requests that
/// it started has completed. Runs with the engine's lock held: it must not block and must call
/// the engine only through [`Inside`].
pub trait Activity: Send {
    /// Goes on as far as possible.
    ///
    /// # Errors
    /// Ends the activity; its request completes with the error.
    fn advance(&mut self, inside: &mut Inside<'_>) -> Result<Step, Error>;

    /// What it is, for reports: `barrier`, `broadcast`.
    fn name(&self) -> &'static str {
        "operation"
    }

    /// Goes back to its beginning after its end, to be run once more; false when it cannot be. Asked of
    /// persistent activities ([`Engine::init`](crate::Engine::init)) only.
    fn rearm(&mut self) -> bool {
        false
    }
}

/// The engine from inside, its lock held, on behalf of one activity.
pub struct Inside<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) owner: u32,
}

impl Inside<'_> {
    /// Starts a send in standard mode. The memory stays valid until [`take`](Inside::take) gives the
    /// result, by the promise made when the buffer was.
    ///
    /// # Errors
    /// As [`Engine::isend`](crate::Engine::isend).
    pub fn isend(&mut self, cx: &Context, dest: u32, tag: i32, buf: SendBuf<'_>) -> Result<RequestId, Error> {
        self.state.isend(&cx.face, dest, tag, &buf, crate::SendMode::Standard, Some(self.owner))
    }

    /// Starts a receive.
    ///
    /// # Errors
    /// As [`Engine::irecv`](crate::Engine::irecv).
    pub fn irecv(
        &mut self,
        cx: &Context,
        source: Source,
        tag: Tag,
        buf: RecvBuf<'_>,
    ) -> Result<RequestId, Error> {
        self.state.irecv(&cx.face, source.raw(), tag.raw(), &buf, Some(self.owner))
    }

    /// As [`Engine::forget_dropped`](crate::Engine::forget_dropped).
    pub fn forget_dropped(&mut self) {
        self.state.forget_dropped();
    }

    /// The result of a request if it is complete; the request is gone then.
    pub fn take(&mut self, id: RequestId) -> Option<Result<Status, Error>> {
        self.state.take(id)
    }

    /// Cancels where that is still possible; `take` gives the result as ever.
    pub fn cancel(&mut self, id: RequestId) {
        if let (true, Ok(i)) = (id != RequestId::DONE, self.state.requests.find(id)) {
            self.state.cancel(i);
        }
    }

    /// True when the request is complete (or gone); leaves it as it is.
    pub fn is_done(&self, id: RequestId) -> bool {
        self.state.is_done(id)
    }
}
