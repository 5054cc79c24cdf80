//! Collectives under their C names (MPI-4.1 §6), blocking, immediate and persistent.
//!
//! In-place buffers are those at the address `MPI_IN_PLACE`. Counts are per rank, as in the C binding.

use std::os::raw::{c_int, c_void};

use mpi_coll::{InPlaceOr, Root};
use mpi_comm::Comm;
use mpi_datatype::{Datatype, Primitive, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::constants::*;
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
        // SAFETY: the caller's promise.
        unsafe { Parts::of_so_many(comm.target_size() as usize, counts, displacements) }
    }

    /// # Safety
    /// There are `n` of both.
    unsafe fn of_so_many(n: usize, counts: *const c_int, displacements: *const c_int) -> Outcome<Parts> {
        // SAFETY: the caller's promise.
        unsafe { Ok(Parts { counts: counts_of(counts, n)?, displacements: ints(displacements, n) }) }
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

/// # Safety
/// There are `n`.
unsafe fn counts_of(counts: *const c_int, n: usize) -> Outcome<Vec<usize>> {
    // SAFETY: the caller's promise.
    unsafe { slice(counts, n) }.iter().map(|&n| count(n)).collect()
}

/// # Safety
/// There are `n`.
unsafe fn ints(displacements: *const c_int, n: usize) -> Vec<isize> {
    // SAFETY: the caller's promise.
    unsafe { slice(displacements, n) }.iter().map(|&d| d as isize).collect()
}

/// Room for `n` elements from each of `blocks` processes.
///
/// # Safety
/// As [`room`].
unsafe fn all_of<'a>(
    buf: *mut c_void,
    n: c_int,
    handle: MPI_Datatype,
    blocks: usize,
) -> Outcome<RecvBuf<'a>> {
    // SAFETY: the caller's promise.
    unsafe { Ok(RecvBuf::new(buf.cast(), count(n)?.saturating_mul(blocks), datatype(handle)?)) }
}

/// Counts, displacements in bytes and types of the parts of a buffer.
struct TypedParts {
    counts: Vec<usize>,
    displacements: Vec<isize>,
    types: Vec<Datatype>,
}

impl TypedParts {
    /// # Safety
    /// There are `n` of each; the types are live, except those of empty parts.
    unsafe fn new(
        n: usize,
        counts: *const c_int,
        displacements: &[isize],
        types: *const MPI_Datatype,
    ) -> Outcome<TypedParts> {
        // SAFETY: the caller's promise.
        let (counts, types) = unsafe { (counts_of(counts, n)?, slice(types, n)) };
        let of = |(&handle, &n): (&MPI_Datatype, &usize)| match n {
            0 => Ok(Datatype::predefined(Primitive::Byte)),
            // SAFETY: the caller's promise.
            _ => unsafe { datatype(handle) }.cloned(),
        };
        let types = types.iter().zip(&counts).map(of).collect::<Outcome<_>>()?;
        Ok(TypedParts { counts, displacements: displacements.to_vec(), types })
    }

    /// # Safety
    /// The parts at the address are readable until the operation has completed.
    unsafe fn sent(&self, buf: *const c_void) -> Outcome<SendBlocks<'_>> {
        // SAFETY: the caller's promise.
        unsafe { SendBlocks::with_types(buf.cast(), &self.counts, &self.displacements, &self.types) }
            .map_err(of_type)
    }

    /// # Safety
    /// The parts at the address are writable until the operation has completed.
    unsafe fn room(&self, buf: *mut c_void) -> Outcome<RecvBlocks<'_>> {
        // SAFETY: the caller's promise.
        unsafe { RecvBlocks::with_types(buf.cast(), &self.counts, &self.displacements, &self.types) }
            .map_err(of_type)
    }
}

/// Whether what only the root gives is to be looked at.
fn is_root(comm: &Comm, root: c_int) -> bool {
    if comm.is_inter() { root == MPI_ROOT } else { comm.rank() as c_int == root }
}

/// The root as the layers below name it; what is no rank becomes one that is in no communicator.
fn root_of(root: c_int) -> Root {
    match root {
        MPI_ROOT => Root::Root,
        MPI_PROC_NULL => Root::Null,
        rank => Root::Rank(rank as usize),
    }
}

/// Whether the arguments of those who give or take with the root are to be looked at: not in the root's own group of
/// an inter-communicator.
fn takes_part(comm: &Comm, root: c_int) -> bool {
    !comm.is_inter() || root >= 0
}

/// # Safety
/// As [`sent`], where this process gives something.
unsafe fn given<'a>(
    comm: &Comm,
    root: c_int,
    buf: *const c_void,
    n: c_int,
    dt: MPI_Datatype,
) -> Outcome<InPlaceOr<SendBuf<'a>>> {
    if !takes_part(comm, root) {
        return Ok(InPlaceOr::Buf(SendBuf::packed(&[])));
    }
    // SAFETY: the caller's promise.
    or_in_place(buf, || unsafe { sent(buf, n, dt) })
}

/// # Safety
/// As [`room`], where this process takes something.
unsafe fn taken<'a>(
    comm: &Comm,
    root: c_int,
    buf: *mut c_void,
    n: c_int,
    dt: MPI_Datatype,
) -> Outcome<InPlaceOr<RecvBuf<'a>>> {
    if !takes_part(comm, root) {
        return Ok(InPlaceOr::Buf(RecvBuf::packed(&mut [])));
    }
    // SAFETY: the caller's promise.
    or_in_place(buf, || unsafe { room(buf, n, dt) })
}

/// A collective in its three forms, from one body.
macro_rules! collectives {
    ($(
        $(#[$doc:meta])*
        $blocking:ident, $immediate:ident, $init:ident ($($arg:ident: $ty:ty),*) =
            |$comm:ident| { $($setup:stmt;)* } $method:ident / $imethod:ident / $initmethod:ident ($($value:expr),*);
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

        #[doc = concat!("Makes a persistent request of [`", stringify!($blocking), "`], for `MPI_Start`.")]
        ///
        /// # Safety
        /// As there, whenever it runs; `request` is writable.
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $init(
            $($arg: $ty,)*
            comm: MPI_Comm,
            _info: MPI_Info,
            request: *mut MPI_Request,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |$comm| {
                    $($setup)*
                    put_request(request, $comm.$initmethod($($value),*))
                })
            }
        }
    )*};
}

collectives! {
    /// No process returns before all have called.
    MPI_Barrier, MPI_Ibarrier, MPI_Barrier_init () = |comm| {} barrier / ibarrier / barrier_init ();

    /// Gives every process what the root's buffer holds.
    MPI_Bcast, MPI_Ibcast, MPI_Bcast_init (buf: *mut c_void, n: c_int, dt: MPI_Datatype, root: c_int) =
        |comm| {
            let data = if root == MPI_PROC_NULL { RecvBuf::packed(&mut []) } else { room(buf, n, dt)? };
        } broadcast / ibroadcast / broadcast_init (data, root_of(root));

    /// Gathers at the root.
    MPI_Gather, MPI_Igather, MPI_Gather_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let place = is_root(comm, root)
            .then(|| room(recvbuf, for_each(comm, recvcount)?, recvtype)).transpose()?;
    } gather / igather / gather_init (given(comm, root, sendbuf, sendcount, sendtype)?, place, root_of(root));

    /// Gathers parts of different lengths at the root.
    MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let parts = is_root(comm, root).then(|| Parts::new(comm, recvcounts, displs)).transpose()?;
        let place = parts.as_ref().map(|parts| parts.room(recvbuf, datatype(recvtype)?)).transpose()?;
    } gatherv / igatherv / gatherv_init (given(comm, root, sendbuf, sendcount, sendtype)?, place, root_of(root));

    /// Scatters from the root.
    MPI_Scatter, MPI_Iscatter, MPI_Scatter_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let data = is_root(comm, root)
            .then(|| sent(sendbuf, for_each(comm, sendcount)?, sendtype)).transpose()?;
    } scatter / iscatter / scatter_init (data, taken(comm, root, recvbuf, recvcount, recvtype)?, root_of(root));

    /// Scatters parts of different lengths from the root.
    MPI_Scatterv, MPI_Iscatterv, MPI_Scatterv_init (
        sendbuf: *const c_void, sendcounts: *const c_int, displs: *const c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype, root: c_int
    ) = |comm| {
        let parts = is_root(comm, root).then(|| Parts::new(comm, sendcounts, displs)).transpose()?;
        let data = parts.as_ref().map(|parts| parts.sent(sendbuf, datatype(sendtype)?)).transpose()?;
    } scatterv / iscatterv / scatterv_init (data, taken(comm, root, recvbuf, recvcount, recvtype)?, root_of(root));

    /// Gathers at every process.
    MPI_Allgather, MPI_Iallgather, MPI_Allgather_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let place = room(recvbuf, for_each(comm, recvcount)?, recvtype)?;
    } allgather / iallgather / allgather_init (or_in_place(sendbuf, || sent(sendbuf, sendcount, sendtype))?, place);

    /// Gathers parts of different lengths at every process.
    MPI_Allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let parts = Parts::new(comm, recvcounts, displs)?;
        let place = parts.room(recvbuf, datatype(recvtype)?)?;
    } allgatherv / iallgatherv / allgatherv_init (or_in_place(sendbuf, || sent(sendbuf, sendcount, sendtype))?, place);

    /// Every process sends a part to every other.
    MPI_Alltoall, MPI_Ialltoall, MPI_Alltoall_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let data = or_in_place(sendbuf, || sent(sendbuf, for_each(comm, sendcount)?, sendtype))?;
        let place = room(recvbuf, for_each(comm, recvcount)?, recvtype)?;
    } alltoall / ialltoall / alltoall_init (data, place);

    /// Every process sends a part of its own length to every other.
    MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init (
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
    } alltoallv / ialltoallv / alltoallv_init (data, place);

    /// Combines at the root.
    MPI_Reduce, MPI_Ireduce, MPI_Reduce_init (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op, root: c_int
    ) = |comm| {
        let place = is_root(comm, root).then(|| room(recvbuf, n, dt)).transpose()?;
    } reduce / ireduce / reduce_init (given(comm, root, sendbuf, n, dt)?, place, op.get(), root_of(root));

    /// Combines at every process.
    MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {} allreduce / iallreduce / allreduce_init (
        or_in_place(sendbuf, || sent(sendbuf, n, dt))?, room(recvbuf, n, dt)?, op.get()
    );

    /// Combines, and gives each process a part.
    MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {
        let whole = c_int::try_from(count(n)?.saturating_mul(comm.size() as usize)).unwrap_or(c_int::MAX);
        let data = or_in_place(sendbuf, || sent(sendbuf, whole, dt))?;
        let held = if matches!(data, InPlaceOr::InPlace) { whole } else { n };
    } reduce_scatter_block / ireduce_scatter_block / reduce_scatter_block_init (data, room(recvbuf, held, dt)?, op.get());

    /// Combines what the processes up to this one send.
    MPI_Scan, MPI_Iscan, MPI_Scan_init (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {} scan / iscan / scan_init (
        or_in_place(sendbuf, || sent(sendbuf, n, dt))?, room(recvbuf, n, dt)?, op.get()
    );

    /// Combines what the processes before this one send.
    MPI_Exscan, MPI_Iexscan, MPI_Exscan_init (
        sendbuf: *const c_void, recvbuf: *mut c_void, n: c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {} exscan / iexscan / exscan_init (
        or_in_place(sendbuf, || sent(sendbuf, n, dt))?, room(recvbuf, n, dt)?, op.get()
    );

    /// Combines, and gives each process a part of its own length.
    MPI_Reduce_scatter, MPI_Ireduce_scatter, MPI_Reduce_scatter_init (
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: *const c_int, dt: MPI_Datatype, op: MPI_Op
    ) = |comm| {
        let counts = counts_of(recvcounts, comm.size() as usize)?;
        let whole = counts.iter().fold(0, |sum: usize, n| sum.saturating_add(*n));
        let data = match sendbuf == MPI_IN_PLACE {
            true => InPlaceOr::InPlace,
            false => InPlaceOr::Buf(SendBuf::new(sendbuf.cast(), whole, datatype(dt)?)),
        };
        let held = if sendbuf == MPI_IN_PLACE { whole } else { counts[comm.rank() as usize] };
        let place = RecvBuf::new(recvbuf.cast(), held, datatype(dt)?);
    } reduce_scatter / ireduce_scatter / reduce_scatter_init (data, place, &counts, op.get());

    /// Every process sends a part of its own length and type to every other.
    MPI_Alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init (
        sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtypes: *const MPI_Datatype
    ) = |comm| {
        let n = comm.target_size() as usize;
        let from = or_in_place(sendbuf, || TypedParts::new(n, sendcounts, &ints(sdispls, n), sendtypes))?;
        let data = match &from {
            InPlaceOr::InPlace => InPlaceOr::InPlace,
            InPlaceOr::Buf(parts) => InPlaceOr::Buf(parts.sent(sendbuf)?),
        };
        let to = TypedParts::new(n, recvcounts, &ints(rdispls, n), recvtypes)?;
        let place = to.room(recvbuf)?;
    } alltoallv / ialltoallv / alltoallv_init (data, place);

    /// Gathers from the neighbours.
    MPI_Neighbor_allgather, MPI_Ineighbor_allgather, MPI_Neighbor_allgather_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let place = all_of(recvbuf, recvcount, recvtype, comm.neighbours()?.0.len())?;
    } neighbor_allgather / ineighbor_allgather / neighbor_allgather_init (
        sent(sendbuf, sendcount, sendtype)?, place
    );

    /// Gathers parts of different lengths from the neighbours.
    MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, MPI_Neighbor_allgatherv_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, displs: *const c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let parts = Parts::of_so_many(comm.neighbours()?.0.len(), recvcounts, displs)?;
        let place = parts.room(recvbuf, datatype(recvtype)?)?;
    } neighbor_allgatherv / ineighbor_allgatherv / neighbor_allgatherv_init (
        sent(sendbuf, sendcount, sendtype)?, place
    );

    /// Sends a part to each neighbour and receives one from each.
    MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, MPI_Neighbor_alltoall_init (
        sendbuf: *const c_void, sendcount: c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let (sources, destinations) = comm.neighbours()?;
        let n = count(sendcount)?.saturating_mul(destinations.len());
        let data = SendBuf::new(sendbuf.cast(), n, datatype(sendtype)?);
        let place = all_of(recvbuf, recvcount, recvtype, sources.len())?;
    } neighbor_alltoall / ineighbor_alltoall / neighbor_alltoall_init (data, place);

    /// Sends a part of its own length to each neighbour and receives one from each.
    MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, MPI_Neighbor_alltoallv_init (
        sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const c_int, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const c_int, recvtype: MPI_Datatype
    ) = |comm| {
        let (sources, destinations) = comm.neighbours()?;
        let from = Parts::of_so_many(destinations.len(), sendcounts, sdispls)?;
        let to = Parts::of_so_many(sources.len(), recvcounts, rdispls)?;
        let data = from.sent(sendbuf, datatype(sendtype)?)?;
        let place = to.room(recvbuf, datatype(recvtype)?)?;
    } neighbor_alltoallv / ineighbor_alltoallv / neighbor_alltoallv_init (data, place);

    /// Sends a part of its own length and type to each neighbour and receives one from each.
    MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, MPI_Neighbor_alltoallw_init (
        sendbuf: *const c_void, sendcounts: *const c_int, sdispls: *const MPI_Aint, sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const c_int, rdispls: *const MPI_Aint, recvtypes: *const MPI_Datatype
    ) = |comm| {
        let (sources, destinations) = comm.neighbours()?;
        let (n, m) = (destinations.len(), sources.len());
        let from = TypedParts::new(n, sendcounts, slice(sdispls, n), sendtypes)?;
        let to = TypedParts::new(m, recvcounts, slice(rdispls, m), recvtypes)?;
        let data = from.sent(sendbuf)?;
        let place = to.room(recvbuf)?;
    } neighbor_alltoallv / ineighbor_alltoallv / neighbor_alltoallv_init (data, place);
}
