//! One value out of a message, which may be too short to be one.

use std::mem::MaybeUninit;

use mpi_comm::Comm;
use mpi_p2p::{Error, ErrorClass};

use super::Status;

/// What came where one value was asked for.
pub(crate) enum Received<T> {
    /// A value.
    Value(T, Status),
    /// A message that is too short to be one.
    Short(Error),
}

impl<T> Received<T> {
    /// What a receive into `value` found.
    ///
    /// # Safety
    /// If the status tells of `wanted` bytes, a valid value is there.
    #[inline(always)]
    pub(crate) unsafe fn of(
        comm: &Comm,
        value: MaybeUninit<T>,
        status: Status,
        wanted: usize,
    ) -> Received<T> {
        if status.is_short_of(wanted) {
            return Received::Short(short(comm, &status, wanted));
        }
        // SAFETY: the caller's promise.
        Received::Value(unsafe { value.assume_init() }, status)
    }

    /// The same with one error for all that can go wrong.
    pub(crate) fn flatten(self) -> Result<(T, Status), Error> {
        match self {
            Received::Value(value, status) => Ok((value, status)),
            Received::Short(error) => Err(error),
        }
    }
}

/// The value.
///
/// # Panics
/// If the message is too short to be one, as the plain operations say.
#[track_caller]
#[inline(always)]
pub(crate) fn whole<T>(received: Received<T>) -> (T, Status) {
    match received {
        Received::Value(value, status) => (value, status),
        Received::Short(error) => panic_short(&error),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn panic_short(error: &Error) -> ! {
    panic!("{error}")
}

#[cold]
#[inline(never)]
fn short(comm: &Comm, status: &Status, wanted: usize) -> Error {
    let bytes = status.bytes();
    let what = if bytes == 0 { "an empty" } else { "too short a" };
    let detail =
        format!("received {what} message ({bytes} bytes) where one value of {wanted} bytes was expected");
    let mut error = Error::new(ErrorClass::Count, "receive", detail).on(comm.name(), comm.context().id());
    error.peer = Some(status.source_rank());
    error.tag = Some(status.tag());
    (error.bytes, error.room) = (Some(bytes), Some(wanted as u64));
    error
}
