//! What all communicators can do.

use std::os::raw::c_int;

use super::sealed::AsHandle;
use super::{
    AnyProcess, CartesianCommunicator, Group, InterCommunicator, Process, Rank, SimpleCommunicator,
    UserGroup, core_comm,
};
use crate::attribute::{self, CommAttribute};
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf, send_buf};
use crate::topology::group::core_group;
use crate::{Count, Tag, error};

/// Which part of a split a process goes to (MPI-4.1 §7.4.2).
#[derive(Copy, Clone, Debug)]
pub struct Color(Option<c_int>);

impl Color {
    /// To none.
    pub fn undefined() -> Color {
        Color(None)
    }

    /// To the part of this number.
    ///
    /// # Panics
    /// If it is negative.
    #[track_caller]
    pub fn with_value(value: c_int) -> Color {
        assert!(value >= 0, "a color cannot be negative, as {value} is");
        Color(Some(value))
    }

    pub(crate) fn value(self) -> Option<c_int> {
        self.0
    }
}

/// Decides the order of ranks in a part of a split; equal keys keep the old order.
pub type Key = c_int;

/// Which group's ranks come first when an inter-communicator is merged.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MergeOrder {
    /// This one's.
    Low,
    /// The other's.
    High,
}

/// What all communicators can do.
pub trait Communicator: AsHandle {
    /// How many processes a message can go to: for an inter-communicator, those of the other group.
    fn target_size(&self) -> Rank;

    /// How many processes are in this process's group (MPI-4.1 §7.4.1, `MPI_Comm_size`).
    #[inline]
    fn size(&self) -> Rank {
        core_comm(self).size() as Rank
    }

    /// The calling process's rank in its group (`MPI_Comm_rank`).
    #[inline]
    fn rank(&self) -> Rank {
        core_comm(self).rank() as Rank
    }

    /// The process of the given rank.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    #[track_caller]
    fn process_at_rank(&self, r: Rank) -> Process<'_> {
        let size = self.target_size();
        if !(0..size).contains(&r) {
            no_such_rank(self.as_handle(), r, size);
        }
        Process::by_rank(self, r)
    }

    /// Whoever sends.
    #[inline]
    fn any_process(&self) -> AnyProcess<'_> {
        AnyProcess(self.as_handle())
    }

    /// The calling process.
    #[inline]
    fn this_process(&self) -> Process<'_> {
        Process::by_rank(self, self.rank())
    }

    /// How two communicators relate (`MPI_Comm_compare`).
    fn compare(&self, other: &dyn Communicator) -> CommunicatorRelation {
        match core_comm(self).compare(core_comm(other)) {
            mpi_comm::Relation::Identical => CommunicatorRelation::Identical,
            mpi_comm::Relation::Congruent => CommunicatorRelation::Congruent,
            mpi_comm::Relation::Similar => CommunicatorRelation::Similar,
            mpi_comm::Relation::Unequal => CommunicatorRelation::Unequal,
        }
    }

    /// The same processes in a context of their own, with copies of the attributes that want it (MPI-4.1 §7.4.2,
    /// `MPI_Comm_dup`). Collective.
    #[track_caller]
    fn duplicate(&self) -> SimpleCommunicator {
        let comm = core_comm(self);
        SimpleCommunicator::made(error::ok(comm, comm.dup()))
    }

    /// One communicator for each color (`MPI_Comm_split`). Collective.
    #[track_caller]
    fn split_by_color(&self, color: Color) -> Option<SimpleCommunicator> {
        self.split_by_color_with_key(color, Key::default())
    }

    /// One communicator for each color, its ranks in the order of `key` (`MPI_Comm_split`). Collective.
    #[track_caller]
    fn split_by_color_with_key(&self, color: Color, key: Key) -> Option<SimpleCommunicator> {
        let comm = core_comm(self);
        error::ok(comm, comm.split(color.0, key)).map(SimpleCommunicator::made)
    }

    /// One communicator for the processes of each machine, which can share memory (`MPI_Comm_split_type`).
    /// Collective.
    #[track_caller]
    fn split_shared(&self, key: c_int) -> SimpleCommunicator {
        let comm = core_comm(self);
        SimpleCommunicator::made(error::ok(comm, comm.split_type(mpi_comm::SplitKind::Shared, key)))
    }

    /// A communicator for the processes of `group`; the others get none (`MPI_Comm_create`). Collective over all
    /// of this communicator; groups that different processes give must be equal or disjoint.
    #[track_caller]
    fn split_by_subgroup_collective(&self, group: &dyn Group) -> Option<SimpleCommunicator> {
        let comm = core_comm(self);
        error::ok(comm, comm.create(core_group(group))).map(SimpleCommunicator::made)
    }

    /// As [`split_by_subgroup_with_tag`](Self::split_by_subgroup_with_tag), with tag 0.
    #[track_caller]
    fn split_by_subgroup(&self, group: &dyn Group) -> Option<SimpleCommunicator> {
        self.split_by_subgroup_with_tag(group, Tag::default())
    }

    /// A communicator for the processes of `group` (`MPI_Comm_create_group`). Collective over that group only; a
    /// process outside of it gets none at once. `tag` tells calls apart that run at the same time.
    #[track_caller]
    fn split_by_subgroup_with_tag(&self, group: &dyn Group, tag: Tag) -> Option<SimpleCommunicator> {
        let comm = core_comm(self);
        let group = core_group(group);
        group.rank()?;
        error::ok(comm, comm.create_group(group, tag)).map(SimpleCommunicator::made)
    }

    /// This process's group (`MPI_Comm_group`).
    fn group(&self) -> UserGroup {
        UserGroup::made(core_comm(self).group())
    }

    /// Ends the job with the given status (MPI-4.1 §11.5, `MPI_Abort`).
    fn abort(&self, errorcode: c_int) -> ! {
        error::abort_called(core_comm(self), errorcode)
    }

    /// Whether this is an inter-communicator (`MPI_Comm_test_inter`).
    fn test_inter(&self) -> bool {
        core_comm(self).is_inter()
    }

    /// Gives the communicator a name, which error messages then use (MPI-4.1 §7.8, `MPI_Comm_set_name`).
    fn set_name(&self, name: &str) {
        core_comm(self).set_name(name);
    }

    /// The communicator's name (`MPI_Comm_get_name`).
    fn get_name(&self) -> String {
        core_comm(self).name()
    }

    /// Lays a grid over the ranks; ranks that do not fit get none (MPI-4.1 §8.5.1, `MPI_Cart_create`). Collective.
    ///
    /// # Panics
    /// If `dims` and `periods` differ in length.
    #[track_caller]
    fn create_cartesian_communicator(
        &self,
        dims: &[Count],
        periods: &[bool],
        reorder: bool,
    ) -> Option<CartesianCommunicator> {
        assert_eq!(
            dims.len(),
            periods.len(),
            "every dimension needs its period, and every period a dimension"
        );
        let comm = core_comm(self);
        let made = error::ok(comm, comm.cart_create(dims, periods, reorder));
        made.map(|comm| CartesianCommunicator(SimpleCommunicator::made(comm)))
    }

    /// The rank that the calling process would have in such a grid (MPI-4.1 §8.5.8, `MPI_Cart_map`).
    ///
    /// # Panics
    /// If `dims` and `periods` differ in length.
    #[track_caller]
    fn cartesian_map(&self, dims: &[Count], periods: &[bool]) -> Option<Rank> {
        assert_eq!(
            dims.len(),
            periods.len(),
            "every dimension needs its period, and every period a dimension"
        );
        let comm = core_comm(self);
        error::ok(comm, comm.cart_map(dims, periods)).map(|rank| rank as Rank)
    }

    /// How many bytes `incount` elements take when packed (MPI-4.1 §5.2, `MPI_Pack_size`).
    fn pack_size<Dt>(&self, incount: Count, datatype: &Dt) -> Count
    where
        Dt: Datatype,
        Self: Sized,
    {
        let count = usize::try_from(incount).expect("a negative number of elements cannot be packed");
        position_count(count * core_type(datatype).size())
    }

    /// Packs a buffer into bytes (`MPI_Pack`).
    fn pack<Buf>(&self, inbuf: &Buf) -> Vec<u8>
    where
        Buf: ?Sized + Buffer,
        Self: Sized,
    {
        let datatype = inbuf.as_datatype();
        let from = send_buf(inbuf, &datatype);
        let mut out = vec![0; from.bytes()];
        let written = from.pack(0, &mut out);
        out.truncate(written);
        out
    }

    /// Packs a buffer into `outbuf` from `position` on, and returns where it ends (`MPI_Pack`).
    ///
    /// # Panics
    /// If there is not room enough.
    #[track_caller]
    fn pack_into<Buf>(&self, inbuf: &Buf, outbuf: &mut [u8], position: Count) -> Count
    where
        Buf: ?Sized + Buffer,
        Self: Sized,
    {
        let datatype = inbuf.as_datatype();
        let from = send_buf(inbuf, &datatype);
        let start = position_index(position, outbuf.len());
        let (need, room) = (from.bytes(), outbuf.len() - start);
        assert!(
            need <= room,
            "pack: {need} bytes do not fit into the {room} that are left from {position} on"
        );
        let written = from.pack(0, &mut outbuf[start..]);
        position_count(start + written)
    }

    /// Unpacks into a buffer what lies in `inbuf` from `position` on, and returns where it ends (`MPI_Unpack`).
    ///
    /// # Safety
    /// The bytes must have been packed from elements that are valid for `outbuf`.
    ///
    /// # Panics
    /// If there are not bytes enough.
    #[track_caller]
    unsafe fn unpack_into<Buf>(&self, inbuf: &[u8], outbuf: &mut Buf, position: Count) -> Count
    where
        Buf: ?Sized + BufferMut,
        Self: Sized,
    {
        let datatype = outbuf.as_datatype();
        let into = recv_buf(outbuf, &datatype);
        let start = position_index(position, inbuf.len());
        let (need, have) = (into.bytes(), inbuf.len() - start);
        assert!(need <= have, "unpack: {need} bytes are wanted, and {have} are left from {position} on");
        let read = into.unpack(0, &inbuf[start..]);
        position_count(start + read)
    }

    /// The way to the processes that spawned this one, if it was spawned (MPI-4.1 §11.8.2, `MPI_Comm_get_parent`).
    fn parent(&self) -> Option<InterCommunicator> {
        mpi_comm::parent().map(InterCommunicator::parent_of_world)
    }
}

#[track_caller]
fn position_index(position: Count, len: usize) -> usize {
    match usize::try_from(position) {
        Ok(start) if start <= len => start,
        _ => panic!("position {position} is not inside the buffer of {len} bytes"),
    }
}

fn position_count(bytes: usize) -> Count {
    Count::try_from(bytes)
        .unwrap_or_else(|_| panic!("a position of {bytes} bytes is more than a Count can say"))
}

#[cold]
#[inline(never)]
#[track_caller]
fn no_such_rank(handle: &super::sealed::CommunicatorHandle, rank: Rank, size: Rank) -> ! {
    panic!("there is no rank {rank} in \"{}\", which has {size} ranks", handle.comm().name())
}

/// Attributes: values of the program's own that a communicator carries (MPI-4.1 §7.7).
pub trait AnyCommunicator: Communicator {
    /// The attribute of type `A`, if it was set.
    ///
    /// # Panics
    /// If another thread set it; see [`attribute`](mod@crate::attribute).
    #[track_caller]
    fn get_attr<A: CommAttribute>(&self) -> Option<&A>;

    /// Sets the attribute of type `A`, for this thread. The value that it had is dropped, once no other name of the
    /// communicator is left through which it may be looked at.
    #[track_caller]
    fn set_attr<A: CommAttribute>(&mut self, val: A);
}

impl<C: ?Sized + Communicator> AnyCommunicator for C {
    #[track_caller]
    fn get_attr<A: CommAttribute>(&self) -> Option<&A> {
        attribute::get(core_comm(self))
    }

    #[track_caller]
    fn set_attr<A: CommAttribute>(&mut self, val: A) {
        let owner = Some(std::thread::current().id());
        attribute::set(core_comm(self), val, owner, self.owns_handle());
    }
}

/// How two communicators relate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CommunicatorRelation {
    /// They are the same object.
    Identical,
    /// They have the same processes in the same order, in different contexts.
    Congruent,
    /// They have the same processes in different order.
    Similar,
    /// They have different processes.
    Unequal,
}

impl From<c_int> for CommunicatorRelation {
    /// # Panics
    /// If the number means none of them.
    fn from(i: c_int) -> CommunicatorRelation {
        match i {
            201 => CommunicatorRelation::Identical,
            202 => CommunicatorRelation::Congruent,
            203 => CommunicatorRelation::Similar,
            204 => CommunicatorRelation::Unequal,
            _ => panic!("{i} does not say how two communicators relate"),
        }
    }
}
