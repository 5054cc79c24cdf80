//! Borrowed datatypes.

use std::marker::PhantomData;

use super::{Datatype, UncommittedDatatype, UncommittedUserDatatype, UserDatatype};
use crate::ffi::MPI_Datatype;
use crate::raw::traits::*;

/// A committed datatype that something else owns.
#[derive(Copy, Clone, Debug)]
#[repr(transparent)]
pub struct DatatypeRef<'a> {
    datatype: MPI_Datatype,
    phantom: PhantomData<&'a ()>,
}

/// A predefined datatype: it belongs to the library and is never freed.
pub type SystemDatatype = DatatypeRef<'static>;

// SAFETY: `from_raw` takes the promise that the object lives for `'a`.
unsafe impl AsRaw for DatatypeRef<'_> {
    type Raw = MPI_Datatype;
    #[inline(always)]
    fn as_raw(&self) -> Self::Raw {
        self.datatype
    }
}

impl FromRaw for DatatypeRef<'_> {
    #[inline(always)]
    unsafe fn from_raw(datatype: MPI_Datatype) -> Self {
        Self { datatype, phantom: PhantomData }
    }
}

// SAFETY: the layout is transparent.
unsafe impl MatchesRaw for DatatypeRef<'_> {}
impl Datatype for DatatypeRef<'_> {}
impl UncommittedDatatype for DatatypeRef<'_> {
    type DuplicatedDatatype = UserDatatype;
}

impl<'a> From<DatatypeRef<'a>> for UncommittedDatatypeRef<'a> {
    fn from(datatype_ref: DatatypeRef<'a>) -> Self {
        // SAFETY: the same object, for the same lifetime.
        unsafe { UncommittedDatatypeRef::from_raw(datatype_ref.as_raw()) }
    }
}

/// A datatype that something else owns, committed or not.
#[derive(Copy, Clone, Debug)]
#[repr(transparent)]
pub struct UncommittedDatatypeRef<'a> {
    datatype: MPI_Datatype,
    phantom: PhantomData<&'a ()>,
}

// SAFETY: `from_raw` takes the promise that the object lives for `'a`.
unsafe impl AsRaw for UncommittedDatatypeRef<'_> {
    type Raw = MPI_Datatype;
    #[inline(always)]
    fn as_raw(&self) -> Self::Raw {
        self.datatype
    }
}

impl FromRaw for UncommittedDatatypeRef<'_> {
    unsafe fn from_raw(datatype: MPI_Datatype) -> Self {
        Self { datatype, phantom: PhantomData }
    }
}

// SAFETY: the layout is transparent.
unsafe impl MatchesRaw for UncommittedDatatypeRef<'_> {}
impl UncommittedDatatype for UncommittedDatatypeRef<'_> {
    type DuplicatedDatatype = UncommittedUserDatatype;
}

impl<'a> From<&'a UserDatatype> for DatatypeRef<'a> {
    fn from(datatype: &'a UserDatatype) -> Self {
        datatype.as_ref()
    }
}

impl<'a> From<&'a UserDatatype> for UncommittedDatatypeRef<'a> {
    fn from(datatype: &'a UserDatatype) -> Self {
        datatype.as_ref().into()
    }
}

impl<'a> From<&'a UncommittedUserDatatype> for UncommittedDatatypeRef<'a> {
    fn from(datatype: &'a UncommittedUserDatatype) -> Self {
        datatype.as_ref()
    }
}
