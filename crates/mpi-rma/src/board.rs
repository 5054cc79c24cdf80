//! The memory that the ranks of a node share for one window: a head, a seat per rank, then the data. A rank that is alone
//! meets nobody there, and has a short head.
//! One of the files with `unsafe`: typed views of the mapping.

use crate::limits::{FRONT_ALONE_BYTES, PART_ALIGN_BYTES, STRIPES};
use mpi_node::block::{Block, Handle};
use mpi_node::{FairLock, Gate};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What stands in front where several ranks sit.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// The block's own.
    _cookie: AtomicU64,
    pub gate: Gate,
}

/// What a rank has in a window beside its data.
#[repr(C, align(64))]
pub(crate) struct Seat {
    /// Where its part starts in the block; its size; bytes per unit of displacement. Written before anybody
    /// else looks, and never again.
    pub offset: AtomicU64,
    pub size: AtomicU64,
    pub unit: AtomicU32,
    pub pid: AtomicU32,
    /// Rank in the window's communicator.
    pub rank: AtomicU32,
    /// How its accumulates are done: see `accumulate.rs`.
    pub mode: AtomicU32,
    /// Address of foreign memory in its process.
    pub address: AtomicU64,
    _spare: [u64; 2],
    pub lock: Line<Passive>,
    pub own: Line<Own>,
    pub stripes: [AtomicU32; STRIPES],
}

/// On cache lines of its own.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub T);

/// The passive-target lock.
#[repr(C)]
pub(crate) struct Passive {
    pub lock: FairLock,
    /// Rank plus one of a process that died with the lock.
    pub broken: AtomicU32,
}

/// What only the seat's own process writes.
#[repr(C)]
pub(crate) struct Own {
    /// Atomic accumulates under way: by calls, and by messages.
    pub busy: [AtomicU32; 2],
    /// Passive-target locks that it holds or waits for.
    pub locks: AtomicU32,
    /// Fences that it has come to.
    pub fences: AtomicU32,
}

const _: () = {
    assert!(size_of::<Head>() == 256);
    assert!(LONELY_HEAD_BYTES >= size_of::<AtomicU64>() && LONELY_HEAD_BYTES % align_of::<Seat>() == 0);
    assert!(size_of::<Seat>() == 320);
    assert!(front_bytes(1) == FRONT_ALONE_BYTES);
};

/// The mapping with its typed views.
pub(crate) struct Board {
    block: Block,
    seats: u32,
    /// Bytes of the head.
    head: u32,
}

/// The head of a board with one seat: the block's own word.
const LONELY_HEAD_BYTES: usize = 64;

const fn head_bytes(seats: usize) -> usize {
    if seats == 1 { LONELY_HEAD_BYTES } else { size_of::<Head>() }
}

/// Bytes in front of the data of `seats` ranks.
pub(crate) const fn front_bytes(seats: usize) -> usize {
    (head_bytes(seats) + seats * size_of::<Seat>()).next_multiple_of(PART_ALIGN_BYTES)
}

impl Board {
    pub fn private(seats: u32, data: usize) -> io::Result<Board> {
        Block::private(front_bytes(seats as usize) + data).map(|block| Board::on(block, seats))
    }

    pub fn create(seats: u32, data: usize) -> io::Result<Board> {
        Block::create(front_bytes(seats as usize) + data).map(|block| Board::on(block, seats))
    }

    fn on(block: Block, seats: u32) -> Board {
        Board { block, seats, head: head_bytes(seats as usize) as u32 }
    }

    pub fn open(seats: u32, handle: Handle) -> io::Result<Board> {
        let block = Block::open(handle)?;
        if block.len() < front_bytes(seats as usize) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the block is too small"));
        }
        Ok(Board::on(block, seats))
    }

    pub fn handle(&self) -> Handle {
        self.block.handle()
    }

    /// Everybody has it.
    pub fn close(&self) {
        self.block.close();
    }

    /// Where the ranks of a node meet.
    ///
    /// # Panics
    /// When there is one seat.
    #[inline]
    pub fn head(&self) -> &Head {
        assert!(self.head as usize == size_of::<Head>(), "nobody else sits here");
        // SAFETY: the block is at least the front, which has a whole head; mapped memory is page-aligned; all fields are atomics,
        // for which any bytes are valid.
        unsafe { &*self.block.start().cast::<Head>() }
    }

    #[inline]
    pub fn seats(&self) -> u32 {
        self.seats
    }

    /// The seat of a rank of the node.
    #[inline]
    pub fn seat(&self, at: u32) -> &Seat {
        assert!(at < self.seats, "seat {at} of {}", self.seats);
        let from = self.head as usize + at as usize * size_of::<Seat>();
        // SAFETY: inside the front, which the block has; aligned, as every head is a multiple of 64 bytes;
        // all fields are atomics.
        unsafe { &*self.block.start().add(from).cast::<Seat>() }
    }

    pub fn all_seats(&self) -> impl Iterator<Item = &Seat> {
        (0..self.seats).map(|at| self.seat(at))
    }

    /// Address of a part in the block; `None` when it is not all inside, which nobody of good will says.
    #[inline]
    pub fn part(&self, seat: &Seat) -> Option<*mut u8> {
        self.part_of(seat).map(|(base, ..)| base)
    }

    /// The same with the part's size and bytes per unit of displacement.
    #[inline]
    pub fn part_of(&self, seat: &Seat) -> Option<(*mut u8, usize, usize)> {
        let (offset, size) = (seat.offset.load(Ordering::Relaxed), seat.size.load(Ordering::Relaxed));
        let unit = seat.unit.load(Ordering::Relaxed) as usize;
        let end = offset.checked_add(size)?;
        (end <= self.block.len() as u64)
            .then(|| (self.block.start().wrapping_add(offset as usize), size as usize, unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_apart_and_small() {
        let board = Board::private(5, 100).unwrap();
        for at in 0..5 {
            board.seat(at).rank.store(at + 1, Ordering::Relaxed);
            board.seat(at).stripes[STRIPES - 1].store(9, Ordering::Relaxed);
        }
        let ranks: Vec<u32> = board.all_seats().map(|s| s.rank.load(Ordering::Relaxed)).collect();
        assert_eq!(ranks, [1, 2, 3, 4, 5]);
        board.seat(0).offset.store(front_bytes(5) as u64, Ordering::Relaxed);
        board.seat(0).size.store(100, Ordering::Relaxed);
        assert!(board.part(board.seat(0)).is_some());
        board.seat(0).size.store(u64::MAX, Ordering::Relaxed);
        assert!(board.part(board.seat(0)).is_none());
    }

    #[test]
    fn a_lonely_seat_has_a_short_head() {
        let board = Board::private(1, 8).unwrap();
        board.seat(0).offset.store(front_bytes(1) as u64, Ordering::Relaxed);
        board.seat(0).size.store(8, Ordering::Relaxed);
        assert!(board.part(board.seat(0)).is_some());
        assert!(
            std::panic::catch_unwind(|| Board::private(1, 8).unwrap().head().gate.arrive(0, 1, true))
                .is_err()
        );
    }
}
