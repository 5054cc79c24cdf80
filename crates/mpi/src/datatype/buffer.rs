//! Memory that messages come from and go to.

use std::os::raw::c_void;

use mpi_datatype::{RecvBuf, SendBuf};

use super::{AsDatatype, Equivalence, core_type};
use crate::Count;

/// Something that holds a number of elements.
///
/// # Safety
/// The count must not promise more elements than there are.
pub unsafe trait Collection {
    /// How many elements.
    ///
    /// # Panics
    /// If there are more than [`Count`] can say. Communication itself has no such limit.
    fn count(&self) -> Count;

    /// How many elements, without the limit of [`Count`]: this is what communication uses.
    #[inline(always)]
    fn count_usize(&self) -> usize {
        usize::try_from(self.count()).expect("a buffer cannot hold a negative number of elements")
    }
}

/// Something that has an address to send from.
///
/// # Safety
/// With the count and the datatype, the memory must be readable.
pub unsafe trait Pointer {
    /// Where the first element is.
    fn pointer(&self) -> *const c_void;
}

/// Something that has an address to receive at.
///
/// # Safety
/// With the count and the datatype, the memory must be writable.
pub unsafe trait PointerMut {
    /// Where the first element is.
    fn pointer_mut(&mut self) -> *mut c_void;
}

/// Memory that can be sent: a value, slice, array, vector or view.
///
/// # Safety
/// Address, count and datatype together must describe memory that is readable while `self` is borrowed.
pub unsafe trait Buffer: Pointer + Collection + AsDatatype {}

/// Memory that can be received into: a value, slice, array, vector or view.
///
/// # Safety
/// Address, count and datatype together must describe memory that is writable while `self` is mutably borrowed.
pub unsafe trait BufferMut: PointerMut + Collection + AsDatatype {}

fn as_count(len: usize) -> Count {
    Count::try_from(len).unwrap_or_else(|_| panic!("{len} elements are more than a Count can say"))
}

// SAFETY: one value is one element.
unsafe impl<T> Collection for T
where
    T: Equivalence,
{
    #[inline(always)]
    fn count(&self) -> Count {
        1
    }
}
// SAFETY: the address is the value's own.
unsafe impl<T> Pointer for T
where
    T: Equivalence,
{
    #[inline(always)]
    fn pointer(&self) -> *const c_void {
        (&raw const *self).cast()
    }
}
// SAFETY: the address is the value's own.
unsafe impl<T> PointerMut for T
where
    T: Equivalence,
{
    #[inline(always)]
    fn pointer_mut(&mut self) -> *mut c_void {
        (&raw mut *self).cast()
    }
}
// SAFETY: `Equivalence` promises that the datatype describes the value.
unsafe impl<T> Buffer for T where T: Equivalence {}
// SAFETY: as above.
unsafe impl<T> BufferMut for T where T: Equivalence {}

macro_rules! buffer_of_many {
    ([$($generics:tt)*] $type:ty) => {
        // SAFETY: the length is the container's own.
        unsafe impl<$($generics)*> Collection for $type
        where
            T: Equivalence,
        {
            #[inline(always)]
            fn count(&self) -> Count {
                as_count(self.len())
            }
            #[inline(always)]
            fn count_usize(&self) -> usize {
                self.len()
            }
        }
        // SAFETY: the address is the container's own.
        unsafe impl<$($generics)*> Pointer for $type
        where
            T: Equivalence,
        {
            #[inline(always)]
            fn pointer(&self) -> *const c_void {
                self.as_ptr().cast()
            }
        }
        // SAFETY: the address is the container's own.
        unsafe impl<$($generics)*> PointerMut for $type
        where
            T: Equivalence,
        {
            #[inline(always)]
            fn pointer_mut(&mut self) -> *mut c_void {
                self.as_mut_ptr().cast()
            }
        }
        // SAFETY: elements lie one after another, as `Equivalence` describes each.
        unsafe impl<$($generics)*> Buffer for $type where T: Equivalence {}
        // SAFETY: as above.
        unsafe impl<$($generics)*> BufferMut for $type where T: Equivalence {}
    };
}

buffer_of_many!([T][T]);
buffer_of_many!([T] Vec<T>);
buffer_of_many!([T, const D: usize] [T; D]);

/// What the layers below take to send `buf`. `datatype` is `buf.as_datatype()`, kept alive by the caller.
#[inline(always)]
pub(crate) fn send_buf<'a, B: Buffer + ?Sized>(buf: &B, datatype: &'a B::Out) -> SendBuf<'a> {
    // SAFETY: `Buffer` promises that address, count and datatype describe readable memory while `buf` is borrowed;
    // blocking callers hold the borrow through the call, immediate ones bind it to the request.
    unsafe { SendBuf::new(buf.pointer().cast(), buf.count_usize(), core_type(datatype)) }
}

/// What the layers below take to receive into `buf`.
#[inline(always)]
pub(crate) fn recv_buf<'a, B: BufferMut + ?Sized>(buf: &mut B, datatype: &'a B::Out) -> RecvBuf<'a> {
    // SAFETY: as for `send_buf`, with writable memory and a mutable borrow.
    unsafe { RecvBuf::new(buf.pointer_mut().cast(), buf.count_usize(), core_type(datatype)) }
}
