//! Point-to-point operations and requests under their C names (MPI-4.1 §3).

use std::os::raw::{c_int, c_void};

use mpi_p2p::{Completed, Error, ErrorClass, RequestId, SendMode, Status};

use super::call::*;
use super::constants::*;
use super::handles::*;

macro_rules! sends {
    ($($(#[$doc:meta])* $blocking:ident, $immediate:ident = $mode:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Address, count and datatype describe readable memory; the communicator lives.
        pub unsafe extern "C" fn $blocking(
            buf: *const c_void,
            count: c_int,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |comm| comm.send(to(dest), tag, sent(buf, count, datatype)?, SendMode::$mode))
            }
        }

        #[doc = concat!("Starts [`", stringify!($blocking), "`].")]
        ///
        /// # Safety
        /// As there, until the request has completed; `request` is writable.
        pub unsafe extern "C" fn $immediate(
            buf: *const c_void,
            count: c_int,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |comm| {
                    let buf = sent(buf, count, datatype)?;
                    put_request(request, comm.isend(to(dest), tag, buf, SendMode::$mode))
                })
            }
        }
    )*};
}

sends! {
    /// Standard send.
    MPI_Send, MPI_Isend = Standard;
    /// Buffered send.
    MPI_Bsend, MPI_Ibsend = Buffered;
    /// Synchronous send.
    MPI_Ssend, MPI_Issend = Synchronous;
    /// Ready send.
    MPI_Rsend, MPI_Irsend = Ready;
}

/// Receives.
///
/// # Safety
/// Address, count and datatype describe writable memory; the communicator lives; `status` is null or writable.
pub unsafe extern "C" fn MPI_Recv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put_status(status, comm.recv(from(source), tagged(tag), room(buf, count, datatype)?)?);
            Ok(())
        })
    }
}

/// Starts [`MPI_Recv`].
///
/// # Safety
/// As there, until the request has completed; `request` is writable.
pub unsafe extern "C" fn MPI_Irecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put_request(request, comm.irecv(from(source), tagged(tag), room(buf, count, datatype)?))
        })
    }
}

/// Waits for a message and leaves it where it is.
///
/// # Safety
/// The communicator lives; `status` is null or writable.
pub unsafe extern "C" fn MPI_Probe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put_status(status, comm.probe(from(source), tagged(tag))?);
            Ok(())
        })
    }
}

/// Looks for a message and leaves it where it is.
///
/// # Safety
/// The communicator lives; `flag` is writable; `status` is null or writable.
pub unsafe extern "C" fn MPI_Iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let found = comm.iprobe(from(source), tagged(tag))?;
            put(flag, c_int::from(found.is_some()));
            found.into_iter().for_each(|found| put_status(status, found));
            Ok(())
        })
    }
}

/// Waits for a message and sets it aside.
///
/// # Safety
/// The communicator lives; `message` is writable; `status` is null or writable.
pub unsafe extern "C" fn MPI_Mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let (matched, found) = comm.mprobe(from(source), tagged(tag))?;
            put(message, MPI_Message::of(comm, matched));
            put_status(status, found);
            Ok(())
        })
    }
}

/// Looks for a message and sets it aside.
///
/// # Safety
/// The communicator lives; `flag` and `message` are writable; `status` is null or writable.
pub unsafe extern "C" fn MPI_Improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let found = comm.improbe(from(source), tagged(tag))?;
            put(flag, c_int::from(found.is_some()));
            if let Some((matched, found)) = found {
                put(message, MPI_Message::of(comm, matched));
                put_status(status, found);
            }
            Ok(())
        })
    }
}

/// Receives a message that was set aside; its handle becomes null.
///
/// # Safety
/// Address, count and datatype describe writable memory; `message` holds a live message; `status` is null or writable.
pub unsafe extern "C" fn MPI_Mrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let taken = message.replace(MPI_Message::NULL).take();
        let Some(object) = taken else {
            put_status(status, mpi_comm::NULL_STATUS);
            return MPI_SUCCESS as c_int;
        };
        let done = room(buf, count, datatype).and_then(|room| object.comm.mrecv(object.matched, room));
        match done {
            Ok(done) => {
                put_status(status, done);
                MPI_SUCCESS as c_int
            }
            Err(error) => object.comm.handle_at(error, None).class as c_int,
        }
    }
}

/// Starts [`MPI_Mrecv`].
///
/// # Safety
/// As there, until the request has completed; `request` is writable.
pub unsafe extern "C" fn MPI_Imrecv(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let taken = message.replace(MPI_Message::NULL).take();
        let Some(object) = taken else {
            put(request, MPI_Request(Some(RequestId::DONE)));
            return MPI_SUCCESS as c_int;
        };
        let started = room(buf, count, datatype).and_then(|room| object.comm.imrecv(object.matched, room));
        match started {
            Ok(id) => {
                put(request, MPI_Request(Some(id)));
                MPI_SUCCESS as c_int
            }
            Err(error) => object.comm.handle_at(error, None).class as c_int,
        }
    }
}

/// Sends and receives.
///
/// # Safety
/// Both buffers describe memory that may be read and written; the communicator lives; `status` is null or writable.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn MPI_Sendrecv(
    sendbuf: *const c_void,
    sendcount: c_int,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: c_int,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let (data, place) = (sent(sendbuf, sendcount, sendtype)?, room(recvbuf, recvcount, recvtype)?);
            let done = comm.sendrecv(to(dest), sendtag, data, from(source), tagged(recvtag), place)?;
            put_status(status, done);
            Ok(())
        })
    }
}

/// Sends what is in a buffer and receives into it.
///
/// # Safety
/// Address, count and datatype describe writable memory; the communicator lives; `status` is null or writable.
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn MPI_Sendrecv_replace(
    buf: *mut c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let place = room(buf, count, datatype)?;
            let done = comm.sendrecv_replace(place, to(dest), sendtag, from(source), tagged(recvtag))?;
            put_status(status, done);
            Ok(())
        })
    }
}

/// How many elements a message holds.
///
/// # Safety
/// `status` is readable, `count` writable, the datatype lives.
pub unsafe extern "C" fn MPI_Get_count(
    status: *const MPI_Status,
    handle: MPI_Datatype,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            let size = datatype(handle)?.size() as u64;
            let elements = match ((*status).bytes, size) {
                (_, 0) => 0,
                (bytes, size) if bytes % size == 0 => int(bytes / size),
                _ => MPI_UNDEFINED,
            };
            put(count, elements);
            Ok(())
        })
    }
}

/// Whether an operation was cancelled.
///
/// # Safety
/// `status` is readable, `flag` writable.
pub unsafe extern "C" fn MPI_Test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { put(flag, (*status).cancelled) };
    MPI_SUCCESS as c_int
}

/// # Safety
/// There are so many handles, reachable through nothing else.
unsafe fn ids<'a>(requests: *mut MPI_Request, n: c_int) -> Outcome<&'a mut [Option<RequestId>]> {
    // SAFETY: a request handle is laid out as the option inside.
    Ok(unsafe { slice_mut(requests.cast(), count(n)?) })
}

/// What one of several requests came to, with its index; none where no request is active.
type OneOf = Option<(usize, Result<Status, Error>)>;

fn wait_one(ids: &mut [Option<RequestId>]) -> Outcome<OneOf> {
    Ok(match mpi_comm::engine()?.wait_any(ids) {
        Ok(done) => done.map(|(at, status)| (at, Ok(status))),
        Err((at, error)) => Some((at, Err(error))),
    })
}

/// As [`wait_one`], or none while some run and none is complete.
fn test_one(ids: &mut [Option<RequestId>]) -> Outcome<Option<OneOf>> {
    Ok(match mpi_comm::engine()?.test_any(ids) {
        Ok(found) => found.map(|done| done.map(|(at, status)| (at, Ok(status)))),
        Err((at, error)) => Some(Some((at, Err(error)))),
    })
}

/// The status of an operation; that of one that failed says what is known of the message, and the class.
fn status_of(result: &Result<Status, Error>) -> Status {
    match result {
        Ok(status) => *status,
        Err(error) => Status {
            source: error.peer.unwrap_or(Status::EMPTY.source),
            tag: error.tag.unwrap_or(Status::EMPTY.tag),
            error: error.class,
            ..Status::EMPTY
        },
    }
}

/// Writes the status of one operation, and gives its error to whoever called.
///
/// # Safety
/// `place` is null or writable.
unsafe fn put_one(done: OneOf, place: *mut MPI_Status) -> Outcome {
    let result = done.map_or(Ok(Status::EMPTY), |(_, result)| result);
    // SAFETY: the caller's promise.
    unsafe { put_status(place, status_of(&result)) };
    result.map(|_| ())
}

/// Writes the statuses of operations that completed together. Where some failed, the handler sees the first error, and
/// the code says that each status has its own (MPI-4.1 §3.7.5).
///
/// # Safety
/// `statuses` is null or has room for all.
unsafe fn put_all(done: Vec<Result<Status, Error>>, statuses: *mut MPI_Status) -> c_int {
    let mut first = None;
    for (i, result) in done.into_iter().enumerate() {
        if !statuses.is_null() {
            // SAFETY: the caller's promise.
            unsafe { put_status(statuses.add(i), status_of(&result)) };
        }
        first = first.or(result.err());
    }
    match first {
        None => MPI_SUCCESS as c_int,
        Some(error) => {
            failed(error);
            ErrorClass::InStatus as c_int
        }
    }
}

/// As [`put_all`], with the indices of those that completed; none where no request is active.
///
/// # Safety
/// The three places are writable for as many as there are requests; `statuses` may be null.
unsafe fn put_some(
    done: Option<Completed>,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        put(outcount, done.as_ref().map_or(MPI_UNDEFINED, |done| int(done.len())));
        let done = done.unwrap_or_default();
        done.iter().enumerate().for_each(|(i, (index, _))| put(indices.add(i), int(*index)));
        put_all(done.into_iter().map(|(_, result)| result).collect(), statuses)
    }
}

/// As [`call`], for a body that gives a code itself.
fn coded(body: impl FnOnce() -> Outcome<c_int>) -> c_int {
    body().unwrap_or_else(failed)
}

/// Waits for a request; its handle becomes null, unless it is persistent.
///
/// # Safety
/// `request` holds a live request or null; `status` is null or writable.
pub unsafe extern "C" fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    // SAFETY: the caller's promise. A list of one leaves a persistent request in its place.
    call(|| unsafe { put_one(wait_one(ids(request, 1)?)?, status) })
}

/// Whether a request has completed; if so, its handle becomes null, unless it is persistent.
///
/// # Safety
/// As [`MPI_Wait`]; `flag` is writable.
pub unsafe extern "C" fn MPI_Test(
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let found = test_one(ids(request, 1)?)?;
        put(flag, c_int::from(found.is_some()));
        found.map_or(Ok(()), |done| put_one(done, status))
    })
}

/// Waits until one of several requests completes.
///
/// # Safety
/// There are `count` handles; `index` is writable; `status` is null or writable.
pub unsafe extern "C" fn MPI_Waitany(
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let done = wait_one(ids(requests, count)?)?;
        put(index, done.as_ref().map_or(MPI_UNDEFINED, |(i, _)| int(*i)));
        put_one(done, status)
    })
}

/// Takes one of several requests that has completed.
///
/// # Safety
/// As [`MPI_Waitany`]; `flag` is writable.
pub unsafe extern "C" fn MPI_Testany(
    count: c_int,
    requests: *mut MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let found = test_one(ids(requests, count)?)?;
        put(flag, c_int::from(found.is_some()));
        let done = found.flatten();
        put(index, done.as_ref().map_or(MPI_UNDEFINED, |(i, _)| int(*i)));
        put_one(done, status)
    })
}

/// Waits until some of several requests complete.
///
/// # Safety
/// There are `incount` handles, and room for as many indices and statuses; `statuses` may be null.
pub unsafe extern "C" fn MPI_Waitsome(
    incount: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    coded(|| unsafe {
        let done = mpi_comm::engine()?.wait_some(ids(requests, incount)?);
        Ok(put_some(done, outcount, indices, statuses))
    })
}

/// Takes those of several requests that have completed.
///
/// # Safety
/// As [`MPI_Waitsome`].
pub unsafe extern "C" fn MPI_Testsome(
    incount: c_int,
    requests: *mut MPI_Request,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    coded(|| unsafe {
        let done = mpi_comm::engine()?.test_some(ids(requests, incount)?);
        Ok(put_some(done, outcount, indices, statuses))
    })
}

/// Waits for all of several requests.
///
/// # Safety
/// There are `count` handles, and room for as many statuses; `statuses` may be null.
pub unsafe extern "C" fn MPI_Waitall(
    count: c_int,
    requests: *mut MPI_Request,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    coded(|| unsafe { Ok(put_all(mpi_comm::engine()?.wait_all(ids(requests, count)?), statuses)) })
}

/// Whether all of several requests have completed.
///
/// # Safety
/// As [`MPI_Waitall`]; `flag` is writable.
pub unsafe extern "C" fn MPI_Testall(
    count: c_int,
    requests: *mut MPI_Request,
    flag: *mut c_int,
    statuses: *mut MPI_Status,
) -> c_int {
    // SAFETY: the caller's promise.
    coded(|| unsafe {
        let done = mpi_comm::engine()?.test_all(ids(requests, count)?);
        put(flag, c_int::from(done.is_some()));
        Ok(put_all(done.unwrap_or_default(), statuses))
    })
}

/// Asks for a request to be cancelled; it must still be completed.
///
/// # Safety
/// `request` holds a live request.
pub unsafe extern "C" fn MPI_Cancel(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's promise.
    let id = unsafe { (*request).0 };
    call(|| match id {
        Some(id) => mpi_comm::cancel(id),
        None => Err(Error::new(ErrorClass::Request, "cancel", "the null request does not run")),
    })
}

/// Lets go of a request, whose operation goes on; its handle becomes null.
///
/// # Safety
/// `request` holds null or a live request, whose memory stays as it must until the operation is over.
pub unsafe extern "C" fn MPI_Request_free(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's promise.
    let id = unsafe { request.replace(MPI_Request::NULL).0 };
    call(|| match id {
        Some(id) => mpi_comm::free(id),
        None => Err(Error::new(ErrorClass::Request, "free request", "the null request cannot be freed")),
    })
}

/// Makes room for buffered sends. The memory is the library's own; `buffer` is not used.
///
/// # Safety
/// None: the address is not followed.
pub unsafe extern "C" fn MPI_Buffer_attach(_buffer: *mut c_void, size: c_int) -> c_int {
    call(|| mpi_comm::attach_buffer(count(size)?))
}

/// Takes the room for buffered sends away, once all messages have left it.
///
/// # Safety
/// `size` is writable.
pub unsafe extern "C" fn MPI_Buffer_detach(_buffer: *mut c_void, size: *mut c_int) -> c_int {
    call(|| {
        let bytes = mpi_comm::detach_buffer()?;
        // SAFETY: the caller's promise.
        unsafe { put(size, int(bytes)) };
        Ok(())
    })
}
