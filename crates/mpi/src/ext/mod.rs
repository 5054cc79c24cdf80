//! What goes beyond rsmpi, under names of its own.
//!
//! Nothing here changes what rsmpi's names mean. [`prelude`] brings all extension traits of this module into scope:
//!
//! ```no_run
//! use mpi::ext::prelude::*;
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! if let Err(error) = world.this_process().try_send_with_tag(&1, -5) {
//!     assert_eq!(error.class(), mpi::ext::ErrorClass::Tag);
//!     println!("{error}");
//! }
//! ```
//!
//! | what | where |
//! | --- | --- |
//! | errors as values: every operation under the name `try_…` | [`TryDestination`], [`TrySource`], [`TryCommunicatorCollectives`], [`TryRoot`], [`TryCommunicator`], [`TryGroup`], [`TryUserDatatype`], [`TryRequest`], [`TryMessage`], [`try_send_receive_into_with_tags`] |
//! | operations that own their buffer | [`OwnedDestination::isend_owned`], [`OwnedSource::irecv_vec`] |
//! | requests as futures | `.await` on any of them: [`SendOwned`], [`ReceiveVec`], [`RequestFuture`], [`ValueFuture`] |
//! | receives without a copy | [`LendingSource::receive_ref`], [`LendingSource::receive_on_loan`] |
//! | messages of serialised values (feature `serde`) | `SerializedDestination`, `SerializedSource`, `SerializedRoot`, `SerializedCollectives` |
//! | reductions by closures on values | [`ReduceWith`], [`ReduceToRootWith`] |
//! | collectives in place | [`InPlaceCollectives`], [`InPlaceRoot`] |
//! | operations that are started again and again | [`PersistentDestination`], [`PersistentSource`], [`PersistentCollectives`], [`PersistentRoot`], [`start_all`] |
//! | operations of the program's own | [`generalized()`] |
//! | graphs, who is whose neighbour, and collectives among them | [`GraphTopologies`], [`Neighbourhood`], [`NeighbourCollectives`] |
//! | counts beyond 2^31 | [`LargePartition`], [`LargeStatus`] |
//! | bytes that every machine reads | [`pack_external`], [`unpack_external`] |
//! | attributes of a communicator for all threads | [`SharedAttributes`] |
//! | hints | [`Info`] |
//! | tests that run on ranks (feature `test`) | `#[mpi::test(np = 4)]` |
//! | error handlers of a communicator | [`ErrorHandling`], [`ErrorHandler`] |

mod attempt;
mod attributes;
pub(crate) mod error;
mod external;
mod future;
mod generalized;
mod graph;
mod handler;
mod in_place;
mod info;
mod large;
mod lend;
mod neighbours;
mod owned;
mod persistent;
mod persistent_collective;
mod reduce;
#[cfg(feature = "serde")]
mod serialized;
#[cfg(feature = "test")]
#[doc(hidden)]
pub mod testing;

pub use self::attempt::{
    TryCommunicator, TryCommunicatorCollectives, TryDestination, TryGroup, TryMessage, TryRequest, TryRoot,
    TrySource, TryUserDatatype, try_send_receive_into_with_tags, try_send_receive_replace_into_with_tags,
    try_send_receive_with_tags,
};
pub use self::attributes::SharedAttributes;
pub use self::error::Error;
pub use self::external::{pack_external, unpack_external};
pub use self::future::{RequestFuture, ValueFuture};
pub use self::generalized::{Completer, Generalized, generalized};
pub use self::graph::{Edges, GraphTopologies, Neighbourhood};
pub use self::handler::{ErrorHandler, ErrorHandling};
pub use self::in_place::{InPlaceCollectives, InPlaceRoot};
pub use self::info::Info;
pub use self::large::{LargePartition, LargeStatus};
pub use self::lend::LendingSource;
pub use self::neighbours::NeighbourCollectives;
pub use self::owned::{OwnedDestination, OwnedSource, ReceiveVec, SendOwned};
pub use self::persistent::{Persistent, PersistentDestination, PersistentSource, Start, start_all};
pub use self::persistent_collective::{PersistentCollective, PersistentCollectives, PersistentRoot};
pub use self::reduce::{Operands, ReduceToRootWith, ReduceWith};
#[cfg(feature = "serde")]
pub use self::serialized::{
    SerializedCollectives, SerializedDestination, SerializedError, SerializedRoot, SerializedSource,
};
pub use mpi_p2p::ErrorClass;

/// The extension traits, for a glob import.
pub mod prelude {
    pub use super::{
        ErrorHandling, GraphTopologies, InPlaceCollectives, InPlaceRoot, LargeStatus, LendingSource,
        NeighbourCollectives, Neighbourhood, OwnedDestination, OwnedSource, PersistentCollectives,
        PersistentDestination, PersistentRoot, PersistentSource, ReduceToRootWith, ReduceWith,
        SharedAttributes, Start, TryCommunicator, TryCommunicatorCollectives, TryDestination, TryGroup,
        TryMessage, TryRequest, TryRoot, TrySource, TryUserDatatype,
    };
    #[cfg(feature = "serde")]
    pub use super::{SerializedCollectives, SerializedDestination, SerializedRoot, SerializedSource};
}
