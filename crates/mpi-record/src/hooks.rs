//! What the engine and the layers above call. Off, each is a load and a branch.

use crate::limits::{LOOKS_PER_MESSAGE_TURN, LOOKS_PER_TURN};
use crate::map::{check, map};
use crate::ops::Op;
use crate::timing;
use crate::writer::Writer;
use crate::{RecordError, Way, clock, layout};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static WRITER: OnceLock<Writer> = OnceLock::new();

/// Records are being made.
#[inline(always)]
pub fn on() -> bool {
    let on = ON.load(Ordering::Relaxed);
    if on {
        unlikely();
    }
    on
}

/// Whatever calls this is laid out apart. What it calls in turn is compiled for speed all the same, which it would not
/// be if it were itself called cold.
#[cold]
#[inline(always)]
fn unlikely() {}

#[inline]
pub(crate) fn writer() -> Option<&'static Writer> {
    WRITER.get()
}

/// Begins to record into the block of `rank` in the file behind `fd`, once per process.
///
/// # Errors
/// [`RecordError`]: the descriptor is another's, or there is no such rank; nothing is recorded then.
pub fn attach(fd: OwnedFd, rank: u32) -> Result<(), RecordError> {
    let all = File::from(fd);
    let (layout, words) = check(&all)?;
    if rank as usize >= layout.ranks {
        return Err(RecordError::Foreign { field: "number of ranks", found: layout.ranks as u64 });
    }
    clock::choose(words[layout::file::COUNTER] == 1);
    let block = map(&all, &layout, rank as usize)?;
    if WRITER.set(Writer::new(block, layout.events)).is_ok() {
        ON.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// Several threads call MPI at once from now on.
pub fn several_threads() {
    if let Some(writer) = writer() {
        writer.several_threads();
    }
}

/// The rank has finalised MPI: the time from now on is none of the job's.
pub fn finished() {
    if on() {
        ON.store(false, Ordering::Relaxed);
        if let Some(writer) = writer() {
            writer.finished();
        }
    }
}

/// An operation that is being recorded; dropped, it has ended.
#[derive(Debug)]
#[must_use = "the operation ends where this is dropped"]
pub struct Recording(Option<Op>);

/// The operation begins, unless it is a part of another. `peer` is asked where the operation is timed only.
#[inline(always)]
pub fn op(op: Op, peer: impl FnOnce() -> Option<u32>) -> Recording {
    if on() { begin(op, peer) } else { Recording(None) }
}

#[inline(never)]
fn begin(op: Op, peer: impl FnOnce() -> Option<u32>) -> Recording {
    if let Some(writer) = writer() {
        writer.begin(op, peer);
    }
    Recording(Some(op))
}

/// As [`during`], for an operation that begins in a way of its own.
#[inline(never)]
pub fn with<T>(begin: impl FnOnce() -> Recording, f: impl FnOnce() -> T) -> T {
    let _recording = begin();
    f()
}

/// Carries out a whole operation and records it: for paths where even a guard would cost too much,
/// behind a branch on [`on`].
#[inline(never)]
pub fn during<T>(op: Op, peer: impl FnOnce() -> Option<u32>, f: impl FnOnce() -> T) -> T {
    let Some(writer) = writer() else { return f() };
    writer.begin(op, peer);
    // Ends the operation where `f` panics.
    let recording = Recording(Some(op));
    let result = f();
    std::mem::forget(recording);
    writer.end(op);
    result
}

impl Drop for Recording {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(op) = self.0 {
            end(op);
        }
    }
}

#[inline(never)]
fn end(op: Op) {
    if let Some(writer) = writer() {
        writer.end(op);
    }
}

/// A wait that is being recorded; dropped, it is over. Outside of any operation it is one itself.
#[derive(Debug)]
#[must_use = "the wait ends where this is dropped"]
pub struct Waiting(Option<timing::Wait>);

impl Waiting {
    /// Nothing waits yet.
    pub const NOT: Waiting = Waiting(None);

    /// The thread finds that it has to wait, also said again and again: at each look for what it waits for, with
    /// how often it has looked before.
    #[inline(always)]
    pub fn begin(&mut self, looks: u32) {
        if on() && looks % LOOKS_PER_TURN == 0 {
            self.begin_or_go_on();
        }
    }

    #[inline(never)]
    fn begin_or_go_on(&mut self) {
        match (&self.0, writer()) {
            (None, _) => self.0 = begin_wait(),
            (Some(_), Some(writer)) => writer.still_waiting(),
            _ => {}
        }
    }
}

/// The wait that this thread is in will be a long one: it hands its processor over.
#[inline(always)]
pub fn waits_long() {
    if on() {
        long_wait();
    }
}

#[inline(never)]
fn long_wait() {
    if let Some(writer) = writer() {
        writer.waits_long();
    }
}

/// The thread waits for a message, also said again and again, with how often it has looked before; the wait is over
/// when the message is [`received`], or the operation ends.
#[inline(always)]
pub fn waiting_for_message(looks: u32) {
    if on() && looks % LOOKS_PER_MESSAGE_TURN == 0 {
        begin_message_wait();
    }
}

#[inline(never)]
fn begin_message_wait() {
    if let Some(writer) = writer() {
        writer.begin_message_wait();
    }
}

#[inline(never)]
fn begin_wait() -> Option<timing::Wait> {
    writer().and_then(Writer::begin_wait)
}

impl Drop for Waiting {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(wait) = self.0.take() {
            end_wait(wait);
        }
    }
}

#[inline(never)]
fn end_wait(wait: timing::Wait) {
    if let Some(writer) = writer() {
        writer.end_wait(wait);
    }
}

/// One of those that the thread waits for, now that it waits for long.
#[inline]
pub fn waits_for(peer: Option<u32>) {
    if on() {
        if let Some(writer) = writer() {
            writer.waits_for(peer);
        }
    }
}

/// A message of the user's or of a collective has left.
#[inline(always)]
pub fn sent(peer: u32, context: u32, tag: i32, bytes: u64) {
    if on() {
        sent_now(peer, context, tag, bytes);
    }
}

#[inline(never)]
fn sent_now(peer: u32, context: u32, tag: i32, bytes: u64) {
    if let Some(writer) = writer() {
        writer.sent(peer, context, tag, bytes);
    }
}

/// A message is in its place.
#[inline(always)]
pub fn received(peer: impl FnOnce() -> u32, context: u32, tag: i32, bytes: u64) {
    if on() {
        received_now(peer(), context, tag, bytes);
    }
}

#[inline(never)]
fn received_now(peer: u32, context: u32, tag: i32, bytes: u64) {
    if let Some(writer) = writer() {
        writer.received(peer, context, tag, bytes);
    }
}

/// This rank itself moved bytes into or out of the memory of `peer`, without a message.
#[inline(always)]
pub fn moved(peer: impl FnOnce() -> Option<u32>, way: Way, bytes: u64) {
    if on() {
        if let (Some(writer), Some(peer)) = (writer(), peer()) {
            writer.moved(peer, way, bytes);
        }
    }
}

/// So many unexpected messages, of so many bytes, are here now.
#[inline(always)]
pub fn unexpected(messages: impl FnOnce() -> (u64, u64)) {
    if on() {
        if let Some(writer) = writer() {
            writer.unexpected(messages());
        }
    }
}

/// The beginning of a copy of so many bytes, for [`copied`]; 0 where it is not timed.
#[inline(always)]
pub fn copying(bytes: usize) -> u64 {
    if bytes >= crate::limits::TIMED_COPY_BYTES && on() { begin_copy(bytes) } else { 0 }
}

#[inline(never)]
fn begin_copy(bytes: usize) -> u64 {
    writer().map_or(0, |writer| writer.copying(bytes))
}

/// A copy is done, which began at `since`.
#[inline(always)]
pub fn copied(since: u64) {
    if since != 0 {
        if let Some(writer) = writer() {
            writer.copied(since);
        }
    }
}

/// A blocking or immediate collective is carried out by this algorithm, by its place in
/// [`ALGORITHMS`](crate::ops::ALGORITHMS).
#[inline(always)]
pub fn algorithm(collective: Op, by: usize) {
    if on() {
        if let Some(writer) = writer() {
            writer.algorithm(collective, by);
        }
    }
}
