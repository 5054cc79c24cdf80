//! Put and get (MPI 5.0, section 12.3): checked, then done directly or sent.

use crate::memory;
use crate::messages::{Deed, Errand};
use crate::way::Way;
use crate::window::Window;
use mpi_comm::Dest;
use mpi_datatype::{Datatype, RecvBuf, SendBuf};
use mpi_p2p::record::{self, Way as Moved, ops::Op as RecordedOp};
use mpi_p2p::{Error, RequestId};

/// Memory of a target: which rank, where, how many elements of which type.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The rank. Operations on the null process are done at once.
    pub rank: Dest,
    /// Displacement in units of the target; in a dynamic window an address.
    pub at: i64,
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub datatype: &'a Datatype,
}

impl Target<'_> {
    /// Bytes of data.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.count.saturating_mul(self.datatype.size())
    }
}

impl Window {
    /// Writes to a target.
    ///
    /// # Errors
    /// `RmaSync` outside of an epoch, `Rank`, `Disp`, `RmaRange`, `Type`, `Truncate`, `ProcFailed`. What only the
    /// target can find wrong is reported by what closes or flushes the epoch.
    #[inline]
    pub fn put(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        if record::on() {
            let recording =
                || self.recording(const { RecordedOp::named("put") }, target.rank, Moved::Put, from.bytes());
            return record::with(recording, || self.put_now(from, target));
        }
        self.put_now(from, target)
    }

    #[inline]
    fn put_now(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        if self.0.put_plain(&from, &target) {
            return Ok(());
        }
        self.put_long(from, target)
    }

    fn put_long(&self, from: SendBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        let w = self.alive("put")?;
        let Dest::Rank(rank) = target.rank else { return Ok(()) };
        w.check_types("put", from.datatype(), from.bytes(), &target)?;
        match w.way("put", rank, &target)? {
            Way::Direct { place, offset, .. } => {
                // SAFETY: the way was found inside the target's memory; sizes were checked.
                unsafe { memory::put(place, offset, &from, target.count, target.datatype) }
                    .map_err(|t| w.trouble("put", rank, t))
            }
            Way::Mail { at } => w.run_errand(&Errand {
                name: "put",
                deed: Deed::Put,
                target: rank as u32,
                at,
                count: target.count,
                datatype: target.datatype,
                data: Some(from),
                to: None,
                bytes: from.bytes(),
                primitive: None,
                request: None,
            }),
        }
    }

    /// Reads from a target. The memory is filled when the epoch is closed or flushed.
    ///
    /// # Errors
    /// As [`put`](Window::put).
    #[inline]
    pub fn get(&self, to: RecvBuf<'_>, target: Target<'_>) -> Result<(), Error> {
        if !record::on() && self.0.get_plain(&to, &target) {
            return Ok(());
        }
        self.get_as("get", to, target, None)
    }

    pub(crate) fn get_as(
        &self,
        name: &'static str,
        to: RecvBuf<'_>,
        target: Target<'_>,
        request: Option<RequestId>,
    ) -> Result<(), Error> {
        if record::on() {
            let recording =
                || self.recording(const { RecordedOp::named("get") }, target.rank, Moved::Got, to.bytes());
            return record::with(recording, || self.get_now(name, to, target, request));
        }
        self.get_now(name, to, target, request)
    }

    #[inline]
    fn get_now(
        &self,
        name: &'static str,
        to: RecvBuf<'_>,
        target: Target<'_>,
        request: Option<RequestId>,
    ) -> Result<(), Error> {
        let w = self.alive(name)?;
        let Dest::Rank(rank) = target.rank else { return w.done(request) };
        w.check_room(name, &to, &target)?;
        match w.way(name, rank, &target)? {
            Way::Direct { place, offset, .. } => {
                // SAFETY: the way was found inside the target's memory; sizes were checked.
                unsafe { memory::get(place, offset, &to, target.count, target.datatype) }
                    .map_err(|t| w.trouble(name, rank, t))
                    .and_then(|()| w.done(request))
            }
            Way::Mail { at } => w.run_errand(&Errand {
                name,
                deed: Deed::Get,
                target: rank as u32,
                at,
                count: target.count,
                datatype: target.datatype,
                data: None,
                to: Some(to.to_mem()),
                bytes: target.bytes(),
                primitive: None,
                request,
            }),
        }
    }
}
