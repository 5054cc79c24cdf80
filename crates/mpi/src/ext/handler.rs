//! Error handlers of communicators (MPI-4.1 §9.3).

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::Error;
use crate::topology::sealed::{CommunicatorHandle, Kind};
use crate::topology::traits::*;
use crate::topology::{SimpleCommunicator, core_comm};

/// What happens to an error of a plain operation; those named `try_…` return theirs, whatever the handler.
#[derive(Clone, Default)]
pub enum ErrorHandler {
    /// It is printed, and the job ends (`MPI_ERRORS_ARE_FATAL`).
    #[default]
    Fatal,
    /// It is printed, and the processes of the communicator end, and with them the job (`MPI_ERRORS_ABORT`).
    Abort,
    /// The operation panics with it: a plain operation has no other way to return it (`MPI_ERRORS_RETURN`).
    Return,
    /// This is called with it, and then the operation panics as for [`Return`](ErrorHandler::Return). The communicator
    /// may be used in the call.
    Custom(Arc<Custom>),
}

/// A handler of the program's own.
type Custom = dyn Fn(&SimpleCommunicator, &Error) + Send + Sync;

impl ErrorHandler {
    /// A handler from a closure.
    pub fn custom(handler: impl Fn(&SimpleCommunicator, &Error) + Send + Sync + 'static) -> ErrorHandler {
        ErrorHandler::Custom(Arc::new(handler))
    }

    fn to_core(&self) -> mpi_comm::ErrorHandler {
        match self {
            ErrorHandler::Fatal => mpi_comm::ErrorHandler::Fatal,
            ErrorHandler::Abort => mpi_comm::ErrorHandler::Abort,
            ErrorHandler::Return => mpi_comm::ErrorHandler::Return,
            ErrorHandler::Custom(handler) => {
                let handler = handler.clone();
                mpi_comm::ErrorHandler::User(Arc::new(move |comm, error, place| {
                    handler(&borrowed(comm), &Error::at(error.clone(), place));
                }))
            }
        }
    }

    fn from_core(handler: mpi_comm::ErrorHandler) -> ErrorHandler {
        match handler {
            mpi_comm::ErrorHandler::Fatal => ErrorHandler::Fatal,
            mpi_comm::ErrorHandler::Abort => ErrorHandler::Abort,
            mpi_comm::ErrorHandler::Return => ErrorHandler::Return,
            mpi_comm::ErrorHandler::User(handler) => ErrorHandler::custom(move |communicator, error| {
                handler(core_comm(communicator), error.core(), error.place());
            }),
        }
    }
}

impl fmt::Debug for ErrorHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorHandler::Fatal => "Fatal",
            ErrorHandler::Abort => "Abort",
            ErrorHandler::Return => "Return",
            ErrorHandler::Custom(_) => "Custom",
        })
    }
}

/// The communicator, for as long as the handler runs.
fn borrowed(comm: &mpi_comm::Comm) -> SimpleCommunicator {
    let kind = match (comm.is_world(), comm.is_inter()) {
        (true, _) => Kind::World,
        (_, true) => Kind::Inter,
        _ => Kind::User,
    };
    SimpleCommunicator(CommunicatorHandle::new(comm.clone(), kind))
}

/// The error handler of a communicator; communicators made from it inherit it.
///
/// ```no_run
/// use mpi::ext::{ErrorHandler, prelude::*};
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// world.set_error_handler(ErrorHandler::custom(|communicator, error| {
///     eprintln!("rank {} gives up: {error}", communicator.rank());
///     communicator.abort(error.class() as i32);
/// }));
/// ```
pub trait ErrorHandling: Communicator {
    /// The error handler (`MPI_Comm_get_errhandler`).
    fn error_handler(&self) -> ErrorHandler {
        ErrorHandler::from_core(core_comm(self).error_handler())
    }

    /// Sets the error handler (`MPI_Comm_set_errhandler`).
    fn set_error_handler(&self, handler: ErrorHandler) {
        core_comm(self).set_error_handler(handler.to_core());
    }

    /// Calls the error handler with an error (MPI-4.1 §9.5, `MPI_Comm_call_errhandler`). Returns only where that does.
    #[track_caller]
    fn call_error_handler(&self, error: &Error) {
        // The error itself is what the caller has already.
        let place = error.place().or(Some(Location::caller()));
        let _ = core_comm(self).handle_at(error.core().clone(), place);
    }
}

impl<C: Communicator + ?Sized> ErrorHandling for C {}
