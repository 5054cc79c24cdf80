//! MPI one-sided communication (MPI 5.0, chapter 12): windows, epochs, put, get and accumulate.
//!
//! A [`Window`] is memory of every rank of a communicator that all of them may reach. On a node its data
//! are plain loads, stores and processor atomics of the origin, and its locks are words in shared
//! memory; other ranks are reached by active messages, which the engine's helper thread serves while
//! the target computes.
//!
//! What never happens: a transport is named; a message is sent where memory can be reached; memory per rank of a
//! window grows with the number of ranks; a displacement that a peer sent is used unchecked.
//!
//! `unsafe` lives in `board.rs` (typed views of shared memory), `accumulate.rs`, `quick.rs` and `memory.rs` (reading
//! and writing a target's memory), `access.rs` and `combine.rs` (which checked its bounds), `target.rs` (a rank's own), and
//! in the promises of `create.rs` and `window.rs`.
#![deny(missing_docs)]

mod access;
mod accumulate;
mod attributes;
mod board;
mod combine;
mod create;
mod encode;
mod epoch;
mod hints;
mod hub;
pub mod limits;
mod lock;
mod memory;
mod messages;
mod quick;
mod requests;
mod sync;
mod target;
mod wait;
mod way;
mod window;

pub use access::Target;
pub use attributes::{DeleteCallback, Keyval, create_keyval, free_keyval};
pub use create::{Flavor, Options};
pub use epoch::{Assert, LockKind};
pub use window::{Shared, Window};
