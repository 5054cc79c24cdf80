//! What the ranks of a job write down about their operations, in memory that the launcher reads.
//!
//! See the README for the boundary of this crate. A hook costs one load and one branch while
//! recording is off:
//!
//! ```
//! use mpi_record as record;
//!
//! fn receive() {
//!     let _recording = record::op(record::ops::RECEIVE, || Some(3));
//!     // …the operation; its time ends where the guard is dropped.
//! }
//! assert!(!record::on());
//! receive();
//! ```
#![deny(missing_docs)]

pub mod clock;
mod far;
mod hooks;
mod layout;
pub mod limits;
mod map;
pub mod ops;
mod reader;
mod timing;
mod writer;

pub use far::{Courier, Far};
pub use hooks::{
    Recording, Waiting, algorithm, attach, copied, copying, during, finished, moved, on, op, received, sent,
    several_threads, unexpected, waiting_for_message, waits_for, waits_long, with,
};
pub use layout::{Event, Way};
pub use reader::{Bin, Block, Now, OpCounts, Peer, Reader, Tail};

use std::os::fd::OwnedFd;

/// The area cannot be made or joined.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The kernel refused.
    #[error("{what} of the memory for records ({bytes} bytes): {error}")]
    System {
        /// What was asked.
        what: &'static str,
        /// Size in question.
        bytes: usize,
        /// The kernel's answer.
        error: std::io::Error,
    },
    /// The descriptor does not hold records of this version.
    #[error("the descriptor holds no records that this program understands: {field} is {found}")]
    Foreign {
        /// What is wrong.
        field: &'static str,
        /// What was found.
        found: u64,
    },
}

/// What is to be recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Single events too, for a trace; else counters alone.
    pub events: bool,
}

/// Makes the memory for those of the `ranks` ranks of a world that `here` says; nothing is reserved
/// for the others, who are on other hosts.
///
/// # Errors
/// [`RecordError::System`].
pub fn create_for(
    ranks: u32,
    options: Options,
    here: impl IntoIterator<Item = u32>,
) -> Result<OwnedFd, RecordError> {
    map::create(&layout::Layout::new(ranks, options.events), here)
}

/// Makes the memory for the records of `ranks` ranks: zeroed, reserved, of sealed size. The
/// descriptor closes on exec: whoever starts the ranks lets them inherit it.
///
/// # Errors
/// [`RecordError::System`].
pub fn create(ranks: u32, options: Options) -> Result<OwnedFd, RecordError> {
    create_for(ranks, options, 0..ranks)
}
