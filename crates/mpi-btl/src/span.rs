//! A piece of memory named by address and length.

/// Memory that somebody promised to keep valid: an address and a length in bytes.
///
/// A span is a plain value; the promise is made by whoever hands it over and is written down at
/// the function that takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: a span is an address and a length; every dereference is unsafe and carries its own proof.
unsafe impl Send for Span {}
// SAFETY: as above; a shared span offers nothing that a copied one does not.
unsafe impl Sync for Span {}

impl Span {
    /// The span of `len` bytes at `ptr`.
    pub const fn new(ptr: *mut u8, len: usize) -> Span {
        Span { ptr, len }
    }
    /// Address of the first byte.
    pub const fn ptr(self) -> *mut u8 {
        self.ptr
    }
    /// Length in bytes.
    pub const fn len(self) -> usize {
        self.len
    }
    /// True when the span has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
    /// The part from byte `offset` (at most the length) to the end.
    ///
    /// # Panics
    /// When `offset` lies outside: an error of the caller, never of a peer.
    pub fn after(self, offset: usize) -> Span {
        assert!(offset <= self.len, "offset {offset} outside a span of {} bytes", self.len);
        Span { ptr: self.ptr.wrapping_add(offset), len: self.len - offset }
    }
}
