//! Errors of windows.

use std::panic::Location;

use mpi_comm::{Comm, ErrorHandler};
use mpi_p2p::{Error, ErrorClass};

use crate::topology::Communicator;

/// What a one-sided operation failed of. Its text names the operation, the communicator, the target, the window, and
/// what is known of displacement and sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WindowError(Error);

impl WindowError {
    pub(crate) fn too_large(len: usize, size: usize) -> WindowError {
        let detail = format!("{len} elements of {size} bytes are more than an address space has");
        WindowError(Error::new(ErrorClass::Size, "create window", detail))
    }

    /// The error class of MPI, as a number: `MPI_ERR_RMA_RANGE`, `MPI_ERR_RMA_SYNC`.
    pub fn class(&self) -> crate::Error {
        self.0.class as crate::Error
    }

    /// The rank whose memory it was about.
    pub fn target(&self) -> Option<crate::Rank> {
        self.0.peer
    }

    /// True when a displacement or an address is outside of the target's memory.
    pub fn is_range(&self) -> bool {
        matches!(self.0.class, ErrorClass::RmaRange | ErrorClass::Disp)
    }

    /// True when the epoch does not allow the operation.
    pub fn is_epoch(&self) -> bool {
        self.0.class == ErrorClass::RmaSync
    }

    /// True when a rank that is needed has died.
    pub fn is_failure(&self) -> bool {
        self.0.class == ErrorClass::ProcFailed
    }
}

impl From<Error> for WindowError {
    fn from(error: Error) -> WindowError {
        WindowError(error)
    }
}

/// The communicator of the layer below.
pub(super) fn core<C: Communicator>(comm: &C) -> Comm {
    crate::topology::core_comm(comm).clone()
}

/// The value, or what the communicator's error handler does.
#[track_caller]
pub(super) fn ok_on<C: Communicator, T>(comm: &C, result: Result<T, WindowError>) -> T {
    crate::error::ok(&core(comm), result.map_err(|e| e.0))
}

/// The value, or what the window's error handler does.
///
/// # Panics
/// With the error's text, where the handler returns.
#[track_caller]
#[inline]
pub(super) fn ok_in<T>(window: &mpi_rma::Window, result: Result<T, WindowError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => failed(window, error),
    }
}

#[cold]
#[track_caller]
fn failed(window: &mpi_rma::Window, error: WindowError) -> ! {
    let caller = Location::caller();
    match window.error_handler() {
        ErrorHandler::Fatal | ErrorHandler::Abort => crate::error::fatal(&error.0),
        ErrorHandler::User(handler) => handler(window.comm(), &error.0, Some(caller)),
        ErrorHandler::Return => {}
    }
    panic!("{error} (at {caller})");
}
