//! What every rank shows to the others: who it is, whether it sleeps, the ends of its inbox.

use crate::limits::MAX_RANKS;
use crate::primitive::{AtomicU32, AtomicU64};

/// A cache line of its own, so that writers of one thing do not disturb readers of another.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// Control block of a rank. All zero at first. Every field is atomic: any process of the job may
/// write at any time, and nothing here is trusted as an offset without a check.
#[repr(C)]
pub(crate) struct RankControl {
    /// Whether the rank sleeps and how to wake it; see `parking`.
    pub(crate) sleep: Line<AtomicU32>,
    pub(crate) identity: Line<Identity>,
    /// Bytes ever claimed in the inbox, by all senders.
    pub(crate) inbox_tail: Line<AtomicU64>,
    /// Bytes ever consumed from the inbox.
    pub(crate) inbox_head: Line<AtomicU64>,
    /// Nonzero when a bit of `inbox_blocked` may be set.
    pub(crate) inbox_any_blocked: Line<AtomicU32>,
    /// Rings into this rank that were claimed.
    pub(crate) rings_claimed: Line<AtomicU32>,
    /// A bit per rank that found the inbox full and wants to be woken.
    pub(crate) inbox_blocked: [AtomicU64; MAX_RANKS as usize / 64],
}

/// Who the rank is. Written by the rank itself before `state`.
#[repr(C)]
pub(crate) struct Identity {
    /// [`ABSENT`], [`PRESENT`], [`LEFT`] or [`ABANDONED`].
    pub(crate) state: AtomicU32,
    pub(crate) pid: AtomicU32,
    /// What the layer above shows about itself.
    pub(crate) label: AtomicU64,
    /// Address of the cookie in the rank's own memory, and its value: whoever can read the one
    /// from the other may copy across processes.
    pub(crate) probe_address: AtomicU64,
    pub(crate) probe_cookie: AtomicU64,
    /// Name of the doorbell, two random words.
    pub(crate) bell: [AtomicU64; 2],
}

/// Not attached yet.
pub(crate) const ABSENT: u32 = 0;
/// Attached.
pub(crate) const PRESENT: u32 = 1;
/// Said goodbye.
pub(crate) const LEFT: u32 = 2;
/// Unmapped the segment without a goodbye.
pub(crate) const ABANDONED: u32 = 3;
