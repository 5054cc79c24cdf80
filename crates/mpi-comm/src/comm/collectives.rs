//! Collectives, mirrored from mpi-coll on the collective plane.

use super::Comm;
use mpi_coll::InPlaceOr;
use mpi_datatype::{Op, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, ErrorClass, RequestId};

macro_rules! collective {
    ($name:ident, $immediate:ident ( $($arg:ident : $ty:ty),* )) => {
        #[doc = concat!("The collective [`", stringify!($name), "`](mpi_coll::", stringify!($name), ").")]
        ///
        /// # Errors
        /// As there; `Comm` on an inter-communicator.
        #[inline]
        pub fn $name(&self, $($arg: $ty),*) -> Result<(), Error> {
            if self.is_inter() {
                return Err(self.not_between_groups(stringify!($name)));
            }
            mpi_coll::$name(self.engine(), self.team(), $($arg),*)
        }

        #[doc = concat!("The immediate collective [`", stringify!($immediate), "`](mpi_coll::", stringify!($immediate), ").")]
        ///
        /// # Errors
        /// As there; `Comm` on an inter-communicator.
        #[inline]
        pub fn $immediate(&self, $($arg: $ty),*) -> Result<RequestId, Error> {
            if self.is_inter() {
                return Err(self.not_between_groups(stringify!($name)));
            }
            mpi_coll::$immediate(self.engine(), self.team(), $($arg),*)
        }
    };
}

impl Comm {
    collective! { barrier, ibarrier() }
    collective! { broadcast, ibroadcast(buf: RecvBuf<'_>, root: usize) }
    collective! { gather, igather(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, root: usize) }
    collective! { gatherv, igatherv(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBlocks<'_>>, root: usize) }
    collective! { scatter, iscatter(send: Option<SendBuf<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: usize) }
    collective! { scatterv, iscatterv(send: Option<SendBlocks<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: usize) }
    collective! { allgather, iallgather(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) }
    collective! { allgatherv, iallgatherv(send: InPlaceOr<SendBuf<'_>>, recv: RecvBlocks<'_>) }
    collective! { alltoall, ialltoall(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) }
    collective! { alltoallv, ialltoallv(send: InPlaceOr<SendBlocks<'_>>, recv: RecvBlocks<'_>) }
    collective! {
        reduce, ireduce(send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, op: &Op, root: usize)
    }
    collective! { allreduce, iallreduce(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) }
    collective! { scan, iscan(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) }
    collective! { exscan, iexscan(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) }
    collective! {
        reduce_scatter_block,
        ireduce_scatter_block(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
    }
    collective! {
        reduce_scatter,
        ireduce_scatter(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, counts: &[usize], op: &Op)
    }

    /// Collectives between two groups have other rules and are not here yet.
    #[cold]
    fn not_between_groups(&self, op: &'static str) -> Error {
        self.attach(Error::new(ErrorClass::Comm, op, "not on an inter-communicator"))
    }
}
