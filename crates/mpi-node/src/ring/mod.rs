//! A ring from one rank to another: one producer, one consumer, in shared memory.
//!
//! A message is a cell of one cache line: a flag word, five words that the ring does not
//! interpret, and a small body. A larger body lies in one piece in the body area beside the
//! cells and the cell says where. The flag carries the number of the lap, so that a cell needs no
//! clearing, and is published by one release store: one line transfer brings flag, words and
//! body. The producer writes cells and body and reads its own cached copy of the consumer's
//! position; the consumer returns its position once per quarter of the ring, on a line of its own.
//! (FastForward's slot-carried state, Giacomoni et al. 2008, with Lee's batched index return, 2009.)

mod consumer;
mod producer;
#[cfg(test)]
mod tests;

pub use consumer::Consumer;
pub use producer::{Producer, RoomWatch};

use crate::primitive::{AtomicU32, AtomicU64, UnsafeCell};
use core::any::Any;
use std::sync::Arc;

/// Words that travel with a message beside its body.
pub const HEAD_WORDS: usize = 5;
/// Largest body that travels in the cells themselves, in bytes: [`FIRST_BYTES`] in the first,
/// 60 in each following one.
pub const INLINE_BYTES: usize = FIRST_BYTES + (INLINE_CELLS - 1) * NEXT_BYTES;
/// Body bytes of a message's first cell.
pub const FIRST_BYTES: usize = 40;
/// Body bytes of a following cell.
const NEXT_BYTES: usize = 60;
/// Lines of a body that the consumer asks for before it hands the message over.
const FETCHED_BODY_LINES: u32 = 64;
/// Lines that a consumer fetches behind the producer between two looks at the flag.
const CHASE_LINES: u32 = 4;
/// Lines of a body that the producer asks for before it writes them.
const OWNED_BODY_LINES: u32 = 64;
/// Lines of the next body, if it is like this one, that it asks for after it has published this one.
const OWNED_AHEAD_LINES: u32 = 32;
/// A producer that has written a cell asks for the one so far ahead, to write it.
const OWNED_AHEAD_CELLS: u32 = 8;
/// A consumer that takes a cell asks for the one so far ahead: in a burst it is written already.
const FETCHED_AHEAD_CELLS: u32 = 4;
/// Cells that one message may take.
const INLINE_CELLS: usize = 2;

/// Code in the flag's length field for a body outside the cell.
const OUTSIDE: u32 = 0xFF;
/// Code for a body outside the cell that is still being written: the consumer may begin to fetch
/// its lines, behind the producer, and takes the message when the code is [`OUTSIDE`].
const COMING: u32 = 0xFE;
/// From this length, in bytes, a body is announced as coming.
const COMING_BYTES: usize = if cfg!(loom) { 128 } else { 3072 };

/// One message. Flag layout: lap in bits 0–15, the sender's mark in bits 16–23, length of the
/// inline body in bits 24–31 or [`OUTSIDE`].
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Cell {
    flag: AtomicU32,
    data: UnsafeCell<Data>,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Data {
    head: [u32; HEAD_WORDS],
    body: [u8; FIRST_BYTES],
}

/// A line of the body area.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct BodyLine(UnsafeCell<[u8; LINE]>);

const LINE: usize = 64;

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Cell>() == 64);
    assert!(size_of::<Data>() == NEXT_BYTES);
    assert!(INLINE_BYTES < OUTSIDE as usize);
    assert!(size_of::<BodyLine>() == 64);
    assert!(core::mem::offset_of!(Cell, data) == 4);
};

/// The consumer's position: cells in the high half, body bytes in the low half, both wrapping.
pub(crate) type Returned = AtomicU64;

/// Where a ring lies. Pointers into memory that `alive` keeps mapped.
#[derive(Clone)]
pub(crate) struct RingMemory {
    pub(crate) returned: *const Returned,
    pub(crate) cells: *const Cell,
    /// A power of two.
    pub(crate) cell_count: u32,
    pub(crate) body: *const BodyLine,
    pub(crate) body_lines: u32,
    #[allow(dead_code, reason = "held so that the memory stays mapped")]
    pub(crate) alive: Arc<dyn Any + Send + Sync>,
}

impl RingMemory {
    fn body_bytes(&self) -> u32 {
        self.body_lines * LINE as u32
    }

    #[inline(always)]
    fn cell(&self, at: u32) -> &Cell {
        debug_assert!(at < self.cell_count);
        // SAFETY: `at` is below the count; the memory is mapped while `alive` lives, which `self`
        // holds; all of a cell's fields allow shared access.
        unsafe { &*self.cells.add(at as usize) }
    }

    /// The cell `ahead` of the one at `at`.
    #[inline(always)]
    fn cell_ahead(&self, at: u32, ahead: u32) -> &Cell {
        self.cell((at + ahead) & (self.cell_count - 1))
    }

    #[inline(always)]
    fn returned(&self) -> &Returned {
        // SAFETY: mapped while `alive` lives; atomic.
        unsafe { &*self.returned }
    }

    /// Does `f` to the lines of the body area that `len` bytes from `offset` lie in, at most `most`
    /// of them and none beyond the area.
    #[inline(always)]
    fn each_line(&self, offset: u32, len: u32, most: u32, f: impl Fn(&BodyLine)) {
        let start = offset / LINE as u32;
        let lines = len.div_ceil(LINE as u32).min(most).min(self.body_lines.saturating_sub(start));
        for at in start..start + lines {
            // SAFETY: inside the area, which is mapped while `alive` lives; a line allows shared
            // access.
            f(unsafe { &*self.body.add(at as usize) });
        }
    }

    /// Writes `bytes` at `offset` of the body area, whole range inside.
    #[inline(always)]
    fn write_body(&self, offset: u32, bytes: &[u8]) {
        debug_assert!(offset as usize + bytes.len() <= self.body_bytes() as usize);
        #[cfg(loom)]
        for line in offset as usize / LINE..(offset as usize + bytes.len()).div_ceil(LINE) {
            // SAFETY: inside the area; loom only records the access.
            unsafe { &*self.body.add(line) }.0.with_mut(|_| ());
        }
        #[cfg(not(loom))]
        // SAFETY: inside the area by the caller's check; the consumer does not read this range
        // before the cell that refers to it is published, nor did it stop short of returning it.
        unsafe {
            core::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.body.cast::<u8>().cast_mut().add(offset as usize),
                bytes.len(),
            );
        }
    }

    /// The body at `offset`, whole range inside.
    #[inline(always)]
    fn body(&self, offset: u32, len: u32) -> &[u8] {
        #[cfg(loom)]
        for line in offset as usize / LINE..(offset as usize + len as usize).div_ceil(LINE) {
            // SAFETY: inside the area; loom only records the access.
            unsafe { &*self.body.add(line) }.0.with(|_| ());
        }
        // SAFETY: inside the area by the caller's check; published by the flag that was acquired,
        // and not written again before the consumer returns it.
        unsafe { core::slice::from_raw_parts(self.body.cast::<u8>().add(offset as usize), len as usize) }
    }
}

/// No room in the ring now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// A message as it lies in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The sender's mark.
    pub mark: u8,
    /// The sender's words.
    pub head: [u32; HEAD_WORDS],
    /// The body.
    pub body: &'a [u8],
}

/// What [`Consumer::pop`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Popped {
    /// Nothing.
    Empty,
    /// A message was handed over.
    Message,
    /// As `Message`, and the producer was told that it has room again: wake it if it sleeps.
    Returned,
    /// The cell refers outside the ring: the producer's fault. The ring is unusable.
    Corrupt,
}

#[inline(always)]
fn cells_for(len: usize) -> u32 {
    if len <= FIRST_BYTES || len > INLINE_BYTES {
        1
    } else {
        1 + (len - FIRST_BYTES).div_ceil(NEXT_BYTES) as u32
    }
}

/// A record and the waste at the end of the area before it, beside a quarter that the consumer
/// may owe, must fit.
const fn largest_body(area: u32) -> usize {
    (area as usize / 8 * 3) / LINE * LINE
}

/// Asks for a line that will be read.
#[inline(always)]
fn prefetch<T>(line: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: a prefetch of any address touches nothing.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(line).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = line;
}

/// Asks for a line that will be written.
#[inline(always)]
fn prefetch_to_write<T>(line: &T) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    // SAFETY: a prefetch of any address touches nothing.
    unsafe {
        // The intrinsic becomes a plain prefetch unless the compiler may assume the instruction,
        // which processors without it take as a no-op.
        core::arch::asm!(
            "prefetchw [{}]",
            in(reg) core::ptr::from_ref(line),
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = line;
}
