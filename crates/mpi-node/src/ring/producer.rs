//! The sending end.

use super::{
    COMING, COMING_BYTES, FIRST_BYTES, Full, HEAD_WORDS, INLINE_BYTES, LINE, NEXT_BYTES, OUTSIDE,
    OWNED_AHEAD_CELLS, OWNED_AHEAD_LINES, OWNED_BODY_LINES, RingMemory, cells_for, largest_body,
    prefetch_to_write,
};
use crate::primitive::Ordering;

/// The sending end of a ring. There is one per ring.
pub struct Producer {
    pub(super) memory: RingMemory,
    /// Next cell to write, and its lap.
    at: u32,
    lap: u16,
    /// Cells and body bytes ever written, wrapping.
    cells: u32,
    body: u32,
    /// Next offset in the body area.
    body_at: u32,
    /// Last seen position of the consumer.
    seen_cells: u32,
    seen_body: u32,
}

// SAFETY: the pointers refer to shared memory that is held; used by one thread at a time.
unsafe impl Send for Producer {}

impl Producer {
    /// # Safety
    /// The memory is valid as its field docs say, zeroed before either end was made, and no other
    /// producer of it exists or existed.
    pub(crate) unsafe fn new(memory: RingMemory) -> Producer {
        Producer { memory, at: 0, lap: 1, cells: 0, body: 0, body_at: 0, seen_cells: 0, seen_body: 0 }
    }

    /// As if so many laps were behind it and `cells` cells and `body` bytes had been written.
    #[cfg(test)]
    pub(super) fn aged(mut self, lap: u16, cells: u32, body: u32) -> Producer {
        (self.lap, self.cells, self.body) = (lap, cells, body);
        (self.seen_cells, self.seen_body) = (cells, body);
        self
    }

    /// Largest body that a ring takes whatever its state was, once it is drained.
    pub fn largest_body(&self) -> usize {
        largest_body(self.memory.body_bytes())
    }

    /// Publishes a message, or takes nothing. The body is `first` followed by `second`.
    ///
    /// # Errors
    /// [`Full`].
    ///
    /// # Panics
    /// When the body is longer than [`largest_body`](Self::largest_body).
    #[inline]
    pub fn push(
        &mut self,
        mark: u8,
        head: [u32; HEAD_WORDS],
        first: &[u8],
        second: &[u8],
    ) -> Result<(), Full> {
        let len = first.len() + second.len();
        let cells = cells_for(len);
        if self.cells.wrapping_sub(self.seen_cells) + cells > self.memory.cell_count {
            self.look();
            if self.cells.wrapping_sub(self.seen_cells) + cells > self.memory.cell_count {
                return Err(Full);
            }
        }
        let code = if len <= INLINE_BYTES {
            if len <= FIRST_BYTES {
                self.write_small(head, first, second);
            } else if second.is_empty() {
                self.write_spanning(head, first);
            } else {
                let mut both = [0; INLINE_BYTES];
                both[..first.len()].copy_from_slice(first);
                both[first.len()..len].copy_from_slice(second);
                self.write_spanning(head, &both[..len]);
            }
            len as u32
        } else {
            let (offset, after) = self.place(len)?;
            self.write_place(head, [offset, len as u32, after]);
            if len >= COMING_BYTES {
                let flag = u32::from(self.lap) | COMING << 24;
                // SYNC POINT: pairs with the acquire in `Consumer::pop`.
                self.memory.cell(self.at).flag.store(flag, Ordering::Release);
            }
            // All at once, which copying alone does only for a few.
            self.memory.each_line(offset, len as u32, OWNED_BODY_LINES, prefetch_to_write);
            self.memory.write_body(offset, first);
            if !second.is_empty() {
                self.memory.write_body(offset + first.len() as u32, second);
            }
            OUTSIDE
        };
        let flag = u32::from(self.lap) | u32::from(mark) << 16 | code << 24;
        // SYNC POINT: pairs with the acquire in `Consumer::pop`.
        self.memory.cell(self.at).flag.store(flag, Ordering::Release);
        if code == OUTSIDE {
            // The next body is probably like this one. Its lines, which the consumer has read a lap ago,
            // become this side's while the message is on its way.
            self.memory.each_line(self.body_at, len as u32, OWNED_AHEAD_LINES, prefetch_to_write);
        }
        for ahead in OWNED_AHEAD_CELLS..OWNED_AHEAD_CELLS + cells {
            prefetch_to_write(self.memory.cell_ahead(self.at, ahead));
        }
        self.cells = self.cells.wrapping_add(cells);
        self.at += cells;
        if self.at >= self.memory.cell_count {
            self.at -= self.memory.cell_count;
            self.lap = self.lap.wrapping_add(1);
        }
        Ok(())
    }

    /// Words and body go straight into the cell: a copy built aside would be read back wider than
    /// it was written, which stalls.
    #[inline(always)]
    fn write_small(&mut self, head: [u32; HEAD_WORDS], first: &[u8], second: &[u8]) {
        self.memory.cell(self.at).data.with_mut(|data| {
            // SAFETY: the consumer has returned this cell and does not read it before its flag.
            let data = unsafe { &mut *data };
            write_words(&mut data.head, head);
            copy_small(&mut data.body, 0, first);
            if !second.is_empty() {
                copy_small(&mut data.body, first.len(), second);
            }
        });
    }

    /// A body longer than one cell holds. The flags of the following cells say the lap before, which is
    /// none that the consumer waits for there. Left as it was, the flag of a cell that is never a first one
    /// would come true again when the counter of laps has gone round.
    #[inline]
    fn write_spanning(&mut self, head: [u32; HEAD_WORDS], body: &[u8]) {
        let (start, mut rest) = body.split_at(FIRST_BYTES);
        let mut at = self.at;
        while !rest.is_empty() {
            at = if at + 1 == self.memory.cell_count { 0 } else { at + 1 };
            let (piece, later) = rest.split_at(rest.len().min(NEXT_BYTES));
            let following = self.memory.cell(at);
            following.flag.store(u32::from(self.lap.wrapping_sub(1)), Ordering::Relaxed);
            following.data.with_mut(|data| {
                // SAFETY: as in `write_small`; a piece is no longer than the data.
                unsafe { core::ptr::copy_nonoverlapping(piece.as_ptr(), data.cast::<u8>(), piece.len()) }
            });
            rest = later;
        }
        self.memory.cell(self.at).data.with_mut(|data| {
            // SAFETY: as in `write_small`.
            let data = unsafe { &mut *data };
            data.head = head;
            // Its length is known: a call would leave the cell half written for the consumer to look at.
            data.body.copy_from_slice(start);
        });
    }

    #[inline]
    fn write_place(&mut self, head: [u32; HEAD_WORDS], place: [u32; 3]) {
        self.memory.cell(self.at).data.with_mut(|data| {
            // SAFETY: as in `write_small`.
            let data = unsafe { &mut *data };
            write_words(&mut data.head, head);
            for (to, word) in data.body.chunks_exact_mut(4).zip(place) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
        });
    }

    /// Finds `len` bytes in one piece in the body area; returns where, and the position after them.
    #[inline]
    fn place(&mut self, len: usize) -> Result<(u32, u32), Full> {
        let area = self.memory.body_bytes();
        assert!(len <= largest_body(area), "body of {len} bytes is longer than a ring carries");
        let need = (len as u32).next_multiple_of(LINE as u32);
        let wraps = self.body_at + need > area;
        let skip = if wraps { area - self.body_at } else { 0 };
        if self.body.wrapping_sub(self.seen_body) + skip + need > area {
            self.look();
            if self.body.wrapping_sub(self.seen_body) + skip + need > area {
                return Err(Full);
            }
        }
        let offset = if wraps { 0 } else { self.body_at };
        self.body_at = offset + need;
        self.body = self.body.wrapping_add(skip + need);
        Ok((offset, self.body))
    }

    /// Reads the consumer's position.
    fn look(&mut self) {
        // SYNC POINT: pairs with the release in `Consumer::give_back`.
        let returned = self.memory.returned().load(Ordering::Acquire);
        self.seen_cells = (returned >> 32) as u32;
        self.seen_body = returned as u32;
    }

    /// Tells when a body of `len` bytes, refused now, would be taken, as long as nothing else is
    /// pushed in between.
    pub fn watch(&self, len: usize) -> RoomWatch {
        let area = self.memory.body_bytes();
        let need = if len <= INLINE_BYTES { 0 } else { (len as u32).next_multiple_of(LINE as u32) };
        let skip = if need > 0 && self.body_at + need > area { area - self.body_at } else { 0 };
        RoomWatch {
            memory: self.memory.clone(),
            cells_end: self.cells.wrapping_add(cells_for(len)),
            body_end: self.body.wrapping_add(skip + need),
        }
    }
}

/// Watches for room in a ring on behalf of its producer.
pub struct RoomWatch {
    memory: RingMemory,
    cells_end: u32,
    body_end: u32,
}

// SAFETY: reads one atomic of the memory that is held.
unsafe impl Send for RoomWatch {}

impl RoomWatch {
    /// True when there is room.
    pub fn is_open(&self) -> bool {
        let returned = self.memory.returned().load(Ordering::Acquire);
        self.cells_end.wrapping_sub((returned >> 32) as u32) <= self.memory.cell_count
            && self.body_end.wrapping_sub(returned as u32) <= self.memory.body_bytes()
    }
}

/// Writes the words one by one. The compiler would else gather them into a vector, with a load from
/// where the caller has just written them singly: such a load waits until every store before it, among them
/// that of the cell before, has reached the cache.
#[inline(always)]
fn write_words(to: &mut [u32; HEAD_WORDS], words: [u32; HEAD_WORDS]) {
    for (to, word) in to.iter_mut().zip(words) {
        // SAFETY: an exclusive reference.
        unsafe { core::ptr::from_mut(to).write_volatile(word) }
    }
}

/// Copies `from` to `at` in `to` without a call for the sizes that matter most.
#[inline(always)]
fn copy_small(to: &mut [u8; FIRST_BYTES], at: usize, from: &[u8]) {
    if at == 0 {
        if let Ok(eight) = <&[u8; 8]>::try_from(from) {
            to[..8].copy_from_slice(eight);
            return;
        }
        if let Ok(four) = <&[u8; 4]>::try_from(from) {
            to[..4].copy_from_slice(four);
            return;
        }
    }
    to[at..at + from.len()].copy_from_slice(from);
}
