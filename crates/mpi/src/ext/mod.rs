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
//! | errors as values: every operation under the name `try_…` | [`TryDestination`], [`TrySource`], [`TryCommunicatorCollectives`], [`TryRoot`], [`TryCommunicator`], [`TryRequest`], [`TryMessage`], [`try_send_receive_into_with_tags`] |
//! | error handlers of a communicator | [`ErrorHandling`], [`ErrorHandler`] |

mod attempt;
mod error;
mod handler;

pub use self::attempt::{
    TryCommunicator, TryCommunicatorCollectives, TryDestination, TryMessage, TryRequest, TryRoot, TrySource,
    try_send_receive_into_with_tags, try_send_receive_replace_into_with_tags, try_send_receive_with_tags,
};
pub use self::error::Error;
pub use self::handler::{ErrorHandler, ErrorHandling};
pub use mpi_p2p::ErrorClass;

/// The extension traits, for a glob import.
pub mod prelude {
    pub use super::{
        ErrorHandling, TryCommunicator, TryCommunicatorCollectives, TryDestination, TryMessage, TryRequest,
        TryRoot, TrySource,
    };
}
