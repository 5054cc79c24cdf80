//! From the arguments of the C binding to those of the layer below, and from results to error codes.

use std::os::raw::{c_char, c_int};

use mpi_comm::{Comm, Dest, Source};
use mpi_datatype::{Datatype, DatatypeError, RecvBuf, SendBuf};
use mpi_p2p::{Error, ErrorClass, RequestId, Status, Tag};

use super::constants::*;
use super::handles::*;

/// What a call does, or why it failed.
pub(super) type Outcome<T = ()> = Result<T, Error>;

/// Runs a call that concerns no communicator, or one that only the error knows: that of a request.
pub(super) fn call(body: impl FnOnce() -> Outcome) -> c_int {
    match body() {
        Ok(()) => MPI_SUCCESS as c_int,
        Err(error) => failed(error),
    }
}

/// The code of an error, after the handler has seen it: that of the communicator which it concerns, else that of
/// `MPI_COMM_SELF` (MPI-4.1 §9.3). The line of the program that called is not known: C has none to give.
#[cold]
pub(super) fn failed(error: Error) -> c_int {
    mpi_comm::handle_by_context_at(error, None).class as c_int
}

/// Runs a call on a communicator: an error goes to its handler, and to the caller where that returns.
///
/// # Safety
/// The handle names a live communicator.
pub(super) unsafe fn call_on(comm: MPI_Comm, body: impl FnOnce(&Comm) -> Outcome) -> c_int {
    // SAFETY: the caller's promise.
    let comm = match unsafe { comm.get() } {
        Ok(comm) => comm,
        Err(error) => return failed(error),
    };
    match body(&comm) {
        Ok(()) => MPI_SUCCESS as c_int,
        Err(error) => comm.handle_at(error, None).class as c_int,
    }
}

/// A count that the C binding gives as `int`.
pub(super) fn count(value: c_int) -> Outcome<usize> {
    usize::try_from(value)
        .map_err(|_| Error::new(ErrorClass::Count, "call", format!("{value} is no number of elements")))
}

/// A count for the C binding; `MPI_UNDEFINED` where it does not fit.
pub(super) fn int(value: impl TryInto<c_int>) -> c_int {
    value.try_into().unwrap_or(MPI_UNDEFINED)
}

/// # Safety
/// The handle is null or names a live datatype.
pub(super) unsafe fn datatype<'a>(handle: MPI_Datatype) -> Outcome<&'a Datatype> {
    if handle == MPI_Datatype::NULL {
        return Err(Error::new(ErrorClass::Type, "call", "the null datatype has no elements"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { handle.get() })
}

/// # Safety
/// Address, count and datatype describe readable memory until the operation has completed.
pub(super) unsafe fn sent<'a>(
    buf: *const std::ffi::c_void,
    n: c_int,
    handle: MPI_Datatype,
) -> Outcome<SendBuf<'a>> {
    // SAFETY: the caller's promise.
    unsafe { Ok(SendBuf::new(buf.cast(), count(n)?, datatype(handle)?)) }
}

/// # Safety
/// Address, count and datatype describe writable memory until the operation has completed.
pub(super) unsafe fn room<'a>(
    buf: *mut std::ffi::c_void,
    n: c_int,
    handle: MPI_Datatype,
) -> Outcome<RecvBuf<'a>> {
    // SAFETY: the caller's promise.
    unsafe { Ok(RecvBuf::new(buf.cast(), count(n)?, datatype(handle)?)) }
}

pub(super) fn of_type(fault: DatatypeError) -> Error {
    Error::new(ErrorClass::Type, "datatype", fault.to_string())
}

pub(super) fn to(rank: c_int) -> Dest {
    if rank == MPI_PROC_NULL { Dest::Null } else { Dest::Rank(rank) }
}

pub(super) fn from(rank: c_int) -> Source {
    match rank {
        MPI_ANY_SOURCE => Source::Any,
        MPI_PROC_NULL => Source::Null,
        rank => Source::Rank(rank),
    }
}

pub(super) fn tagged(tag: c_int) -> Tag {
    if tag == MPI_ANY_TAG { Tag::Any } else { Tag::Is(tag) }
}

/// Writes where the caller gave room; null means that it did not ask.
///
/// # Safety
/// `place` is null or writable.
pub(super) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// # Safety
/// As [`put`].
pub(super) unsafe fn put_status(place: *mut MPI_Status, status: Status) {
    // SAFETY: the caller's promise.
    unsafe { put(place, MPI_Status::from_core(status)) };
}

/// Starts an operation and writes its request.
///
/// # Safety
/// `place` is writable.
pub(super) unsafe fn put_request(place: *mut MPI_Request, request: Outcome<RequestId>) -> Outcome {
    let request = MPI_Request(Some(request?));
    // SAFETY: the caller's promise.
    unsafe { put(place, request) };
    Ok(())
}

/// `n` values at `place`; none where `n` is 0, whatever `place` is.
///
/// # Safety
/// There are so many, unchanged for `'a`.
pub(super) unsafe fn slice<'a, T>(place: *const T, n: usize) -> &'a [T] {
    if n == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(place, n) }
}

/// `n` values at `place`, to write.
///
/// # Safety
/// There are so many, reachable through nothing else for `'a`.
pub(super) unsafe fn slice_mut<'a, T>(place: *mut T, n: usize) -> &'a mut [T] {
    if n == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(place, n) }
}

/// Writes a text with its closing 0, cut to `limit` bytes in all, and its length without the 0.
///
/// # Safety
/// `place` has room for `limit` bytes, and `len` for a number.
pub(super) unsafe fn put_text(text: &str, place: *mut c_char, limit: usize, len: *mut c_int) {
    let taken = text.len().min(limit - 1);
    // SAFETY: the caller's promise; both fit into `limit`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), place.cast(), taken);
        place.add(taken).write(0);
        put(len, int(taken));
    }
}
