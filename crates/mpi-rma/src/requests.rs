//! The request forms (MPI 5.0, section 12.3.6). Where an operation is direct it is done, and so is its request.

use crate::access::Target;
use crate::window::{Inner, Reach, Window};
use mpi_comm::Dest;
use mpi_datatype::{Op, RecvBuf, SendBuf};
use mpi_p2p::{Error, RequestId};

impl Window {
    /// [`put`](Window::put) with a request, complete when the origin's memory may be used again.
    ///
    /// # Errors
    /// As there; `RmaSync` outside of a passive epoch.
    pub fn rput(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<RequestId, Error> {
        self.passive("rput", &target)?;
        // Data are in place, or copied into messages, when this returns.
        self.put(from, target).map(|()| RequestId::DONE)
    }

    /// [`get`](Window::get) with a request, complete when the data are here.
    ///
    /// # Errors
    /// As [`rput`](Window::rput).
    pub fn rget(&self, to: RecvBuf<'_>, target: Target<'_>) -> Result<RequestId, Error> {
        self.passive("rget", &target)?;
        self.with_request(&target, |request| self.get_as("rget", to, target, request))
    }

    /// [`accumulate`](Window::accumulate) with a request, complete when the origin's memory may be used again.
    ///
    /// # Errors
    /// As [`rput`](Window::rput).
    pub fn raccumulate(&self, from: SendBuf<'_>, target: Target<'_>, op: &Op) -> Result<RequestId, Error> {
        self.passive("raccumulate", &target)?;
        self.accumulate(from, target, op).map(|()| RequestId::DONE)
    }

    /// [`get_accumulate`](Window::get_accumulate) with a request, complete when the result is here.
    ///
    /// # Errors
    /// As [`rput`](Window::rput).
    pub fn rget_accumulate(
        &self,
        from: SendBuf<'_>,
        result: RecvBuf<'_>,
        target: Target<'_>,
        op: &Op,
    ) -> Result<RequestId, Error> {
        let name = "rget accumulate";
        self.passive(name, &target)?;
        let Dest::Rank(rank) = target.rank else { return Ok(RequestId::DONE) };
        let w = self.alive(name)?;
        self.with_request(&target, |request| {
            w.combine(name, Some(from), Some(result), rank, &target, op, request)
        })
    }

    fn passive(&self, op: &'static str, target: &Target<'_>) -> Result<(), Error> {
        let w = self.alive(op)?;
        match target.rank {
            Dest::Rank(rank) => w.epoch.check_passive(w, op, u32::try_from(rank).ok()),
            Dest::Null => Ok(()),
        }
    }

    /// Runs an operation with a request where it goes by message; where it is direct it is done on return.
    fn with_request(
        &self,
        target: &Target<'_>,
        f: impl FnOnce(Option<RequestId>) -> Result<(), Error>,
    ) -> Result<RequestId, Error> {
        let w = &*self.0;
        let by_mail = match target.rank {
            Dest::Rank(rank) if target.bytes() > 0 => {
                u32::try_from(rank).is_ok_and(|r| r < w.cx.size() && matches!(w.reach(r), Reach::Mail))
                    && rank as u32 != w.cx.rank()
            }
            _ => false,
        };
        if !by_mail {
            return f(None).map(|()| RequestId::DONE);
        }
        let request = w.engine().with_port(&w.cx, |port| port.begin());
        match f(Some(request)) {
            Ok(()) => Ok(request),
            Err(e) => {
                w.engine().with_port(&w.cx, |port| port.finish(request, Err(e.clone())));
                let _ = w.engine().wait(request);
                Err(e)
            }
        }
    }
}

impl Inner {
    /// A request for what is done already.
    pub(crate) fn done(&self, request: Option<RequestId>) -> Result<(), Error> {
        if let Some(request) = request {
            self.engine().with_port(&self.cx, |port| port.finish(request, Ok(mpi_p2p::Status::EMPTY)));
        }
        Ok(())
    }
}
