//! Errors as values.

use std::fmt;
use std::panic::Location;

use mpi_p2p::{Error as Core, ErrorClass};

use crate::topology::core_comm;
use crate::topology::traits::*;
use crate::{Rank, Tag};

/// An operation that did not succeed, with everything known of it.
///
/// It displays as one line: `receive on "grid" from rank 3 tag 7: message of 104 bytes, room for 80`; in a debug build
/// with the place in the program that called the operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    core: Core,
    place: Option<&'static Location<'static>>,
}

impl Error {
    /// An error of the program's own, which a handler of a communicator may be called with.
    #[track_caller]
    pub fn new(class: ErrorClass, operation: &'static str, detail: impl Into<String>) -> Error {
        Core::new(class, operation, detail).into()
    }

    /// The same error as one of a communicator.
    #[must_use]
    pub fn on<C: Communicator + ?Sized>(mut self, communicator: &C) -> Error {
        let comm = core_comm(communicator);
        self.core = self.core.on(comm.name(), comm.context().id());
        self
    }

    /// MPI's class. Its number is that of the MPI-5 ABI.
    pub fn class(&self) -> ErrorClass {
        self.core.class
    }

    /// The operation: `send`, `receive`, `allreduce`.
    pub fn operation(&self) -> &'static str {
        self.core.op
    }

    /// The name of the communicator; `None` where it has none, or the error concerns none.
    pub fn communicator(&self) -> Option<&str> {
        self.core.comm.as_ref().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty())
    }

    /// The number of the communicator's context, which deadlock reports show too.
    pub fn context(&self) -> Option<u32> {
        self.core.comm.as_ref().map(|(_, context)| *context)
    }

    /// The rank of the peer; `None` where there is none, or it may be any.
    pub fn peer(&self) -> Option<Rank> {
        self.core.peer.filter(|rank| *rank >= 0)
    }

    /// The tag; `None` where there is none, or it may be any.
    pub fn tag(&self) -> Option<Tag> {
        self.core.tag.filter(|tag| *tag >= 0)
    }

    /// The length of the message in bytes, where it matters.
    pub fn message_bytes(&self) -> Option<u64> {
        self.core.bytes
    }

    /// The length of the room for it in bytes, where it matters.
    pub fn room_bytes(&self) -> Option<u64> {
        self.core.room
    }

    /// What is wrong, without what the other methods say.
    pub fn detail(&self) -> &str {
        &self.core.detail
    }

    /// Where the program called the operation; known in a debug build.
    pub fn place(&self) -> Option<&'static Location<'static>> {
        self.place
    }

    /// An error of a call at a place that is known already.
    pub(crate) fn at(core: Core, place: mpi_comm::Place) -> Error {
        Error { core, place: place.filter(|_| cfg!(debug_assertions)) }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl From<Core> for Error {
    #[track_caller]
    fn from(core: Core) -> Error {
        // Not as a function value, which would be its own caller.
        Error::at(core, Some(Location::caller()))
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.core)?;
        match self.place {
            Some(place) => write!(f, " (at {place})"),
            None => Ok(()),
        }
    }
}

/// The result for the program, with the place of the caller.
#[track_caller]
#[inline(always)]
pub(crate) fn caught<T>(result: Result<T, Core>) -> Result<T, Error> {
    match result {
        Ok(value) => Ok(value),
        Err(core) => Err(core.into()),
    }
}
