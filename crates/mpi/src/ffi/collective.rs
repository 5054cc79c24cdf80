//! Collectives under their C names (MPI-4.1 §6), blocking and immediate.
//!
//! In-place buffers are those at the address `MPI_IN_PLACE`. Counts are per rank, as in the C binding.

use std::os::raw::{c_int, c_void};

use mpi_coll::InPlaceOr;
use mpi_comm::Comm;
use mpi_datatype::{Datatype, RecvBlocks, SendBlocks};
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::handles::*;

/// The address that says that the data is in the other buffer.
pub const MPI_IN_PLACE: *const c_void = std::ptr::without_provenance(1);

/// A buffer, or none where the address says that it is in place.
fn or_in_place<T>(address: *const c_void, buffer: impl FnOnce() -> Outcome<T>) -> Outcome<InPlaceOr<T>> {
    if address == MPI_IN_PLACE { Ok(InPlaceOr::InPlace) } else { buffer().map(InPlaceOr::Buf) }
}

/// So many elements for each rank.
fn for_each(comm: &Comm, n: c_int) -> Outcome<c_int> {
    let total = count(n)?.saturating_mul(comm.target_size() as usize);
    c_int::try_from(total)
        .map_err(|_| Error::new(ErrorClass::Count, "call", format!("{total} elements are more than an int")))
}

/// Counts and displacements of the parts of a buffer.
struct Parts {
    counts: Vec<usize>,
    displacements: Vec<isize>,
}

impl Parts {
    /// # Safety
    /// There are as many of both as ranks.
    unsafe fn new(comm: &Comm, counts: *const c_int, displacements: *const c_int) -> Outcome<Parts> {
        let n = comm.target_size() as usize;
        // SAFETY: the caller's promise.
        let (counts, displacements) = unsafe { (slice(counts, n), slice(displacements, n)) };
        Ok(Parts {
            counts: counts.iter().map(|&n| count(n)).collect::<Outcome<_>>()?,
            displacements: displacements.iter().map(|&d| d as isize).collect(),
        })
    }

    /// # Safety
    /// The parts at the address are readable until the operation has completed.
    unsafe fn sent<'a>(&'a self, buf: *const c_void, datatype: &'a Datatype) -> Outcome<SendBlocks<'a>> {
        // SAFETY: the caller's promise.
        unsafe { SendBlocks::new(buf.cast(), &self.counts, &self.displacements, datatype) }.map_err(of_type)
    }

    /// # Safety
    /// The parts at the address are writable until the operation has completed.
    unsafe fn room<'a>(&'a self, buf: *mut c_void, datatype: &'a Datatype) -> Outcome<RecvBlocks<'a>> {
        // SAFETY: the caller's promise.
        unsafe { RecvBlocks::new(buf.cast(), &self.counts, &self.displacements, datatype) }.map_err(of_type)
    }
}

/// Whether what only the root gives is to be looked at.
fn is_root(comm: &Comm, root: c_int) -> bool {
    comm.rank() as c_int == root
}

/// A blocking collective and its immediate twin, from one body in which `$call` stands for either.
macro_rules! collectives {
    ($(
        $(#[$doc:meta])*
        $blocking:ident, $immediate:ident ($($arg:ident: $ty:ty),*) =
            |$comm:ident| { $($setup:stmt;)* } $method:ident / $imethod:ident ($($value:expr),*);
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The buffers are as counts and datatypes say; handles name live objects.
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $blocking($($arg: $ty,)* comm: MPI_Comm) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |$comm| {
                    $($setup)*
                    $comm.$method($($value),*)
                })
            }
        }

        #[doc = concat!("Starts [`", stringify!($blocking), "`].")]
        ///
        /// # Safety
        /// As there, until the request has completed; `request` is writable.
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $immediate(
            $($arg: $ty,)*
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |$comm| {
                    $($setup)*
                    put_request(request, $comm.$imethod($($value),*))
                })
            }
        }
    )*};
}

collectives! {
    /// No process returns before all have called.
    MPI_Barrier, MPI_Ibarrier () = |comm| {} barrier / ibarrier ();

    /// Gives every process what the root's buffer holds.
    MPI_Bcast, MPI_Ibcast (buf: *mut c_void, n: c_int, dt: MPI_Datatype, root: c_int) =
        |comm| {} broadcast / ibroadcast (room(buf, n, dt)?, root as usize);

    /// Gathers at the root.
    MPI_Gather, MPI_Igather (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let place = is_root(comm, root)
            .then(|| room(recvbuf, for_each(comm, recvcount)?, recvtype)).transpose()?;
    } gather / igather (or_in_place(sendbuf, || sent(sendbuf, sendcount, sendtype))?, place, root as usize);

    /// Gathers parts of different lengths at the root.
    MPI_Gatherv, MPI_Igatherv (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let parts = is_root(comm, root).then(|| Parts::new(comm, recvcounts, displs)).transpose()?;
        let place = parts.as_ref().map(|parts| parts.room(recvbuf, datatype(recvtype)?)).transpose()?;
    } gatherv / igatherv (or_in_place(sendbuf, || sent(sendbuf, sendcount, sendtype))?, place, root as usize);

    /// Scatters from the root.
    MPI_Scatter, MPI_Iscatter (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let data = is_root(comm, root)
            .then(|| sent(sendbuf, for_each(comm, sendcount)?, sendtype)).transpose()?;
    } scatter / iscatter (data, or_in_place(recvbuf, || room(recvbuf, recvcount, recvtype))?, root as usize);

    /// Scatters parts of different lengths from the root.
    MPI_Scatterv, MPI_Iscatterv (
        sendbuf: *const c_void, sendcounts: *const c_int, displs: *const c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let parts = is_root(comm, root).then(|| Parts::new(comm, sendcounts, displs)).transpose()?;
        let data = parts.as_ref().map(|parts| parts.sent(sendbuf, datatype(sendtype)?)).transpose()?;
    } scatterv / iscatterv (data, or_in_place(recvbuf, || room(recvbuf, recvcount, recvtype))?, root as usize);

    /// Gathers at every process.
    MPI_Allgather, MPI_Iallgather (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let place = room(recvbuf, for_each(comm, recvcount)?, recvtype)?;
    } allgather / iallgather (or_in_place(sendbuf, || sent(sendbuf, sendcount, sendtype))?, place);

    /// Gathers parts of different lengths at every process.
    MPI_Allgatherv, MPI_Iallgatherv (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let parts = Parts::new(comm, recvcounts, displs)?;
        let place = parts.room(recvbuf, datatype(recvtype)?)?;
    } allgatherv / iallgatherv (or_in_place(sendbuf, || sent(sendbuf, sendcount, sendtype))?, place);

    /// Every process sends a part to every other.
    MPI_Alltoall, MPI_Ialltoall (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let data = or_in_place(sendbuf, || sent(sendbuf, for_each(comm, sendcount)?, sendtype))?;
        let place = room(recvbuf, for_each(comm, recvcount)?, recvtype)?;
    } alltoall / ialltoall (data, place);

    /// Every process sends a part of its own length to every other.
    MPI_Alltoallv, MPI_Ialltoallv (
        sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let from = or_in_place(sendbuf, || Parts::new(comm, sendcounts, sdispls))?;
        let data = match &from {
            InPlaceOr::InPlace => InPlaceOr::InPlace,
            InPlaceOr::Buf(parts) => InPlaceOr::Buf(parts.sent(sendbuf, datatype(sendtype)?)?),
        };
        let to = Parts::new(comm, recvcounts, rdispls)?;
        let place = to.room(recvbuf, datatype(recvtype)?)?;
    } alltoallv / ialltoallv (data, place);

    /// Combines at the root.
    MPI_Reduce, MPI_Ireduce (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op, root: c_int
    ) = |comm| {
        let place = is_root(comm, root).then(|| room(recvbuf, n, dt)).transpose()?;
    } reduce / ireduce (or_in_place(sendbuf, || sent(sendbuf, n, dt))?, place, op.get(), root as usize);

    /// Combines at every process.
    MPI_Allreduce, MPI_Iallreduce (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {} allreduce / iallreduce (
        or_in_place(sendbuf, || sent(sendbuf, n, dt))?, room(recvbuf, n, dt)?, op.get()
    );

    /// Combines, and gives each process a part.
    MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {
        let whole = for_each(comm, n)?;
        let data = or_in_place(sendbuf, || sent(sendbuf, whole, dt))?;
        let held = if matches!(data, InPlaceOr::InPlace) { whole } else { n };
    } reduce_scatter_block / ireduce_scatter_block (data, room(recvbuf, held, dt)?, op.get());

    /// Combines what the processes up to this one send.
    MPI_Scan, MPI_Iscan (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {} scan / iscan (
        or_in_place(sendbuf, || sent(sendbuf, n, dt))?, room(recvbuf, n, dt)?, op.get()
    );

    /// Combines what the processes before this one send.
    MPI_Exscan, MPI_Iexscan (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {} exscan / iexscan (
        or_in_place(sendbuf, || sent(sendbuf, n, dt))?, room(recvbuf, n, dt)?, op.get()
    );
}
