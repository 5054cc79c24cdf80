//! Communicators as addresses, for faces that hand out handles. The only unsafe code of the crate.
#![allow(unsafe_code)]

use super::{Comm, Inner};
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
}
