//! The receiving end.

use super::{
    CHASE_LINES, COMING, Cell, Data, FETCHED_AHEAD_CELLS, FETCHED_BODY_LINES, FIRST_BYTES, INLINE_BYTES,
    LINE, Message, NEXT_BYTES, OUTSIDE, Popped, RingMemory, cells_for, prefetch,
};
use crate::primitive::Ordering;

/// The receiving end of a ring. There is one per ring.
pub struct Consumer {
    memory: RingMemory,
    at: u32,
    lap: u16,
    cells: u32,
    body: u32,
    returned_cells: u32,
    returned_body: u32,
    cell_quarter: u32,
    body_quarter: u32,
}

// SAFETY: the pointers refer to shared memory that is held; used by one thread at a time.
unsafe impl Send for Consumer {}

impl Consumer {
    /// # Safety
    /// As for `Producer::new`, about consumers.
    pub(crate) unsafe fn new(memory: RingMemory) -> Consumer {
        let cell_quarter = (memory.cell_count / 4).max(1);
        let body_quarter = memory.body_bytes() / 4;
        Consumer {
            memory,
            at: 0,
            lap: 1,
            cells: 0,
            body: 0,
            returned_cells: 0,
            returned_body: 0,
            cell_quarter,
            body_quarter,
        }
    }

    /// As if so many laps were behind it and `cells` cells and `body` bytes had been returned.
    #[cfg(test)]
    pub(super) fn aged(mut self, lap: u16, cells: u32, body: u32) -> Consumer {
        (self.lap, self.cells, self.body) = (lap, cells, body);
        self.give_back();
        self
    }

    /// True when a message is there, or about to be.
    #[inline]
    pub fn ready(&self) -> bool {
        self.memory.cell(self.at).flag.load(Ordering::Relaxed) as u16 == self.lap
    }

    /// Hands the next message to `take`. Its body dies with the call.
    #[inline]
    pub fn pop(&mut self, take: impl FnOnce(Message<'_>)) -> Popped {
        let cell = self.memory.cell(self.at);
        // SYNC POINT: pairs with the release in `Producer::push`.
        let flag = cell.flag.load(Ordering::Acquire);
        if flag as u16 != self.lap {
            // A message may span two cells. Having the second one here too makes both change
            // hands at the same time when it comes.
            prefetch(self.memory.cell(self.after(self.at)));
            return Popped::Empty;
        }
        let at = self.at;
        let mut flag = flag;
        if flag >> 24 == COMING {
            flag = self.chase(cell);
            if flag >> 24 == COMING {
                return Popped::Empty;
            }
        }
        let code = flag >> 24;
        let cells = if code == OUTSIDE { 1 } else { cells_for(code as usize) };
        // Moved on before the callback, which may panic: the message counts as taken.
        self.cells = self.cells.wrapping_add(cells);
        self.at += cells;
        if self.at >= self.memory.cell_count {
            self.at -= self.memory.cell_count;
            self.lap = self.lap.wrapping_add(1);
        }
        prefetch(self.memory.cell_ahead(at, FETCHED_AHEAD_CELLS));
        let mark = (flag >> 16) as u8;
        // SAFETY: published by the flag; the producer does not write it again before it is returned.
        let data: &Data = cell.data.with(|data| unsafe { &*data });
        let joined;
        let body = if let Some(body) = data.body.get(..code as usize) {
            body
        } else if code == OUTSIDE {
            let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|i| data.body[at + i]));
            let (offset, len, after) = (word(0), word(4), word(8));
            if u64::from(offset) + u64::from(len) > u64::from(self.memory.body_bytes()) {
                return Popped::Corrupt;
            }
            self.body = after;
            // They come while the receive is looked for.
            self.memory.each_line(offset, len, FETCHED_BODY_LINES, prefetch);
            self.memory.body(offset, len)
        } else if code as usize <= INLINE_BYTES {
            joined = self.join(at, code as usize);
            &joined[..code as usize]
        } else {
            return Popped::Corrupt;
        };
        // Called in one place, so that the compiler builds it in.
        take(Message { mark, head: data.head, body });
        if self.cells.wrapping_sub(self.returned_cells) >= self.cell_quarter
            || self.body.wrapping_sub(self.returned_body) >= self.body_quarter
        {
            self.give_back();
            return Popped::Returned;
        }
        Popped::Message
    }

    /// Fetches the lines of a body that is being written, until it is complete or all were asked
    /// for. A line asked for before it was written is only fetched twice. Returns the flag.
    #[inline]
    fn chase(&self, cell: &Cell) -> u32 {
        // SAFETY: words and place were published with the flag.
        let data: &Data = cell.data.with(|data| unsafe { &*data });
        let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|i| data.body[at + i]));
        let first = word(0) / LINE as u32;
        let lines = word(4).div_ceil(LINE as u32).min(self.memory.body_lines.saturating_sub(first));
        for line in first..first + lines {
            // SAFETY: inside the area; a prefetch touches nothing.
            prefetch(unsafe { &*self.memory.body.add(line as usize) });
            if line % CHASE_LINES == 0 {
                let flag = cell.flag.load(Ordering::Acquire);
                if flag >> 24 != COMING {
                    return flag;
                }
            }
        }
        cell.flag.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn after(&self, at: u32) -> u32 {
        if at + 1 == self.memory.cell_count { 0 } else { at + 1 }
    }

    /// The body of a message that spans cells, in one piece.
    #[inline]
    fn join(&self, mut at: u32, len: usize) -> [u8; INLINE_BYTES] {
        let mut joined = [0; INLINE_BYTES];
        self.memory.cell(at).data.with(|data| {
            // SAFETY: published by the flag of the first cell.
            let data: &Data = unsafe { &*data };
            joined[..FIRST_BYTES].copy_from_slice(&data.body);
        });
        for piece in joined[FIRST_BYTES..len].chunks_mut(NEXT_BYTES) {
            at = self.after(at);
            self.memory.cell(at).data.with(|data| {
                // SAFETY: as above; the data has this size.
                let bytes = unsafe { &*data.cast::<[u8; NEXT_BYTES]>() };
                piece.copy_from_slice(&bytes[..piece.len()]);
            });
        }
        joined
    }

    fn give_back(&mut self) {
        self.returned_cells = self.cells;
        self.returned_body = self.body;
        let returned = u64::from(self.cells) << 32 | u64::from(self.body);
        // SYNC POINT: pairs with the acquire in `Producer::look`.
        self.memory.returned().store(returned, Ordering::Release);
    }
}
