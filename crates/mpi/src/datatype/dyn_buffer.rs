//! Buffers whose element type is known at run time only.

use std::os::raw::c_void;
use std::slice;

use super::{
    AsDatatype, Buffer, BufferMut, Collection, DatatypeRef, Equivalence, Pointer, PointerMut, core_type,
};
use crate::Count;
use crate::raw::traits::*;

/// Elements of some datatype, to read. User-defined reductions get their input as one.
#[derive(Copy, Clone, Debug)]
pub struct DynBuffer<'a> {
    ptr: *const c_void,
    len: usize,
    datatype: DatatypeRef<'a>,
}

/// Elements of some datatype, to write. User-defined reductions get their result as one.
#[derive(Debug)]
pub struct DynBufferMut<'a> {
    ptr: *mut c_void,
    len: usize,
    datatype: DatatypeRef<'a>,
}

// SAFETY: it is a slice in all but name, and every element type is plain data.
unsafe impl Send for DynBuffer<'_> {}
// SAFETY: as above.
unsafe impl Sync for DynBuffer<'_> {}
// SAFETY: as above.
unsafe impl Send for DynBufferMut<'_> {}
// SAFETY: as above.
unsafe impl Sync for DynBufferMut<'_> {}

macro_rules! dyn_buffer {
    ($name:ident) => {
        // SAFETY: the maker of the buffer promised it.
        unsafe impl<'a> AsDatatype for $name<'a> {
            type Out = DatatypeRef<'a>;
            fn as_datatype(&self) -> Self::Out {
                self.datatype
            }
        }

        // SAFETY: the maker of the buffer promised it.
        unsafe impl Collection for $name<'_> {
            fn count(&self) -> Count {
                Count::try_from(self.len)
                    .unwrap_or_else(|_| panic!("{} elements are more than a Count can say", self.len))
            }
            fn count_usize(&self) -> usize {
                self.len
            }
        }

        // SAFETY: the maker of the buffer promised it.
        unsafe impl Pointer for $name<'_> {
            fn pointer(&self) -> *const c_void {
                self.ptr
            }
        }

        // SAFETY: the maker of the buffer promised it.
        unsafe impl Buffer for $name<'_> {}

        impl<'a> $name<'a> {
            /// Whether the elements are of type `T`.
            pub fn is<T: Equivalence>(&self) -> bool {
                core_type(&self.datatype).same(core_type(&T::equivalent_datatype()))
            }

            /// How many elements.
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Where the first element is.
            pub fn as_ptr(&self) -> *const c_void {
                self.ptr
            }
        }
    };
}

dyn_buffer!(DynBuffer);
dyn_buffer!(DynBufferMut);

// SAFETY: the maker of the buffer promised it.
unsafe impl PointerMut for DynBufferMut<'_> {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.ptr
    }
}

// SAFETY: the maker of the buffer promised it.
unsafe impl BufferMut for DynBufferMut<'_> {}

impl<'a> DynBuffer<'a> {
    /// The elements of a slice, their type forgotten.
    pub fn new<T: Equivalence>(buf: &'a [T]) -> Self {
        // SAFETY: address and length are the slice's own; a type's datatype lives as long as its users.
        unsafe {
            let datatype = DatatypeRef::from_raw(T::equivalent_datatype().as_raw());
            DynBuffer { ptr: buf.as_ptr().cast(), len: buf.len(), datatype }
        }
    }

    /// The elements as a slice, if they are of type `T`.
    pub fn downcast<T: Equivalence>(self) -> Option<&'a [T]> {
        // SAFETY: the elements are `T`s, `len` of them, borrowed for `'a`.
        self.is::<T>().then(|| unsafe { slice::from_raw_parts(self.ptr.cast(), self.len) })
    }

    /// `len` elements of `datatype` at `ptr`.
    ///
    /// # Safety
    /// They must be there, aligned, and stay unchanged for `'a`; so must the datatype.
    pub unsafe fn from_raw<T>(ptr: *const T, len: Count, datatype: DatatypeRef<'a>) -> Self {
        debug_assert!(!ptr.is_null());
        let len = usize::try_from(len).expect("a buffer cannot hold a negative number of elements");
        Self { ptr: ptr.cast(), len, datatype }
    }

    /// As [`from_raw`](Self::from_raw), without the limit of [`Count`].
    ///
    /// # Safety
    /// As there.
    #[cfg_attr(not(feature = "user-operations"), allow(dead_code))]
    pub(crate) unsafe fn from_parts(ptr: *const c_void, len: usize, datatype: DatatypeRef<'a>) -> Self {
        Self { ptr, len, datatype }
    }
}

impl<'a> DynBufferMut<'a> {
    /// The elements of a slice, their type forgotten.
    pub fn new<T: Equivalence>(buf: &'a mut [T]) -> Self {
        // SAFETY: address and length are the slice's own; a type's datatype lives as long as its users.
        unsafe {
            let datatype = DatatypeRef::from_raw(T::equivalent_datatype().as_raw());
            DynBufferMut { ptr: buf.as_mut_ptr().cast(), len: buf.len(), datatype }
        }
    }

    /// The elements as a slice, if they are of type `T`.
    pub fn downcast<T: Equivalence>(self) -> Option<&'a mut [T]> {
        // SAFETY: the elements are `T`s, `len` of them, borrowed mutably for `'a`.
        self.is::<T>().then(|| unsafe { slice::from_raw_parts_mut(self.ptr.cast(), self.len) })
    }

    /// `len` elements of `datatype` at `ptr`.
    ///
    /// # Safety
    /// They must be there, aligned, and reachable through nothing else for `'a`; the datatype must live as long.
    pub unsafe fn from_raw<T>(ptr: *mut T, len: Count, datatype: DatatypeRef<'a>) -> Self {
        debug_assert!(!ptr.is_null());
        let len = usize::try_from(len).expect("a buffer cannot hold a negative number of elements");
        Self { ptr: ptr.cast(), len, datatype }
    }

    /// As [`from_raw`](Self::from_raw), without the limit of [`Count`].
    ///
    /// # Safety
    /// As there.
    #[cfg_attr(not(feature = "user-operations"), allow(dead_code))]
    pub(crate) unsafe fn from_parts(ptr: *mut c_void, len: usize, datatype: DatatypeRef<'a>) -> Self {
        Self { ptr, len, datatype }
    }

    /// Where the first element is.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.ptr
    }

    /// Borrows the elements to read.
    pub fn reborrow(&self) -> DynBuffer<'_> {
        DynBuffer { ptr: self.ptr, len: self.len, datatype: self.datatype }
    }

    /// Borrows the elements to write.
    pub fn reborrow_mut(&mut self) -> DynBufferMut<'_> {
        DynBufferMut { ptr: self.ptr, len: self.len, datatype: self.datatype }
    }

    /// Gives up writing.
    pub fn downgrade(self) -> DynBuffer<'a> {
        DynBuffer { ptr: self.ptr, len: self.len, datatype: self.datatype }
    }
}
