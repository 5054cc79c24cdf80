//! The one place that touches memory lent by the engine, and that wakes who sleeps.
#![allow(unsafe_code)]

use mpi_btl::Span;
use std::ops::Range;
use std::sync::atomic::AtomicU32;

/// Reads part of lent or exposed memory.
///
/// Called only between the call that lent the memory and the report that gives it back.
pub(crate) fn read(span: Span, range: Range<usize>) -> Vec<u8> {
    assert!(range.start <= range.end && range.end <= span.len(), "read outside of lent memory");
    if range.is_empty() {
        return Vec::new();
    }
    // SAFETY: the lender keeps `span` valid and unchanged until it is reported complete, which the
    // caller has not done yet; the range was checked.
    unsafe { std::slice::from_raw_parts(span.ptr().add(range.start), range.len()) }.to_vec()
}

/// Writes `bytes` into memory given for a delivery or a `get`, from byte `at` on.
///
/// Called only between the call that gave the memory and the report that gives it back.
pub(crate) fn write(span: Span, at: usize, bytes: &[u8]) {
    assert!(at + bytes.len() <= span.len(), "write outside of given memory");
    if bytes.is_empty() {
        return;
    }
    // SAFETY: the giver keeps `span` valid for writes and untouched until it is reported complete or
    // revoked, which has not happened yet; the bounds were checked; `bytes` is our own memory.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), span.ptr().add(at), bytes.len()) }
}

/// Copies between the memories of two ranks, which are one process here.
///
/// Called only while both ranks are in a collective for which one has lent its memory.
pub(crate) fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: one side is memory that the calling rank owns for the length of the call, the other was lent
        // by its rank until the next meeting; two buffers that a rank lends and one that it owns do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
    }
}

/// Wakes every thread that sleeps on a word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: waking touches no memory; the address only names a queue in the kernel.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0usize, 0usize, 0u32)
    };
}
