//! What all communicators are inside.

use mpi_comm::Comm;

use crate::ffi::MPI_Comm;
use crate::raw::traits::*;

/// What kind of communicator it is, which decides how its handle looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// All processes that started together.
    World,
    /// The calling process alone.
    SelfComm,
    /// The way to the processes that spawned this one; it belongs to the process.
    Parent,
    /// An intra-communicator that the program made.
    User,
    /// An inter-communicator that the program made.
    Inter,
}

/// A communicator, owned. Dropping it lets go of it, which is local and waits for nobody.
#[derive(Debug)]
pub struct CommunicatorHandle {
    comm: Comm,
    kind: Kind,
}

impl CommunicatorHandle {
    /// Wraps a communicator of the layer below.
    pub fn new(comm: Comm, kind: Kind) -> CommunicatorHandle {
        CommunicatorHandle { comm, kind }
    }

    /// All processes that started together.
    #[track_caller]
    pub fn world() -> CommunicatorHandle {
        Self::new(mpi_comm::world(), Kind::World)
    }

    /// The calling process alone.
    #[track_caller]
    pub fn self_comm() -> CommunicatorHandle {
        Self::new(mpi_comm::self_comm(), Kind::SelfComm)
    }

    /// Takes over the communicator that a handle names; `None` for the null handle.
    ///
    /// # Safety
    /// `raw` is predefined, or was lent by a communicator that is never used again.
    pub unsafe fn try_from_raw(raw: MPI_Comm) -> Option<CommunicatorHandle> {
        match raw {
            MPI_Comm::NULL => None,
            MPI_Comm::WORLD => Some(Self::world()),
            MPI_Comm::SELF => Some(Self::self_comm()),
            raw => {
                // As the predefined ones, the parent belongs to the process.
                if let Some(parent) = mpi_comm::parent().filter(|parent| parent.as_raw() == raw.0) {
                    return Some(Self::new(parent, Kind::Parent));
                }
                // SAFETY: the caller's promise.
                let comm = unsafe { Comm::from_raw(raw.0) };
                let kind = if comm.is_inter() { Kind::Inter } else { Kind::User };
                Some(Self::new(comm, kind))
            }
        }
    }

    /// The communicator of the layer below.
    #[inline(always)]
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// What kind it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

// SAFETY: the communicator lives as long as the handle that owns it.
unsafe impl AsRaw for CommunicatorHandle {
    type Raw = MPI_Comm;
    fn as_raw(&self) -> Self::Raw {
        match self.kind {
            Kind::World => MPI_Comm::WORLD,
            Kind::SelfComm => MPI_Comm::SELF,
            Kind::Parent | Kind::User | Kind::Inter => MPI_Comm::naming(&self.comm),
        }
    }
}

/// Lends the handle of a communicator. Only this crate can implement it, and so `Communicator`.
pub trait AsHandle: AsRaw<Raw = MPI_Comm> {
    /// The handle.
    fn as_handle(&self) -> &CommunicatorHandle;

    /// Whether the handle is in this value, so that whoever has the value for itself has the handle.
    fn owns_handle(&self) -> bool;
}
