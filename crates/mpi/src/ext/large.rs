//! Counts beyond 2^31 (MPI-4.1 §2.5.8).
//!
//! Lengths of buffers have no limit here, but rsmpi's partitions and statuses speak of [`Count`], a C `int`.

use std::os::raw::c_void;

use crate::Count;
use crate::datatype::core_type;
use crate::datatype::traits::*;
use crate::point_to_point::Status;

/// Cuts a buffer into parts whose lengths and places may be beyond 2^31, for the operations named `varcount`.
///
/// ```no_run
/// use mpi::ext::LargePartition;
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let ranks = world.size() as usize;
/// let each = (1_usize << 31) + 8;
/// let mut all = vec![0_u8; ranks * each];
/// let starts: Vec<usize> = (0..ranks).map(|rank| rank * each).collect();
/// let mut parts = LargePartition::new_mut(&mut all[..], vec![each; ranks], starts);
/// world.all_gather_varcount_into(&vec![1_u8; each][..], &mut parts);
/// ```
pub struct LargePartition<B> {
    buf: B,
    counts: Vec<usize>,
    displs: Vec<isize>,
}

impl<'b, B: ?Sized + Buffer> LargePartition<&'b B> {
    /// Cuts `buf` into parts of `counts` elements that start at `displs`, to send from.
    ///
    /// # Panics
    /// If a part is not inside the buffer, or there is not one place for each part.
    #[track_caller]
    pub fn new(buf: &'b B, counts: Vec<usize>, displs: Vec<usize>) -> Self {
        let displs = inside(buf.count_usize(), &counts, &displs);
        LargePartition { buf, counts, displs }
    }
}

impl<'b, B: ?Sized + BufferMut> LargePartition<&'b mut B> {
    /// Cuts `buf` into parts of `counts` elements that start at `displs`, to receive into.
    ///
    /// # Panics
    /// If a part is not inside the buffer, or there is not one place for each part.
    #[track_caller]
    pub fn new_mut(buf: &'b mut B, counts: Vec<usize>, displs: Vec<usize>) -> Self {
        let displs = inside(buf.count_usize(), &counts, &displs);
        LargePartition { buf, counts, displs }
    }
}

#[track_caller]
fn inside(total: usize, counts: &[usize], displs: &[usize]) -> Vec<isize> {
    assert_eq!(counts.len(), displs.len(), "every part needs its place, and every place a part");
    for (i, (&count, &displ)) in counts.iter().zip(displs).enumerate() {
        assert!(
            displ.checked_add(count).is_some_and(|end| end <= total),
            "part {i} of the partition ({count} elements from {displ}) is not inside the buffer of {total} elements"
        );
    }
    displs.iter().map(|displ| *displ as isize).collect()
}

impl<B> Partitioned for LargePartition<B> {
    /// None: they may be beyond a [`Count`].
    fn counts(&self) -> &[Count] {
        &[]
    }
    /// None: they may be beyond a [`Count`].
    fn displs(&self) -> &[Count] {
        &[]
    }
    fn large_parts(&self) -> Option<(&[usize], &[isize])> {
        Some((&self.counts, &self.displs))
    }
}

// SAFETY: the buffer's own datatype.
unsafe impl<B: ?Sized + AsDatatype> AsDatatype for LargePartition<&B> {
    type Out = B::Out;
    fn as_datatype(&self) -> Self::Out {
        self.buf.as_datatype()
    }
}

// SAFETY: the buffer's own datatype.
unsafe impl<B: ?Sized + AsDatatype> AsDatatype for LargePartition<&mut B> {
    type Out = B::Out;
    fn as_datatype(&self) -> Self::Out {
        self.buf.as_datatype()
    }
}

// SAFETY: the buffer's own address.
unsafe impl<B: ?Sized + Pointer> Pointer for LargePartition<&B> {
    fn pointer(&self) -> *const c_void {
        self.buf.pointer()
    }
}

// SAFETY: the buffer's own address.
unsafe impl<B: ?Sized + PointerMut> PointerMut for LargePartition<&mut B> {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.buf.pointer_mut()
    }
}

impl<B: ?Sized + Buffer> PartitionedBuffer for LargePartition<&B> {}
impl<B: ?Sized + BufferMut> PartitionedBufferMut for LargePartition<&mut B> {}

/// What a status says without the limit of [`Count`].
pub trait LargeStatus {
    /// How many elements of the datatype the message holds; none where it holds no whole number of them
    /// (`MPI_Get_count_c`).
    fn count_usize<D: Datatype>(&self, datatype: D) -> Option<usize>;
}

impl LargeStatus for Status {
    fn count_usize<D: Datatype>(&self, datatype: D) -> Option<usize> {
        self.elements(core_type(&datatype).size()).and_then(|count| usize::try_from(count).ok())
    }
}
