//! Starting persistent requests under their C names (MPI-4.1 §3.9, §6.13).

use std::os::raw::c_int;

use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::handles::*;

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
