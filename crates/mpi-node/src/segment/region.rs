//! Memory that a rank offers to a peer, copied across processes by both at once.
//!
//! The owner puts address and length into a slot of its own and tells the peer the slot. The
//! taker publishes where it wants the bytes; then both claim pieces from one counter. The taker
//! reads its pieces out of the owner's memory, the owner, if it looks in while it waits, writes its
//! pieces into the taker's. Neither waits for the other except for a last piece under way.

use crate::cross_copy;
use crate::limits::{
    REGION_HALVES_BYTES, REGION_HEAD_START_BYTES, REGION_PIECE_BYTES_LEAST, REGION_PIECE_BYTES_MAX,
    REGION_PIECE_BYTES_MIN,
};
use crate::primitive::{AtomicU32, AtomicU64, Ordering};
use std::io;

/// One offer. The first line is the offering rank's alone, the second is worked on by both. Making
/// an offer writes to the first only: what the taker must know travels in the offer's name.
#[repr(C, align(128))]
pub(crate) struct RegionSlot {
    /// Address of the memory in the offering process.
    address: AtomicU64,
    length: AtomicU64,
    /// Number of the latest offer.
    generation: AtomicU32,
    _pad: [u32; 11],
    /// Generation in the high half, phase in the low half; until the taker begins, those of the
    /// offer before.
    state: AtomicU64,
    /// The part under way: number in the top 16 bits, bytes not yet claimed below. Claims fail
    /// when a new part began, since the number differs.
    unclaimed: AtomicU64,
    /// Bytes copied, both sides together.
    copied: AtomicU64,
    /// Where the taker wants the part, in its own memory.
    target: AtomicU64,
    /// Offset of the part in the region, and its length.
    part_offset: AtomicU64,
    part_length: AtomicU64,
    /// Process id of the taker.
    taker: AtomicU32,
    /// The owner could not write a piece that it had claimed.
    failed: AtomicU32,
    _pad2: u64,
}

/// The memory is its owner's. With the number before an offer's: the offer waits for its taker.
const REST: u32 = 0;
const BEGUN: u32 = 1;
const REFUSED: u32 = 2;

const REMAINING_BITS: u32 = 48;
const REMAINING: u64 = (1 << REMAINING_BITS) - 1;

/// Where an offer stands, for its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// The peer has not begun.
    Waiting,
    /// The peer is at it.
    Begun,
    /// The peer has all it wants; the memory is the owner's again.
    Taken,
    /// The peer cannot copy across processes; the memory is the owner's again.
    Refused,
}

impl RegionSlot {
    fn is(&self, generation: u32, phase: u32) -> bool {
        self.state.load(Ordering::Acquire) == word(generation, phase)
    }

    /// Offers memory; returns the generation that names the offer.
    pub(crate) fn offer(&self, address: u64, length: u64) -> u32 {
        let generation = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        self.generation.store(generation, Ordering::Relaxed);
        self.address.store(address, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
        generation
    }

    /// Takes an offer back unless the peer has begun; one that it refused counts as not begun.
    pub(crate) fn withdraw(&self, generation: u32) -> bool {
        [waiting(generation), word(generation, REFUSED)].into_iter().any(|from| {
            let to = word(generation, REST);
            self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes the slot back from a peer that is gone.
    pub(crate) fn reclaim(&self, generation: u32) {
        self.state.store(word(generation, REST), Ordering::Release);
        self.unclaimed.store(0, Ordering::Release);
    }

    /// Where the latest offer stands.
    #[inline]
    pub(crate) fn look(&self) -> Offer {
        let generation = self.generation.load(Ordering::Relaxed);
        match self.state.load(Ordering::Acquire) {
            now if now == waiting(generation) => Offer::Waiting,
            now if now == word(generation, BEGUN) => Offer::Begun,
            now if now == word(generation, REFUSED) => Offer::Refused,
            _ => Offer::Taken,
        }
    }

    /// True when [`help`](Self::help) would find something to do.
    #[inline]
    pub(crate) fn wants_help(&self) -> bool {
        self.unclaimed.load(Ordering::Relaxed) & REMAINING != 0
    }

    /// Claims a piece: offset in the part, length, offset of the part.
    #[inline]
    fn claim(&self) -> Option<Piece> {
        loop {
            // SYNC POINT: pairs with the release in `start_part`.
            let now = self.unclaimed.load(Ordering::Acquire);
            let remaining = now & REMAINING;
            if remaining == 0 {
                return None;
            }
            // While anything of this part is unclaimed its description does not change.
            let length = self.part_length.load(Ordering::Relaxed);
            let target = self.target.load(Ordering::Relaxed);
            let offset = self.part_offset.load(Ordering::Relaxed);
            let piece = piece_length(length, remaining);
            if self.unclaimed.compare_exchange(now, now - piece, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                let start = length.wrapping_sub(remaining);
                return Some(Piece {
                    target: target.wrapping_add(start),
                    offset: offset.wrapping_add(start),
                    length: piece,
                });
            }
        }
    }

    /// The owner's help: writes one piece into the taker's memory if the taker is at it.
    ///
    /// # Safety
    /// The offered memory is still valid.
    pub(crate) unsafe fn help(&self) -> bool {
        let Some(piece) = self.claim() else {
            return false;
        };
        let inside = piece
            .offset
            .checked_add(piece.length)
            .is_some_and(|end| end <= self.length.load(Ordering::Relaxed));
        let from = self.address.load(Ordering::Relaxed).wrapping_add(piece.offset) as *const u8;
        let pid = self.taker.load(Ordering::Relaxed);
        // SAFETY: inside the offered memory, which the caller vouches for; the taker expects the
        // piece, which it cannot count as copied before this side says so.
        if !inside || unsafe { cross_copy::write(pid, piece.target, from, piece.length as usize) }.is_err() {
            self.failed.store(1, Ordering::Relaxed);
        }
        // SYNC POINT: pairs with the acquire in `part_is_copied`.
        self.copied.fetch_add(piece.length, Ordering::Release);
        true
    }

    /// The taker's start: false when the offer is not there any more.
    pub(crate) fn begin(&self, generation: u32) -> bool {
        let begun = word(generation, BEGUN);
        self.state.compare_exchange(waiting(generation), begun, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            || self.is(generation, BEGUN)
    }

    /// Publishes the part that the taker wants; from here on the owner may help. The piece that the
    /// taker is to begin with is claimed already.
    pub(crate) fn start_part(&self, taker: u32, offset: u64, target: u64, length: u64) -> Piece {
        self.copied.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
        self.target.store(target, Ordering::Relaxed);
        self.part_offset.store(offset, Ordering::Relaxed);
        self.part_length.store(length, Ordering::Relaxed);
        self.taker.store(taker, Ordering::Relaxed);
        let first = piece_length(length, length);
        let number = (self.unclaimed.load(Ordering::Relaxed) >> REMAINING_BITS).wrapping_add(1);
        // SYNC POINT: pairs with the acquire in `claim`.
        self.unclaimed.store(number << REMAINING_BITS | ((length - first) & REMAINING), Ordering::Release);
        Piece { target, offset, length: first }
    }

    /// The taker copies `first`, then pieces until none is left to claim. An error when the owner's
    /// memory cannot be read.
    ///
    /// # Safety
    /// The target given to [`start_part`](Self::start_part), which gave `first`, is valid.
    pub(crate) unsafe fn take_pieces(&self, first: Piece, pid: u32, address: u64) -> io::Result<()> {
        let mut next = Some(first);
        while let Some(piece) = next {
            // SAFETY: inside the target, which the caller vouches for.
            let result = unsafe {
                cross_copy::read(
                    pid,
                    address.wrapping_add(piece.offset),
                    piece.target as *mut u8,
                    piece.length as usize,
                )
            };
            self.copied.fetch_add(piece.length, Ordering::Relaxed);
            if let Err(error) = result {
                self.stop_claims();
                return Err(error);
            }
            next = self.claim();
        }
        Ok(())
    }

    /// Nothing more can be claimed; counts what nobody claimed as copied, so that a piece the
    /// owner has under way can still be waited for.
    fn stop_claims(&self) {
        let mut now = self.unclaimed.load(Ordering::Acquire);
        while now & REMAINING != 0 {
            match self.unclaimed.compare_exchange(now, now & !REMAINING, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    self.copied.fetch_add(now & REMAINING, Ordering::Relaxed);
                    return;
                }
                Err(other) => now = other,
            }
        }
    }

    /// True when both sides have finished their pieces of the part.
    #[inline]
    pub(crate) fn part_is_copied(&self) -> bool {
        self.copied.load(Ordering::Acquire) == self.part_length.load(Ordering::Relaxed)
    }

    /// True when the owner could not write a piece: the taker copies the part again by itself.
    pub(crate) fn owner_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) != 0
    }

    /// The taker needs no more.
    pub(crate) fn finish(&self, generation: u32) {
        self.state.store(word(generation, REST), Ordering::Release);
    }

    /// The taker cannot copy at all.
    pub(crate) fn refuse(&self, generation: u32) {
        self.state.store(word(generation, REFUSED), Ordering::Release);
    }
}

pub(crate) struct Piece {
    /// Address in the taker's memory.
    target: u64,
    /// Offset in the region.
    offset: u64,
    length: u64,
}

/// The state while an offer waits: that in which the one before ended.
fn waiting(generation: u32) -> u64 {
    word(generation.wrapping_sub(1), REST)
}

fn word(generation: u32, phase: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(phase)
}

/// Up to [`REGION_HALVES_BYTES`] two pieces, the taker's first one the larger since it begins earlier.
/// Beyond, half of what is left, within bounds, so that the pieces shrink towards the end and both
/// sides finish together. Whole pages.
fn piece_length(total: u64, remaining: u64) -> u64 {
    let piece = if total > REGION_HALVES_BYTES {
        (remaining / 2).next_multiple_of(4096).clamp(REGION_PIECE_BYTES_MIN, REGION_PIECE_BYTES_MAX)
    } else if remaining == total {
        (total / 2 + REGION_HEAD_START_BYTES).next_multiple_of(4096)
    } else {
        remaining
    };
    piece.max(REGION_PIECE_BYTES_LEAST).min(remaining)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_told_apart_when_their_numbers_go_round() {
        // SAFETY: integers and atomics, for which zero is a value.
        let slot: RegionSlot = unsafe { core::mem::zeroed() };
        slot.generation.store(u32::MAX - 2, Ordering::Relaxed);
        slot.state.store(word(u32::MAX - 2, REST), Ordering::Relaxed);
        slot.unclaimed.store(!REMAINING, Ordering::Relaxed);
        let mut before = u32::MAX - 2;
        for _ in 0..5 {
            let generation = slot.offer(4096, 100);
            assert_eq!(slot.look(), Offer::Waiting);
            assert!(!slot.begin(before), "an offer that is over");
            assert!(slot.begin(generation));
            assert_eq!(slot.look(), Offer::Begun);
            assert!(!slot.withdraw(generation));
            let piece = slot.start_part(1, 0, 0, 100);
            assert_eq!((piece.length, slot.wants_help()), (100, false));
            slot.finish(generation);
            assert_eq!(slot.look(), Offer::Taken);
            before = generation;
        }
    }

    #[test]
    fn pieces_cover_everything() {
        for total in [1, 4095, 4096, 65_536, 100_001, 1 << 20, (4 << 20) + 17] {
            let mut remaining = total;
            while remaining > 0 {
                let piece = piece_length(total, remaining);
                assert!(piece > 0 && piece <= remaining);
                remaining -= piece;
            }
        }
    }
}
