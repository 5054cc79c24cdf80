//! The parts of a mapped segment, handed out as their own types.

use super::control::{ABANDONED, ABSENT, LEFT, PRESENT, RankControl};
use super::layout::CELL;
use super::region::{Offer, RegionSlot};
use super::{PAGE, Segment, reserve, sleep};
use crate::board::{Done, Posting, Side};
use crate::cross_copy;
use crate::doorbell::{Doorbell, Ringer};
use crate::inbox::{InboxMemory, InboxReceiver, InboxSender};
use crate::limits::{INBOX_BYTES, MAX_RANKS, REGION_SLOTS, RING_CELLS};
use crate::ring::{Consumer, Producer, RingMemory};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether a rank of the node is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It has not attached yet.
    Absent,
    /// It is attached and its process lives.
    Present,
    /// It said goodbye.
    Left,
    /// It ended without a goodbye; its process id.
    Gone(u32),
}

/// How a rank means to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SleepOn {
    /// On its sleep word, a futex.
    Word,
    /// On its doorbell.
    Bell,
}

impl Segment {
    pub(super) fn at<T>(&self, offset: usize) -> *const T {
        debug_assert!(offset + size_of::<T>() <= self.layout.total());
        self.map.as_ptr().wrapping_add(offset).cast()
    }

    fn control(&self, rank: u32) -> &RankControl {
        // SAFETY: inside the mapping by the layout, aligned, reserved; all fields are atomics, for
        // which any bytes are valid.
        unsafe { &*self.at(self.layout.control(rank)) }
    }

    fn region(&self, rank: u32, index: usize) -> Option<&RegionSlot> {
        if rank >= self.ranks() || index >= REGION_SLOTS {
            return None;
        }
        // SAFETY: as in `control`.
        Some(unsafe { &*self.at::<RegionSlot>(self.layout.regions(rank)).add(index) })
    }

    /// Shows this process to the others. Called by `attach`.
    pub(super) fn appear(&self) {
        cross_copy::allow_siblings();
        let identity = &self.control(self.slot).identity.0;
        let (address, cookie) = cross_copy::cookie();
        let bell = cross_copy::random_words();
        identity.pid.store(std::process::id(), Ordering::Relaxed);
        identity.probe_address.store(address, Ordering::Relaxed);
        identity.probe_cookie.store(cookie, Ordering::Relaxed);
        self.name.store(bell[0], Ordering::Relaxed);
        identity.bell[0].store(bell[0], Ordering::Relaxed);
        identity.bell[1].store(bell[1], Ordering::Relaxed);
        // SYNC POINT: pairs with the acquire in `pid_of`.
        identity.state.store(PRESENT, Ordering::Release);
    }

    /// Tells the others that this rank leaves in good order.
    pub fn leave(&self) {
        self.end_as(LEFT);
    }

    /// Ends this process's presence, once. What it finds may be a later one's already.
    fn end_as(&self, state: u32) {
        let identity = &self.control(self.slot).identity.0;
        if identity.bell[0].load(Ordering::Relaxed) == self.name.load(Ordering::Relaxed) {
            _ = identity.state.compare_exchange(PRESENT, state, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// True when no process was in this slot since the segment was made, or made anew.
    pub(super) fn is_fresh(&self) -> bool {
        self.control(self.slot).identity.0.state.load(Ordering::Acquire) == ABSENT
    }

    /// Shows a number of the layer above to the others. Do it before the first publication.
    pub fn set_label(&self, label: u64) {
        self.control(self.slot).identity.0.label.store(label, Ordering::Relaxed);
    }

    /// The number that the rank in `slot` shows; meaningful after something of its was received.
    pub fn label(&self, slot: u32) -> u64 {
        self.control(slot).identity.0.label.load(Ordering::Relaxed)
    }

    /// Unless it left in good order, the others see that this rank is gone.
    pub(super) fn disappear(&self) {
        self.end_as(ABANDONED);
    }

    /// Process id of a rank that has attached.
    fn pid_of(&self, rank: u32) -> Option<u32> {
        let identity = &self.control(rank).identity.0;
        (identity.state.load(Ordering::Acquire) != ABSENT).then(|| identity.pid.load(Ordering::Relaxed))
    }

    /// Whether the rank in `slot` is there. Asks the kernel: not for the fast path.
    pub fn presence(&self, slot: u32) -> Presence {
        let identity = &self.control(slot).identity.0;
        match identity.state.load(Ordering::Acquire) {
            ABSENT => Presence::Absent,
            LEFT => Presence::Left,
            ABANDONED => Presence::Gone(identity.pid.load(Ordering::Relaxed)),
            _ => {
                let pid = identity.pid.load(Ordering::Relaxed);
                if process_ended(pid) { Presence::Gone(pid) } else { Presence::Present }
            }
        }
    }

    /// True when this process may copy from and to the memory of the rank in `slot`.
    pub fn may_cross_copy(&self, slot: u32) -> bool {
        let Some(pid) = self.pid_of(slot) else {
            return false;
        };
        let identity = &self.control(slot).identity.0;
        let address = identity.probe_address.load(Ordering::Relaxed);
        cross_copy::probe(pid, address, identity.probe_cookie.load(Ordering::Relaxed))
    }

    /// A way into the inbox of the rank in `slot`.
    pub fn inbox_sender(self: &Arc<Self>, slot: u32) -> InboxSender {
        // SAFETY: the layout's inbox of that rank, zero when the segment was made.
        unsafe { InboxSender::new(self.inbox_memory(slot), self.slot) }
    }

    /// This rank's own inbox; `None` when it was handed out before.
    pub fn inbox_receiver(self: &Arc<Self>) -> Option<InboxReceiver> {
        if self.inbox_taken.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: as in `inbox_sender`; handed out once per attachment, one attachment per slot.
        Some(unsafe { InboxReceiver::new(self.inbox_memory(self.slot)) })
    }

    fn inbox_memory(self: &Arc<Self>, slot: u32) -> InboxMemory {
        let control = self.control(slot);
        InboxMemory {
            tail: &control.inbox_tail.0,
            head: &control.inbox_head.0,
            any_blocked: &control.inbox_any_blocked.0,
            blocked: control.inbox_blocked.as_ptr(),
            blocked_words: MAX_RANKS as usize / 64,
            lines: self.at(self.layout.inbox(slot)),
            line_count: (INBOX_BYTES / 64) as u64,
            alive: self.clone(),
        }
    }

    /// Claims a ring into the rank in `slot` and backs it with memory. `None` when none is left
    /// or memory is short: the caller stays with the inbox.
    pub fn claim_ring(self: &Arc<Self>, slot: u32) -> Option<(u32, Producer)> {
        let most = self.layout.rings_per_rank as u32;
        let claimed = &self.control(slot).rings_claimed.0;
        let index = claimed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then_some(n + 1))
            .ok()?;
        reserve(&self.file, self.layout.ring(slot, index as usize), self.layout.ring_bytes()).ok()?;
        // SAFETY: the layout's ring, zero until now; the number is given out once.
        Some((index, unsafe { Producer::new(self.ring_memory(slot, index)) }))
    }

    /// Opens ring number `index` into this rank, which its claimer announced. `None` for a number
    /// that nobody claimed or that was opened before: the announcer's fault.
    pub fn open_ring(self: &Arc<Self>, index: u32) -> Option<Consumer> {
        if index >= self.control(self.slot).rings_claimed.0.load(Ordering::Relaxed)
            || index as usize >= self.layout.rings_per_rank
        {
            return None;
        }
        let bit = 1_u64 << index;
        if self.rings_opened.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return None;
        }
        // SAFETY: backed by its claimer before it was announced; opened once.
        Some(unsafe { Consumer::new(self.ring_memory(self.slot, index)) })
    }

    fn ring_memory(self: &Arc<Self>, slot: u32, index: u32) -> RingMemory {
        let base = self.layout.ring(slot, index as usize);
        RingMemory {
            returned: self.at(base),
            cells: self.at(base + PAGE),
            cell_count: RING_CELLS as u32,
            body: self.at(base + PAGE + RING_CELLS * CELL),
            body_lines: (self.layout.ring_body / 64) as u32,
            alive: self.clone(),
        }
    }

    fn side(&self, board: u32, number: u64, slot: u32) -> &Side {
        // SAFETY: as in `control`.
        unsafe { &*self.at(self.layout.side(board, (number % 2) as usize, slot)) }
    }

    /// Writes this rank's number `number` on a board, with a word and up to
    /// [`BOARD_BYTES`](crate::BOARD_BYTES). Numbers begin at 1 and count up by one; number `k + 1` is
    /// written only after everybody's number `k` was read.
    #[inline]
    pub fn publish(&self, board: u32, number: u64, word: u32, bytes: &[u8]) {
        self.side(board, number, self.slot).publish(number, word, bytes);
    }

    /// True once number `number` of the rank in `slot` is there.
    #[inline]
    pub fn has_published(&self, board: u32, slot: u32, number: u64) -> bool {
        self.side(board, number, slot).has(number)
    }

    /// Reads what is [there](Self::has_published).
    #[inline]
    pub fn posting(&self, board: u32, slot: u32, number: u64) -> Posting {
        self.side(board, number, slot).read()
    }

    /// Bytes that a rank can stage with each number.
    pub fn stage_bytes(&self) -> usize {
        self.layout.stage
    }

    /// Backs this rank's stages beside a board, and its feed, with memory.
    ///
    /// # Errors
    /// What the kernel says: no memory.
    pub fn reserve_stages(&self, board: u32) -> io::Result<()> {
        reserve(&self.file, self.layout.stages_of(board, self.slot), self.layout.stages_bytes())
    }

    /// Where the rank in `slot` stages what goes with number `number` on a board. To be touched once that rank has
    /// [reserved](Self::reserve_stages) it.
    #[inline]
    pub fn stage(&self, board: u32, slot: u32, number: u64) -> *mut u8 {
        self.at::<u8>(self.layout.stages_of(board, slot) + (number % 2) as usize * self.layout.stage)
            .cast_mut()
    }

    fn feed_line(&self, board: u32, slot: u32, piece: u64) -> &Side {
        // SAFETY: as in `control`; memory that was not written yet is zero.
        unsafe { &*self.at(self.layout.feed_line(board, slot, piece)) }
    }

    fn feed_done(&self, board: u32, slot: u32) -> &Done {
        // SAFETY: as in `control`; memory that was not written yet is zero.
        unsafe { &*self.at(self.layout.feed_done(board, slot)) }
    }

    /// Feeds piece `piece` on a board to all others, with a word and up to [`BOARD_BYTES`](crate::BOARD_BYTES) in its line.
    /// Pieces of all ranks are counted together, from 1 on, by all alike. Piece `k` is fed only once everybody
    /// [is done with](Self::is_done_with) piece `k - FEED_PIECES`, on stages that are [reserved](Self::reserve_stages).
    #[inline]
    pub fn feed(&self, board: u32, piece: u64, word: u32, bytes: &[u8]) {
        self.feed_line(board, self.slot, piece).publish(piece, word, bytes);
    }

    /// True once the rank in `slot` has fed piece `piece`.
    #[inline]
    pub fn has_fed(&self, board: u32, slot: u32, piece: u64) -> bool {
        self.feed_line(board, slot, piece).has(piece)
    }

    /// Reads the line of a piece that is [there](Self::has_fed).
    #[inline]
    pub fn fed(&self, board: u32, slot: u32, piece: u64) -> Posting {
        self.feed_line(board, slot, piece).read()
    }

    /// Bytes that a piece has beside its line.
    pub fn piece_bytes(&self) -> usize {
        self.layout.piece_bytes()
    }

    /// Where the rank in `slot` has what goes with piece `piece`.
    #[inline]
    pub fn piece(&self, board: u32, slot: u32, piece: u64) -> *mut u8 {
        self.at::<u8>(self.layout.feed_piece(board, slot, piece)).cast_mut()
    }

    /// Says that this rank is done with all pieces up to `piece`.
    #[inline]
    pub fn done_with(&self, board: u32, piece: u64) {
        self.feed_done(board, self.slot).store(piece);
    }

    /// True once the rank in `slot` is done with all pieces up to `piece`.
    #[inline]
    pub fn is_done_with(&self, board: u32, slot: u32, piece: u64) -> bool {
        self.feed_done(board, slot).load() >= piece
    }

    /// Copies `len` bytes at `address` in the memory of the rank in `slot` to `local`.
    ///
    /// # Safety
    /// `local` is valid for writes of `len` bytes and nobody else touches it.
    ///
    /// # Errors
    /// What the kernel says; a rank that has not attached.
    pub unsafe fn read_memory(&self, slot: u32, address: u64, local: *mut u8, len: usize) -> io::Result<()> {
        let pid = self.pid_of(slot).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        // SAFETY: handed on to the caller.
        unsafe { cross_copy::read(pid, address, local, len) }
    }

    /// Copies `len` bytes from `local` to `address` in the memory of the rank in `slot`.
    ///
    /// # Safety
    /// `local` is valid for reads of `len` bytes and nobody writes it. That rank expects the bytes there.
    ///
    /// # Errors
    /// As [`read_memory`](Self::read_memory).
    pub unsafe fn write_memory(
        &self,
        slot: u32,
        address: u64,
        local: *const u8,
        len: usize,
    ) -> io::Result<()> {
        let pid = self.pid_of(slot).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        // SAFETY: handed on to the caller.
        unsafe { cross_copy::write(pid, address, local, len) }
    }

    /// Whether the rank in `slot` sleeps, to be asked after each publication.
    pub fn sleeper(self: &Arc<Self>, slot: u32) -> Sleeper {
        Sleeper { word: &self.control(slot).sleep.0, fence: self.fence, segment: self.clone(), slot }
    }

    /// Announces that this rank is about to sleep. It must look for work after this and before
    /// it sleeps.
    pub fn fall_asleep(&self, on: SleepOn) {
        let how = match on {
            SleepOn::Word => sleep::ON_WORD,
            SleepOn::Bell => sleep::ON_BELL,
        };
        sleep::fall_asleep(&self.control(self.slot).sleep.0, how, self.fence);
    }

    /// This rank runs again.
    pub fn wake_up(&self) {
        self.control(self.slot).sleep.0.store(sleep::AWAKE, Ordering::Relaxed);
    }

    /// This rank's sleep word and the value it holds while the rank sleeps on it.
    pub fn sleep_word(&self) -> (&AtomicU32, u32) {
        (&self.control(self.slot).sleep.0, sleep::ON_WORD)
    }

    /// Hangs up this rank's doorbell.
    ///
    /// # Errors
    /// See [`Doorbell::hang_up`].
    pub fn doorbell(&self) -> io::Result<Doorbell> {
        Doorbell::hang_up(self.bell_of(self.slot))
    }

    fn bell_of(&self, slot: u32) -> [u64; 2] {
        let bell = &self.control(slot).identity.0.bell;
        [bell[0].load(Ordering::Relaxed), bell[1].load(Ordering::Relaxed)]
    }

    /// Offers memory to peers in slot `index` of this rank; the generation that names the offer.
    pub fn offer(&self, index: usize, address: u64, length: u64) -> Option<u32> {
        Some(self.region(self.slot, index)?.offer(address, length))
    }

    /// Where an own offer stands.
    #[inline]
    pub fn look_at_offer(&self, index: usize) -> Offer {
        self.region(self.slot, index).map_or(Offer::Refused, RegionSlot::look)
    }

    /// Takes an own offer back; false when the peer has begun. A refused one has not begun.
    pub fn withdraw(&self, index: usize, generation: u32) -> bool {
        self.region(self.slot, index).is_some_and(|slot| slot.withdraw(generation))
    }

    /// Takes an own offer back from a peer that is gone.
    pub fn reclaim(&self, index: usize, generation: u32) {
        if let Some(slot) = self.region(self.slot, index) {
            slot.reclaim(generation);
        }
    }

    /// True when [`help`](Self::help) would find something to do.
    #[inline]
    pub fn wants_help(&self, index: usize) -> bool {
        self.region(self.slot, index).is_some_and(RegionSlot::wants_help)
    }

    /// Writes a piece of an own offer into the taker's memory, if the taker is at it. True when
    /// something was done.
    ///
    /// # Safety
    /// The memory of the offer is still valid.
    #[inline]
    pub unsafe fn help(&self, index: usize) -> bool {
        // SAFETY: handed on to the caller.
        self.region(self.slot, index).is_some_and(|slot| unsafe { slot.help() })
    }

    /// Starts to take bytes `offset..offset + length` of an offer of the rank in `slot` to
    /// `target`, copies what the owner does not, and says whether all is there; if not, pieces of the
    /// owner's are under way: ask [`Taking::is_done`]. `published` runs when the owner may help.
    ///
    /// # Safety
    /// `target` is valid for writes of `length` bytes and nobody else touches it until it is done.
    ///
    /// # Errors
    /// [`TakeError`].
    pub unsafe fn take(
        self: &Arc<Self>,
        offer: Offered,
        part: Part,
        published: impl FnOnce(),
    ) -> Result<Taking, TakeError> {
        let Offered { slot, index, generation, address, length } = offer;
        let pid = (slot < self.ranks()).then(|| self.pid_of(slot)).flatten().ok_or(TakeError::Key)?;
        let region = self.region(slot, index).ok_or(TakeError::Key)?;
        let inside = part.offset.checked_add(part.length).is_some_and(|end| end <= length);
        let me = self.pid_of(self.slot).ok_or(TakeError::Key)?;
        if !region.begin(generation) || !inside {
            return Err(TakeError::Key);
        }
        let first = region.start_part(me, part.offset, part.target as u64, part.length);
        published();
        let taking = Taking { segment: self.clone(), slot, index, generation, part, pid, address };
        // SAFETY: handed on to the caller.
        match unsafe { region.take_pieces(first, pid, address) } {
            Ok(()) => Ok(taking),
            Err(error) => Err(TakeError::System(error, taking)),
        }
    }
}

impl Segment {
    /// Tells the owner of an offer that this process cannot copy.
    pub fn refuse(&self, slot: u32, index: usize, generation: u32) {
        if let Some(region) = self.region(slot, index) {
            if region.begin(generation) {
                region.refuse(generation);
            }
        }
    }
}

/// An offer as its owner names it to the taker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offered {
    /// The owner's place in the segment.
    pub slot: u32,
    /// Which of its offers.
    pub index: usize,
    /// The number of the offer.
    pub generation: u32,
    /// Where the memory is in the owner's process.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// What is wanted of an offer.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Offset in the region, in bytes.
    pub offset: u64,
    /// Where it shall go.
    pub target: *mut u8,
    /// Length in bytes.
    pub length: u64,
}

/// A region cannot be taken.
#[derive(Debug)]
pub enum TakeError {
    /// There is no such offer.
    Key,
    /// The kernel refused; pieces of the owner's may still be under way.
    System(io::Error, Taking),
}

/// A part being copied.
#[derive(Debug)]
pub struct Taking {
    segment: Arc<Segment>,
    slot: u32,
    index: usize,
    generation: u32,
    part: Part,
    pid: u32,
    address: u64,
}

// SAFETY: the target pointer is used under the promise made to `Segment::take`, from any thread.
unsafe impl Send for Taking {}

impl Taking {
    fn region(&self) -> &RegionSlot {
        self.segment.region(self.slot, self.index).expect("checked when taking began")
    }

    /// True when no piece is under way.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.region().part_is_copied()
    }

    /// Makes good what the owner could not write, and, when `last`, gives the memory back to it.
    /// Call once [`is_done`](Self::is_done).
    ///
    /// # Errors
    /// The owner's memory cannot be read: the owner hears that it was refused.
    pub fn finish(self, last: bool) -> io::Result<()> {
        let mut result = Ok(());
        if self.region().owner_failed() {
            let from = self.address.wrapping_add(self.part.offset);
            // SAFETY: the target is valid until now by the promise made to `take`.
            result = unsafe { cross_copy::read(self.pid, from, self.part.target, self.part.length as usize) };
        }
        match &result {
            // The owner keeps the memory, and may send it in another way.
            Err(_) => self.region().refuse(self.generation),
            Ok(()) if last => self.region().finish(self.generation),
            Ok(()) => {}
        }
        result
    }

    /// Tells the owner that this process cannot copy.
    pub fn refuse(self) {
        self.region().refuse(self.generation);
    }

    /// Slot of the owner.
    pub fn owner(&self) -> u32 {
        self.slot
    }
}

/// Asks after a rank's sleep.
pub struct Sleeper {
    word: *const AtomicU32,
    fence: bool,
    segment: Arc<Segment>,
    slot: u32,
}

// SAFETY: the word lies in the segment that is held; it is atomic.
unsafe impl Send for Sleeper {}
// SAFETY: as above.
unsafe impl Sync for Sleeper {}

impl Sleeper {
    /// Wakes the rank if it sleeps. Call after publishing something for it. One plain load when
    /// it does not sleep.
    #[inline]
    pub fn wake_if_asleep(&self, ringer: &mut Ringer) {
        // SAFETY: inside the segment, which is held.
        let word = unsafe { &*self.word };
        if sleep::is_asleep(word, self.fence) {
            self.wake(ringer);
        }
    }

    #[cold]
    fn wake(&self, ringer: &mut Ringer) {
        // SAFETY: as above.
        if sleep::wake(unsafe { &*self.word }) == sleep::Wake::Bell {
            ringer.ring(self.segment.bell_of(self.slot));
        }
    }
}

/// True when the process has ended, whether or not its parent has taken note.
pub(crate) fn process_ended(pid: u32) -> bool {
    if pid == std::process::id() {
        return false;
    }
    // SAFETY: integers only; the descriptor is closed below.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        let error = io::Error::last_os_error().raw_os_error();
        // Old kernels and full descriptor tables: a signal that is none.
        // SAFETY: integers only.
        return error == Some(libc::ESRCH)
            || (unsafe { libc::kill(pid as libc::pid_t, 0) } < 0
                && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH));
    }
    let mut poll = libc::pollfd { fd: fd as i32, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry; the descriptor is ours to close.
    unsafe {
        let ended = libc::poll(&mut poll, 1, 0) == 1;
        libc::close(fd as i32);
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Popped;
    use std::os::fd::AsFd;

    fn node(ranks: u32) -> Vec<Arc<Segment>> {
        let fd = super::super::create(ranks).expect("memfd");
        (0..ranks).map(|slot| Arc::new(Segment::attach(fd.as_fd(), slot).expect("attach"))).collect()
    }

    #[test]
    fn rings_are_claimed_once_and_opened_once() {
        let node = node(2);
        let (index, mut producer) = node[0].claim_ring(1).expect("one ring");
        assert!(node[0].claim_ring(1).is_none());
        assert!(node[1].open_ring(index + 1).is_none());
        let mut consumer = node[1].open_ring(index).expect("claimed");
        assert!(node[1].open_ring(index).is_none());
        producer.push(1, [5; 5], &[9; 1000], &[]).expect("room");
        assert_eq!(consumer.pop(|m| assert_eq!(m.body, [9; 1000])), Popped::Message);
    }

    #[test]
    fn presence_follows_the_rank() {
        let fd = super::super::create(2).expect("memfd");
        let zero = Arc::new(Segment::attach(fd.as_fd(), 0).expect("attach"));
        assert_eq!(zero.presence(1), Presence::Absent);
        let one = Arc::new(Segment::attach(fd.as_fd(), 1).expect("attach"));
        assert_eq!(zero.presence(1), Presence::Present);
        assert!(zero.may_cross_copy(1));
        one.leave();
        assert_eq!(zero.presence(1), Presence::Left);
    }

    #[test]
    fn the_next_program_finds_nothing_of_the_one_before() {
        let fd = super::super::create(3).expect("memfd");
        let before: Vec<_> =
            (0..3).map(|slot| Arc::new(Segment::attach(fd.as_fd(), slot).expect("attach"))).collect();
        let (index, mut producer) = before[0].claim_ring(1).expect("one ring");
        producer.push(1, [5; 5], &[9; 1000], &[]).expect("room");
        before[0].inbox_sender(1).push(2, [6; 5], b"late", &[]).expect("room");
        before[0].publish(0, 1, 7, b"said");
        before[0].offer(3, 100, 100).expect("slot");
        before[2].leave();
        // They come together; the last one of the first program lives on for a while.
        let after: Vec<_> = std::thread::scope(|scope| {
            let fd = &fd;
            let come = |slot| scope.spawn(move || Segment::attach(fd.as_fd(), slot).expect("attach"));
            let all: Vec<_> = (0..2).map(come).collect();
            all.into_iter().map(|one| Arc::new(one.join().expect("no panic"))).collect()
        });
        assert_eq!(after[0].presence(1), Presence::Present);
        assert_eq!(after[0].presence(2), Presence::Absent);
        drop(before);
        assert_eq!(after[0].presence(1), Presence::Present, "an old end says nothing of the new one");
        assert!(!after[1].has_published(0, 0, 1));
        let mut inbox = after[1].inbox_receiver().expect("the inbox");
        assert_eq!(inbox.pop(|_, m| panic!("{m:?}")), Popped::Empty);
        assert!(after[1].open_ring(index).is_none());
        let (index, mut producer) = after[0].claim_ring(1).expect("one ring");
        let mut consumer = after[1].open_ring(index).expect("claimed");
        assert_eq!(consumer.pop(|m| panic!("{m:?}")), Popped::Empty);
        producer.push(1, [5; 5], &[8; 1000], &[]).expect("room");
        assert_eq!(consumer.pop(|m| assert_eq!(m.body, [8; 1000])), Popped::Message);
        // Who comes later is let in without any of it being lost.
        let late = Arc::new(Segment::attach(fd.as_fd(), 2).expect("attach"));
        assert_eq!(late.presence(0), Presence::Present);
    }

    #[test]
    fn a_dead_process_is_seen_before_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().expect("spawn");
        let pid = child.id();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !process_ended(pid) {
            assert!(std::time::Instant::now() < deadline, "the child never ended");
            std::thread::yield_now();
        }
        child.wait().expect("reap");
        assert!(process_ended(pid));
    }

    #[test]
    fn regions_are_copied_by_one_or_by_both() {
        let node = node(2);
        let from: Vec<u8> = (0..1_000_003_u32).map(|i| (i * 7) as u8).collect();
        for help in [false, true] {
            let (address, length) = (from.as_ptr() as u64, from.len() as u64);
            let generation = node[0].offer(3, address, length).expect("slot");
            let offer = Offered { slot: 0, index: 3, generation, address, length };
            assert_eq!(node[0].look_at_offer(3), Offer::Waiting);
            let mut to = vec![0_u8; from.len()];
            let done = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                if help {
                    scope.spawn(|| {
                        while !done.load(Ordering::Relaxed) {
                            // SAFETY: `from` lives on.
                            unsafe { node[0].help(3) };
                        }
                    });
                }
                for (offset, length) in [(0, 500_001), (500_001, 500_002)] {
                    let part = Part { offset, target: to[offset as usize..].as_mut_ptr(), length };
                    // SAFETY: `to` lives on and is touched by nobody else.
                    let taking = unsafe { node[1].take(offer, part, || ()) }.expect("takes");
                    while !taking.is_done() {
                        std::thread::yield_now();
                    }
                    taking.finish(offset > 0).expect("own memory");
                }
                done.store(true, Ordering::Relaxed);
            });
            assert_eq!(node[0].look_at_offer(3), Offer::Taken);
            assert!(from == to, "bytes differ");
            let part = Part { offset: 0, target: to.as_mut_ptr(), length: 1 };
            // SAFETY: as above.
            assert!(matches!(unsafe { node[1].take(offer, part, || ()) }, Err(TakeError::Key)));
        }
    }

    #[test]
    fn an_offer_can_be_withdrawn_until_it_is_taken_up() {
        let node = node(2);
        let byte = [1_u8; 8];
        let (address, length) = (byte.as_ptr() as u64, 8);
        let generation = node[0].offer(0, address, length).expect("slot");
        let offer = Offered { slot: 0, index: 0, generation, address, length };
        assert!(node[0].withdraw(0, generation));
        let mut to = [0_u8; 8];
        let part = Part { offset: 0, target: to.as_mut_ptr(), length: 8 };
        // SAFETY: `to` lives on.
        assert!(matches!(unsafe { node[1].take(offer, part, || ()) }, Err(TakeError::Key)));
        let part = Part { offset: 1, target: to.as_mut_ptr(), length: 8 };
        let generation = node[0].offer(0, address, length).expect("slot");
        let offer = Offered { generation, ..offer };
        // SAFETY: as above.
        assert!(matches!(unsafe { node[1].take(offer, part, || ()) }, Err(TakeError::Key)));
        assert!(!node[0].withdraw(0, generation));
    }
}
