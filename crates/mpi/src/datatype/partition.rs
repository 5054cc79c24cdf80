//! Buffers cut into one part per rank, for collectives with varying counts.

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::os::raw::c_void;

use super::{AsDatatype, Buffer, BufferMut, Pointer, PointerMut};
use crate::Count;

/// A buffer cut into parts: part `i` has `counts()[i]` elements from element `displs()[i]` on.
pub trait Partitioned {
    /// Elements in each part.
    fn counts(&self) -> &[Count];
    /// Where each part starts, in elements.
    fn displs(&self) -> &[Count];

    /// Both without the limit of [`Count`], where they are known so; communication then uses these. See
    /// [`LargePartition`](crate::ext::LargePartition).
    fn large_parts(&self) -> Option<(&[usize], &[isize])> {
        None
    }
}

/// A partitioned buffer to send from.
pub trait PartitionedBuffer: Partitioned + Pointer + AsDatatype {}

/// A partitioned buffer to receive into.
pub trait PartitionedBufferMut: Partitioned + PointerMut + AsDatatype {}

/// Lengths and places, asked for once: safe code may give others when it is asked again, and these were looked at.
struct Parts {
    counts: Vec<Count>,
    displs: Vec<Count>,
}

impl Parts {
    /// # Panics
    /// If a part is not inside a buffer of so many elements.
    #[track_caller]
    fn inside(total: Count, counts: &[Count], displs: &[Count]) -> Parts {
        let parts = Parts { counts: counts.to_vec(), displs: displs.to_vec() };
        for (i, (&count, &displ)) in parts.counts.iter().zip(&parts.displs).enumerate() {
            let end = i64::from(count) + i64::from(displ);
            assert!(
                count >= 0 && displ >= 0 && end <= i64::from(total),
                "part {i} of the partition ({count} elements from {displ}) is not inside the buffer of {total} elements"
            );
        }
        parts
    }
}

/// Cuts a buffer to send from into parts.
pub struct Partition<'b, B: 'b + ?Sized, C, D> {
    buf: &'b B,
    parts: Parts,
    given: PhantomData<(C, D)>,
}

impl<'b, B, C, D> Partition<'b, B, C, D>
where
    B: ?Sized + 'b + Buffer,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    /// Cuts `buf` into parts of `counts` elements that start at `displs`.
    ///
    /// # Panics
    /// If a part is not inside the buffer.
    #[track_caller]
    #[allow(clippy::needless_pass_by_value, reason = "rsmpi's signature")]
    pub fn new(buf: &'b B, counts: C, displs: D) -> Self {
        let parts = Parts::inside(buf.count(), counts.borrow(), displs.borrow());
        Partition { buf, parts, given: PhantomData }
    }
}

// SAFETY: the buffer's own datatype.
unsafe impl<'b, B, C, D> AsDatatype for Partition<'b, B, C, D>
where
    B: ?Sized + 'b + AsDatatype,
{
    type Out = <B as AsDatatype>::Out;
    fn as_datatype(&self) -> Self::Out {
        self.buf.as_datatype()
    }
}

// SAFETY: the buffer's own address.
unsafe impl<'b, B, C, D> Pointer for Partition<'b, B, C, D>
where
    B: ?Sized + 'b + Pointer,
{
    fn pointer(&self) -> *const c_void {
        self.buf.pointer()
    }
}

impl<'b, B, C, D> Partitioned for Partition<'b, B, C, D>
where
    B: ?Sized + 'b,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    fn counts(&self) -> &[Count] {
        &self.parts.counts
    }
    fn displs(&self) -> &[Count] {
        &self.parts.displs
    }
}

impl<'b, B, C, D> PartitionedBuffer for Partition<'b, B, C, D>
where
    B: ?Sized + 'b + Pointer + AsDatatype,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
}

/// Cuts a buffer to receive into into parts.
pub struct PartitionMut<'b, B: 'b + ?Sized, C, D> {
    buf: &'b mut B,
    parts: Parts,
    given: PhantomData<(C, D)>,
}

impl<'b, B, C, D> PartitionMut<'b, B, C, D>
where
    B: ?Sized + 'b + BufferMut,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    /// Cuts `buf` into parts of `counts` elements that start at `displs`.
    ///
    /// # Panics
    /// If a part is not inside the buffer.
    #[track_caller]
    #[allow(clippy::needless_pass_by_value, reason = "rsmpi's signature")]
    pub fn new(buf: &'b mut B, counts: C, displs: D) -> Self {
        let parts = Parts::inside(buf.count(), counts.borrow(), displs.borrow());
        PartitionMut { buf, parts, given: PhantomData }
    }
}

// SAFETY: the buffer's own datatype.
unsafe impl<'b, B, C, D> AsDatatype for PartitionMut<'b, B, C, D>
where
    B: ?Sized + 'b + AsDatatype,
{
    type Out = <B as AsDatatype>::Out;
    fn as_datatype(&self) -> Self::Out {
        self.buf.as_datatype()
    }
}

// SAFETY: the buffer's own address.
unsafe impl<'b, B, C, D> PointerMut for PartitionMut<'b, B, C, D>
where
    B: ?Sized + 'b + PointerMut,
{
    fn pointer_mut(&mut self) -> *mut c_void {
        self.buf.pointer_mut()
    }
}

impl<'b, B, C, D> Partitioned for PartitionMut<'b, B, C, D>
where
    B: ?Sized + 'b,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    fn counts(&self) -> &[Count] {
        &self.parts.counts
    }
    fn displs(&self) -> &[Count] {
        &self.parts.displs
    }
}

impl<'b, B, C, D> PartitionedBufferMut for PartitionMut<'b, B, C, D>
where
    B: ?Sized + 'b + PointerMut + AsDatatype,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
}
