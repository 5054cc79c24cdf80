//! MPI in Rust from the socket up, source-compatible with rsmpi.
//!
//! A program of several processes exchanges messages; `mpiexec -n 4 program` starts them. No C library is needed.
//!
//! ```no_run
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! if world.rank() == 0 {
//!     for rank in 1..world.size() {
//!         world.process_at_rank(rank).send(&[1.0, 2.0, 3.0]);
//!     }
//! } else {
//!     let (message, status) = world.any_process().receive_vec::<f64>();
//!     println!("rank {} got {message:?} from {}", world.rank(), status.source_rank());
//! }
//! ```
//!
//! # Where to look
//! - [`environment`]: start, end, thread levels, time.
//! - [`topology`]: communicators, groups, grids of processes.
//! - [`point_to_point`]: from one process to another.
//! - [`collective`]: among all processes of a communicator.
//! - [`window`]: one-sided communication: memory that all processes reach.
//! - [`request`]: operations that run while the program goes on, and the scopes that keep their memory safe.
//! - [`datatype`]: which memory is a message; `#[derive(Equivalence)]`.
//! - [`attribute`]: values of the program's own on a communicator.
//! - [`raw`], [`ffi`]: the untyped face.
//! - [`ext`]: what goes beyond rsmpi.
//! - [`ft`]: going on when processes fail.
//!
//! # Features
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `user-operations` | yes | reductions by closures ([`collective::UserOperation`]) |
//! | `derive` | no | `#[derive(Equivalence)]` for structs and enums |
//! | `complex` | no | `num_complex::Complex32` and `Complex64` as elements |
//! | `serde` | no | messages of any value that serde can serialise ([`ext::SerializedDestination`]) |
//! | `test` | no | `#[mpi::test(np = 4)]`: test functions that run on ranks |
//! | `shm` | yes | shared memory between ranks of one machine |
//! | `tcp` | yes | TCP |
//!
//! # Errors
//! Plain operations return no error. One that fails goes to its communicator's error handler, which prints what it
//! knows in one line and ends the job. The traits of [`ext`] return errors as values instead. A panic while a [`Universe`](environment::Universe) is in scope ends the job
//! with status 101, after its own message.
//!
//! # What never happens
//! This crate holds no protocol and no state of its own beyond keys and types: every operation is a call of
//! `mpi-comm` with a typed buffer turned into address, count and datatype.
#![deny(missing_docs)]
#![warn(missing_copy_implementations)]

extern crate self as mpi;

pub mod attribute;
pub mod collective;
pub mod datatype;
mod engine;
pub mod environment;
mod error;
pub mod ext;
pub mod ffi;
pub mod ft;
pub mod point_to_point;
pub mod raw;
pub mod request;
pub mod topology;
pub mod window;

#[cfg(feature = "serde")]
pub mod limits;

/// All traits of this crate, and the derive macro of its feature, for a glob import.
pub mod traits {
    #[cfg(feature = "derive")]
    pub use mpi_derive::Equivalence;

    pub use crate::{
        attribute::traits::*, collective::traits::*, datatype::traits::*, point_to_point::traits::*,
        raw::traits::*, topology::traits::*,
    };
}

/// What the code of rsmpi's derive macro calls. No part of the interface.
#[doc(hidden)]
pub mod internal {
    /// As in the package of that name, from the standard library.
    pub mod once_cell {
        /// As above.
        pub mod sync {
            pub use std::sync::LazyLock as Lazy;
        }
    }
}

#[cfg(feature = "derive")]
pub use mpi_derive::Equivalence;
#[cfg(feature = "test")]
pub use mpi_derive::test;

#[doc(inline)]
pub use crate::environment::{
    Threading, initialize, initialize_with_threading, is_finalized, is_initialized, time, time_resolution,
};
pub use crate::topology::Rank;

use std::os::raw::c_int;

/// An error class of MPI, as a number.
pub type Error = c_int;
/// A number of elements.
pub type Count = c_int;
/// Tells messages between the same two processes apart.
pub type Tag = c_int;
/// An address or a distance between two, in bytes.
pub type Address = ffi::MPI_Aint;

/// What went wrong where processes were to be spawned.
#[derive(thiserror::Error, Debug)]
pub enum MpiError {
    /// Not all processes started.
    #[error(fmt = not_spawned)]
    Spawn(Rank, Rank),
    /// A program or an argument holds a byte of value 0, which no program can receive.
    #[error("a program or an argument of it holds a byte of value 0")]
    StringNul(#[from] std::ffi::NulError),
}

fn not_spawned(failed: &Rank, all: &Rank, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    match all {
        0 => f.write_str("no process was to be spawned: a call starts 1 or more"),
        1 => {
            f.write_str("the process could not be spawned (`mpi::ext` has `try_spawn`, whose error says why)")
        }
        _ => write!(
            f,
            "{failed} of {all} processes could not be spawned (`mpi::ext` has `try_spawn`, whose error says why)"
        ),
    }
}

/// The transports that are compiled in.
fn backends() -> &'static [&'static dyn mpi_btl::Btl] {
    &[
        #[cfg(feature = "shm")]
        &mpi_btl_shm::Shm,
        #[cfg(feature = "tcp")]
        &mpi_btl_tcp::TcpBtl,
    ]
}
