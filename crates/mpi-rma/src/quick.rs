//! The shortest way of put, get and accumulate: memory that is mapped here, an epoch on all ranks, one predefined type
//! on both sides. Everything else, and every error, goes the long way through `access.rs` and `combine.rs`, which check again.
//! One of the files with `unsafe`.
//!
//! These functions are small enough to be compiled into the caller: an operation on one word is some forty
//! instructions, no call, no lock and no locked instruction but the accumulate's own.

use crate::access::Target;
use crate::accumulate::Place;
use crate::board::Seat;
use crate::memory::copy_bytes;
use crate::window::{Inner, Window};
use mpi_comm::Dest;
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use std::sync::atomic::Ordering;

/// Where the elements are, inside a target's memory.
struct Found<'a> {
    at: *mut u8,
    bytes: usize,
    primitive: Primitive,
    seat: &'a Seat,
}

impl Inner {
    /// The memory of an operation, when it is of the plain kind. `count` elements of `datatype` are the origin's.
    #[inline]
    fn plain(&self, count: usize, datatype: &Datatype, target: &Target<'_>) -> Option<Found<'_>> {
        if !self.epoch.is_open() {
            return None;
        }
        let (Dest::Rank(rank), Datatype::Predefined(p), Datatype::Predefined(q)) =
            (target.rank, datatype, target.datatype)
        else {
            return None;
        };
        // In an open epoch seats are ranks.
        let rank = rank as u32;
        if p != q || count != target.count || !datatype.is_contiguous() || rank >= self.board.seats() {
            return None;
        }
        let seat = self.board.seat(rank);
        let (part, size, unit) = self.board.part_of(seat)?;
        let bytes = p.size().checked_mul(count)?;
        let from = usize::try_from(target.at).ok()?.checked_mul(unit)?;
        let end = from.checked_add(bytes)?;
        (end <= size).then(|| Found { at: part.wrapping_add(from), bytes, primitive: *p, seat })
    }

    /// True when it was done.
    #[inline]
    pub fn put_plain(&self, from: &SendBuf<'_>, target: &Target<'_>) -> bool {
        let Some(found) = self.plain(from.count(), from.datatype(), target) else { return false };
        // SAFETY: the bytes lie inside the target's part, which is mapped; those of `from` by its promise.
        unsafe { copy_bytes(from.ptr(), found.at, found.bytes) };
        true
    }

    /// True when it was done.
    #[inline]
    pub fn get_plain(&self, to: &RecvBuf<'_>, target: &Target<'_>) -> bool {
        let Some(found) = self.plain(to.count(), to.datatype(), target) else { return false };
        // SAFETY: as in `put_plain`.
        unsafe { copy_bytes(found.at, to.ptr(), found.bytes) };
        true
    }

    /// Combines one word; true when it was done. `result` gets what was there.
    #[inline]
    pub fn combine_plain_word(
        &self,
        from: &SendBuf<'_>,
        target: &Target<'_>,
        op: &Op,
        result: Option<*mut u8>,
    ) -> bool {
        use Primitive::{F32, F64, I32, I64, U32, U64};
        let Some(found) = self.plain(from.count(), from.datatype(), target) else { return false };
        let is_word = matches!(found.primitive, I64 | U64 | F64 | I32 | U32 | F32);
        if !is_word || target.count != 1 || !matches!(op, Op::Sum | Op::Replace) {
            return false;
        }
        let site = self.site(found.seat, Place::Here(found.at));
        // SAFETY: one word inside the target's part, which is mapped; those of `from` and `result` by their promises.
        unsafe { site.combine_word(op, found.primitive, found.at, from.ptr(), result) }
    }
}

impl Window {
    /// True when nothing has to be waited for in an epoch of lock all.
    #[inline]
    pub(crate) fn is_flushed(&self) -> bool {
        self.0.epoch.is_locked_all() && self.0.is_clean() && !self.0.losses.load(Ordering::Relaxed)
    }
}
