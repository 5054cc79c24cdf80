//! Datatypes that programs build.

use std::mem;

use mpi_datatype as core;

use super::{Datatype, DatatypeRef, UncommittedDatatype, UncommittedDatatypeRef, core_type, layout};
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
    #[track_caller]
    pub fn contiguous<D>(count: Count, oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::contiguous(count, oldtype).commit()
    }

    /// `count` blocks of `blocklength` elements; blocks start `stride` elements apart (`MPI_Type_vector`).
    #[track_caller]
    pub fn vector<D>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::vector(count, blocklength, stride, oldtype).commit()
    }

    /// As [`vector`](Self::vector), with the stride in bytes (`MPI_Type_create_hvector`).
    #[track_caller]
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
    #[track_caller]
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
    #[track_caller]
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
    #[track_caller]
    pub fn indexed_block<D>(blocklength: Count, displacements: &[Count], oldtype: &D) -> UserDatatype
    where
        D: UncommittedDatatype,
    {
        UncommittedUserDatatype::indexed_block(blocklength, displacements, oldtype).commit()
    }

    /// As [`indexed_block`](Self::indexed_block), with displacements in bytes (`MPI_Type_create_hindexed_block`).
    #[track_caller]
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
    #[track_caller]
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
    #[track_caller]
    fn built(operation: &'static str, made: layout::Made) -> Self {
        match made {
            Ok(datatype) => Self::made(datatype),
            Err(fault) => error::refused_datatype(operation, &fault),
        }
    }

    pub(crate) fn made(datatype: core::Datatype) -> Self {
        Self(MPI_Datatype::give(datatype))
    }

    /// `count` elements one after another (`MPI_Type_contiguous`).
    #[track_caller]
    pub fn contiguous<D>(count: Count, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        Self::built("contiguous", layout::contiguous(count, oldtype))
    }

    /// `count` blocks of `blocklength` elements; blocks start `stride` elements apart (`MPI_Type_vector`).
    #[track_caller]
    pub fn vector<D>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        Self::built("vector", layout::vector(count, blocklength, stride, oldtype))
    }

    /// As [`vector`](Self::vector), with the stride in bytes (`MPI_Type_create_hvector`).
    #[track_caller]
    pub fn heterogeneous_vector<D>(count: Count, blocklength: Count, stride: Address, oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        Self::built("heterogeneous vector", layout::heterogeneous_vector(count, blocklength, stride, oldtype))
    }

    /// Blocks of different lengths at displacements in elements (`MPI_Type_indexed`).
    ///
    /// # Panics
    /// If the two slices differ in length.
    #[track_caller]
    pub fn indexed<D>(blocklengths: &[Count], displacements: &[Count], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        same_length(blocklengths.len(), displacements.len());
        Self::built("indexed", layout::indexed(blocklengths, displacements, oldtype))
    }

    /// As [`indexed`](Self::indexed), with displacements in bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Panics
    /// If the two slices differ in length.
    #[track_caller]
    pub fn heterogeneous_indexed<D>(blocklengths: &[Count], displacements: &[Address], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        same_length(blocklengths.len(), displacements.len());
        Self::built(
            "heterogeneous indexed",
            layout::heterogeneous_indexed(blocklengths, displacements, oldtype),
        )
    }

    /// Blocks of one length at displacements in elements (`MPI_Type_create_indexed_block`).
    #[track_caller]
    pub fn indexed_block<D>(blocklength: Count, displacements: &[Count], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        Self::built("indexed block", layout::indexed_block(blocklength, displacements, oldtype))
    }

    /// As [`indexed_block`](Self::indexed_block), with displacements in bytes (`MPI_Type_create_hindexed_block`).
    #[track_caller]
    pub fn heterogeneous_indexed_block<D>(blocklength: Count, displacements: &[Address], oldtype: &D) -> Self
    where
        D: UncommittedDatatype,
    {
        Self::built(
            "heterogeneous indexed block",
            layout::heterogeneous_indexed_block(blocklength, displacements, oldtype),
        )
    }

    /// Blocks of different lengths, displacements in bytes, and types (`MPI_Type_create_struct`).
    ///
    /// # Panics
    /// If the three slices differ in length.
    #[track_caller]
    pub fn structured<D>(blocklengths: &[Count], displacements: &[Address], types: &[D]) -> Self
    where
        D: UncommittedDatatype + MatchesRaw<Raw = MPI_Datatype>,
    {
        same_length(blocklengths.len(), displacements.len());
        same_length(blocklengths.len(), types.len());
        Self::built("structured", layout::structured(blocklengths, displacements, types))
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

#[track_caller]
fn same_length(a: usize, b: usize) {
    assert_eq!(a, b, "block lengths, displacements and types must be equally many");
}
