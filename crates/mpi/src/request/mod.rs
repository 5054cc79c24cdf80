//! Running operations, and the rules that keep their buffers safe (MPI-4.1 §3.7).
//!
//! An immediate operation borrows its buffers for as long as a [`Scope`] lasts and returns a [`Request`], which must
//! be completed before the scope ends. [`scope()`] makes a scope on the stack:
//!
//! ```no_run
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let x = 1.5_f64;
//! let mut y = 0.0_f64;
//! mpi::request::scope(|scope| {
//!     let send = world.this_process().immediate_send(scope, &x);
//!     let receive = world.any_process().immediate_receive_into(scope, &mut y);
//!     receive.wait();
//!     send.wait();
//! });
//! assert_eq!(x, y);
//! ```
//!
//! A request that is dropped while it runs panics; a scope that ends while one runs ends the job, for by then the
//! borrow has no other guard. Both rules hold while a panic unwinds, where the job ends with status 101: nothing in
//! this crate waits for a peer while unwinding.

mod collection;
mod guard;
mod place;
mod scope;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ptr;

use mpi_p2p::Error;

pub use self::collection::RequestCollection;
pub use self::guard::{CancelGuard, WaitGuard};
use self::place::Place;
pub use self::scope::{LocalScope, Scope, StaticScope, multiple_scope, scope};
use crate::ffi::MPI_Request;
use crate::point_to_point::Status;
use crate::raw::traits::*;
use crate::{engine, error};

/// A running operation that uses `data`, guarded by the scope `S`.
///
/// It must be completed, by [`wait`](Request::wait) or a [`test`](Request::test) that succeeds, or handed to a
/// [`WaitGuard`], [`CancelGuard`] or [`RequestCollection`].
///
/// # Panics
/// Dropping it while it runs panics; while another panic unwinds, it ends the job with status 101.
#[must_use]
pub struct Request<'a, D: ?Sized, S: Scope<'a> = StaticScope> {
    request: MPI_Request,
    data: &'a D,
    scope: S,
    place: Place,
    phantom: PhantomData<Cell<&'a ()>>,
}

impl<'a, D, S: Scope<'a>> fmt::Debug for Request<'a, D, S>
where
    D: ?Sized + fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("request", &self.request).field("data", &self.data).finish()
    }
}

// SAFETY: the operation runs as long as this value is not completed.
unsafe impl<'a, D: ?Sized, S: Scope<'a>> AsRaw for Request<'a, D, S> {
    type Raw = MPI_Request;
    fn as_raw(&self) -> Self::Raw {
        self.request
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> Drop for Request<'a, D, S> {
    fn drop(&mut self) {
        error::abort_if_unwinding("a request was dropped without being completed");
        panic!(
            "request was dropped without being completed: {}{}",
            engine::describe(self.request),
            self.place
        );
    }
}

/// Waits until one of the requests completes, takes it out of the vector, and returns its former index and its
/// status; `None` where the vector is empty (MPI-4.1 §3.7.5, `MPI_Waitany`).
#[track_caller]
pub fn wait_any<'a, D, S: Scope<'a>>(requests: &mut Vec<Request<'a, D, S>>) -> Option<(usize, Status)> {
    let mut handles: Vec<_> = requests.iter().map(|r| r.as_raw().0).collect();
    let (index, status) = engine::wait_any(&mut handles)?;
    // SAFETY: the operation has completed, so nothing uses its buffers any more.
    unsafe { requests.remove(index).into_raw() };
    Some((index, status))
}

impl<'a, D: ?Sized, S: Scope<'a>> Request<'a, D, S> {
    /// Guards a running operation.
    ///
    /// # Safety
    /// The operation must use no memory but `data` and what lives longer than the scope, and must be guarded once.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn from_raw(request: MPI_Request, data: &'a D, scope: S) -> Self {
        debug_assert_ne!(request, MPI_Request::NULL);
        scope.register();
        Self { request, data, scope, place: Place::here(), phantom: PhantomData }
    }

    /// Gives the guard up.
    ///
    /// # Safety
    /// The caller sees to it that the operation completes before the borrow of its buffers ends.
    #[inline(always)]
    pub unsafe fn into_raw(self) -> (MPI_Request, &'a D, S) {
        // SAFETY: each field is read once and `self` is forgotten, so nothing is dropped twice.
        let parts = unsafe { (self.request, self.data, ptr::read(&self.scope)) };
        mem::forget(self);
        // SAFETY: `from_raw` registered it.
        unsafe { parts.2.unregister() };
        parts
    }

    /// Waits until the operation completes, and returns the data that it used.
    #[track_caller]
    pub fn wait_for_data(self) -> &'a D {
        let data = self.data;
        self.wait();
        data
    }

    /// Waits until the operation completes (MPI-4.1 §3.7.3, `MPI_Wait`).
    #[inline]
    #[track_caller]
    pub fn wait(self) -> Status {
        error::ok_world(self.wait_for_result())
    }

    /// Waits until the operation completes, and says how it ended.
    #[inline]
    pub(crate) fn wait_for_result(self) -> Result<Status, Error> {
        let result = engine::wait(self.request);
        // SAFETY: the operation has completed, with or without an error.
        unsafe { self.into_raw() };
        result
    }

    /// As [`wait`](Self::wait), where nobody asks for the status.
    #[inline]
    #[track_caller]
    pub fn wait_without_status(self) {
        self.wait();
    }

    /// Asks whether the operation has completed; if not, gives the request back (`MPI_Test`).
    ///
    /// # Errors
    /// The request itself, still running.
    #[inline]
    #[track_caller]
    pub fn test(self) -> Result<Status, Self> {
        match self.test_for_result() {
            Ok(result) => Ok(error::ok_world(result)),
            Err(request) => Err(request),
        }
    }

    /// Asks whether the operation has completed, and how; if not, gives the request back.
    #[inline]
    pub(crate) fn test_for_result(self) -> Result<Result<Status, Error>, Self> {
        match engine::test(self.request) {
            Ok(None) => Err(self),
            Ok(Some(status)) => {
                // SAFETY: the operation has completed.
                unsafe { self.into_raw() };
                Ok(Ok(status))
            }
            Err(error) => {
                // SAFETY: as above.
                unsafe { self.into_raw() };
                Ok(Err(error))
            }
        }
    }

    /// As [`test`](Self::test), and returns the data that the operation used.
    ///
    /// # Errors
    /// The request itself, still running.
    #[track_caller]
    pub fn test_with_data(self) -> Result<(Status, &'a D), Self> {
        let data = self.data;
        self.test().map(|status| (status, data))
    }

    /// Asks for the operation to be cancelled; it must still be completed (MPI-4.1 §3.8.4, `MPI_Cancel`).
    #[track_caller]
    pub fn cancel(&self) {
        engine::cancel(self.request);
    }

    /// Moves the request to a shorter scope.
    #[track_caller]
    pub fn shrink_scope_to<'b, S2>(self, scope: S2) -> Request<'b, D, S2>
    where
        'a: 'b,
        S2: Scope<'b>,
    {
        // SAFETY: the operation is guarded again at once, and its data outlives the new scope.
        unsafe {
            let (request, data, _) = self.into_raw();
            Request::from_raw(request, data, scope)
        }
    }
}
