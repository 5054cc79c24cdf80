//! Slots in which a rank offers memory for cross-process copy.

use crate::primitive::{AtomicU32, AtomicU64};

/// One offer. The first line belongs to the offering rank, the second is worked on by both.
#[repr(C, align(128))]
pub(crate) struct RegionSlot {
    /// Address of the memory in the offering process.
    pub(crate) address: AtomicU64,
    pub(crate) length: AtomicU64,
    _pad: [u64; 6],
    /// Phase and generation.
    pub(crate) state: AtomicU64,
    /// Bytes claimed, from the start of the part being copied.
    pub(crate) claimed: AtomicU64,
    /// Bytes copied.
    pub(crate) copied: AtomicU64,
    /// Where the taker wants them, in its own memory.
    pub(crate) target: AtomicU64,
    /// The part being copied: offset in the region and length.
    pub(crate) part_offset: AtomicU64,
    pub(crate) part_length: AtomicU64,
    /// Slot of the taker.
    pub(crate) taker: AtomicU32,
    _pad2: [u32; 3],
}
