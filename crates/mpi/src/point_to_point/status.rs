//! What is known of a message.

use std::fmt;

use mpi_p2p as core;

use crate::datatype::core_type;
use crate::datatype::traits::*;
use crate::ffi::{MPI_Status, MPI_UNDEFINED};
use crate::{Count, Rank, Tag};

/// Who sent a message, with which tag, and how long it is (MPI-4.1 §3.2.5).
#[derive(Copy, Clone)]
pub struct Status(MPI_Status);

impl Status {
    /// Wraps the untyped form.
    pub fn from_raw(status: MPI_Status) -> Status {
        Status(status)
    }

    #[inline]
    pub(crate) fn from_core(status: core::Status) -> Status {
        Status(MPI_Status::from_core(status))
    }

    /// The sender's rank.
    pub fn source_rank(&self) -> Rank {
        self.0.MPI_SOURCE
    }

    /// The message's tag.
    pub fn tag(&self) -> Tag {
        self.0.MPI_TAG
    }

    /// How many elements of the datatype the message holds; `MPI_UNDEFINED` where it holds no whole number of them,
    /// or more than a [`Count`] can say (`MPI_Get_count`).
    pub fn count<D: Datatype>(&self, d: D) -> Count {
        self.elements(core_type(&d).size()).and_then(|n| Count::try_from(n).ok()).unwrap_or(MPI_UNDEFINED)
    }

    /// Whether the operation was cancelled before it took place (`MPI_Test_cancelled`).
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled != 0
    }

    /// Length of the message in bytes, packed.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// How many elements of `size` bytes the message holds, if a whole number.
    pub(crate) fn elements(&self, size: usize) -> Option<u64> {
        match (self.0.bytes, size as u64) {
            (_, 0) => Some(0),
            (bytes, size) if bytes % size == 0 => Some(bytes / size),
            _ => None,
        }
    }

    /// Whether nothing arrived that a value of `size` bytes could be made of.
    #[inline]
    pub(crate) fn is_short_of(&self, size: usize) -> bool {
        self.0.bytes < size as u64
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status {{ source_rank: {}, tag: {} }}", self.source_rank(), self.tag())
    }
}
