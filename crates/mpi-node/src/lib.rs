//! What one machine gives an MPI job: a shared segment, rings, an inbox, parking, cross-process
//! copy, the set of processors, and the addresses by which it is reached.
//!
//! The crate knows memory, processes and processors. It must never know a message header, a
//! communicator, a request or a peer on another machine.
//!
//! Lock-free parts follow the `primitive` module, which maps atomics to `core` or to `loom`;
//! `RUSTFLAGS="--cfg loom" cargo test -p mpi-node --lib -- model` runs the models.
#![deny(missing_docs)]

pub mod addresses;
mod biased;
#[cfg(not(loom))]
pub mod block;
mod board;
pub mod cpuset;
#[cfg(not(loom))]
pub mod cross_copy;
#[cfg(not(loom))]
pub mod doorbell;
mod fair_lock;
#[cfg(not(loom))]
pub mod faults;
mod futex;
mod gate;
mod image;
pub mod inbox;
pub mod limits;
pub mod membarrier;
mod parking;
mod primitive;
pub mod ring;
#[cfg(not(loom))]
pub mod segment;
mod sleep;
pub mod spawn;
pub mod standard;
pub mod terminal;

pub use biased::{BiasedLock, Guard};
pub use board::{BOARD_BYTES, Posting};
pub use fair_lock::{Entry, FairLock, Place};
pub use gate::{Gate, Turn};
pub use image::Image;
pub use parking::Parker;
