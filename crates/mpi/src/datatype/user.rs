//! Datatypes that programs build.

use std::mem;

use mpi_datatype as core;

use super::{Datatype, DatatypeRef, UncommittedDatatype, UncommittedDatatypeRef, core_type};
use crate::ffi::MPI_Datatype;
use crate::raw::traits::*;
use crate::{Address, Count, error};

/// A datatype that the program built and committed; it is freed when dropped, and operations that still use it keep
/// what they need (MPI-4.1 §5.1.9).
#[repr(transparent)]
pub struct UserDatatype(MPI_Datatype);

/// A datatype that the program built and has not committed: good for building others only.
#[repr(transparent)]
pub struct UncommittedUserDatatype(MPI_Datatype);

impl UserDatatype {
    /// `count` elements one after another (`MPI_Type_contiguous`).
    pub fn contiguous<D>(count: Count, oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::contiguous(count, oldtype).commit()
    }

    /// `count` blocks of `blocklength` elements; blocks start `stride` elements apart (`MPI_Type_vector`).
    pub fn vector<D>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::vector(count, blocklength, stride, oldtype).commit()
    }

    /// As [`vector`](Self::vector), with the stride in bytes (`MPI_Type_create_hvector`).
    pub fn heterogeneous_vector<D>(
        count: Count,
        blocklength: Count,
        stride: Address,
        oldtype: &D,
    ) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::heterogeneous_vector(count, blocklength, stride, oldtype).commit()
    }

    /// Blocks of different lengths at displacements in elements (`MPI_Type_indexed`).
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn indexed<D>(blocklengths: &[Count], displacements: &[Count], oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::indexed(blocklengths, displacements, oldtype).commit()
    }

    /// As [`indexed`](Self::indexed), with displacements in bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn heterogeneous_indexed<D>(
        blocklengths: &[Count],
        displacements: &[Address],
        oldtype: &D,
    ) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::heterogeneous_indexed(blocklengths, displacements, oldtype).commit()
    }

    /// Blocks of one length at displacements in elements (`MPI_Type_create_indexed_block`).
    pub fn indexed_block<D>(blocklength: Count, displacements: &[Count], oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::indexed_block(blocklength, displacements, oldtype).commit()
    }

    /// As [`indexed_block`](Self::indexed_block), with displacements in bytes (`MPI_Type_create_hindexed_block`).
    pub fn heterogeneous_indexed_block<D>(
        blocklength: Count,
        displacements: &[Address],
        oldtype: &D,
    ) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::heterogeneous_indexed_block(blocklength, displacements, oldtype).commit()
    }

    /// Blocks of different lengths, displacements in bytes, and types (`MPI_Type_create_struct`).
    ///
    /// # Panics
    /// If the three slices differ in length.
    pub fn structured<D>(blocklengths: &[Count], displacements: &[Address], types: &[D]) -> UserDatatype
    where
        D: UncommittedDatatype + MatchesRaw<Raw = MPI_Datatype>,
    {
        UncommittedUserDatatype::structured(blocklengths, displacements, types).commit()
    }

    /// Borrows the datatype.
    #[allow(clippy::should_implement_trait)]
    #[inline(always)]
    pub fn as_ref(&self) -> DatatypeRef<'_> {
        // SAFETY: the object lives as long as `self`.
        unsafe { DatatypeRef::from_raw(self.0) }
    }
}

impl UncommittedUserDatatype {
    fn built(operation: &'static str, made: Result<core::Datatype, core::DatatypeError>) -> Self {
        match made {
            Ok(datatype) => Self(MPI_Datatype::give(datatype)),
            Err(fault) => error::fatal_datatype(operation, &fault),
        }
    }

    /// `count` elements one after another (`MPI_Type_contiguous`).
    pub fn contiguous<D>(count: Count, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        let made = size("count", count).and_then(|n| core::Datatype::contiguous(n, core_type(oldtype)));
        Self::built("contiguous", made)
    }

    /// `count` blocks of `blocklength` elements; blocks start `stride` elements apart (`MPI_Type_vector`).
    pub fn vector<D>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        let made = sizes(count, blocklength)
            .and_then(|(n, b)| core::Datatype::vector(n, b, stride as isize, core_type(oldtype)));
        Self::built("vector", made)
    }

    /// As [`vector`](Self::vector), with the stride in bytes (`MPI_Type_create_hvector`).
    pub fn heterogeneous_vector<D>(count: Count, blocklength: Count, stride: Address, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        let made = sizes(count, blocklength)
            .and_then(|(n, b)| core::Datatype::hvector(n, b, stride, core_type(oldtype)));
        Self::built("heterogeneous vector", made)
    }

    /// Blocks of different lengths at displacements in elements (`MPI_Type_indexed`).
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn indexed<D>(blocklengths: &[Count], displacements: &[Count], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        same_length(blocklengths.len(), displacements.len());
        let made = lengths(blocklengths)
            .and_then(|b| core::Datatype::indexed(&b, &widen(displacements), core_type(oldtype)));
        Self::built("indexed", made)
    }

    /// As [`indexed`](Self::indexed), with displacements in bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn heterogeneous_indexed<D>(blocklengths: &[Count], displacements: &[Address], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        same_length(blocklengths.len(), displacements.len());
        let made = lengths(blocklengths)
            .and_then(|b| core::Datatype::hindexed(&b, displacements, core_type(oldtype)));
        Self::built("heterogeneous indexed", made)
    }

    /// Blocks of one length at displacements in elements (`MPI_Type_create_indexed_block`).
    pub fn indexed_block<D>(blocklength: Count, displacements: &[Count], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        let made = size("block length", blocklength)
            .and_then(|b| core::Datatype::indexed_block(b, &widen(displacements), core_type(oldtype)));
        Self::built("indexed block", made)
    }

    /// As [`indexed_block`](Self::indexed_block), with displacements in bytes (`MPI_Type_create_hindexed_block`).
    pub fn heterogeneous_indexed_block<D>(blocklength: Count, displacements: &[Address], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        let made = size("block length", blocklength)
            .and_then(|b| core::Datatype::hindexed_block(b, displacements, core_type(oldtype)));
        Self::built("heterogeneous indexed block", made)
    }

    /// Blocks of different lengths, displacements in bytes, and types (`MPI_Type_create_struct`).
    ///
    /// # Panics
    /// If the three slices differ in length.
    pub fn structured<D>(blocklengths: &[Count], displacements: &[Address], types: &[D]) -> Self
    where
        D: UncommittedDatatype + MatchesRaw<Raw = MPI_Datatype>,
    {
        same_length(blocklengths.len(), displacements.len());
        same_length(blocklengths.len(), types.len());
        let parts: Vec<core::Datatype> = types.iter().map(|t| core_type(t).clone()).collect();
        let made = lengths(blocklengths).and_then(|b| core::Datatype::structured(&b, displacements, &parts));
        Self::built("structured", made)
    }

    /// Makes the datatype fit for communication (`MPI_Type_commit`).
    pub fn commit(self) -> UserDatatype {
        core_type(&self).commit(); // the mark belongs to the object, so the handle stays as it is
        let committed = UserDatatype(self.0);
        mem::forget(self);
        committed
    }

    /// Borrows the datatype.
    #[allow(clippy::should_implement_trait)]
    pub fn as_ref(&self) -> UncommittedDatatypeRef<'_> {
        // SAFETY: the object lives as long as `self`.
        unsafe { UncommittedDatatypeRef::from_raw(self.0) }
    }
}

macro_rules! owned_datatype {
    ($name:ident) => {
        impl Clone for $name {
            fn clone(&self) -> Self {
                self.dup()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: this value owns the object, and nothing uses the handle after it.
                drop(unsafe { self.0.take() });
            }
        }

        // SAFETY: the object lives as long as this value.
        unsafe impl AsRaw for $name {
            type Raw = MPI_Datatype;
            #[inline(always)]
            fn as_raw(&self) -> Self::Raw {
                self.0
            }
        }

        impl FromRaw for $name {
            unsafe fn from_raw(handle: MPI_Datatype) -> Self {
                assert_ne!(handle, MPI_Datatype::NULL, "the null datatype cannot be owned");
                $name(handle)
            }
        }

        // SAFETY: the layout is transparent.
        unsafe impl MatchesRaw for $name {}
        impl UncommittedDatatype for $name {
            type DuplicatedDatatype = $name;
        }
    };
}

owned_datatype!(UserDatatype);
owned_datatype!(UncommittedUserDatatype);
impl Datatype for UserDatatype {}

fn same_length(a: usize, b: usize) {
    assert_eq!(a, b, "block lengths, displacements and types must be equally many");
}

fn size(what: &'static str, value: Count) -> Result<usize, core::DatatypeError> {
    usize::try_from(value)
        .map_err(|_| core::DatatypeError::Argument { what, detail: format!("{value} is negative") })
}

fn sizes(count: Count, blocklength: Count) -> Result<(usize, usize), core::DatatypeError> {
    Ok((size("count", count)?, size("block length", blocklength)?))
}

fn lengths(values: &[Count]) -> Result<Vec<usize>, core::DatatypeError> {
    values.iter().map(|&v| size("block length", v)).collect()
}

fn widen(values: &[Count]) -> Vec<isize> {
    values.iter().map(|&v| v as isize).collect()
}
