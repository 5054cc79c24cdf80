//! Making communicators, with errors as values.

use crate::ext::Error;
use crate::ext::error::caught;
use crate::topology::group::core_group;
use crate::topology::traits::*;
use crate::topology::{
    CartesianCommunicator, Color, Group, Key, Process, Rank, SimpleCommunicator, core_comm,
};
use crate::{Count, Tag};
use mpi_p2p::ErrorClass;

/// The operations of [`Communicator`] with errors as values.
pub trait TryCommunicator: Communicator {
    /// [`process_at_rank`](Communicator::process_at_rank) with its error as a value.
    ///
    /// # Errors
    /// `Rank` where there is none.
    #[track_caller]
    fn try_process_at_rank(&self, rank: Rank) -> Result<Process<'_>, Error> {
        let size = self.target_size();
        if (0..size).contains(&rank) {
            return Ok(self.process_at_rank(rank));
        }
        let comm = core_comm(self);
        let detail = format!("there is no rank {rank} among {size} ranks");
        let error = mpi_p2p::Error::new(ErrorClass::Rank, "process at rank", detail);
        Err(error.on(comm.name(), comm.context().id()).into())
    }

    /// [`duplicate`](Communicator::duplicate) with its error as a value.
    ///
    /// # Errors
    /// `Other` where the copy of an attribute fails, or no context is left.
    #[track_caller]
    fn try_duplicate(&self) -> Result<SimpleCommunicator, Error> {
        Ok(SimpleCommunicator::made(caught(core_comm(self).dup())?))
    }

    /// [`split_by_color_with_key`](Communicator::split_by_color_with_key) with its error as a value.
    ///
    /// # Errors
    /// Those of a new communicator.
    #[track_caller]
    fn try_split_by_color_with_key(
        &self,
        color: Color,
        key: Key,
    ) -> Result<Option<SimpleCommunicator>, Error> {
        Ok(caught(core_comm(self).split(color.value(), key))?.map(SimpleCommunicator::made))
    }

    /// [`split_shared`](Communicator::split_shared) with its error as a value.
    ///
    /// # Errors
    /// Those of a new communicator.
    #[track_caller]
    fn try_split_shared(&self, key: Key) -> Result<SimpleCommunicator, Error> {
        let made = core_comm(self).split_type(mpi_comm::SplitKind::Shared, key);
        Ok(SimpleCommunicator::made(caught(made)?))
    }

    /// [`split_by_subgroup_collective`](Communicator::split_by_subgroup_collective) with its error as a value.
    ///
    /// # Errors
    /// `Group` where the group is none of this communicator's; those of a new communicator.
    #[track_caller]
    fn try_split_by_subgroup_collective(
        &self,
        group: &dyn Group,
    ) -> Result<Option<SimpleCommunicator>, Error> {
        Ok(caught(core_comm(self).create(core_group(group)))?.map(SimpleCommunicator::made))
    }

    /// [`split_by_subgroup_with_tag`](Communicator::split_by_subgroup_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Group` where the group is none of this communicator's, `Tag`; those of a new communicator.
    #[track_caller]
    fn try_split_by_subgroup_with_tag(
        &self,
        group: &dyn Group,
        tag: Tag,
    ) -> Result<Option<SimpleCommunicator>, Error> {
        Ok(caught(core_comm(self).create_group(core_group(group), tag))?.map(SimpleCommunicator::made))
    }

    /// [`create_cartesian_communicator`](Communicator::create_cartesian_communicator) with its error as a value.
    ///
    /// # Errors
    /// `Dims` for a grid that cannot be, or needs more ranks than there are; those of a new communicator.
    #[track_caller]
    fn try_create_cartesian_communicator(
        &self,
        dims: &[Count],
        periods: &[bool],
        reorder: bool,
    ) -> Result<Option<CartesianCommunicator>, Error> {
        let made = caught(core_comm(self).cart_create(dims, periods, reorder))?;
        Ok(made.map(|comm| CartesianCommunicator(SimpleCommunicator::made(comm))))
    }
}

impl<C: Communicator + ?Sized> TryCommunicator for C {}
