//! Persistent requests under their C names (MPI-4.1 §3.9, §6.13).

use std::os::raw::{c_int, c_void};

use mpi_p2p::{Error, ErrorClass, SendMode};

use super::call::*;
use super::handles::*;

macro_rules! send_inits {
    ($($(#[$doc:meta])* $name:ident = $mode:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Address, count and datatype describe readable memory whenever the request is active; the communicator
        /// lives; `request` is writable.
        pub unsafe extern "C" fn $name(
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
                    put_request(request, comm.send_init(to(dest), tag, buf, SendMode::$mode))
                })
            }
        }
    )*};
}

send_inits! {
    /// Sets up a standard send.
    MPI_Send_init = Standard;
    /// Sets up a buffered send.
    MPI_Bsend_init = Buffered;
    /// Sets up a synchronous send.
    MPI_Ssend_init = Synchronous;
    /// Sets up a ready send.
    MPI_Rsend_init = Ready;
}

/// Sets up a receive.
///
/// # Safety
/// Address, count and datatype describe writable memory whenever the request is active; the communicator lives;
/// `request` is writable.
pub unsafe extern "C" fn MPI_Recv_init(
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
            put_request(request, comm.recv_init(from(source), tagged(tag), room(buf, count, datatype)?))
        })
    }
}

/// Starts an inactive persistent request.
///
/// # Safety
/// `request` points to a live handle; the memory of its operation is as was said when it was made.
pub unsafe extern "C" fn MPI_Start(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { MPI_Startall(1, request) }
}

/// Starts inactive persistent requests, in any order.
///
/// # Safety
/// As [`MPI_Start`] for `n` handles in a row.
pub unsafe extern "C" fn MPI_Startall(n: c_int, requests: *mut MPI_Request) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        for request in unsafe { slice(requests.cast_const(), count(n)?) } {
            let null = || Error::new(ErrorClass::Request, "start", "the null request cannot be started");
            mpi_comm::restart(request.0.ok_or_else(null)?)?;
        }
        Ok(())
    })
}
