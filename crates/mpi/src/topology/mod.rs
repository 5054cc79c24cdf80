//! Communicators, groups and virtual topologies (MPI-4.1 §7, §8).
//!
//! A communicator is a set of processes, numbered by rank, and a context that keeps its messages apart from those of
//! all others. [`SimpleCommunicator`] is one without further structure, [`CartesianCommunicator`] lays a grid over its
//! ranks, and [`InterCommunicator`] leads from one group of processes to another. What all can do is in the trait
//! [`Communicator`].
//!
//! ```no_run
//! use mpi::topology::Color;
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let half = world.split_by_color(Color::with_value(world.rank() % 2)).unwrap();
//! println!("rank {} of the world is rank {} of its half", world.rank(), half.rank());
//! ```

mod cartesian;
mod communicator;
pub(crate) mod group;
mod inter;
mod process;
pub(crate) mod sealed;
mod simple;

use std::os::raw::c_int;

pub use self::cartesian::{CartesianCommunicator, CartesianLayout};
pub use self::communicator::{AnyCommunicator, Color, Communicator, CommunicatorRelation, Key, MergeOrder};
pub use self::group::{Group, GroupRelation, SystemGroup, UserGroup};
pub use self::inter::InterCommunicator;
pub use self::process::{AnyProcess, Process};
pub use self::simple::{
    DistributedGraphCommunicator, GraphCommunicator, IntoTopology, SimpleCommunicator, Topology,
};

/// The traits of this module, for a glob import.
pub mod traits {
    pub use super::{AnyCommunicator, AsCommunicator, Communicator, Group};
}

/// The number of a process in a communicator or group, from 0 on.
pub type Rank = c_int;

/// The former name of communicators that belong to the library.
pub type SystemCommunicator = SimpleCommunicator;

/// The former name of communicators that the program made.
pub type UserCommunicator = SimpleCommunicator;

/// Something that belongs to a communicator: the communicator itself, or a process in it.
pub trait AsCommunicator {
    /// The type of the communicator.
    type Out: Communicator;
    /// The communicator.
    fn as_communicator(&self) -> &Self::Out;
}

/// The communicator of the layer below.
#[inline(always)]
pub(crate) fn core_comm<C: Communicator + ?Sized>(communicator: &C) -> &mpi_comm::Comm {
    communicator.as_handle().comm()
}
