//! One value that is being received.

use std::alloc::{self, Layout};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

use mpi_comm::Comm;

use super::Status;
use super::received::{Received, whole};
use crate::datatype::core_type;
use crate::datatype::traits::*;
use crate::ffi::MPI_Request;
use crate::request::{Request, StaticScope};

/// Will be a value that is being received; must be completed by [`get`](Self::get) or
/// [`try`](Self::try).
///
/// # Panics
/// Dropping it before the value has arrived panics.
#[must_use]
pub struct ReceiveFuture<T> {
    /// Stays where it is when the future is dropped before the operation is over, which writes there.
    place: ManuallyDrop<Place>,
    comm: Comm,
    req: Option<Request<'static, ()>>,
    phantom: PhantomData<T>,
}

/// Memory for a value that is to arrive.
pub(crate) struct Place {
    at: NonNull<u8>,
    layout: Layout,
}

impl Place {
    pub(crate) fn new(layout: Layout) -> Place {
        let dangling = || NonNull::new(std::ptr::without_provenance_mut(layout.align()));
        let at = match layout.size() {
            0 => dangling(),
            // SAFETY: the size is not zero.
            _ => NonNull::new(unsafe { alloc::alloc_zeroed(layout) }),
        };
        Place { at: at.unwrap_or_else(|| alloc::handle_alloc_error(layout)), layout }
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        self.at.as_ptr()
    }
}

// SAFETY: it is memory that nothing else refers to.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Drop for Place {
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: the memory came from `new`, with this layout.
            unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
        }
    }
}

impl<T> ReceiveFuture<T> {
    #[track_caller]
    pub(super) fn new(comm: &Comm, place: Place, request: MPI_Request) -> Self {
        // SAFETY: the operation uses the memory at `place` alone, which is kept until it is over.
        let req = unsafe { Request::from_raw(request, &(), StaticScope) };
        ReceiveFuture {
            place: ManuallyDrop::new(place),
            comm: comm.clone(),
            req: Some(req),
            phantom: PhantomData,
        }
    }
}

impl<T> ReceiveFuture<T>
where
    T: Equivalence,
{
    /// Waits for the value.
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    #[track_caller]
    pub fn get(mut self) -> (T, Status) {
        let status = self.request().wait();
        whole(self.take(status))
    }

    /// The value, if it has arrived; if not, gives the future back.
    ///
    /// # Errors
    /// The future itself, still waiting.
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    #[track_caller]
    pub fn r#try(mut self) -> Result<(T, Status), Self> {
        match self.request().test() {
            Ok(status) => Ok(whole(self.take(status))),
            Err(request) => {
                self.req = Some(request);
                Err(self)
            }
        }
    }

    /// The request, which the caller completes.
    pub(crate) fn request(&mut self) -> Request<'static, ()> {
        self.req.take().expect("a future holds its request until it has completed")
    }

    /// The request, which still runs.
    pub(crate) fn give_back(&mut self, request: Request<'static, ()>) {
        self.req = Some(request);
    }

    /// What has arrived, now that the request has completed.
    pub(crate) fn take(self, status: Status) -> Received<T> {
        assert!(self.req.is_none(), "the value is not there before the request has completed");
        let datatype = T::equivalent_datatype();
        // SAFETY: the place has the size and alignment of a value. A whole value that arrived is valid, as
        // `Equivalence` promises, and read once.
        unsafe {
            let value = self.place.pointer().cast::<MaybeUninit<T>>().read();
            Received::of(&self.comm, value, status, core_type(&datatype).size())
        }
    }
}

impl<T> Drop for ReceiveFuture<T> {
    fn drop(&mut self) {
        if let Some(request) = self.req.take() {
            drop(request); // panics, and the memory stays: the operation still writes to it
            return;
        }
        // SAFETY: the operation is over, and nothing uses the place after this.
        unsafe { ManuallyDrop::drop(&mut self.place) };
    }
}
