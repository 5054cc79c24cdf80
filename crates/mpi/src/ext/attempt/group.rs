//! Groups, with errors as values.

use crate::ext::Error;
use crate::ext::error::caught;
use crate::topology::group::core_group;
use crate::topology::{Group, Rank, UserGroup};

/// The operations of [`Group`] with errors as values. Errors of the plain ones go to the error handler of the calling
/// process's own communicator (MPI-4.1 §9.3).
pub trait TryGroup: Group {
    /// [`include`](Group::include) with its error as a value.
    ///
    /// # Errors
    /// `Rank` for one that is not in the group, or is named twice.
    #[track_caller]
    fn try_include(&self, ranks: &[Rank]) -> Result<UserGroup, Error> {
        Ok(UserGroup::made(caught(core_group(self).include(ranks))?))
    }

    /// [`exclude`](Group::exclude) with its error as a value.
    ///
    /// # Errors
    /// As [`try_include`](Self::try_include).
    #[track_caller]
    fn try_exclude(&self, ranks: &[Rank]) -> Result<UserGroup, Error> {
        Ok(UserGroup::made(caught(core_group(self).exclude(ranks))?))
    }

    /// [`translate_rank`](Group::translate_rank) with its error as a value.
    ///
    /// # Errors
    /// `Rank` for one that is not in this group.
    #[track_caller]
    fn try_translate_rank<G: Group>(&self, rank: Rank, other: &G) -> Result<Option<Rank>, Error> {
        Ok(caught(core_group(self).translate(rank, core_group(other)))?.map(|rank| rank as Rank))
    }

    /// [`translate_ranks`](Group::translate_ranks) with its error as a value.
    ///
    /// # Errors
    /// As [`try_translate_rank`](Self::try_translate_rank).
    #[track_caller]
    fn try_translate_ranks<G: Group>(&self, ranks: &[Rank], other: &G) -> Result<Vec<Option<Rank>>, Error> {
        let there = caught(core_group(self).translate_all(ranks, core_group(other)))?;
        Ok(there.into_iter().map(|rank| rank.map(|rank| rank as Rank)).collect())
    }
}

impl<G: Group + ?Sized> TryGroup for G {}
