//! Error handlers: what a face does with an error that a call on a communicator returned.
//!
//! MPI 4.1 section 9.3. The functions of this crate return errors and run no handler; a face that
//! shows plain calls passes each result through [`Comm::handle`].

use crate::limits::{ERROR_EXIT_STATUS, PEER_FAILURE_GRACE};
use crate::{Comm, process};
use mpi_p2p::{Error, ErrorClass};
use std::panic::Location;
use std::sync::Arc;

/// What to do with an error.
#[derive(Clone, Default)]
pub enum ErrorHandler {
    /// Print it and end the job (`MPI_ERRORS_ARE_FATAL`).
    #[default]
    Fatal,
    /// Print it and end the processes of the communicator (`MPI_ERRORS_ABORT`). The launcher ends
    /// the whole job.
    Abort,
    /// Hand it to the caller (`MPI_ERRORS_RETURN`).
    Return,
    /// Call this, then hand the error to the caller.
    User(Arc<UserHandler>),
}

/// Where the program called what failed. None where the call came from another language.
pub type Place = Option<&'static Location<'static>>;

/// A handler of the user's.
pub type UserHandler = dyn Fn(&Comm, &Error, Place) + Send + Sync;

impl std::fmt::Debug for ErrorHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ErrorHandler::Fatal => "Fatal",
            ErrorHandler::Abort => "Abort",
            ErrorHandler::Return => "Return",
            ErrorHandler::User(_) => "User",
        })
    }
}

impl Comm {
    /// Passes a result through the communicator's error handler. Returns, with an error, only
    /// where the handler is no fatal one.
    ///
    /// # Errors
    /// The error handed in.
    #[track_caller]
    #[inline]
    pub fn handle<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        match result {
            Ok(value) => Ok(value),
            Err(error) => Err(self.handle_at(error, Some(Location::caller()))),
        }
    }

    /// As [`Comm::handle`], for a face that knows better where the program called.
    #[cold]
    pub fn handle_at(&self, error: Error, place: Place) -> Error {
        match self.error_handler() {
            ErrorHandler::Return => error,
            ErrorHandler::User(handler) => {
                handler(self, &error, place);
                error
            }
            ErrorHandler::Fatal | ErrorHandler::Abort => fatal_at(&error, place),
        }
    }
}

/// What a face does with the error of a request, which remembers its communicator by the context only: runs the
/// handler of that communicator. An error that concerns no communicator goes to the handler of the calling process's
/// own one (MPI-4.1 §9.3), as long as there is that. Returns only where the handler is no fatal one.
#[track_caller]
#[cold]
pub fn handle_by_context(error: Error) -> Error {
    handle_by_context_at(error, Some(Location::caller()))
}

/// As [`handle_by_context`], for a face that knows better where the program called.
#[cold]
pub fn handle_by_context_at(error: Error, place: Place) -> Error {
    let comm = match &error.comm {
        // One that is not found has the default handler.
        Some((_, context)) => Comm::with_own_handler(*context),
        None => process::try_self_comm().ok(),
    };
    match comm {
        Some(comm) => comm.handle_at(error, place),
        None => fatal_at(&error, place),
    }
}

/// What a face does with an error that no handler can be asked about, as there is no communicator: prints it and ends
/// the job.
#[track_caller]
#[cold]
pub fn fatal(error: &Error) -> ! {
    fatal_at(error, Some(Location::caller()))
}

/// As [`fatal`], for a face that knows better where the program called.
#[cold]
pub fn fatal_at(error: &Error, place: Place) -> ! {
    if matches!(error.class, ErrorClass::ProcFailed | ErrorClass::ProcFailedPending) {
        // The launcher knows better which process failed first, and how. When it ends the job, the
        // control thread ends this process meanwhile.
        std::thread::sleep(PEER_FAILURE_GRACE);
    }
    let context = error.comm.as_ref().map(|(_, context)| format!("context {context}"));
    let place = place.filter(|_| cfg!(debug_assertions)).map(|place| format!("at {place}"));
    let more: Vec<String> = context.into_iter().chain(place).collect();
    let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
    process::abort(ERROR_EXIT_STATUS, &format!("{}: {error}{more}", error.class.name()))
}
