//! Making inter-communicators under the name of the C binding (MPI-4.1 §7.6.2).

use std::os::raw::c_int;

use super::call::*;
use super::handles::*;

/// An inter-communicator between the group of `local` and another, whose leaders reach each other over `peer`, which
/// only leaders give.
///
/// # Safety
/// The handles name live communicators, that of `peer` at the leader; `newcomm` is writable.
pub unsafe extern "C" fn MPI_Intercomm_create(
    local: MPI_Comm,
    leader: c_int,
    peer: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newcomm: *mut MPI_Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(local, |comm| {
            let over = if comm.rank() as c_int == leader { Some(peer.get()?) } else { None };
            let over = over.as_ref().map(|over| (&**over, remote_leader));
            put(newcomm, MPI_Comm::give(comm.intercomm_create(leader, over, tag)?));
            Ok(())
        })
    }
}
