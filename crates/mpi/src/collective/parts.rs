//! Buffers in parts, one for each rank, as the layers below take them.

use mpi_coll::{InPlaceOr, Root};
use mpi_comm::Comm;
use mpi_datatype::{DatatypeError, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use mpi_p2p::{Error, ErrorClass, RequestId};

use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf, send_buf};
use crate::error;
use crate::ext;
use crate::ext::error::caught;
use crate::ffi::MPI_Request;
use crate::request::{Request, Scope};
use crate::{Count, Rank};

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
pub(crate) fn even<'a, B: BufferMut + ?Sized>(
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

/// Whether a buffer of `count` elements is an equal part for each rank, which the plain operations do not ask.
///
/// # Errors
/// `Count`.
pub(crate) fn evenly(comm: &Comm, op: &'static str, count: usize) -> Result<(), Error> {
    if count == divisible(comm, count) {
        return Ok(());
    }
    let detail = format!("{count} elements are no equal part for each of {} ranks", comm.target_size());
    Err(on(comm, Error::new(ErrorClass::Count, op, detail)))
}

/// The error of a collective on a buffer of `count` elements that were no equal part for each rank says so.
#[inline]
pub(super) fn with_parts<T>(comm: &Comm, count: usize, result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(|error| of_parts(comm, count, error))
}

#[cold]
fn of_parts(comm: &Comm, count: usize, mut error: Error) -> Error {
    let ranks = comm.target_size() as usize;
    if count != divisible(comm, count) {
        let s = if count == 1 { "" } else { "s" };
        let each = count / ranks.max(1);
        let more = format!("; the buffer has {count} element{s}, which is {each} for each of {ranks} ranks");
        error.detail.push_str(&more);
    }
    error
}

/// Counts and displacements without the limit of [`Count`].
pub(crate) struct Parts {
    counts: Vec<usize>,
    displacements: Vec<isize>,
}

impl Parts {
    /// Those of a partitioned buffer.
    ///
    /// # Errors
    /// `Count` for a negative count.
    pub fn of<P: Partitioned + ?Sized>(comm: &Comm, buffer: &P) -> Result<Parts, Error> {
        if let Some((counts, displacements)) = buffer.large_parts() {
            return Ok(Parts { counts: counts.to_vec(), displacements: displacements.to_vec() });
        }
        let count = |(rank, &n): (usize, &Count)| {
            usize::try_from(n).map_err(|_| {
                let detail = format!("the part of rank {rank} cannot hold {n} elements");
                on(comm, Error::new(ErrorClass::Count, "partition", detail))
            })
        };
        Ok(Parts {
            counts: buffer.counts().iter().enumerate().map(count).collect::<Result<_, _>>()?,
            displacements: buffer.displs().iter().map(|&d| d as isize).collect(),
        })
    }

    /// The parts to send.
    pub fn send<'a, B: PartitionedBuffer + ?Sized>(
        &'a self,
        comm: &Comm,
        buffer: &B,
        datatype: &'a B::Out,
    ) -> Result<SendBlocks<'a>, Error> {
        let start = buffer.pointer().cast();
        // SAFETY: the partition lies inside its buffer, which stays borrowed until the operation is over.
        let blocks =
            unsafe { SendBlocks::new(start, &self.counts, &self.displacements, core_type(datatype)) };
        made(comm, blocks)
    }

    /// The parts to receive.
    pub fn recv<'a, B: PartitionedBufferMut + ?Sized>(
        &'a self,
        comm: &Comm,
        buffer: &mut B,
        datatype: &'a B::Out,
    ) -> Result<RecvBlocks<'a>, Error> {
        let start = buffer.pointer_mut().cast();
        // SAFETY: as for `send`, with a mutable borrow.
        let blocks =
            unsafe { RecvBlocks::new(start, &self.counts, &self.displacements, core_type(datatype)) };
        made(comm, blocks)
    }
}

fn made<T>(comm: &Comm, blocks: Result<T, DatatypeError>) -> Result<T, Error> {
    blocks.map_err(|fault| on(comm, Error::new(ErrorClass::Arg, "partition", fault.to_string())))
}

/// The error under the communicator's name.
fn on(comm: &Comm, error: Error) -> Error {
    error.on(comm.name(), comm.context().id())
}

/// Whether this rank is the root. Ranks of roots are those of the other group in an inter-communicator, where the root
/// itself goes by a name of its own.
pub(crate) fn is_root(comm: &Comm, root: Root) -> bool {
    match root {
        Root::Root => comm.is_inter(),
        Root::Null => false,
        Root::Rank(rank) => !comm.is_inter() && comm.rank() as usize == rank,
    }
}

/// What the root alone calls.
///
/// # Errors
/// `Root` elsewhere.
pub(crate) fn only_root(op: &'static str, comm: &Comm, root: Root) -> Result<(), Error> {
    match is_root(comm, root) {
        true => Ok(()),
        false => Err(wrong_root(op, comm, "only the root calls the method named `_root`", root)),
    }
}

/// What all but the root call.
///
/// # Errors
/// `Root` on the root.
pub(super) fn not_root(op: &'static str, comm: &Comm, root: Root) -> Result<(), Error> {
    match is_root(comm, root) {
        false => Ok(()),
        true => Err(wrong_root(op, comm, "the root calls the method named `_root`", root)),
    }
}

#[cold]
fn wrong_root(op: &'static str, comm: &Comm, rule: &str, root: Root) -> Error {
    let root = match root {
        Root::Root => String::from("of this group"),
        Root::Null => String::from("in the other group"),
        Root::Rank(rank) => format!("rank {}", rank as Rank),
    };
    let detail = format!("{rule}: this is rank {}, and the root is {root}", comm.rank());
    on(comm, Error::new(ErrorClass::Root, op, detail))
}

/// The send buffer of a reduction that is scattered holds one part for each rank.
///
/// # Errors
/// `Count` where it does not.
pub(super) fn one_part(comm: &Comm, whole: usize, part: usize) -> Result<(), Error> {
    let ranks = comm.size() as usize;
    if part.checked_mul(ranks) == Some(whole) {
        return Ok(());
    }
    let detail = format!("{whole} elements are not {part} for each of {ranks} ranks");
    Err(on(comm, Error::new(ErrorClass::Count, "reduce_scatter_block", detail)))
}

/// Guards a collective that was started.
///
/// # Safety
/// It must use no memory but `data` and what lives as long.
#[track_caller]
pub(crate) unsafe fn started<'a, D: ?Sized, Sc: Scope<'a>>(
    comm: &Comm,
    request: Result<RequestId, Error>,
    data: &'a D,
    scope: Sc,
) -> Request<'a, D, Sc> {
    // SAFETY: the caller's promise.
    unsafe { Request::from_raw(MPI_Request(Some(error::ok(comm, request))), data, scope) }
}

/// As [`started`], with its error as a value.
///
/// # Safety
/// As [`started`].
#[track_caller]
pub(crate) unsafe fn try_started<'a, D: ?Sized, Sc: Scope<'a>>(
    request: Result<RequestId, Error>,
    data: &'a D,
    scope: Sc,
) -> Result<Request<'a, D, Sc>, ext::Error> {
    let request = MPI_Request(Some(caught(request)?));
    // SAFETY: the caller's promise.
    Ok(unsafe { Request::from_raw(request, data, scope) })
}
