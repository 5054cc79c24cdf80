//! Between the safe types and the handles of [`ffi`](crate::ffi).
//!
//! Every object of MPI has a handle: a small `Copy` value that names it and owns nothing. The safe types own an
//! object or borrow it; these traits lend its handle out and take one back.

/// The traits of this module, for a glob import.
pub mod traits {
    pub use super::{AsRaw, AsRawMut, FromRaw, MatchesRaw};
}

/// Lends the handle of the object that a value owns or borrows.
///
/// # Safety
/// The handle must name a live object of MPI for as long as `self` lives: safe functions follow it without a check.
pub unsafe trait AsRaw {
    /// Which kind of handle.
    type Raw;
    /// The handle. It is a copy: using it after `self` is gone is the caller's mistake.
    fn as_raw(&self) -> Self::Raw;
}

// SAFETY: the referent lives at least as long as the reference, so its promise carries over.
unsafe impl<'a, T> AsRaw for &'a T
where
    T: 'a + AsRaw,
{
    type Raw = <T as AsRaw>::Raw;
    #[inline(always)]
    fn as_raw(&self) -> Self::Raw {
        (**self).as_raw()
    }
}

/// Lends a pointer to the handle itself, for calls that replace it (with the null handle, for instance).
///
/// # Safety
/// As for [`AsRaw`]; and whatever is written there must be what the type can hold.
pub unsafe trait AsRawMut: AsRaw {
    /// A pointer to the handle, valid while `self` is borrowed.
    fn as_raw_mut(&mut self) -> *mut <Self as AsRaw>::Raw;
}

/// Takes an object over by its handle.
pub trait FromRaw: AsRaw {
    /// Wraps `handle`; a type that owns its object becomes its owner.
    ///
    /// # Safety
    /// `handle` must name a live object of the right kind that nothing else will free.
    unsafe fn from_raw(handle: <Self as AsRaw>::Raw) -> Self;
}

/// Promises that a type is laid out as its handle, so that a slice of it is an array of handles.
///
/// # Safety
/// The type must have the size, alignment and value of [`AsRaw::Raw`].
pub unsafe trait MatchesRaw: AsRaw {}
