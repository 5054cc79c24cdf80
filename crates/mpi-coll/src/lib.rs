//! MPI collectives as programs of steps.
//!
//! Each algorithm (in `algorithms/`) is written once, as a generator of the steps of one rank: start a send, start a
//! receive, wait, copy, reduce. A blocking collective runs them inline, an immediate one from the engine's
//! progress. Which algorithm serves a call is decided in `choose.rs` by the limits in [`limits`], or by the user
//! ([`Settings`]).
//!
//! What to rely on: operands of an operation that does not commute are combined in the order of ranks; the
//! result of an allreduce is the same, bit by bit, on all ranks and in all runs; any number of ranks; several
//! collectives of one team may be under way, as each has its own tag.
//!
//! What never happens: this crate names no backend, makes no `unsafe` promise, reads no environment, and does not
//! block while the engine's lock is held.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod algorithms;
mod api;
mod between;
mod board;
mod choose;
mod direct;
mod errors;
mod fed;
mod gathered;
pub mod limits;
pub mod model;
mod neighbors;
mod nodes;
mod notes;
mod plan;
mod program;
mod run;
mod small;
mod staged;
mod table;
mod team;

#[cfg(test)]
mod leaders_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod simulator;

pub use api::*;
pub use choose::{
    Allgather, Allreduce, Alltoall, Barrier, Broadcast, Gather, Reduce, ReduceScatter, Scan, Scatter,
    SettingError, Settings,
};
pub use neighbors::Neighborhood;
pub use team::{InPlaceOr, Root, Team};
