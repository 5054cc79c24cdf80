//! Groups: ordered sets of processes without a context (MPI-4.1 §7.3).

use std::os::raw::c_int;
use std::sync::OnceLock;

use mpi_comm as core;

use super::{CommunicatorRelation, Rank};
use crate::error;
use crate::ffi::MPI_Group;
use crate::raw::traits::*;

/// A predefined group.
#[derive(Copy, Clone)]
pub struct SystemGroup(MPI_Group);

impl SystemGroup {
    /// The group of no process (`MPI_GROUP_EMPTY`).
    pub fn empty() -> SystemGroup {
        SystemGroup(MPI_Group::EMPTY)
    }
}

// SAFETY: predefined groups live for ever.
unsafe impl AsRaw for SystemGroup {
    type Raw = MPI_Group;
    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl Group for SystemGroup {}

/// A group that the program made; it is freed when dropped.
pub struct UserGroup(MPI_Group);

impl UserGroup {
    pub(crate) fn made(group: core::Group) -> UserGroup {
        UserGroup(MPI_Group::give(group))
    }
}

impl Drop for UserGroup {
    fn drop(&mut self) {
        // SAFETY: this value owns the object, and nothing uses the handle after it.
        drop(unsafe { Box::from_raw(self.0.0.cast_mut()) });
    }
}

// SAFETY: the group lives as long as this value.
unsafe impl AsRaw for UserGroup {
    type Raw = MPI_Group;
    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl Group for UserGroup {}

/// The group of the layer below that a typed one stands for.
pub(crate) fn core_group<G: Group + ?Sized>(group: &G) -> &core::Group {
    static EMPTY: OnceLock<core::Group> = OnceLock::new();
    match group.as_raw() {
        MPI_Group::EMPTY => EMPTY.get_or_init(core::Group::empty),
        // SAFETY: `AsRaw` promises that the object lives as long as `group` does.
        raw => unsafe { &*raw.0 },
    }
}

/// What all groups can do. Errors go to the error handler of the calling process's own communicator (MPI-4.1 §9.3).
pub trait Group: AsRaw<Raw = MPI_Group> {
    /// The processes of this group, then those of `other` that are not in it (`MPI_Group_union`).
    fn union<G>(&self, other: &G) -> UserGroup
    where
        G: Group,
        Self: Sized,
    {
        UserGroup::made(core_group(self).union(core_group(other)))
    }

    /// The processes of this group that are in `other` too, in this group's order (`MPI_Group_intersection`).
    fn intersection<G>(&self, other: &G) -> UserGroup
    where
        G: Group,
        Self: Sized,
    {
        UserGroup::made(core_group(self).intersection(core_group(other)))
    }

    /// The processes of this group that are not in `other`, in this group's order (`MPI_Group_difference`).
    fn difference<G>(&self, other: &G) -> UserGroup
    where
        G: Group,
        Self: Sized,
    {
        UserGroup::made(core_group(self).difference(core_group(other)))
    }

    /// The processes of the given ranks, in that order (`MPI_Group_incl`).
    #[track_caller]
    fn include(&self, ranks: &[Rank]) -> UserGroup {
        UserGroup::made(error::ok_world(core_group(self).include(ranks)))
    }

    /// All processes but those of the given ranks (`MPI_Group_excl`).
    #[track_caller]
    fn exclude(&self, ranks: &[Rank]) -> UserGroup {
        UserGroup::made(error::ok_world(core_group(self).exclude(ranks)))
    }

    /// How many processes there are (`MPI_Group_size`).
    fn size(&self) -> Rank {
        core_group(self).size() as Rank
    }

    /// The calling process's rank, if it is in the group (`MPI_Group_rank`).
    fn rank(&self) -> Option<Rank> {
        core_group(self).rank().map(|rank| rank as Rank)
    }

    /// The rank in `other` of the process that has `rank` here, if it is there (`MPI_Group_translate_ranks`).
    #[track_caller]
    fn translate_rank<G>(&self, rank: Rank, other: &G) -> Option<Rank>
    where
        G: Group,
        Self: Sized,
    {
        let there = error::ok_world(core_group(self).translate(rank, core_group(other)));
        there.map(|rank| rank as Rank)
    }

    /// The ranks in `other` of the processes that have `ranks` here.
    #[track_caller]
    fn translate_ranks<G>(&self, ranks: &[Rank], other: &G) -> Vec<Option<Rank>>
    where
        G: Group,
        Self: Sized,
    {
        let there = error::ok_world(core_group(self).translate_all(ranks, core_group(other)));
        there.into_iter().map(|rank| rank.map(|rank| rank as Rank)).collect()
    }

    /// How two groups relate (`MPI_Group_compare`).
    fn compare<G>(&self, other: &G) -> GroupRelation
    where
        G: Group,
        Self: Sized,
    {
        match core_group(self).compare(core_group(other)) {
            core::Relation::Identical => GroupRelation::Identical,
            core::Relation::Similar => GroupRelation::Similar,
            core::Relation::Unequal | core::Relation::Congruent => GroupRelation::Unequal,
        }
    }
}

/// How two groups relate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum GroupRelation {
    /// The same processes in the same order.
    Identical,
    /// The same processes in another order.
    Similar,
    /// Different processes.
    Unequal,
}

impl From<c_int> for GroupRelation {
    /// # Panics
    /// If the number means none of them.
    fn from(i: c_int) -> GroupRelation {
        match CommunicatorRelation::from(i) {
            CommunicatorRelation::Identical => GroupRelation::Identical,
            CommunicatorRelation::Similar => GroupRelation::Similar,
            CommunicatorRelation::Unequal => GroupRelation::Unequal,
            CommunicatorRelation::Congruent => {
                panic!("{i} says how two communicators relate, not two groups")
            }
        }
    }
}
