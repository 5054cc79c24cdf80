//! Point-to-point operations and requests under their C names (MPI-4.1 §3).

use std::os::raw::{c_int, c_void};

use mpi_p2p::{ErrorClass, RequestId, SendMode};

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
        match object.comm.handle(done) {
            Ok(done) => {
                put_status(status, done);
                MPI_SUCCESS as c_int
            }
            Err(error) => error.class as c_int,
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
        match object.comm.handle(started) {
            Ok(id) => {
                put(request, MPI_Request(Some(id)));
                MPI_SUCCESS as c_int
            }
            Err(error) => error.class as c_int,
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

/// Waits for a request; its handle becomes null, unless it is persistent.
///
/// # Safety
/// `request` holds a live request or null; `status` is null or writable.
pub unsafe extern "C" fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            // Those of a list leave a persistent request in its place.
            let done = mpi_comm::wait_any(ids(request, 1)?)?;
            put_status(status, done.map_or(mpi_p2p::Status::EMPTY, |(_, status)| status));
            Ok(())
        })
    }
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
    unsafe {
        call(|| {
            let found = test_any(ids(request, 1)?)?;
            put(flag, c_int::from(found.is_some()));
            if let Some(done) = found {
                put_status(status, done.map_or(mpi_p2p::Status::EMPTY, |(_, status)| status));
            }
            Ok(())
        })
    }
}

/// # Safety
/// There are so many handles, reachable through nothing else.
unsafe fn ids<'a>(requests: *mut MPI_Request, n: c_int) -> Outcome<&'a mut [Option<RequestId>]> {
    // SAFETY: a request handle is laid out as the option inside.
    Ok(unsafe { slice_mut(requests.cast(), count(n)?) })
}

/// None while some run and none is complete; `Some(None)` where none is active.
fn test_any(ids: &mut [Option<RequestId>]) -> Outcome<Option<Option<(usize, mpi_p2p::Status)>>> {
    mpi_comm::engine()?.test_any(ids).map_err(|(_, error)| error)
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
    unsafe {
        call(|| {
            let done = mpi_comm::wait_any(ids(requests, count)?)?;
            put(index, done.map_or(MPI_UNDEFINED, |(i, _)| int(i)));
            put_status(status, done.map_or(mpi_p2p::Status::EMPTY, |(_, status)| status));
            Ok(())
        })
    }
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
    unsafe {
        call(|| {
            let found = test_any(ids(requests, count)?)?;
            let done = found.flatten();
            put(index, done.map_or(MPI_UNDEFINED, |(i, _)| int(i)));
            put(flag, c_int::from(found.is_some()));
            put_status(status, done.map_or(mpi_p2p::Status::EMPTY, |(_, status)| status));
            Ok(())
        })
    }
}

/// # Safety
/// The three places are writable for as many as there are requests; `statuses` may be null.
unsafe fn put_some(
    done: Option<Vec<(usize, mpi_p2p::Status)>>,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) {
    // SAFETY: the caller's promise.
    unsafe {
        put(outcount, done.as_ref().map_or(MPI_UNDEFINED, |done| int(done.len())));
        for (i, (index, status)) in done.into_iter().flatten().enumerate() {
            put(indices.add(i), int(index));
            if !statuses.is_null() {
                put_status(statuses.add(i), status);
            }
        }
    }
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
    unsafe {
        call(|| {
            let ids = ids(requests, incount)?;
            let runs = ids.iter().any(Option::is_some);
            let done = mpi_comm::wait_some(ids)?;
            put_some(runs.then_some(done), outcount, indices, statuses);
            Ok(())
        })
    }
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
    unsafe {
        call(|| {
            let ids = ids(requests, incount)?;
            let runs = ids.iter().any(Option::is_some);
            let done = mpi_comm::test_some(ids)?;
            put_some(runs.then_some(done), outcount, indices, statuses);
            Ok(())
        })
    }
}

/// # Safety
/// There is room for as many statuses, or none is wanted.
unsafe fn put_all(done: Vec<mpi_p2p::Status>, statuses: *mut MPI_Status) {
    if !statuses.is_null() {
        // SAFETY: the caller's promise.
        done.into_iter().enumerate().for_each(|(i, status)| unsafe { put_status(statuses.add(i), status) });
    }
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
    unsafe {
        call(|| {
            put_all(mpi_comm::wait_all(ids(requests, count)?)?, statuses);
            Ok(())
        })
    }
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
    unsafe {
        call(|| {
            let done = mpi_comm::test_all(ids(requests, count)?)?;
            put(flag, c_int::from(done.is_some()));
            done.into_iter().for_each(|done| put_all(done, statuses));
            Ok(())
        })
    }
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
        None => Err(mpi_p2p::Error::new(ErrorClass::Request, "cancel", "the null request does not run")),
    })
}

/// Lets go of a request, whose operation goes on; its handle becomes null.
///
/// # Safety
/// `request` holds a live request, whose memory stays as it must until the operation is over.
pub unsafe extern "C" fn MPI_Request_free(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's promise.
    let id = unsafe { request.replace(MPI_Request::NULL).0 };
    call(|| id.map_or(Ok(()), mpi_comm::free))
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
