//! This rank's own memory inside of an epoch.

use std::marker::PhantomData;

use super::Element;

/// This rank's memory while others may reach it too: values are copied in and out one by one, never borrowed.
///
/// What others write is seen as the epoch's rules say; a value that another rank writes at the same moment may be the
/// old one, the new one or, where it is no primitive, a mixture of both.
#[derive(Debug)]
pub struct Local<'e, T: Element> {
    base: *mut T,
    len: usize,
    epoch: PhantomData<&'e T>,
}

impl<T: Element> Local<'_, T> {
    /// # Safety
    /// `len` elements at `base` are mapped for as long as the value lives.
    pub(super) unsafe fn new<'e>(base: *mut T, len: usize) -> Local<'e, T> {
        Local { base, len, epoch: PhantomData }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[track_caller]
    fn at(&self, i: usize) -> *mut T {
        assert!(i < self.len, "element {i} of a window's part of {}", self.len);
        self.base.wrapping_add(i)
    }

    /// Element `i`.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn get(&self, i: usize) -> T {
        // SAFETY: inside the mapped part; any bytes are a value. Volatile: others may write.
        unsafe { self.at(i).read_volatile() }
    }

    /// Sets element `i`.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn set(&self, i: usize, value: T) {
        // SAFETY: as in `get`.
        unsafe { self.at(i).write_volatile(value) }
    }

    /// Copies elements from `first` on out.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn read(&self, first: usize, out: &mut [T]) {
        out.iter_mut().enumerate().for_each(|(i, to)| *to = self.get(first + i));
    }

    /// Copies elements in, to `first` and those after.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn write(&self, first: usize, values: &[T]) {
        values.iter().enumerate().for_each(|(i, from)| self.set(first + i, *from));
    }

    /// All elements.
    pub fn to_vec(&self) -> Vec<T> {
        (0..self.len).map(|i| self.get(i)).collect()
    }
}
