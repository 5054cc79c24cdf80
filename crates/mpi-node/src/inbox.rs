//! A rank's inbox: many producers, one consumer, in shared memory.
//!
//! Records are runs of lines. A producer claims lines by advancing the tail, writes, and
//! publishes by a release store to the first word of the first line; the consumer clears the
//! first word of every line it consumed before it returns them, so that an unpublished record
//! reads as zero wherever it starts. Records of one producer stay in order; a record never wraps, a
//! skip record fills the end. Serves the many peers that say little: polling it costs one load
//! however many they are.

use crate::primitive::{AtomicU32, AtomicU64, Ordering, UnsafeCell, fence};
use crate::ring::{Full, HEAD_WORDS, Message, Popped};
use core::any::Any;
use std::sync::Arc;

const LINE: usize = 64;
/// Bytes in front of a record's body.
pub(crate) const RECORD_HEAD: usize = 36;
/// Length of a skip record's body, which no real record has.
const SKIP: u32 = u32::MAX;

/// A line of the inbox; `ready` means something in the first line of a record only.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct InboxLine {
    /// Lines of the record when it is published, else 0.
    ready: AtomicU32,
    data: UnsafeCell<[u8; LINE - 4]>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<InboxLine>() == LINE);

/// What follows `ready` in the first line.
#[repr(C)]
#[derive(Clone, Copy)]
struct RecordHead {
    from: u32,
    mark: u32,
    len: u32,
    head: [u32; HEAD_WORDS],
}

const _: () = assert!(size_of::<RecordHead>() + 4 == RECORD_HEAD);

/// Where an inbox lies.
#[derive(Clone)]
pub(crate) struct InboxMemory {
    /// Lines ever claimed.
    pub(crate) tail: *const AtomicU64,
    /// Lines ever consumed.
    pub(crate) head: *const AtomicU64,
    /// Nonzero when a bit of `blocked` may be set.
    pub(crate) any_blocked: *const AtomicU32,
    /// A bit per sender that wants to be woken when there is room.
    pub(crate) blocked: *const AtomicU64,
    pub(crate) blocked_words: usize,
    pub(crate) lines: *const InboxLine,
    pub(crate) line_count: u64,
    #[allow(dead_code, reason = "held so that the memory stays mapped")]
    pub(crate) alive: Arc<dyn Any + Send + Sync>,
}

impl InboxMemory {
    fn tail(&self) -> &AtomicU64 {
        // SAFETY: mapped while `alive` lives; atomic. The same for the following.
        unsafe { &*self.tail }
    }
    #[inline(always)]
    fn head(&self) -> &AtomicU64 {
        // SAFETY: see `tail`.
        unsafe { &*self.head }
    }
    fn any_blocked(&self) -> &AtomicU32 {
        // SAFETY: see `tail`.
        unsafe { &*self.any_blocked }
    }
    fn blocked(&self) -> &[AtomicU64] {
        // SAFETY: see `tail`; the array has this many words.
        unsafe { core::slice::from_raw_parts(self.blocked, self.blocked_words) }
    }
    #[inline(always)]
    fn line(&self, at: u64) -> &InboxLine {
        // SAFETY: the remainder is below the count; mapped while `alive` lives; fields are shareable.
        unsafe { &*self.lines.add((at % self.line_count) as usize) }
    }
    fn lines_for(len: usize) -> u64 {
        (RECORD_HEAD + len).div_ceil(LINE) as u64
    }
    /// Lines to skip so that a record of `need` lines at `tail` does not wrap.
    fn skip(&self, tail: u64, need: u64) -> u64 {
        let left = self.line_count - tail % self.line_count;
        if need > left { left } else { 0 }
    }
}

/// One sender's way into an inbox.
pub struct InboxSender {
    memory: InboxMemory,
    /// This sender's slot.
    me: u32,
}

/// The owner's end of its inbox. There is one.
pub struct InboxReceiver {
    memory: InboxMemory,
    /// Lines consumed.
    at: u64,
    /// Position at which senders were last told.
    told: u64,
}

// SAFETY: the pointers refer to shared memory that `alive` keeps; used by one thread at a time.
unsafe impl Send for InboxSender {}
// SAFETY: as above.
unsafe impl Send for InboxReceiver {}

impl InboxSender {
    /// # Safety
    /// The memory is valid as its field docs say and was zeroed before anyone used it.
    pub(crate) unsafe fn new(memory: InboxMemory, me: u32) -> InboxSender {
        InboxSender { memory, me }
    }

    /// Largest body of a record in bytes.
    pub fn largest_body(&self) -> usize {
        self.memory.line_count as usize / 2 * LINE - RECORD_HEAD
    }

    /// Publishes a message, or takes nothing. The body is `first` followed by `second`.
    ///
    /// # Errors
    /// [`Full`].
    ///
    /// # Panics
    /// When the body is longer than [`largest_body`](Self::largest_body).
    pub fn push(&self, mark: u8, head: [u32; HEAD_WORDS], first: &[u8], second: &[u8]) -> Result<(), Full> {
        let len = first.len() + second.len();
        assert!(len <= self.largest_body(), "body of {len} bytes is longer than an inbox carries");
        let need = InboxMemory::lines_for(len);
        let start = self.claim(need)?;
        let record = RecordHead { from: self.me, mark: u32::from(mark), len: len as u32, head };
        self.write(start, need, record, first, second);
        // SYNC POINT: pairs with the acquire in `InboxReceiver::pop`.
        self.memory.line(start).ready.store(need as u32, Ordering::Release);
        Ok(())
    }

    /// Claims `need` lines in one piece; returns the first.
    fn claim(&self, need: u64) -> Result<u64, Full> {
        let memory = &self.memory;
        let mut tail = memory.tail().load(Ordering::Relaxed);
        loop {
            // SYNC POINT: pairs with the release in `InboxReceiver::consume`: lines up to here are clear.
            let head = memory.head().load(Ordering::Acquire);
            let skip = memory.skip(tail, need);
            // A tail older than the head looks enormous here and fails the exchange below.
            let used = tail.wrapping_sub(head);
            if used <= memory.line_count && used + skip + need > memory.line_count {
                return Err(Full);
            }
            match memory.tail().compare_exchange_weak(
                tail,
                tail.wrapping_add(skip + need),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if skip > 0 {
                        let filler = RecordHead { from: self.me, mark: 0, len: SKIP, head: [0; HEAD_WORDS] };
                        self.write(tail, 1, filler, &[], &[]);
                        memory.line(tail).ready.store(skip as u32, Ordering::Release);
                    }
                    return Ok(tail.wrapping_add(skip));
                }
                Err(now) => tail = now,
            }
        }
    }

    /// Writes a record into claimed lines, without publishing it.
    fn write(&self, start: u64, lines: u64, record: RecordHead, first: &[u8], second: &[u8]) {
        for at in start..start + lines {
            // loom sees the claim of every line; without loom this is nothing.
            self.memory.line(at).data.with_mut(|_| ());
        }
        #[cfg(loom)]
        self.memory.line(start).data.with_mut(|place| {
            // SAFETY: inside the line, which is claimed.
            unsafe { place.cast::<RecordHead>().write_unaligned(record) }
        });
        #[cfg(loom)]
        let _ = (first, second);
        #[cfg(not(loom))]
        // SAFETY: `lines` lines from `start` on do not wrap, hold the record, and are claimed: nobody
        // else touches them before `ready`.
        unsafe {
            let place = core::ptr::from_ref(self.memory.line(start)).cast::<u8>().cast_mut();
            place.add(4).cast::<RecordHead>().write(record);
            let body = place.add(RECORD_HEAD);
            core::ptr::copy_nonoverlapping(first.as_ptr(), body, first.len());
            core::ptr::copy_nonoverlapping(second.as_ptr(), body.add(first.len()), second.len());
        }
    }

    /// True when a body of `len` bytes would be taken now.
    pub fn has_room(&self, len: usize) -> bool {
        let need = InboxMemory::lines_for(len);
        let tail = self.memory.tail().load(Ordering::Relaxed);
        let used = tail.wrapping_sub(self.memory.head().load(Ordering::Acquire));
        used > self.memory.line_count || used + self.memory.skip(tail, need) + need <= self.memory.line_count
    }

    /// Asks to be woken when lines are returned. Look once more with
    /// [`has_room`](Self::has_room) before sleeping.
    pub fn ask_to_be_woken(&self) {
        if let Some(word) = self.memory.blocked().get(self.me as usize / 64) {
            word.fetch_or(1 << (self.me % 64), Ordering::Relaxed);
        }
        self.memory.any_blocked().store(1, Ordering::Relaxed);
        // SYNC POINT: pairs with the fence in `InboxReceiver::tell_blocked`.
        fence(Ordering::SeqCst);
    }
}

impl InboxReceiver {
    /// # Safety
    /// As for [`InboxSender::new`], and there is no other receiver.
    pub(crate) unsafe fn new(memory: InboxMemory) -> InboxReceiver {
        InboxReceiver { memory, at: 0, told: 0 }
    }

    /// True when a record is there.
    #[inline]
    pub fn ready(&self) -> bool {
        self.memory.line(self.at).ready.load(Ordering::Relaxed) != 0
    }

    /// Slot of the sender of the next message, if one is there. Skips fillers.
    pub fn sender(&mut self) -> Option<u32> {
        loop {
            let lines = self.memory.line(self.at).ready.load(Ordering::Acquire);
            if lines == 0 {
                return None;
            }
            let record = self.record();
            let left = self.memory.line_count - self.at % self.memory.line_count;
            if record.len != SKIP || u64::from(lines) > left {
                return Some(record.from);
            }
            self.consume(u64::from(lines));
        }
    }

    /// True when there is a message, or when senders may be due to be told.
    #[inline]
    pub fn wants_look(&self) -> bool {
        self.told != self.at || self.ready()
    }

    /// True, once, when enough lines were returned since senders were last told, or none are left to take.
    pub fn drained(&mut self) -> bool {
        let due =
            self.told != self.at && (!self.ready() || self.at - self.told >= self.memory.line_count / 4);
        if due {
            self.told = self.at;
        }
        due
    }

    fn record(&self) -> RecordHead {
        self.memory.line(self.at).data.with(|data| {
            // SAFETY: called for a published line only; the head fits the line.
            unsafe { data.cast::<RecordHead>().read_unaligned() }
        })
    }

    /// Hands the next message and its sender's slot to `take`. When all are taken, the senders that
    /// wait for room are due: [`drained`](Self::drained), [`tell_blocked`](Self::tell_blocked).
    #[inline]
    pub fn pop(&mut self, take: impl FnOnce(u32, Message<'_>)) -> Popped {
        loop {
            // SYNC POINT: pairs with the release in `InboxSender::push`.
            let lines = self.memory.line(self.at).ready.load(Ordering::Acquire);
            if lines == 0 {
                return Popped::Empty;
            }
            let record = self.record();
            let left = self.memory.line_count - self.at % self.memory.line_count;
            if u64::from(lines) > left {
                return Popped::Corrupt;
            }
            if record.len == SKIP {
                self.consume(u64::from(lines));
                continue;
            }
            if InboxMemory::lines_for(record.len as usize) != u64::from(lines) {
                return Popped::Corrupt;
            }
            take(
                record.from,
                Message { mark: record.mark as u8, head: record.head, body: self.body(&record) },
            );
            self.consume(u64::from(lines));
            return Popped::Message;
        }
    }

    fn body(&self, record: &RecordHead) -> &[u8] {
        for at in 0..InboxMemory::lines_for(record.len as usize) {
            self.memory.line(self.at + at).data.with(|_| ());
        }
        if cfg!(loom) {
            return &[];
        }
        // SAFETY: checked by the caller to lie inside the record's lines, which do not wrap; published,
        // and not written again before they are returned.
        unsafe {
            let place = core::ptr::from_ref(self.memory.line(self.at)).cast::<u8>();
            core::slice::from_raw_parts(place.add(RECORD_HEAD), record.len as usize)
        }
    }

    /// Clears and returns lines.
    fn consume(&mut self, lines: u64) {
        for at in self.at..self.at + lines {
            self.memory.line(at).ready.store(0, Ordering::Relaxed);
        }
        self.at += lines;
        // SYNC POINT: pairs with the acquire in `InboxSender::claim`.
        self.memory.head().store(self.at, Ordering::Release);
    }

    /// Calls `tell` with every sender that asked to be woken since the last time.
    pub fn tell_blocked(&mut self, mut tell: impl FnMut(u32)) {
        // SYNC POINT: pairs with the fence in `InboxSender::ask_to_be_woken`.
        fence(Ordering::SeqCst);
        if self.memory.any_blocked().load(Ordering::Relaxed) == 0 {
            return;
        }
        self.memory.any_blocked().store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for (at, word) in self.memory.blocked().iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::Relaxed);
            while bits != 0 {
                tell(at as u32 * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    pub(super) struct Owned {
        tail: AtomicU64,
        head: AtomicU64,
        any: AtomicU32,
        blocked: Vec<AtomicU64>,
        lines: Vec<InboxLine>,
    }
    // SAFETY: tests use the lines through the protocol only.
    unsafe impl Sync for Owned {}
    // SAFETY: as above.
    unsafe impl Send for Owned {}

    pub(super) fn memory(lines: u64) -> InboxMemory {
        let owned = Arc::new(Owned {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            any: AtomicU32::new(0),
            blocked: vec![AtomicU64::new(0)],
            lines: (0..lines)
                .map(|_| InboxLine { ready: AtomicU32::new(0), data: UnsafeCell::new([0; LINE - 4]) })
                .collect(),
        });
        InboxMemory {
            tail: &owned.tail,
            head: &owned.head,
            any_blocked: &owned.any,
            blocked: owned.blocked.as_ptr(),
            blocked_words: 1,
            lines: owned.lines.as_ptr(),
            line_count: lines,
            alive: owned.clone(),
        }
    }

    pub(super) fn ends(memory: &InboxMemory, senders: u32) -> (Vec<InboxSender>, InboxReceiver) {
        // SAFETY: zeroed, kept alive, one receiver.
        unsafe {
            (
                (0..senders).map(|me| InboxSender::new(memory.clone(), me)).collect(),
                InboxReceiver::new(memory.clone()),
            )
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_through() {
        let (senders, mut receiver) = testing::ends(&testing::memory(32), 1);
        for len in 0..=senders[0].largest_body() {
            let body: Vec<u8> = (0..len).map(|i| (i + len) as u8).collect();
            let (a, b) = body.split_at(len / 2);
            senders[0].push(3, [len as u32; HEAD_WORDS], a, b).expect("drained");
            let popped = receiver.pop(|from, m| {
                assert_eq!((from, m.mark, m.head, m.body), (0, 3, [len as u32; HEAD_WORDS], &body[..]));
            });
            assert_eq!(popped, Popped::Message);
        }
    }

    #[test]
    fn many_senders_keep_their_order() {
        const EACH: u32 = 4_000;
        let (senders, mut receiver) = testing::ends(&testing::memory(64), 4);
        let threads: Vec<_> = senders
            .into_iter()
            .map(|sender| {
                std::thread::spawn(move || {
                    for i in 0..EACH {
                        let body = vec![i as u8; i as usize % 500];
                        while sender.push(0, [i; HEAD_WORDS], &body, &[]).is_err() {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut next = [0; 4];
        while next.iter().sum::<u32>() < 4 * EACH {
            let popped = receiver.pop(|from, m| {
                let i = next[from as usize];
                assert_eq!(m.head, [i; HEAD_WORDS]);
                assert_eq!(m.body, &vec![i as u8; i as usize % 500][..]);
                next[from as usize] += 1;
            });
            assert_ne!(popped, Popped::Corrupt);
            if popped == Popped::Empty {
                assert!(!threads.iter().all(|t| t.is_finished()) || receiver.ready() || next == [EACH; 4]);
                std::thread::yield_now();
            }
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
    }

    #[test]
    fn a_blocked_sender_is_told() {
        let (senders, mut receiver) = testing::ends(&testing::memory(8), 2);
        while senders[1].push(0, [0; HEAD_WORDS], &[0; 100], &[]).is_ok() {}
        assert!(!senders[1].has_room(100));
        senders[1].ask_to_be_woken();
        let mut told = Vec::new();
        while receiver.pop(|_, _| ()) == Popped::Message {}
        receiver.tell_blocked(|rank| told.push(rank));
        assert_eq!(told, [1]);
        assert!(senders[1].has_room(100));
    }

    #[test]
    fn a_record_that_lies_is_refused() {
        let memory = testing::memory(8);
        let (senders, mut receiver) = testing::ends(&memory, 1);
        senders[0].push(0, [0; HEAD_WORDS], &[], &[]).expect("room");
        memory.line(0).ready.store(9, Ordering::Relaxed);
        assert_eq!(receiver.pop(|_, _| unreachable!()), Popped::Corrupt);
        memory.line(0).ready.store(2, Ordering::Relaxed);
        assert_eq!(receiver.pop(|_, _| unreachable!()), Popped::Corrupt);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;

    #[test]
    fn two_senders_one_receiver() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.max_branches = 10_000;
        model.check(|| {
            let (senders, mut receiver) = testing::ends(&testing::memory(2), 2);
            let threads: Vec<_> = senders
                .into_iter()
                .zip([2, 1])
                .map(|(sender, count)| {
                    loom::thread::spawn(move || {
                        for i in 0..count {
                            while sender.push(0, [i; HEAD_WORDS], &[], &[]).is_err() {
                                loom::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            let mut next = [0; 2];
            while next != [2, 1] {
                let popped = receiver.pop(|from, m| {
                    assert_eq!(m.head[0], next[from as usize]);
                    next[from as usize] += 1;
                });
                if popped != Popped::Message {
                    loom::thread::yield_now();
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn a_full_inbox_wakes_its_sender() {
        loom::model(|| {
            let memory = testing::memory(2);
            let (senders, mut receiver) = testing::ends(&memory, 1);
            let sender = senders.into_iter().next().unwrap();
            sender.push(0, [0; HEAD_WORDS], &[], &[]).unwrap();
            sender.push(0, [1; HEAD_WORDS], &[], &[]).unwrap();
            let woken = loom::sync::Arc::new(AtomicU32::new(0));
            let sees = woken.clone();
            let thread = loom::thread::spawn(move || {
                if !sender.has_room(0) {
                    sender.ask_to_be_woken();
                    if !sender.has_room(0) {
                        return true;
                    }
                }
                false
            });
            while receiver.pop(|_, _| ()) != Popped::Empty {}
            assert!(receiver.drained());
            receiver.tell_blocked(|_| sees.store(1, Ordering::Relaxed));
            let slept = thread.join().unwrap();
            // Asked and saw no room: then the receiver, which returned lines, must have seen the request.
            assert!(!slept || woken.load(Ordering::Relaxed) == 1);
        });
    }
}
