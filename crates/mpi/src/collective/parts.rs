//! Buffers in parts, one for each rank, as the layers below take them.

use mpi_coll::InPlaceOr;
use mpi_comm::Comm;
use mpi_datatype::{DatatypeError, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, ErrorClass, RequestId};

use crate::Count;
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf, send_buf};
use crate::error;
use crate::ffi::MPI_Request;
use crate::request::{Request, Scope};

/// What a rank sends.
#[inline(always)]
pub(super) fn data<'a, B: Buffer + ?Sized>(buffer: &B, datatype: &'a B::Out) -> InPlaceOr<SendBuf<'a>> {
    InPlaceOr::Buf(send_buf(buffer, datatype))
}

/// A buffer with an equal part for each rank; what is left over at its end stays out.
#[inline(always)]
pub(super) fn even_data<'a, B: Buffer + ?Sized>(
    comm: &Comm,
    buffer: &B,
    datatype: &'a B::Out,
) -> SendBuf<'a> {
    let whole = send_buf(buffer, datatype);
    whole.part(0, divisible(comm, whole.count()))
}

/// As [`even_data`], to receive into.
#[inline(always)]
pub(super) fn even<'a, B: BufferMut + ?Sized>(
    comm: &Comm,
    buffer: &mut B,
    datatype: &'a B::Out,
) -> RecvBuf<'a> {
    let whole = recv_buf(buffer, datatype);
    whole.part(0, divisible(comm, whole.count()))
}

fn divisible(comm: &Comm, count: usize) -> usize {
    count - count % (comm.target_size() as usize).max(1)
}

/// Counts and displacements without the limit of [`Count`].
pub(super) struct Parts {
    counts: Vec<usize>,
    displacements: Vec<isize>,
}

impl Parts {
    /// Those of a partitioned buffer.
    ///
    /// # Panics
    /// If a count is negative.
    pub fn of<P: Partitioned + ?Sized>(buffer: &P) -> Parts {
        let count =
            |&n: &Count| usize::try_from(n).unwrap_or_else(|_| panic!("a part cannot hold {n} elements"));
        Parts {
            counts: buffer.counts().iter().map(count).collect(),
            displacements: buffer.displs().iter().map(|&d| d as isize).collect(),
        }
    }

    /// The parts to send.
    #[track_caller]
    pub fn send<'a, B: PartitionedBuffer + ?Sized>(
        &'a self,
        comm: &Comm,
        buffer: &B,
        datatype: &'a B::Out,
    ) -> SendBlocks<'a> {
        let start = buffer.pointer().cast();
        // SAFETY: the partition lies inside its buffer, which stays borrowed until the operation is over.
        let blocks =
            unsafe { SendBlocks::new(start, &self.counts, &self.displacements, core_type(datatype)) };
        made(comm, blocks)
    }

    /// The parts to receive.
    #[track_caller]
    pub fn recv<'a, B: PartitionedBufferMut + ?Sized>(
        &'a self,
        comm: &Comm,
        buffer: &mut B,
        datatype: &'a B::Out,
    ) -> RecvBlocks<'a> {
        let start = buffer.pointer_mut().cast();
        // SAFETY: as for `send`, with a mutable borrow.
        let blocks =
            unsafe { RecvBlocks::new(start, &self.counts, &self.displacements, core_type(datatype)) };
        made(comm, blocks)
    }
}

#[track_caller]
fn made<T>(comm: &Comm, blocks: Result<T, DatatypeError>) -> T {
    error::ok(comm, blocks.map_err(|fault| Error::new(ErrorClass::Arg, "partition", fault.to_string())))
}

/// Guards a collective that was started.
///
/// # Safety
/// It must use no memory but `data` and what lives as long.
#[track_caller]
pub(super) unsafe fn started<'a, D: ?Sized, Sc: Scope<'a>>(
    comm: &Comm,
    request: Result<RequestId, Error>,
    data: &'a D,
    scope: Sc,
) -> Request<'a, D, Sc> {
    // SAFETY: the caller's promise.
    unsafe { Request::from_raw(MPI_Request(Some(error::ok(comm, request))), data, scope) }
}
