//! Combining with a target's memory, atomically per element (MPI 5.0, section 12.7.1).
//!
//! Elements of 4 and 8 bytes are processor atomics. What those cannot do takes one of the target's stripes, a
//! lock for the neighbourhood of an address. The two must never meet on an element: the first operation on
//! long runs, for which one atomic per element is several times too slow, moves the target over to stripes for
//! all operations, once and for good. It raises the mode, runs a membarrier and waits until no atomic is
//! under way; who runs an atomic says so in a word of its own, with plain stores.
//!
//! One of the files with `unsafe`: it reads and writes the target's memory.

use crate::board::{Board, Own, Seat};
use crate::limits::{
    BULK_BYTES, STRIPE_BYTES, STRIPE_SPINS, STRIPE_YIELDS, STRIPES, TURN_BLOCK_BYTES, TURN_MIN_BYTES,
};
use crate::memory::go_upwards;
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_node::block::process_has_ended;
use mpi_node::{cross_copy, membarrier};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, compiler_fence};

/// Values of [`Seat::mode`].
const ATOMICS: u32 = 0;
const STRIPED: u32 = 1;
const CHANGING: u32 = 2;

/// Where the target's memory is.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// Mapped here.
    Here(*mut u8),
    /// In another process of the node.
    There { pid: u32, address: u64 },
}

/// A target's memory, and who combines with it.
pub(crate) struct Site<'a> {
    pub board: &'a Board,
    pub seat: &'a Seat,
    pub place: Place,
    /// Rank of whoever does it, for others to see.
    pub who: u32,
    pub own: &'a Own,
    /// 0 for calls, 1 for messages: which may run at the same time.
    pub lane: usize,
    /// Several threads make calls.
    pub threads: bool,
}

/// Why it did not work.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// This rank died in the middle of an accumulate.
    Dead(u32),
    Kernel(std::io::Error),
}

/// A primitive that processor atomics can do.
#[inline]
fn is_word(p: Primitive) -> bool {
    p.size() == p.extent() && matches!(p.size(), 4 | 8)
}

impl Site<'_> {
    /// Combines one word, with a sum or by replacing it, as a processor atomic. False: it has to go another way.
    ///
    /// # Safety
    /// `p` is a number of 4 or 8 bytes. The word at `at` lies inside the target's memory, mapped here; `input` and
    /// `result` are valid for one.
    #[inline]
    pub unsafe fn combine_word(
        &self,
        op: &Op,
        p: Primitive,
        at: *mut u8,
        input: *const u8,
        result: Option<*mut u8>,
    ) -> bool {
        at as usize % p.size() == 0
            // SAFETY: the caller's promise; aligned.
            && self.try_atomics(|| unsafe { atomics(op, p, at, 1, input, result) })
    }

    /// Combines `n` elements of `p`, one extent after the other, with those at byte `offset`; `result` gets
    /// what was there before.
    ///
    /// # Safety
    /// The elements lie inside the target's memory; `input` is valid for reads (unless the operation is none)
    /// and `result` for writes of as many, and neither overlaps the target.
    pub unsafe fn combine(
        &self,
        op: &Op,
        p: Primitive,
        offset: usize,
        n: usize,
        input: *const u8,
        result: Option<*mut u8>,
    ) -> Result<(), Trouble> {
        if let Place::Here(base) = self.place {
            let at = base.wrapping_add(offset);
            if is_word(p) && at as usize % p.size() == 0 {
                if n * p.size() < BULK_BYTES
                    // SAFETY: as for this function; aligned.
                    && self.try_atomics(|| unsafe { atomics(op, p, at, n, input, result) })
                {
                    return Ok(());
                }
                self.change()?;
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.by_stripes(p, offset, n, &mut |skip, many, here| {
                let (input, result) = (input.wrapping_add(skip), result.map(|r| r.wrapping_add(skip)));
                combine_plain(op, p, here, many, input, result)
            })
        }
    }

    /// Puts `swap` in where `compare` stands; `result` gets what was there before.
    ///
    /// # Safety
    /// As [`combine`](Site::combine), for one element each.
    pub unsafe fn compare_and_swap(
        &self,
        p: Primitive,
        offset: usize,
        compare: *const u8,
        swap: *const u8,
        result: *mut u8,
    ) -> Result<(), Trouble> {
        if let Place::Here(base) = self.place {
            let at = base.wrapping_add(offset);
            if is_word(p) && at as usize % p.size() == 0 {
                // SAFETY: as for this function; aligned.
                if self.try_atomics(|| unsafe { swap_word(p.size(), at, compare, swap, result) }) {
                    return Ok(());
                }
                self.change()?;
            }
        }
        let size = p.size();
        // SAFETY: the caller's promise.
        unsafe {
            self.by_stripes(p, offset, 1, &mut |_, _, here| {
                std::ptr::copy(here, result, size);
                let same =
                    std::slice::from_raw_parts(here, size) == std::slice::from_raw_parts(compare, size);
                if same {
                    std::ptr::copy(swap, here, size);
                }
            })
        }
    }

    /// Runs atomics, unless the target has moved over to stripes.
    #[inline]
    fn try_atomics(&self, run: impl FnOnce()) -> bool {
        let busy = &self.own.busy[self.lane];
        if self.threads && self.lane == 0 {
            busy.fetch_add(1, SeqCst);
        } else {
            // SYNC POINT: this store, then the load of the mode, against the store of the mode, the membarrier,
            // then the load of this in `change`.
            busy.store(1, Relaxed);
            compiler_fence(SeqCst);
        }
        let may = self.seat.mode.load(Acquire) == ATOMICS;
        if may {
            run();
        }
        if self.threads && self.lane == 0 {
            busy.fetch_sub(1, Release);
        } else {
            busy.store(0, Release);
        }
        may
    }

    /// Moves the target over to stripes.
    #[inline]
    fn change(&self) -> Result<(), Trouble> {
        if self.seat.mode.load(Acquire) == STRIPED { Ok(()) } else { self.change_now() }
    }

    #[cold]
    fn change_now(&self) -> Result<(), Trouble> {
        // Whoever finds the change begun does all of it too: its beginner may have died.
        self.seat.mode.store(CHANGING, SeqCst);
        membarrier::global();
        for seat in self.board.all_seats() {
            for busy in &seat.own.0.busy {
                let mut turns = 0;
                while busy.load(Acquire) != 0 {
                    turns += 1;
                    if turns > STRIPE_SPINS {
                        std::thread::yield_now();
                    }
                    // One that died leaves no atomic half done.
                    if turns % STRIPE_YIELDS == 0 && process_has_ended(seat.pid.load(Relaxed)) {
                        break;
                    }
                }
            }
        }
        self.seat.mode.store(STRIPED, SeqCst);
        Ok(())
    }

    /// Runs `f` on the elements, neighbourhood by neighbourhood, each under its stripe: with the bytes that
    /// precede in `input`, the number of elements, and where they are.
    ///
    /// # Safety
    /// The elements lie inside the target's memory.
    unsafe fn by_stripes(
        &self,
        p: Primitive,
        offset: usize,
        n: usize,
        f: &mut dyn FnMut(usize, usize, *mut u8),
    ) -> Result<(), Trouble> {
        let extent = p.extent();
        let up = n * extent < TURN_MIN_BYTES || go_upwards();
        let (mut first, mut end) = (0, n);
        while first < end {
            let (done, many) = if up {
                let at = offset + first * extent;
                // Those that start in this neighbourhood.
                let room = STRIPE_BYTES - at % STRIPE_BYTES;
                let many = room.div_ceil(extent).min(end - first);
                first += many;
                (first - many, many)
            } else {
                let at = offset + (end - 1) * extent;
                let many = (at % STRIPE_BYTES / extent + 1).min(end);
                end -= many;
                (end, many)
            };
            let at = offset + done * extent;
            let stripe = &self.seat.stripes[at / STRIPE_BYTES % STRIPES];
            self.acquire(stripe)?;
            let result = match self.place {
                Place::Here(base) => {
                    let step = if up { many } else { (TURN_BLOCK_BYTES / extent).max(1) };
                    let mut left = many;
                    while left > 0 {
                        let some = step.min(left);
                        left -= some;
                        let first = left * extent;
                        f(done * extent + first, some, base.wrapping_add(at + first));
                    }
                    Ok(())
                }
                Place::There { pid, address } => {
                    let mut copy = vec![0_u64; (many * extent).div_ceil(8)];
                    let here = copy.as_mut_ptr().cast::<u8>();
                    let there = address.wrapping_add(at as u64);
                    // SAFETY: the copy has this many bytes; the kernel checks the other side, whose owner
                    // made a window of it.
                    unsafe {
                        cross_copy::read(pid, there, here, many * extent).and_then(|()| {
                            f(done * extent, many, here);
                            cross_copy::write(pid, there, here, many * extent)
                        })
                    }
                }
            };
            stripe.store(0, Release);
            result.map_err(Trouble::Kernel)?;
        }
        Ok(())
    }

    #[inline]
    fn acquire(&self, stripe: &AtomicU32) -> Result<(), Trouble> {
        match stripe.compare_exchange(0, self.who + 1, Acquire, Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => self.acquire_slowly(stripe),
        }
    }

    #[cold]
    fn acquire_slowly(&self, stripe: &AtomicU32) -> Result<(), Trouble> {
        let mut turns = 0_u32;
        loop {
            let holder = stripe.load(Relaxed);
            if holder == 0 && stripe.compare_exchange(0, self.who + 1, Acquire, Relaxed).is_ok() {
                return Ok(());
            }
            turns += 1;
            if turns < STRIPE_SPINS {
                std::hint::spin_loop();
                continue;
            }
            if turns % STRIPE_YIELDS == 0 && holder != 0 {
                // A stripe is held for microseconds; only the dead hold it for long. Messages are run by the
                // target, whose seat answers for them.
                let by = |s: &&Seat| s.rank.load(Relaxed) + 1 == holder;
                let dead =
                    self.board.all_seats().find(by).is_some_and(|s| process_has_ended(s.pid.load(Relaxed)));
                if dead && stripe.load(Relaxed) == holder {
                    return Err(Trouble::Dead(holder - 1));
                }
            }
            std::thread::yield_now();
        }
    }
}

/// The operation on plain memory that nobody else combines with now.
fn combine_plain(op: &Op, p: Primitive, at: *mut u8, n: usize, input: *const u8, result: Option<*mut u8>) {
    let d = Datatype::predefined(p);
    // SAFETY: the callers in this file: `n` elements at both addresses.
    unsafe {
        let target = RecvBuf::new(at, n, &d);
        if let Some(result) = result {
            std::ptr::copy(at, result, n * p.extent());
        }
        match op {
            Op::NoOp => {}
            Op::Replace => std::ptr::copy(input, at, n * p.extent()),
            // The operation is defined on the primitive: it was checked before anything was sent or touched.
            _ => _ = op.apply(SendBuf::new(input, n, &d), target),
        }
    }
}

/// # Safety
/// `n` elements of 4 or 8 bytes at each address, aligned at `at`.
#[inline]
unsafe fn atomics(op: &Op, p: Primitive, at: *mut u8, n: usize, input: *const u8, result: Option<*mut u8>) {
    for i in 0..n {
        let skip = i * p.size();
        let (at, input) = (at.wrapping_add(skip), input.wrapping_add(skip));
        // SAFETY: element `i` of each.
        unsafe {
            if p.size() == 8 {
                let operand = if matches!(op, Op::NoOp) { 0 } else { input.cast::<u64>().read_unaligned() };
                let old = fetch_u64(op, p, AtomicU64::from_ptr(at.cast()), operand);
                if let Some(r) = result {
                    r.wrapping_add(skip).cast::<u64>().write_unaligned(old);
                }
            } else {
                let operand = if matches!(op, Op::NoOp) { 0 } else { input.cast::<u32>().read_unaligned() };
                let old = fetch_u32(op, p, AtomicU32::from_ptr(at.cast()), operand);
                if let Some(r) = result {
                    r.wrapping_add(skip).cast::<u32>().write_unaligned(old);
                }
            }
        }
    }
}

macro_rules! fetch {
    ($name:ident, $other:ident, $atomic:ty, $word:ty, $unsigned:pat, $float:ident, $f:ty) => {
        /// The most frequent ones, which are compiled into the caller.
        #[inline]
        fn $name(op: &Op, p: Primitive, at: &$atomic, operand: $word) -> $word {
            use Primitive::*;
            match (op, p) {
                (Op::Sum, $unsigned) => at.fetch_add(operand, SeqCst),
                (Op::Sum, $float) => {
                    let add = <$f>::from_bits(operand);
                    swap_loop!(at, |old| (add + <$f>::from_bits(old)).to_bits())
                }
                (Op::Replace, _) => at.swap(operand, SeqCst),
                _ => $other(op, p, at, operand),
            }
        }

        fn $other(op: &Op, p: Primitive, at: &$atomic, operand: $word) -> $word {
            match (op, p) {
                (Op::NoOp, _) => at.load(SeqCst),
                (Op::Band, _) => at.fetch_and(operand, SeqCst),
                (Op::Bor, _) => at.fetch_or(operand, SeqCst),
                (Op::Bxor, _) => at.fetch_xor(operand, SeqCst),
                _ => swap_loop!(at, |old| {
                    let (input, mut inout) = (operand, old);
                    let (from, to) = ((&raw const input).cast(), (&raw mut inout).cast());
                    combine_plain(op, p, to, 1, from, None);
                    inout
                }),
            }
        }
    };
}

macro_rules! swap_loop {
    ($at:expr, |$old:ident| $new:expr) => {{
        let mut $old = $at.load(Relaxed);
        loop {
            match $at.compare_exchange_weak($old, $new, SeqCst, Relaxed) {
                Ok(old) => break old,
                Err(other) => $old = other,
            }
        }
    }};
}

fetch!(fetch_u64, fetch_other_u64, AtomicU64, u64, I64 | U64, F64, f64);
fetch!(fetch_u32, fetch_other_u32, AtomicU32, u32, I32 | U32, F32, f32);

/// # Safety
/// `size` bytes, 4 or 8, at each address, aligned at `at`.
#[inline]
unsafe fn swap_word(size: usize, at: *mut u8, compare: *const u8, swap: *const u8, result: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if size == 8 {
            let (c, s) = (compare.cast::<u64>().read_unaligned(), swap.cast::<u64>().read_unaligned());
            let old = AtomicU64::from_ptr(at.cast()).compare_exchange(c, s, SeqCst, SeqCst);
            result.cast::<u64>().write_unaligned(old.unwrap_or_else(|old| old));
        } else {
            let (c, s) = (compare.cast::<u32>().read_unaligned(), swap.cast::<u32>().read_unaligned());
            let old = AtomicU32::from_ptr(at.cast()).compare_exchange(c, s, SeqCst, SeqCst);
            result.cast::<u32>().write_unaligned(old.unwrap_or_else(|old| old));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site<'a>(board: &'a Board, memory: &mut [u64]) -> Site<'a> {
        let seat = board.seat(0);
        seat.pid.store(std::process::id(), Relaxed);
        let place = Place::Here(memory.as_mut_ptr().cast());
        Site { board, seat, place, who: 0, own: &seat.own.0, lane: 0, threads: false }
    }

    #[test]
    fn atomics_and_stripes_agree() {
        membarrier::register();
        let ops = [Op::Sum, Op::Prod, Op::Max, Op::Min, Op::Replace, Op::NoOp, Op::Band, Op::Bxor, Op::Land];
        for p in [Primitive::I64, Primitive::U64, Primitive::I32, Primitive::F64, Primitive::F32] {
            for op in ops.iter().filter(|op| op.defined_on(p)) {
                let mut seen: Vec<(Vec<u64>, Vec<u64>)> = Vec::new();
                for striped in [false, true] {
                    let board = Board::private(1, 0).unwrap();
                    let mut memory = [0x4008_0000_4040_0000_u64; 4];
                    let s = site(&board, &mut memory);
                    if striped {
                        s.change().unwrap();
                    }
                    let input = [0x4010_0000_4080_0000_u64; 2];
                    let mut result = [0_u64; 2];
                    let n = 16 / p.size();
                    // SAFETY: two words of each.
                    unsafe {
                        let r = Some(result.as_mut_ptr().cast());
                        s.combine(op, p, 8, n, input.as_ptr().cast(), r).unwrap();
                    }
                    assert_eq!(result, [0x4008_0000_4040_0000; 2]);
                    assert_eq!((memory[0], memory[3]), (0x4008_0000_4040_0000, 0x4008_0000_4040_0000));
                    seen.push((memory.to_vec(), result.to_vec()));
                }
                assert_eq!(seen[0], seen[1], "{op:?} on {p:?}");
            }
        }
    }

    /// What somebody holds in one neighbourhood stops nobody in another.
    #[test]
    fn neighbourhoods_are_locked_apart() {
        membarrier::register();
        let board = Board::private(1, 0).unwrap();
        let mut memory = vec![1_u64; 3 * STRIPE_BYTES / 8];
        let s = site(&board, &mut memory);
        let (held, input) = (&board.seat(0).stripes[1], [5_u8; 4]);
        held.store(77, Relaxed);
        for offset in [1, STRIPE_BYTES - 4, 2 * STRIPE_BYTES + 3] {
            // SAFETY: four bytes inside of both.
            unsafe { s.combine(&Op::Sum, Primitive::U8, offset, 4, input.as_ptr(), None).unwrap() };
        }
        assert_eq!((held.load(Relaxed), board.seat(0).stripes[0].load(Relaxed)), (77, 0));
        const { assert!(STRIPES > 1) };
    }

    #[test]
    fn long_runs_move_over_for_good_and_odd_types_work() {
        membarrier::register();
        let board = Board::private(1, 0).unwrap();
        let mut memory = vec![1_u64; 2000];
        let s = site(&board, &mut memory);
        let input = vec![2_u64; 2000];
        // SAFETY: inside of both.
        unsafe {
            s.combine(&Op::Sum, Primitive::U64, 0, 2000, input.as_ptr().cast(), None).unwrap();
            s.combine(&Op::Sum, Primitive::U64, 8, 1, input.as_ptr().cast(), None).unwrap();
            s.combine(&Op::Sum, Primitive::U8, 17, 3, input.as_ptr().cast(), None).unwrap();
        }
        assert_eq!(board.seat(0).mode.load(Relaxed), STRIPED);
        assert_eq!((memory[0], memory[1], memory[1999]), (3, 5, 3));
        assert!(board.seat(0).stripes.iter().all(|s| s.load(Relaxed) == 0));
        let (compare, swap, mut old) = (5_u64, 9_u64, 0_u64);
        // SAFETY: one word each.
        unsafe {
            let s = site(&board, &mut memory);
            let (c, w, r) = ((&raw const compare).cast(), (&raw const swap).cast(), (&raw mut old).cast());
            s.compare_and_swap(Primitive::U64, 8, c, w, r).unwrap();
        }
        assert_eq!((memory[1], old), (9, 5));
    }
}
