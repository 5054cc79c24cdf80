//! Temporaries with the layout of a datatype, for algorithms above that have no `unsafe`.

use crate::buffer::PACKED;
use crate::limits::SCRATCH_ALIGN_BYTES;
use crate::pool::Block;
use crate::{Datatype, DatatypeError, RecvBuf, SendBuf};
use std::alloc::Layout;

/// Owned memory for `count` elements of a datatype, of any content at first.
///
/// The buffers it hands out name its memory: an immediate operation that takes one is to complete
/// before the scratch is dropped, as with any memory.
#[derive(Debug)]
pub struct Scratch {
    /// `None` without data.
    memory: Option<Block>,
    /// Address of displacement 0 of the first element.
    origin: *mut u8,
    count: usize,
    datatype: Datatype,
}

// SAFETY: it owns its memory.
unsafe impl Send for Scratch {}
// SAFETY: a shared scratch gives out buffers, whose users answer for their accesses.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Room for `count` elements.
    ///
    /// # Errors
    /// A span that overflows the address space; no memory.
    pub fn new(count: usize, datatype: &Datatype) -> Result<Scratch, DatatypeError> {
        let overflow = DatatypeError::Overflow { what: "span of a temporary" };
        let (first, past) = span(count, datatype).ok_or_else(|| overflow.clone())?;
        let align = SCRATCH_ALIGN_BYTES as isize;
        // Displacement 0 is aligned: start at a multiple below the first byte of data.
        let start = first.div_euclid(align) * align;
        let layout =
            Layout::from_size_align((past - start) as usize, SCRATCH_ALIGN_BYTES).map_err(|_| overflow)?;
        let memory = match layout.size() {
            0 => None,
            bytes => Some(Block::get(layout).ok_or(DatatypeError::Memory { bytes })?),
        };
        let base = memory.as_ref().map_or(std::ptr::without_provenance_mut(SCRATCH_ALIGN_BYTES), Block::ptr);
        Ok(Scratch { memory, origin: base.wrapping_offset(-start), count, datatype: datatype.clone() })
    }

    /// Room for `len` bytes of packed data.
    ///
    /// # Errors
    /// A length that overflows the address space; no memory.
    pub fn packed(len: usize) -> Result<Scratch, DatatypeError> {
        Scratch::new(len, &PACKED)
    }

    /// What stands in it.
    #[inline]
    pub fn send(&self) -> SendBuf<'_> {
        self.recv().as_send()
    }

    /// Its room.
    #[inline]
    pub fn recv(&self) -> RecvBuf<'_> {
        // SAFETY: the memory covers the span of `count` elements, initialised, and is owned.
        unsafe { RecvBuf::new(self.origin, self.count, &self.datatype) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(block) = self.memory.take() {
            block.give_back();
        }
    }
}

/// A temporary of at most `N` bytes on the stack, for contiguous types.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct SmallScratch<const N: usize>([u8; N]);

impl<const N: usize> Default for SmallScratch<N> {
    fn default() -> Self {
        SmallScratch([0; N])
    }
}

impl<const N: usize> SmallScratch<N> {
    /// Room for `count` elements, if they are contiguous and fit.
    #[inline]
    pub fn room<'a>(&'a mut self, count: usize, datatype: &'a Datatype) -> Option<RecvBuf<'a>> {
        // In memory, whatever the byte order on the wire.
        let fits = datatype.is_dense() && count.saturating_mul(datatype.size()) <= N;
        // SAFETY: the elements are `count * size` bytes from displacement 0, inside of the array, which is
        // borrowed for as long as the buffer.
        fits.then(|| unsafe { RecvBuf::new(self.0.as_mut_ptr(), count, datatype) })
    }
}

/// First byte of data of `count` elements and the end of the last, as displacements.
fn span(count: usize, datatype: &Datatype) -> Option<(isize, isize)> {
    if count == 0 || datatype.size() == 0 {
        return Some((0, 0));
    }
    let last = isize::try_from(count - 1).ok()?.checked_mul(datatype.extent())?;
    let first = datatype.true_lb().checked_add(last.min(0))?;
    let past = datatype.true_lb().checked_add(datatype.true_extent())?.checked_add(last.max(0))?;
    // Keep the difference and the rounding far from the edge.
    (first > isize::MIN / 4 && past < isize::MAX / 4).then_some((first, past))
}
