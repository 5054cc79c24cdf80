//! Inter-communicators: from one group of processes to another (MPI-4.1 §7.6).

use super::sealed::{AsHandle, CommunicatorHandle, Kind};
use super::simple::communicator;
use super::{AsCommunicator, Communicator, MergeOrder, Rank, SimpleCommunicator, UserGroup, core_comm};
use crate::error;
use crate::ffi::MPI_Comm;
use crate::raw::traits::*;

/// Leads from this process's group to another: ranks to send to and receive from are those of the other group.
///
/// Dropping it lets go of the connection without waiting for the other side.
pub struct InterCommunicator(pub(crate) CommunicatorHandle);

impl InterCommunicator {
    /// Takes over the communicator that a handle names, if it is an inter-communicator that the program made.
    ///
    /// # Safety
    /// As for [`FromRaw::from_raw`], except that any kind of communicator and the null handle may come.
    pub unsafe fn try_from_raw(raw: MPI_Comm) -> Option<Self> {
        // SAFETY: the caller's promise.
        let handle = unsafe { CommunicatorHandle::try_from_raw(raw) }?;
        (handle.kind() == Kind::Inter).then(|| InterCommunicator(handle))
    }

    pub(crate) fn parent_of_world(comm: mpi_comm::Comm) -> InterCommunicator {
        InterCommunicator(CommunicatorHandle::new(comm, Kind::Parent))
    }

    /// One that a call has made.
    pub(crate) fn made(comm: mpi_comm::Comm) -> InterCommunicator {
        InterCommunicator(CommunicatorHandle::new(comm, Kind::Inter))
    }

    /// How many processes the other group has (`MPI_Comm_remote_size`).
    pub fn remote_size(&self) -> Rank {
        core_comm(self).target_size() as Rank
    }

    /// The other group (`MPI_Comm_remote_group`).
    pub fn remote_group(&self) -> UserGroup {
        let comm = core_comm(self);
        UserGroup::made(comm.remote_group().unwrap_or_else(|| comm.group()))
    }

    /// Joins both groups into one communicator, those that say [`MergeOrder::Low`] first (`MPI_Intercomm_merge`).
    #[track_caller]
    pub fn merge(&self, merge_order: MergeOrder) -> SimpleCommunicator {
        let comm = core_comm(self);
        SimpleCommunicator::made(error::ok(comm, comm.merge(merge_order == MergeOrder::High)))
    }

    /// [`merge`](InterCommunicator::merge) with its error as a value.
    ///
    /// # Errors
    /// Those of a new communicator.
    #[track_caller]
    pub fn try_merge(&self, merge_order: MergeOrder) -> Result<SimpleCommunicator, crate::ext::Error> {
        let merged = core_comm(self).merge(merge_order == MergeOrder::High);
        Ok(SimpleCommunicator::made(crate::ext::error::caught(merged)?))
    }
}

impl FromRaw for InterCommunicator {
    unsafe fn from_raw(handle: <Self as AsRaw>::Raw) -> Self {
        // SAFETY: the caller's promise.
        let handle = unsafe { CommunicatorHandle::try_from_raw(handle) };
        InterCommunicator(handle.expect("the null communicator cannot be owned"))
    }
}

communicator!(InterCommunicator, |this| &this.0, target_size: remote_size);
