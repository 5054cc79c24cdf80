//! A ring from one rank to another: one producer, one consumer, in shared memory.
//!
//! A message is a cell of one cache line: a flag word, five words that the ring does not
//! interpret, and a small body. A larger body lies in one piece in the body area beside the
//! cells and the cell says where. The flag carries the number of the lap, so that a cell needs no
//! clearing, and is published by one release store: one line transfer brings flag, words and
//! body. The producer writes cells and body and reads its own cached copy of the consumer's
//! position; the consumer returns its position once per quarter of the ring, on a line of its own.
//! (FastForward's slot-carried state, Giacomoni et al. 2008, with Lee's batched index return, 2009.)

use crate::primitive::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
use core::any::Any;
use std::sync::Arc;

/// Words that travel with a message beside its body.
pub const HEAD_WORDS: usize = 5;
/// Largest body that travels in the cells themselves, in bytes: [`FIRST_BYTES`] in the first,
/// [`NEXT_BYTES`] in each following one.
pub const INLINE_BYTES: usize = FIRST_BYTES + (INLINE_CELLS - 1) * NEXT_BYTES;
/// Body bytes of a message's first cell.
pub const FIRST_BYTES: usize = 40;
/// Body bytes of a following cell.
const NEXT_BYTES: usize = 60;
/// Lines of the next body that an idle consumer keeps asking for.
const IDLE_BODY_LINES: u32 = 4;
/// Lines that a consumer fetches behind the producer between two looks at the flag.
const CHASE_LINES: u32 = 4;
/// Lines of a body that the producer asks for before it writes them.
const OWNED_BODY_LINES: u32 = 16;
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

    #[inline(always)]
    fn returned(&self) -> &Returned {
        // SAFETY: mapped while `alive` lives; atomic.
        unsafe { &*self.returned }
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

/// The sending end of a ring. There is one per ring.
pub struct Producer {
    memory: RingMemory,
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
    /// Line of the body area where the next body probably starts.
    body_at: u32,
}

// SAFETY: the pointers refer to shared memory that `alive` keeps; each end is used by one thread at a time.
unsafe impl Send for Producer {}
// SAFETY: as above.
unsafe impl Send for Consumer {}

impl Producer {
    /// # Safety
    /// The memory is valid as its field docs say, zeroed before either end was made, and no other
    /// producer of it exists or existed.
    pub(crate) unsafe fn new(memory: RingMemory) -> Producer {
        Producer { memory, at: 0, lap: 1, cells: 0, body: 0, body_at: 0, seen_cells: 0, seen_body: 0 }
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
            self.own_now(offset, len);
            self.memory.write_body(offset, first);
            if !second.is_empty() {
                self.memory.write_body(offset + first.len() as u32, second);
            }
            OUTSIDE
        };
        let flag = u32::from(self.lap) | u32::from(mark) << 16 | code << 24;
        // SYNC POINT: pairs with the acquire in `Consumer::pop`.
        self.memory.cell(self.at).flag.store(flag, Ordering::Release);
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
            data.head = head;
            copy_small(&mut data.body, 0, first);
            if !second.is_empty() {
                copy_small(&mut data.body, first.len(), second);
            }
        });
    }

    /// A body longer than one cell holds. The flags of the following cells keep their old lap,
    /// which is none that the consumer waits for.
    #[inline]
    fn write_spanning(&mut self, head: [u32; HEAD_WORDS], body: &[u8]) {
        let (start, mut rest) = body.split_at(FIRST_BYTES);
        let mut at = self.at;
        while !rest.is_empty() {
            at = if at + 1 == self.memory.cell_count { 0 } else { at + 1 };
            let (piece, later) = rest.split_at(rest.len().min(NEXT_BYTES));
            self.memory.cell(at).data.with_mut(|data| {
                // SAFETY: as in `write_small`; a piece is no longer than the data.
                unsafe { core::ptr::copy_nonoverlapping(piece.as_ptr(), data.cast::<u8>(), piece.len()) }
            });
            rest = later;
        }
        self.write_small(head, start, &[]);
    }

    #[inline]
    fn write_place(&mut self, head: [u32; HEAD_WORDS], place: [u32; 3]) {
        self.memory.cell(self.at).data.with_mut(|data| {
            // SAFETY: as in `write_small`.
            let data = unsafe { &mut *data };
            data.head = head;
            for (to, word) in data.body.chunks_exact_mut(4).zip(place) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
        });
    }

    /// Asks for all lines of a body at once, which copying alone does only a few at a time.
    #[inline]
    fn own_now(&self, offset: u32, len: usize) {
        let start = offset / LINE as u32;
        let lines = (len as u32).div_ceil(LINE as u32).min(OWNED_BODY_LINES);
        for at in start..start + lines {
            // SAFETY: inside the area; a prefetch touches nothing.
            prefetch_to_write(unsafe { &*self.memory.body.add(at as usize) });
        }
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

impl Consumer {
    /// # Safety
    /// As for [`Producer::new`], about consumers.
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
            body_at: 0,
        }
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
            for line in 0..IDLE_BODY_LINES {
                let at = (self.body_at + line).min(self.memory.body_lines - 1);
                // SAFETY: inside the area; a prefetch touches nothing.
                prefetch(unsafe { &*self.memory.body.add(at as usize) });
            }
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
        let mark = (flag >> 16) as u8;
        // SAFETY: published by the flag; the producer does not write it again before it is returned.
        let data: &Data = cell.data.with(|data| unsafe { &*data });
        if code == OUTSIDE {
            let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|i| data.body[at + i]));
            let (offset, len, after) = (word(0), word(4), word(8));
            if u64::from(offset) + u64::from(len) > u64::from(self.memory.body_bytes()) {
                return Popped::Corrupt;
            }
            take(Message { mark, head: data.head, body: self.memory.body(offset, len) });
            self.body = after;
            self.body_at = (offset + len).div_ceil(LINE as u32);
        } else if let Some(body) = data.body.get(..code as usize) {
            take(Message { mark, head: data.head, body });
        } else if code as usize <= INLINE_BYTES {
            let joined = self.join(at, code as usize);
            take(Message { mark, head: data.head, body: &joined[..code as usize] });
        } else {
            return Popped::Corrupt;
        }
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

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    struct Owned {
        returned: Returned,
        cells: Vec<Cell>,
        body: Vec<BodyLine>,
    }
    // SAFETY: tests hand the parts to one producer and one consumer only.
    unsafe impl Sync for Owned {}

    pub(crate) fn pair(cells: u32, body_lines: u32) -> (Producer, Consumer) {
        let owned = Arc::new(Owned {
            returned: Returned::new(0),
            cells: (0..cells)
                .map(|_| Cell {
                    flag: AtomicU32::new(0),
                    data: UnsafeCell::new(Data { head: [0; HEAD_WORDS], body: [0; FIRST_BYTES] }),
                })
                .collect(),
            body: (0..body_lines).map(|_| BodyLine(UnsafeCell::new([0; LINE]))).collect(),
        });
        let memory = RingMemory {
            returned: &owned.returned,
            cells: owned.cells.as_ptr(),
            cell_count: cells,
            body: owned.body.as_ptr(),
            body_lines,
            alive: owned.clone(),
        };
        // SAFETY: zeroed, kept alive by `alive`, one end each.
        unsafe { (Producer::new(memory.clone()), Consumer::new(memory)) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pattern(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|i| (seed * 31 + i) as u8).collect()
    }

    #[test]
    fn every_length_comes_through_in_order() {
        let (mut producer, mut consumer) = testing::pair(16, 32);
        for len in (0..producer.largest_body()).chain([40, 41, 64, 65]) {
            let body = pattern(len, len);
            let (first, second) = body.split_at(len / 3);
            producer.push(7, [len as u32, 2, 3, 4, 5], first, second).expect("drained");
            let mut seen = false;
            let popped = consumer.pop(|m| {
                assert_eq!((m.mark, m.head), (7, [len as u32, 2, 3, 4, 5]));
                assert_eq!(m.body, &body[..]);
                seen = true;
            });
            assert!(seen && matches!(popped, Popped::Message | Popped::Returned));
            assert_eq!(consumer.pop(|_| unreachable!()), Popped::Empty);
        }
    }

    #[test]
    fn full_takes_nothing_and_ends_when_drained() {
        let (mut producer, mut consumer) = testing::pair(8, 16);
        for lap in 0..70_000_u32 {
            let mut sent = 0;
            while producer.push(0, [lap, sent, 0, 0, 0], &[1; 200][..(sent as usize * 60) % 200], &[]).is_ok()
            {
                sent += 1;
            }
            assert!(sent >= 2);
            for expected in 0..sent {
                consumer.pop(|m| assert_eq!(m.head[..2], [lap, expected]));
            }
            assert_eq!(consumer.pop(|_| unreachable!()), Popped::Empty);
        }
    }

    #[test]
    fn two_threads() {
        let (mut producer, mut consumer) = testing::pair(64, 64);
        const COUNT: u32 = 200_000;
        let sender = std::thread::spawn(move || {
            for i in 0..COUNT {
                let body = pattern(i as usize, i as usize % 300);
                while producer.push(0, [i; HEAD_WORDS], &body, &[]).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < COUNT {
            let popped = consumer.pop(|m| {
                assert_eq!(m.head, [next; HEAD_WORDS]);
                assert_eq!(m.body, &pattern(next as usize, next as usize % 300)[..]);
                next += 1;
            });
            if popped == Popped::Empty {
                std::thread::yield_now();
            }
        }
        sender.join().expect("no panic");
    }

    #[test]
    fn a_cell_that_points_outside_is_refused() {
        let (mut producer, mut consumer) = testing::pair(8, 16);
        producer.push(0, [0; HEAD_WORDS], &[1; 200], &[]).expect("room");
        producer.memory.cell(0).data.with_mut(|d| {
            // SAFETY: single-threaded test.
            let data = unsafe { &mut *d };
            data.body[0..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        });
        assert_eq!(consumer.pop(|_| unreachable!()), Popped::Corrupt);
        producer.push(0, [0; HEAD_WORDS], &[1], &[]).expect("room");
        producer.memory.cell(1).flag.store(1 | (INLINE_BYTES as u32 + 1) << 24, Ordering::Relaxed);
        assert_eq!(consumer.pop(|_| unreachable!()), Popped::Corrupt);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_in_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (mut producer, mut consumer) = testing::pair(2, 16);
            let sender = loom::thread::spawn(move || {
                for i in 0..3_u32 {
                    let body = [i as u8; 192];
                    // One cell, two cells, outside and announced.
                    let len = [8, 60, 192][i as usize];
                    while producer.push(0, [i; HEAD_WORDS], &body[..len], &[]).is_err() {
                        loom::thread::yield_now();
                    }
                }
            });
            let mut next = 0;
            while next < 3 {
                let popped = consumer.pop(|m| {
                    assert_eq!(m.head, [next; HEAD_WORDS]);
                    next += 1;
                });
                if popped == Popped::Empty {
                    loom::thread::yield_now();
                }
            }
            sender.join().unwrap();
        });
    }
}
