//! One process in a communicator, or any of them.

use super::sealed::{AsHandle, CommunicatorHandle};
use super::{AsCommunicator, Communicator, Rank};
use crate::ffi::MPI_Comm;
use crate::raw::traits::*;

/// A process of a communicator, by its rank: where to send to, receive from, or root a collective at.
#[derive(Copy, Clone)]
pub struct Process<'a> {
    comm: AnyProcess<'a>,
    rank: Rank,
}

impl<'a> Process<'a> {
    #[inline(always)]
    pub(super) fn by_rank<C: Communicator + ?Sized>(c: &'a C, rank: Rank) -> Self {
        Process { comm: AnyProcess(c.as_handle()), rank }
    }

    /// Its rank.
    #[inline(always)]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Whether it is the calling process.
    #[inline]
    pub fn is_self(&self) -> bool {
        self.as_communicator().rank() == self.rank
    }
}

/// Any process of a communicator: whoever sends.
#[derive(Copy, Clone)]
pub struct AnyProcess<'a>(pub(super) &'a CommunicatorHandle);

// SAFETY: the communicator is borrowed.
unsafe impl AsRaw for Process<'_> {
    type Raw = MPI_Comm;
    fn as_raw(&self) -> Self::Raw {
        self.comm.as_raw()
    }
}

impl AsHandle for Process<'_> {
    #[inline(always)]
    fn as_handle(&self) -> &CommunicatorHandle {
        self.comm.0
    }

    fn owns_handle(&self) -> bool {
        false
    }
}

impl Communicator for Process<'_> {
    fn target_size(&self) -> Rank {
        self.comm.target_size()
    }
}

impl<'a> AsCommunicator for Process<'a> {
    type Out = AnyProcess<'a>;
    #[inline(always)]
    fn as_communicator(&self) -> &Self::Out {
        &self.comm
    }
}

// SAFETY: the communicator is borrowed.
unsafe impl AsRaw for AnyProcess<'_> {
    type Raw = MPI_Comm;
    fn as_raw(&self) -> Self::Raw {
        self.0.as_raw()
    }
}

impl AsHandle for AnyProcess<'_> {
    #[inline(always)]
    fn as_handle(&self) -> &CommunicatorHandle {
        self.0
    }

    fn owns_handle(&self) -> bool {
        false
    }
}

impl Communicator for AnyProcess<'_> {
    fn target_size(&self) -> Rank {
        self.0.comm().target_size() as Rank
    }
}

impl AsCommunicator for AnyProcess<'_> {
    type Out = Self;
    #[inline(always)]
    fn as_communicator(&self) -> &Self::Out {
        self
    }
}
