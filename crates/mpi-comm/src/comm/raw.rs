//! What rests on a promise of the caller: communicators as addresses, for faces that hand out
//! handles, and memory that is had when a message is there; and the end of the process without destructors. The only
//! unsafe code of the crate.
#![allow(unsafe_code)]

use super::p2p::NULL_STATUS;
use super::{Comm, Inner, Source};
use mpi_datatype::Datatype;
use mpi_p2p::{AllocFn, Error, RequestId, Status, Tag};
use std::mem::ManuallyDrop;
use std::sync::Arc;

impl Comm {
    /// An address that names the communicator as long as a handle to it lives; the same for all
    /// handles.
    pub fn as_raw(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }

    /// The handle as an address, which keeps the communicator alive.
    pub fn into_raw(self) -> *const () {
        ManuallyDrop::new(self).as_raw()
    }

    /// The handle again.
    ///
    /// # Safety
    /// `raw` came from [`Comm::into_raw`], or from [`Comm::as_raw`] of a handle that was forgotten,
    /// and is not taken back a second time.
    pub unsafe fn from_raw(raw: *const ()) -> Comm {
        // SAFETY: the caller's promise: this is the address of a counted handle that nobody else drops.
        Comm(unsafe { Arc::from_raw(raw.cast::<Inner>()) })
    }

    /// Receives a message whose size is known only when it is here: `alloc` is given its bytes and
    /// returns where they go, as [`Engine::recv_alloc`](mpi_p2p::Engine::recv_alloc). Not called for
    /// the null process.
    ///
    /// # Errors
    /// As [`Comm::recv`]; `Truncate` when the bytes are no whole number of elements.
    ///
    /// # Safety
    /// The memory that `alloc` returns is valid for writes of that many bytes until this returns.
    pub unsafe fn recv_alloc(
        &self,
        source: Source,
        tag: Tag,
        datatype: &Datatype,
        alloc: &mut dyn FnMut(usize) -> *mut u8,
    ) -> Result<Status, Error> {
        match self.incoming("receive", source, tag, Some(datatype))? {
            // SAFETY: the caller's promise, passed on.
            Some(source) => unsafe { self.engine().recv_alloc(self.context(), source, tag, datatype, alloc) },
            None => Ok(NULL_STATUS),
        }
    }

    /// As [`Comm::irecv`] for a message whose size is known only when it is here, as
    /// [`Engine::irecv_alloc`](mpi_p2p::Engine::irecv_alloc).
    ///
    /// # Errors
    /// As [`Comm::irecv`]; the request's: `Truncate` when the bytes are no whole number of elements,
    /// `NoMem`.
    ///
    /// # Safety
    /// The memory that `give` returns is valid for writes of that many bytes until the request is
    /// complete.
    pub unsafe fn irecv_alloc(
        &self,
        source: Source,
        tag: Tag,
        datatype: &Datatype,
        give: Box<AllocFn>,
    ) -> Result<RequestId, Error> {
        match self.incoming("receive", source, tag, Some(datatype))? {
            // SAFETY: the caller's promise, passed on.
            Some(source) => unsafe { self.engine().irecv_alloc(self.context(), source, tag, datatype, give) },
            None => self.complete(NULL_STATUS),
        }
    }
}

/// Ends the process and nothing else: no function that was to be called at its exit is.
pub(crate) fn exit_at_once(status: i32) -> ! {
    // SAFETY: it takes any number, and does not return.
    unsafe { nix::libc::_exit(status) }
}
