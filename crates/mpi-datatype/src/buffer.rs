//! Address, count and datatype: what every operation takes. To construct one is the unsafe act; all
//! that follows is safe.

use crate::{Datatype, DatatypeError, Primitive};
use std::marker::PhantomData;

pub(crate) static PACKED: Datatype = Datatype::predefined(Primitive::Packed);

/// Data to send: `count` elements of a datatype at an address.
#[derive(Clone, Copy, Debug)]
pub struct SendBuf<'a> {
    ptr: *const u8,
    count: usize,
    datatype: &'a Datatype,
}

/// Room to receive into: `count` elements of a datatype at an address.
///
/// A plain copyable value, like the three arguments of `MPI_Recv`: copies name the same memory. Whoever made it
/// promised that nobody else looks at that memory until the operation that takes it is complete; operations
/// that take two buffers say whether they may overlap.
#[derive(Clone, Copy, Debug)]
pub struct RecvBuf<'a> {
    ptr: *mut u8,
    count: usize,
    datatype: &'a Datatype,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: an address with a promise about the memory behind it, made at `new`, that names no thread.
unsafe impl Send for SendBuf<'_> {}
// SAFETY: as above; a shared one offers nothing that a copy does not.
unsafe impl Sync for SendBuf<'_> {}
// SAFETY: as above.
unsafe impl Send for RecvBuf<'_> {}
// SAFETY: as above.
unsafe impl Sync for RecvBuf<'_> {}

impl<'a> SendBuf<'a> {
    /// Names the memory.
    ///
    /// # Safety
    /// All bytes that the type map of `count` elements at `ptr` covers are initialised, valid for reads and
    /// unchanged until the operation that takes the buffer has completed, for an immediate operation
    /// when its request has. `ptr` may be anything when there are no such bytes.
    #[inline]
    pub const unsafe fn new(ptr: *const u8, count: usize, datatype: &'a Datatype) -> Self {
        SendBuf { ptr, count, datatype }
    }

    /// Bytes as packed data.
    #[inline]
    pub fn packed(bytes: &'a [u8]) -> Self {
        SendBuf { ptr: bytes.as_ptr(), count: bytes.len(), datatype: &PACKED }
    }

    /// Address of the first element's displacement 0.
    #[inline]
    pub const fn ptr(&self) -> *const u8 {
        self.ptr
    }
    /// Number of elements.
    #[inline]
    pub const fn count(&self) -> usize {
        self.count
    }
    /// Type of the elements.
    #[inline]
    pub const fn datatype(&self) -> &'a Datatype {
        self.datatype
    }
    /// Bytes of data, saturating: no buffer in memory comes near.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.count.saturating_mul(self.datatype.size())
    }
    /// The data, when it is one piece of memory as it stands on the wire.
    #[inline]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        if !self.datatype.is_contiguous() {
            return None;
        }
        let len = self.bytes();
        if len == 0 {
            return Some(&[]);
        }
        // SAFETY: `new`: the type map covers exactly these bytes, initialised and unchanged.
        Some(unsafe { std::slice::from_raw_parts(self.ptr, len) })
    }
    /// Elements `first .. first + count`.
    ///
    /// # Panics
    /// When they are not all inside: an error of the caller.
    #[inline]
    pub fn part(&self, first: usize, count: usize) -> SendBuf<'a> {
        check_part(first, count, self.count);
        SendBuf { ptr: self.ptr.wrapping_offset(displace(first, self.datatype)), count, ..*self }
    }
    /// Bytes `from .. from + len` of the data as packed data, when it is [contiguous](Self::contiguous).
    ///
    /// # Panics
    /// When they are not all inside: an error of the caller.
    pub fn byte_part(&self, from: usize, len: usize) -> Option<SendBuf<'a>> {
        self.contiguous().map(|bytes| SendBuf::packed(&bytes[from..from + len]))
    }
    /// The same without a lifetime, for an operation that outlives the call.
    pub fn to_mem(&self) -> SendMem {
        SendMem { ptr: self.ptr, count: self.count, datatype: self.datatype.clone() }
    }
}

impl<'a> RecvBuf<'a> {
    /// Names the memory.
    ///
    /// # Safety
    /// All bytes that the type map of `count` elements at `ptr` covers are initialised, valid for reads and
    /// writes, and looked at by nobody else until the operation that takes the buffer has completed, for an
    /// immediate operation when its request has. `ptr` may be anything when there are no such bytes.
    #[inline]
    pub const unsafe fn new(ptr: *mut u8, count: usize, datatype: &'a Datatype) -> Self {
        RecvBuf { ptr, count, datatype, memory: PhantomData }
    }

    /// Room for packed data.
    #[inline]
    pub fn packed(bytes: &'a mut [u8]) -> Self {
        RecvBuf { ptr: bytes.as_mut_ptr(), count: bytes.len(), datatype: &PACKED, memory: PhantomData }
    }

    /// Address of the first element's displacement 0.
    #[inline]
    pub const fn ptr(&self) -> *mut u8 {
        self.ptr
    }
    /// Number of elements.
    #[inline]
    pub const fn count(&self) -> usize {
        self.count
    }
    /// Type of the elements.
    #[inline]
    pub const fn datatype(&self) -> &'a Datatype {
        self.datatype
    }
    /// Bytes of data there is room for, saturating.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.count.saturating_mul(self.datatype.size())
    }
    /// Address and length in bytes of the room, when it is one piece of memory as data stands on the wire.
    #[inline]
    pub fn contiguous(&self) -> Option<(*mut u8, usize)> {
        if self.datatype.is_contiguous() { Some((self.ptr, self.bytes())) } else { None }
    }
    /// Elements `first .. first + count`.
    ///
    /// # Panics
    /// When they are not all inside: an error of the caller.
    #[inline]
    pub fn part(&self, first: usize, count: usize) -> RecvBuf<'a> {
        check_part(first, count, self.count);
        RecvBuf { ptr: self.ptr.wrapping_offset(displace(first, self.datatype)), count, ..*self }
    }
    /// Bytes `from .. from + len` of the room as packed data, when it is [contiguous](Self::contiguous).
    ///
    /// # Panics
    /// When they are not all inside: an error of the caller.
    pub fn byte_part(&self, from: usize, len: usize) -> Option<RecvBuf<'a>> {
        let (ptr, room) = self.contiguous()?;
        check_part(from, len, room);
        Some(RecvBuf { ptr: ptr.wrapping_add(from), count: len, datatype: &PACKED, memory: PhantomData })
    }
    /// What stands there, to be sent on.
    #[inline]
    pub const fn as_send(&self) -> SendBuf<'a> {
        SendBuf { ptr: self.ptr, count: self.count, datatype: self.datatype }
    }
    /// The same without a lifetime, for an operation that outlives the call.
    pub fn to_mem(&self) -> RecvMem {
        RecvMem { ptr: self.ptr, count: self.count, datatype: self.datatype.clone() }
    }
}

#[inline]
fn check_part(first: usize, count: usize, all: usize) {
    assert!(first <= all && count <= all - first, "elements {first}.. ({count}) of a buffer of {all}");
}

#[inline]
fn displace(first: usize, datatype: &Datatype) -> isize {
    (first as isize).wrapping_mul(datatype.extent())
}

/// A [`SendBuf`] that owns its datatype. The promise made at `SendBuf::new` holds until the operation that
/// keeps this has completed.
#[derive(Clone, Debug)]
pub struct SendMem {
    ptr: *const u8,
    count: usize,
    datatype: Datatype,
}

/// A [`RecvBuf`] that owns its datatype. The promise made at `RecvBuf::new` holds until the operation that
/// keeps this has completed.
#[derive(Clone, Debug)]
pub struct RecvMem {
    ptr: *mut u8,
    count: usize,
    datatype: Datatype,
}

// SAFETY: as for `SendBuf`.
unsafe impl Send for SendMem {}
// SAFETY: as for `SendBuf`.
unsafe impl Sync for SendMem {}
// SAFETY: as for `RecvBuf`.
unsafe impl Send for RecvMem {}
// SAFETY: as for `RecvBuf`.
unsafe impl Sync for RecvMem {}

impl SendMem {
    /// As a buffer.
    #[inline]
    pub fn buf(&self) -> SendBuf<'_> {
        SendBuf { ptr: self.ptr, count: self.count, datatype: &self.datatype }
    }
}

impl RecvMem {
    /// As a buffer.
    #[inline]
    pub fn buf(&self) -> RecvBuf<'_> {
        RecvBuf { ptr: self.ptr, count: self.count, datatype: &self.datatype, memory: PhantomData }
    }
}

/// Displacements of the blocks of a collective with varying counts.
#[derive(Clone, Copy, Debug)]
enum Types<'a> {
    /// One type, displacements in extents.
    One(&'a Datatype),
    /// A type per block, displacements in bytes.
    Each(&'a [Datatype]),
}

#[derive(Clone, Copy, Debug)]
struct Blocks<'a> {
    counts: &'a [usize],
    displacements: &'a [isize],
    types: Types<'a>,
}

impl<'a> Blocks<'a> {
    fn new(counts: &'a [usize], displacements: &'a [isize], types: Types<'a>) -> Result<Self, DatatypeError> {
        let lengths = |right, right_name| DatatypeError::Lengths {
            what: "blocks of a collective",
            left: counts.len(),
            left_name: "counts",
            right,
            right_name,
        };
        match types {
            _ if counts.len() != displacements.len() => Err(lengths(displacements.len(), "displacements")),
            Types::Each(t) if t.len() != counts.len() => Err(lengths(t.len(), "types")),
            _ => Ok(Blocks { counts, displacements, types }),
        }
    }

    /// Displacement in bytes, count and type of block `i`.
    fn get(&self, i: usize) -> (isize, usize, &'a Datatype) {
        match self.types {
            Types::One(t) => (self.displacements[i].wrapping_mul(t.extent()), self.counts[i], t),
            Types::Each(t) => (self.displacements[i], self.counts[i], &t[i]),
        }
    }
}

/// One block per rank to send: the `v` and `w` forms of collectives.
#[derive(Clone, Copy, Debug)]
pub struct SendBlocks<'a> {
    ptr: *const u8,
    blocks: Blocks<'a>,
}

/// One block per rank to receive into: the `v` and `w` forms of collectives.
#[derive(Clone, Copy, Debug)]
pub struct RecvBlocks<'a> {
    ptr: *mut u8,
    blocks: Blocks<'a>,
}

// SAFETY: as for `SendBuf`.
unsafe impl Send for SendBlocks<'_> {}
// SAFETY: as for `RecvBuf`.
unsafe impl Send for RecvBlocks<'_> {}

impl<'a> SendBlocks<'a> {
    /// Block `i`: `counts[i]` elements at `displacements[i]` extents from `ptr`.
    ///
    /// # Safety
    /// As [`SendBuf::new`] for every block.
    ///
    /// # Errors
    /// Arrays of different lengths.
    pub unsafe fn new(
        ptr: *const u8,
        counts: &'a [usize],
        displacements: &'a [isize],
        datatype: &'a Datatype,
    ) -> Result<Self, DatatypeError> {
        Ok(SendBlocks { ptr, blocks: Blocks::new(counts, displacements, Types::One(datatype))? })
    }
    /// Block `i`: `counts[i]` elements of `datatypes[i]` at `displacements[i]` bytes from `ptr`.
    ///
    /// # Safety
    /// As [`SendBuf::new`] for every block.
    ///
    /// # Errors
    /// Arrays of different lengths.
    pub unsafe fn with_types(
        ptr: *const u8,
        counts: &'a [usize],
        displacements: &'a [isize],
        datatypes: &'a [Datatype],
    ) -> Result<Self, DatatypeError> {
        Ok(SendBlocks { ptr, blocks: Blocks::new(counts, displacements, Types::Each(datatypes))? })
    }
    /// Number of blocks.
    pub const fn len(&self) -> usize {
        self.blocks.counts.len()
    }
    /// True without blocks.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Block `i`.
    ///
    /// # Panics
    /// When there is none: an error of the caller.
    pub fn block(&self, i: usize) -> SendBuf<'a> {
        let (at, count, datatype) = self.blocks.get(i);
        SendBuf { ptr: self.ptr.wrapping_offset(at), count, datatype }
    }
}

impl<'a> RecvBlocks<'a> {
    /// Block `i`: room for `counts[i]` elements at `displacements[i]` extents from `ptr`.
    ///
    /// # Safety
    /// As [`RecvBuf::new`] for every block; blocks do not overlap.
    ///
    /// # Errors
    /// Arrays of different lengths.
    pub unsafe fn new(
        ptr: *mut u8,
        counts: &'a [usize],
        displacements: &'a [isize],
        datatype: &'a Datatype,
    ) -> Result<Self, DatatypeError> {
        Ok(RecvBlocks { ptr, blocks: Blocks::new(counts, displacements, Types::One(datatype))? })
    }
    /// Block `i`: room for `counts[i]` elements of `datatypes[i]` at `displacements[i]` bytes from `ptr`.
    ///
    /// # Safety
    /// As [`RecvBuf::new`] for every block; blocks do not overlap.
    ///
    /// # Errors
    /// Arrays of different lengths.
    pub unsafe fn with_types(
        ptr: *mut u8,
        counts: &'a [usize],
        displacements: &'a [isize],
        datatypes: &'a [Datatype],
    ) -> Result<Self, DatatypeError> {
        Ok(RecvBlocks { ptr, blocks: Blocks::new(counts, displacements, Types::Each(datatypes))? })
    }
    /// Number of blocks.
    pub const fn len(&self) -> usize {
        self.blocks.counts.len()
    }
    /// True without blocks.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Block `i`.
    ///
    /// # Panics
    /// When there is none: an error of the caller.
    pub fn block(&self, i: usize) -> RecvBuf<'a> {
        let (at, count, datatype) = self.blocks.get(i);
        RecvBuf { ptr: self.ptr.wrapping_offset(at), count, datatype, memory: PhantomData }
    }
}
