//! Guards that complete a request when they go out of scope.

use std::mem;
use std::ptr;

use super::{Request, Scope, StaticScope};
use crate::ffi::MPI_Request;
use crate::raw::traits::*;
use crate::{engine, error};

/// Waits for its request when it is dropped; while a panic unwinds, a request that still runs ends the job instead.
#[derive(Debug)]
pub struct WaitGuard<'a, D: ?Sized, S: Scope<'a> = StaticScope>(Option<Request<'a, D, S>>);

impl<'a, D: ?Sized, S: Scope<'a>> Drop for WaitGuard<'a, D, S> {
    fn drop(&mut self) {
        let Some(request) = self.0.take() else { return };
        if std::thread::panicking() && !engine::is_complete(request.as_raw()) {
            error::abort_if_unwinding("a guarded request was still running");
        }
        request.wait();
    }
}

// SAFETY: the operation runs as long as the guard holds it.
unsafe impl<'a, D: ?Sized, S: Scope<'a>> AsRaw for WaitGuard<'a, D, S> {
    type Raw = MPI_Request;
    fn as_raw(&self) -> Self::Raw {
        self.0.as_ref().expect("the guard holds its request until it is dropped").as_raw()
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<WaitGuard<'a, D, S>> for Request<'a, D, S> {
    fn from(mut guard: WaitGuard<'a, D, S>) -> Self {
        guard.0.take().expect("the guard holds its request until it is dropped")
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<Request<'a, D, S>> for WaitGuard<'a, D, S> {
    fn from(req: Request<'a, D, S>) -> Self {
        WaitGuard(Some(req))
    }
}

/// Cancels its request when it is dropped, then waits for it.
#[derive(Debug)]
pub struct CancelGuard<'a, D: ?Sized, S: Scope<'a> = StaticScope>(WaitGuard<'a, D, S>);

impl<'a, D: ?Sized, S: Scope<'a>> Drop for CancelGuard<'a, D, S> {
    fn drop(&mut self) {
        if let Some(request) = &self.0.0 {
            request.cancel();
        }
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<CancelGuard<'a, D, S>> for WaitGuard<'a, D, S> {
    fn from(guard: CancelGuard<'a, D, S>) -> Self {
        // SAFETY: the field is read once and the guard is forgotten, so nothing is dropped twice.
        let inner = unsafe { ptr::read(&guard.0) };
        mem::forget(guard);
        inner
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<WaitGuard<'a, D, S>> for CancelGuard<'a, D, S> {
    fn from(guard: WaitGuard<'a, D, S>) -> Self {
        CancelGuard(guard)
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> From<Request<'a, D, S>> for CancelGuard<'a, D, S> {
    fn from(req: Request<'a, D, S>) -> Self {
        CancelGuard(WaitGuard::from(req))
    }
}
