//! Messages from one process to another (MPI-4.1 §3).
//!
//! A [`Process`](crate::topology::Process) of a communicator is a [`Destination`] to send to and a [`Source`] to
//! receive from; [`AnyProcess`](crate::topology::AnyProcess) is the source "whoever sends". Messages of one pair of
//! processes, communicator and tag arrive in the order in which they were sent.
//!
//! ```no_run
//! use mpi::point_to_point as p2p;
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let next = world.process_at_rank((world.rank() + 1) % world.size());
//! let previous = world.process_at_rank((world.rank() + world.size() - 1) % world.size());
//! let (token, status): (i32, _) = p2p::send_receive(&world.rank(), &next, &previous);
//! assert_eq!(token, status.source_rank());
//! ```

pub(crate) mod destination;
pub(crate) mod exchange;
mod future;
mod message;
pub(crate) mod received;
pub(crate) mod source;
mod status;

use mpi_comm::{Dest, Source as From};
use mpi_p2p::Tag as CoreTag;

pub use self::destination::Destination;
pub use self::exchange::{
    send_receive, send_receive_into, send_receive_into_with_tags, send_receive_replace_into,
    send_receive_replace_into_with_tags, send_receive_with_tags,
};
pub use self::future::ReceiveFuture;
pub use self::message::{MatchedReceiveVec, Message};
pub use self::source::Source;
pub use self::status::Status;
use crate::ffi::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL};
use crate::{Rank, Tag};

/// The traits of this module, for a glob import.
pub mod traits {
    pub use super::{Destination, MatchedReceiveVec, Source};
}

/// Where a message goes, from a rank with its special values.
#[inline(always)]
pub(crate) fn to(rank: Rank) -> Dest {
    if rank == MPI_PROC_NULL { Dest::Null } else { Dest::Rank(rank) }
}

/// Where a message comes from, from a rank with its special values.
#[inline(always)]
pub(crate) fn from(rank: Rank) -> From {
    match rank {
        MPI_ANY_SOURCE => From::Any,
        MPI_PROC_NULL => From::Null,
        rank => From::Rank(rank),
    }
}

/// What a receive matches, from a tag with its special value.
#[inline(always)]
pub(crate) fn tagged(tag: Tag) -> CoreTag {
    if tag == MPI_ANY_TAG { CoreTag::Any } else { CoreTag::Is(tag) }
}
