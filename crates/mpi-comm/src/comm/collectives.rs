//! Collectives, mirrored from mpi-coll on the collective plane.

use super::Comm;
use crate::topology::Topology;
use mpi_coll::{InPlaceOr, Neighborhood, Root};
use mpi_datatype::{Op, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, RequestId, record};

macro_rules! collective {
    ($name:ident, $immediate:ident, $init:ident ( $($arg:ident : $ty:ty),* )) => {
        #[doc = concat!("The collective [`", stringify!($name), "`](mpi_coll::", stringify!($name), ").")]
        ///
        /// # Errors
        /// As there.
        #[inline]
        pub fn $name(&self, $($arg: $ty),*) -> Result<(), Error> {
            self.alive(stringify!($name))?;
            let call = || mpi_coll::$name(self.engine(), self.team(), $($arg),*);
            if record::on() {
                return record::during(const { record::ops::Op::named(stringify!($name)) }, || None, call);
            }
            call()
        }

        #[doc = concat!("The immediate collective [`", stringify!($immediate), "`](mpi_coll::", stringify!($immediate), ").")]
        ///
        /// # Errors
        /// As there.
        #[inline]
        pub fn $immediate(&self, $($arg: $ty),*) -> Result<RequestId, Error> {
            self.alive(stringify!($name))?;
            let _recording = record::op(const { record::ops::Op::named(stringify!($name)).immediate() }, || None);
            mpi_coll::$immediate(self.engine(), self.team(), $($arg),*)
        }

        #[doc = concat!("The persistent collective [`", stringify!($init), "`](mpi_coll::", stringify!($init), ").")]
        ///
        /// # Errors
        /// As there.
        #[inline]
        pub fn $init(&self, $($arg: $ty),*) -> Result<RequestId, Error> {
            self.alive(stringify!($name))?;
            mpi_coll::$init(self.engine(), self.team(), $($arg),*)
        }
    };
    (neighbors $name:ident, $immediate:ident, $init:ident ( $($arg:ident : $ty:ty),* )) => {
        #[doc = concat!("The collective [`", stringify!($name), "`](mpi_coll::", stringify!($name), ") over the")]
        /// topology that the communicator carries.
        ///
        /// # Errors
        /// As there; `Topology` when it carries none.
        pub fn $name(&self, $($arg: $ty),*) -> Result<(), Error> {
            let _recording = record::op(const { record::ops::Op::named(stringify!($name)) }, || None);
            self.near(|hood| mpi_coll::$name(self.engine(), self.team(), hood, $($arg),*))
        }

        #[doc = concat!("The immediate collective [`", stringify!($immediate), "`](mpi_coll::", stringify!($immediate), ") over the")]
        /// topology that the communicator carries.
        ///
        /// # Errors
        /// As there; `Topology` when it carries none.
        pub fn $immediate(&self, $($arg: $ty),*) -> Result<RequestId, Error> {
            let _recording = record::op(const { record::ops::Op::named(stringify!($name)).immediate() }, || None);
            self.near(|hood| mpi_coll::$immediate(self.engine(), self.team(), hood, $($arg),*))
        }

        #[doc = concat!("The persistent collective [`", stringify!($init), "`](mpi_coll::", stringify!($init), ") over the")]
        /// topology that the communicator carries.
        ///
        /// # Errors
        /// As there; `Topology` when it carries none.
        pub fn $init(&self, $($arg: $ty),*) -> Result<RequestId, Error> {
            self.near(|hood| mpi_coll::$init(self.engine(), self.team(), hood, $($arg),*))
        }
    };
}

impl Comm {
    collective! { barrier, ibarrier, barrier_init() }
    collective! { broadcast, ibroadcast, broadcast_init(buf: RecvBuf<'_>, root: impl Into<Root> + Copy) }
    collective! {
        gather, igather, gather_init(
            send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, root: impl Into<Root> + Copy
        )
    }
    collective! {
        gatherv, igatherv, gatherv_init(
            send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBlocks<'_>>, root: impl Into<Root> + Copy
        )
    }
    collective! {
        scatter, iscatter, scatter_init(
            send: Option<SendBuf<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: impl Into<Root> + Copy
        )
    }
    collective! {
        scatterv, iscatterv, scatterv_init(
            send: Option<SendBlocks<'_>>, recv: InPlaceOr<RecvBuf<'_>>, root: impl Into<Root> + Copy
        )
    }
    collective! { allgather, iallgather, allgather_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) }
    collective! { allgatherv, iallgatherv, allgatherv_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBlocks<'_>) }
    collective! { alltoall, ialltoall, alltoall_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>) }
    collective! { alltoallv, ialltoallv, alltoallv_init(send: InPlaceOr<SendBlocks<'_>>, recv: RecvBlocks<'_>) }
    collective! {
        reduce, ireduce, reduce_init(
            send: InPlaceOr<SendBuf<'_>>, recv: Option<RecvBuf<'_>>, op: &Op, root: impl Into<Root> + Copy
        )
    }
    collective! {
        allreduce, iallreduce, allreduce_init(
            send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op
        )
    }
    collective! { scan, iscan, scan_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) }
    collective! { exscan, iexscan, exscan_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op) }
    collective! {
        reduce_scatter_block,
        ireduce_scatter_block, reduce_scatter_block_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, op: &Op)
    }
    collective! {
        reduce_scatter,
        ireduce_scatter, reduce_scatter_init(send: InPlaceOr<SendBuf<'_>>, recv: RecvBuf<'_>, counts: &[usize], op: &Op)
    }

    collective! { neighbors
        neighbor_allgather, ineighbor_allgather, neighbor_allgather_init(send: SendBuf<'_>, recv: RecvBuf<'_>)
    }
    collective! { neighbors
        neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init(
            send: SendBuf<'_>, recv: RecvBlocks<'_>
        )
    }
    collective! { neighbors
        neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init(send: SendBuf<'_>, recv: RecvBuf<'_>)
    }
    collective! { neighbors
        neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init(
            send: SendBlocks<'_>, recv: RecvBlocks<'_>
        )
    }

    /// Calls a neighbourhood collective with the neighbours of this process.
    fn near<T>(&self, call: impl FnOnce(Neighborhood<'_>) -> Result<T, Error>) -> Result<T, Error> {
        self.alive("neighborhood collective")?;
        let (sources, destinations) = self.neighbours()?;
        let grid = matches!(self.topology(), Topology::Cartesian(_));
        call(Neighborhood { sources: &sources, destinations: &destinations, grid })
    }
}
