//! What hangs on a window beside its memory: hints, values of the program's own, and what is done with errors.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use mpi_comm::Info;

use super::{Element, Window, WindowError};
use crate::topology::Communicator;

/// What happens to an error of a plain operation on a window; those named `try_…` return theirs, whatever the handler.
/// A new window has that of its communicator.
#[derive(Clone, Default)]
pub enum ErrorHandler {
    /// It is printed, and the job ends (`MPI_ERRORS_ARE_FATAL`).
    #[default]
    Fatal,
    /// It is printed, and the processes of the window end, and with them the job (`MPI_ERRORS_ABORT`).
    Abort,
    /// The operation panics with it: a plain operation has no other way to return it (`MPI_ERRORS_RETURN`).
    Return,
    /// This is called with it, and then the operation panics as for [`Return`](ErrorHandler::Return).
    Custom(Arc<dyn Fn(&WindowError) + Send + Sync>),
}

impl ErrorHandler {
    /// A handler from a closure.
    pub fn custom(handler: impl Fn(&WindowError) + Send + Sync + 'static) -> ErrorHandler {
        ErrorHandler::Custom(Arc::new(handler))
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

/// Values of the program's own, one of each type.
#[derive(Debug, Default)]
pub(super) struct Attributes(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl<T: Element> Window<T> {
    /// As [`allocate`](Window::allocate), with hints: keys and values of MPI-4.1 §12.2.1. Those that are not known, or
    /// have a value that makes no sense, are passed over.
    ///
    /// # Errors
    /// As [`try_allocate`](Window::try_allocate); a key or a value that is too long.
    pub fn try_allocate_with<C: Communicator>(
        comm: &C,
        len: usize,
        hints: &[(&str, &str)],
    ) -> Result<Window<T>, WindowError> {
        let core = super::error::core(comm);
        let options = super::options::<T>(len)
            .and_then(|options| Ok(mpi_rma::Options { info: info_of(hints)?, ..options }))
            .map_err(|e| super::refuse(e, |none| mpi_rma::Window::allocate(&core, none)))?;
        let core = mpi_rma::Window::allocate(&core, &options)?;
        Ok(Window::of(core, None, len))
    }

    /// The hints in use, known ones with their values.
    pub fn hints(&self) -> Vec<(String, String)> {
        self.core.info().iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Changes hints that may change while a window lives; others are passed over. On all ranks alike.
    ///
    /// # Errors
    /// A key or a value that is too long.
    pub fn set_hints(&self, hints: &[(&str, &str)]) -> Result<(), WindowError> {
        self.core.set_info(&info_of(hints)?);
        Ok(())
    }

    /// Keeps a value with the window, one of each type, and gives back the one that it replaces. It is dropped with
    /// the window.
    pub fn set_attr<A: Any + Send + Sync>(&mut self, value: A) -> Option<A> {
        let old = self.attributes.0.insert(TypeId::of::<A>(), Box::new(value))?;
        old.downcast().ok().map(|old| *old)
    }

    /// The value of this type.
    pub fn get_attr<A: Any + Send + Sync>(&self) -> Option<&A> {
        self.attributes.0.get(&TypeId::of::<A>())?.downcast_ref()
    }

    /// Takes the value of this type back.
    pub fn remove_attr<A: Any + Send + Sync>(&mut self) -> Option<A> {
        self.attributes.0.remove(&TypeId::of::<A>())?.downcast().ok().map(|old| *old)
    }

    /// Sets what is done with errors of plain operations.
    pub fn set_error_handler(&self, handler: ErrorHandler) {
        self.core.set_error_handler(match handler {
            ErrorHandler::Fatal => mpi_comm::ErrorHandler::Fatal,
            ErrorHandler::Abort => mpi_comm::ErrorHandler::Abort,
            ErrorHandler::Return => mpi_comm::ErrorHandler::Return,
            ErrorHandler::Custom(handler) => mpi_comm::ErrorHandler::User(Arc::new(move |_, error, _| {
                handler(&WindowError::from(error.clone()));
            })),
        });
    }
}

fn info_of(hints: &[(&str, &str)]) -> Result<Info, WindowError> {
    let mut info = Info::new();
    for (key, value) in hints {
        info.set(key, value)?;
    }
    Ok(info)
}
