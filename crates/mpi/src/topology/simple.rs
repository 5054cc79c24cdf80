//! Intra-communicators.

use mpi_comm::topology as core;

use super::sealed::{AsHandle, CommunicatorHandle, Kind};
use super::{AsCommunicator, CartesianCommunicator, Communicator, Rank, core_comm};
use crate::ffi::MPI_Comm;
use crate::raw::traits::*;

/// An intra-communicator. Dropping one that the program made frees it (MPI-4.1 §7.4.3).
pub struct SimpleCommunicator(pub(crate) CommunicatorHandle);

impl SimpleCommunicator {
    /// All processes that started together (`MPI_COMM_WORLD`).
    ///
    /// Before initialisation and after finalisation, this ends the process with a message.
    #[track_caller]
    pub fn world() -> SimpleCommunicator {
        SimpleCommunicator(CommunicatorHandle::world())
    }

    /// This process alone (`MPI_COMM_SELF`).
    ///
    /// Before initialisation and after finalisation, this ends the process with a message.
    #[track_caller]
    pub fn self_comm() -> SimpleCommunicator {
        SimpleCommunicator(CommunicatorHandle::self_comm())
    }

    pub(crate) fn made(comm: mpi_comm::Comm) -> SimpleCommunicator {
        SimpleCommunicator(CommunicatorHandle::new(comm, Kind::User))
    }

    /// What structure the ranks have (MPI-4.1 §8.5.5, `MPI_Topo_test`).
    pub fn topology(&self) -> Topology {
        match core_comm(self).topology() {
            core::Topology::Cartesian(_) => Topology::Cartesian,
            core::Topology::Graph(_) => Topology::Graph,
            core::Topology::DistGraph(_) => Topology::DistributedGraph,
            core::Topology::Undefined => Topology::Undefined,
        }
    }

    /// The same communicator, as the type of its structure.
    pub fn into_topology(self) -> IntoTopology {
        match self.topology() {
            Topology::Graph => IntoTopology::Graph(GraphCommunicator(self)),
            Topology::Cartesian => IntoTopology::Cartesian(CartesianCommunicator(self)),
            Topology::DistributedGraph => IntoTopology::DistributedGraph(DistributedGraphCommunicator(self)),
            Topology::Undefined => IntoTopology::Undefined(self),
        }
    }
}

impl FromRaw for SimpleCommunicator {
    unsafe fn from_raw(handle: <Self as AsRaw>::Raw) -> Self {
        // SAFETY: the caller's promise.
        let handle = unsafe { CommunicatorHandle::try_from_raw(handle) };
        SimpleCommunicator(handle.expect("the null communicator cannot be owned"))
    }
}

/// Implements what every communicator has for a type that holds a handle or another communicator.
macro_rules! communicator {
    ($name:ident, |$this:ident| $handle:expr, target_size: $size:ident) => {
        // SAFETY: the handle lives as long as the communicator.
        unsafe impl AsRaw for $name {
            type Raw = MPI_Comm;
            fn as_raw(&self) -> Self::Raw {
                self.as_handle().as_raw()
            }
        }

        impl AsHandle for $name {
            #[inline(always)]
            fn as_handle(&self) -> &CommunicatorHandle {
                let $this = self;
                $handle
            }

            fn owns_handle(&self) -> bool {
                true
            }
        }

        impl Communicator for $name {
            #[inline]
            fn target_size(&self) -> Rank {
                self.$size()
            }
        }

        impl AsCommunicator for $name {
            type Out = $name;
            #[inline(always)]
            fn as_communicator(&self) -> &Self::Out {
                self
            }
        }
    };
}
pub(super) use communicator;

communicator!(SimpleCommunicator, |this| &this.0, target_size: size);
communicator!(GraphCommunicator, |this| this.0.as_handle(), target_size: size);
communicator!(DistributedGraphCommunicator, |this| this.0.as_handle(), target_size: size);

/// What structure the ranks of a communicator have.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A graph that every rank knows whole.
    Graph,
    /// A grid.
    Cartesian,
    /// A graph of which each rank knows its own edges.
    DistributedGraph,
    /// None.
    Undefined,
}

/// A communicator, as the type of its structure.
pub enum IntoTopology {
    /// A graph that every rank knows whole.
    Graph(GraphCommunicator),
    /// A grid.
    Cartesian(CartesianCommunicator),
    /// A graph of which each rank knows its own edges.
    DistributedGraph(DistributedGraphCommunicator),
    /// None.
    Undefined(SimpleCommunicator),
}

/// A communicator with a graph that every rank knows whole (MPI-4.1 §8.5.3).
pub struct GraphCommunicator(pub(crate) SimpleCommunicator);

/// A communicator with a graph of which each rank knows its own edges (MPI-4.1 §8.5.4).
pub struct DistributedGraphCommunicator(pub(crate) SimpleCommunicator);
