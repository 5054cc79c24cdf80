//! One value that is being received.

use std::alloc::{self, Layout};
use std::mem;
use std::ptr::NonNull;

use super::{Status, empty_message};
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
    val: NonNull<T>,
    req: Option<Request<'static, ()>>,
}

/// Memory for a value that is to arrive.
pub(super) fn place(layout: Layout) -> NonNull<u8> {
    if layout.size() == 0 {
        return layout_dangling(layout);
    }
    // SAFETY: the size is not zero.
    let place = unsafe { alloc::alloc_zeroed(layout) };
    NonNull::new(place).unwrap_or_else(|| alloc::handle_alloc_error(layout))
}

fn layout_dangling(layout: Layout) -> NonNull<u8> {
    NonNull::new(std::ptr::without_provenance_mut(layout.align())).expect("no alignment is zero")
}

impl<T> ReceiveFuture<T> {
    pub(super) fn new(val: NonNull<T>, request: MPI_Request) -> Self {
        // SAFETY: the operation uses the memory at `val` alone, which is kept until it is over.
        let req = unsafe { Request::from_raw(request, &(), StaticScope) };
        ReceiveFuture { val, req: Some(req) }
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
    pub fn get(mut self) -> (T, Status) {
        let status = self.req.take().expect("a future holds its request until it has completed").wait();
        self.take(status)
    }

    /// The value, if it has arrived; if not, gives the future back.
    ///
    /// # Errors
    /// The future itself, still waiting.
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    pub fn r#try(mut self) -> Result<(T, Status), Self> {
        match self.req.take().expect("a future holds its request until it has completed").test() {
            Ok(status) => Ok(self.take(status)),
            Err(request) => {
                self.req = Some(request);
                Err(self)
            }
        }
    }

    fn take(self, status: Status) -> (T, Status) {
        let datatype = T::equivalent_datatype();
        if status.is_short_of(core_type(&datatype).size()) {
            empty_message(&status, core_type(&datatype).size());
        }
        // SAFETY: a whole value arrived, and `Equivalence` promises that it is valid. It is read once.
        (unsafe { self.val.read() }, status)
    }
}

impl<T> Drop for ReceiveFuture<T> {
    fn drop(&mut self) {
        if let Some(request) = self.req.take() {
            drop(request); // panics, and the memory stays: the operation still writes to it
            return;
        }
        if mem::size_of::<T>() != 0 {
            // SAFETY: the memory came from `place`, and the operation is over.
            unsafe { alloc::dealloc(self.val.as_ptr().cast(), Layout::new::<T>()) };
        }
    }
}
