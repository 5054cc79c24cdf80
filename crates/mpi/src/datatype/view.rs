//! A datatype laid over a buffer.

use std::os::raw::c_void;

use super::{AsDatatype, Buffer, BufferMut, Collection, Datatype, Pointer, PointerMut};
use crate::Count;

/// Elements of a datatype, read from another buffer's memory.
pub struct View<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + Pointer,
{
    datatype: &'d D,
    count: Count,
    buffer: &'b B,
}

impl<'d, 'b, D, B> View<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + Pointer,
{
    /// `count` elements of `datatype`, from where `buffer` starts.
    ///
    /// # Safety
    /// All of them must lie in the buffer, and be what the datatype says.
    pub unsafe fn with_count_and_datatype(
        buffer: &'b B,
        count: Count,
        datatype: &'d D,
    ) -> View<'d, 'b, D, B> {
        View { datatype, count, buffer }
    }
}

// SAFETY: the maker of the view promised it.
unsafe impl<'d, 'b, D, B> AsDatatype for View<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + Pointer,
{
    type Out = &'d D;
    fn as_datatype(&self) -> Self::Out {
        self.datatype
    }
}

// SAFETY: the maker of the view promised it.
unsafe impl<'d, 'b, D, B> Collection for View<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + Pointer,
{
    fn count(&self) -> Count {
        self.count
    }
}

// SAFETY: the buffer's own address.
unsafe impl<'d, 'b, D, B> Pointer for View<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + Pointer,
{
    fn pointer(&self) -> *const c_void {
        self.buffer.pointer()
    }
}

// SAFETY: the maker of the view promised it.
unsafe impl<'d, 'b, D, B> Buffer for View<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + Pointer,
{
}

/// Elements of a datatype, written to another buffer's memory.
pub struct MutView<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + PointerMut,
{
    datatype: &'d D,
    count: Count,
    buffer: &'b mut B,
}

impl<'d, 'b, D, B> MutView<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + PointerMut,
{
    /// `count` elements of `datatype`, from where `buffer` starts.
    ///
    /// # Safety
    /// All of them must lie in the buffer, and be what the datatype says.
    pub unsafe fn with_count_and_datatype(
        buffer: &'b mut B,
        count: Count,
        datatype: &'d D,
    ) -> MutView<'d, 'b, D, B> {
        MutView { datatype, count, buffer }
    }
}

// SAFETY: the maker of the view promised it.
unsafe impl<'d, 'b, D, B> AsDatatype for MutView<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + PointerMut,
{
    type Out = &'d D;
    fn as_datatype(&self) -> Self::Out {
        self.datatype
    }
}

// SAFETY: the maker of the view promised it.
unsafe impl<'d, 'b, D, B> Collection for MutView<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + PointerMut,
{
    fn count(&self) -> Count {
        self.count
    }
}

// SAFETY: the buffer's own address.
unsafe impl<'d, 'b, D, B> PointerMut for MutView<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + PointerMut,
{
    fn pointer_mut(&mut self) -> *mut c_void {
        self.buffer.pointer_mut()
    }
}

// SAFETY: the maker of the view promised it.
unsafe impl<'d, 'b, D, B> BufferMut for MutView<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: ?Sized + 'b + PointerMut,
{
}
