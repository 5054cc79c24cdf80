//! The user's memory behind a running operation. One of the files with `unsafe`.
//!
//! Whoever made the `SendBuf` or `RecvBuf` promised that the memory stays valid, and that nobody
//! else touches it in a conflicting way, until the operation that takes it has completed. This
//! file turns the buffers into owned values that live in a request and relies on that promise.

use crate::record;
use mpi_btl::{BtlTx, Ep, OpId, RegionKey, RemoteError, Sent, Span};
use mpi_datatype::{Datatype, RecvBuf, SendBuf};

/// Memory without gaps, or only its packed size where it has some.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    ptr: *mut u8,
    /// Bytes of data.
    pub bytes: usize,
    /// The bytes lie at `ptr` in order, and every bit pattern is a value: copying is all there is.
    pub plain: bool,
}

// SAFETY: an address and a length; who dereferences them relies on the promise of the buffer,
// which binds no thread.
unsafe impl Send for Memory {}

impl Memory {
    pub const NOTHING: Memory = Memory { ptr: std::ptr::null_mut(), bytes: 0, plain: true };

    #[inline]
    pub fn of_send(buf: &SendBuf<'_>) -> Memory {
        Memory { ptr: buf.ptr().cast_mut(), bytes: buf.bytes(), plain: buf.datatype().is_contiguous() }
    }

    #[inline]
    pub fn of_recv(buf: &RecvBuf<'_>) -> Memory {
        let datatype = buf.datatype();
        let plain = datatype.is_contiguous() && !datatype.needs_validation();
        Memory { ptr: buf.ptr(), bytes: buf.bytes(), plain }
    }

    /// No memory yet: nothing but an empty message fits, and all others take the way of memory that is not plain.
    pub const LATE: Memory = Memory { ptr: std::ptr::null_mut(), bytes: 0, plain: false };

    /// Memory that the request itself owns.
    pub fn of_owned(owned: &mut [u8]) -> Memory {
        Memory { ptr: owned.as_mut_ptr(), bytes: owned.len(), plain: true }
    }

    /// The data of a plain send buffer.
    #[inline]
    pub fn slice<'a>(self) -> &'a [u8] {
        debug_assert!(self.plain);
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: plain memory has `bytes` bytes at `ptr`, valid for reads while the operation
        // runs; the slice is used within one step of it.
        unsafe { std::slice::from_raw_parts(self.ptr, self.bytes) }
    }

    /// Copies into plain receive memory at `offset`; what reaches beyond the end is a bug of this
    /// crate, found here.
    #[inline]
    pub fn fill(self, offset: usize, bytes: &[u8]) {
        assert!(self.plain && bytes.len() <= self.bytes && offset <= self.bytes - bytes.len());
        if !bytes.is_empty() {
            // SAFETY: just checked; the memory is the operation's alone, so the ranges are disjoint
            // unless the user sends a buffer into itself, which `copy_bytes` allows.
            unsafe { copy_bytes(bytes.as_ptr(), self.ptr.add(offset), bytes.len()) }
        }
    }

    /// The part of plain memory from `offset`, `len` long.
    pub fn span(self, offset: usize, len: usize) -> Span {
        assert!(self.plain && len <= self.bytes && offset <= self.bytes - len);
        Span::new(self.ptr.wrapping_add(offset), len)
    }
}

impl Memory {
    /// Lets `f` write the first `len` bytes of plain receive memory.
    pub fn receive_packed(self, f: impl FnOnce(&mut [u8]), len: usize) {
        assert!(self.plain && len <= self.bytes);
        if len > 0 {
            // SAFETY: just checked; the memory is the operation's alone and initialised, as its
            // buffer's maker promised.
            f(unsafe { std::slice::from_raw_parts_mut(self.ptr, len) });
        }
    }
}

/// A buffer of `count` elements at memory that [`Engine::irecv_alloc`](crate::Engine::irecv_alloc) was promised.
pub(crate) fn given<'a>(at: *mut u8, count: usize, datatype: &'a Datatype) -> RecvBuf<'a> {
    // SAFETY: whoever started the receive promised that what it gives is valid for so many bytes' elements until the
    // operation has completed.
    unsafe { RecvBuf::new(at, count, datatype) }
}

/// [`BtlTx::get`] into memory of a running receive, or into a piece that its request owns: nobody
/// touches either until the operation is complete, and the request lives as long.
pub(crate) fn get(
    tx: &mut dyn BtlTx,
    ep: Ep,
    key: &RegionKey,
    offset: u64,
    into: Span,
    op: OpId,
    last: bool,
) -> Result<Sent, RemoteError> {
    let copying = record::copying(into.len());
    // SAFETY: as said above; the only callers are in `rendezvous.rs`.
    let sent = unsafe { tx.get(ep, key, offset, into, op, last) };
    record::copied(copying);
    sent
}

/// Copies; a few bytes without a call, all of them loaded before the first is stored.
///
/// # Safety
/// `len` bytes are valid for reads at `from` and for writes at `to`. They may overlap.
#[inline]
unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; in each case the last word ends at `len`.
    unsafe {
        match len {
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            9..=16 => {
                let (a, b) =
                    (from.cast::<u64>().read_unaligned(), from.add(len - 8).cast::<u64>().read_unaligned());
                to.cast::<u64>().write_unaligned(a);
                to.add(len - 8).cast::<u64>().write_unaligned(b);
            }
            _ => {
                let copying = record::copying(len);
                std::ptr::copy(from, to, len);
                record::copied(copying);
            }
        }
    }
}
