//! Datatypes that programs build, with errors as values.

use mpi_datatype::Datatype;
use mpi_p2p::{Error as Core, ErrorClass};

use crate::datatype::{UncommittedDatatype, UncommittedUserDatatype, UserDatatype, layout};
use crate::ext::Error;
use crate::{Address, Count};

/// Something that is made of a layout.
mod sealed {
    use super::{Datatype, UncommittedUserDatatype, UserDatatype};

    pub trait OfLayout: Sized {
        fn of(layout: Datatype) -> Self;
    }

    impl OfLayout for UncommittedUserDatatype {
        fn of(layout: Datatype) -> Self {
            UncommittedUserDatatype::made(layout)
        }
    }

    impl OfLayout for UserDatatype {
        fn of(layout: Datatype) -> Self {
            UncommittedUserDatatype::made(layout).commit()
        }
    }
}

#[track_caller]
fn tried<T: sealed::OfLayout>(operation: &'static str, made: layout::Made) -> Result<T, Error> {
    match made {
        Ok(layout) => Ok(T::of(layout)),
        Err(fault) => Err(Core::new(ErrorClass::Type, operation, fault.to_string()).into()),
    }
}

/// The constructors of [`UserDatatype`] and [`UncommittedUserDatatype`] with errors as values. Errors of the plain ones go
/// to the error handler of the calling process's own communicator (MPI-4.1 §9.3).
///
/// ```no_run
/// use mpi::datatype::UserDatatype;
/// use mpi::ext::prelude::*;
/// use mpi::traits::*;
///
/// let _universe = mpi::initialize().unwrap();
/// assert!(UserDatatype::try_contiguous(-1, &u8::equivalent_datatype()).is_err());
/// ```
pub trait TryUserDatatype: sealed::OfLayout {
    /// [`contiguous`](UserDatatype::contiguous) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space.
    #[track_caller]
    fn try_contiguous<D: UncommittedDatatype>(count: Count, oldtype: &D) -> Result<Self, Error> {
        tried("contiguous", layout::contiguous(count, oldtype))
    }

    /// [`vector`](UserDatatype::vector) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space.
    #[track_caller]
    fn try_vector<D: UncommittedDatatype>(
        count: Count,
        blocklength: Count,
        stride: Count,
        oldtype: &D,
    ) -> Result<Self, Error> {
        tried("vector", layout::vector(count, blocklength, stride, oldtype))
    }

    /// [`heterogeneous_vector`](UserDatatype::heterogeneous_vector) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space.
    #[track_caller]
    fn try_heterogeneous_vector<D: UncommittedDatatype>(
        count: Count,
        blocklength: Count,
        stride: Address,
        oldtype: &D,
    ) -> Result<Self, Error> {
        tried("heterogeneous vector", layout::heterogeneous_vector(count, blocklength, stride, oldtype))
    }

    /// [`indexed`](UserDatatype::indexed) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space, or the slices differ in length.
    #[track_caller]
    fn try_indexed<D: UncommittedDatatype>(
        blocklengths: &[Count],
        displacements: &[Count],
        oldtype: &D,
    ) -> Result<Self, Error> {
        tried("indexed", layout::indexed(blocklengths, displacements, oldtype))
    }

    /// [`heterogeneous_indexed`](UserDatatype::heterogeneous_indexed) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space, or the slices differ in length.
    #[track_caller]
    fn try_heterogeneous_indexed<D: UncommittedDatatype>(
        blocklengths: &[Count],
        displacements: &[Address],
        oldtype: &D,
    ) -> Result<Self, Error> {
        tried("heterogeneous indexed", layout::heterogeneous_indexed(blocklengths, displacements, oldtype))
    }

    /// [`indexed_block`](UserDatatype::indexed_block) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space.
    #[track_caller]
    fn try_indexed_block<D: UncommittedDatatype>(
        blocklength: Count,
        displacements: &[Count],
        oldtype: &D,
    ) -> Result<Self, Error> {
        tried("indexed block", layout::indexed_block(blocklength, displacements, oldtype))
    }

    /// [`heterogeneous_indexed_block`](UserDatatype::heterogeneous_indexed_block) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space.
    #[track_caller]
    fn try_heterogeneous_indexed_block<D: UncommittedDatatype>(
        blocklength: Count,
        displacements: &[Address],
        oldtype: &D,
    ) -> Result<Self, Error> {
        tried(
            "heterogeneous indexed block",
            layout::heterogeneous_indexed_block(blocklength, displacements, oldtype),
        )
    }

    /// [`structured`](UserDatatype::structured) with its error as a value.
    ///
    /// # Errors
    /// `Type` where a number is negative, the layout is larger than an address space, or the slices differ in length.
    #[track_caller]
    fn try_structured<D: UncommittedDatatype>(
        blocklengths: &[Count],
        displacements: &[Address],
        types: &[D],
    ) -> Result<Self, Error> {
        tried("structured", layout::structured(blocklengths, displacements, types))
    }
}

impl TryUserDatatype for UserDatatype {}
impl TryUserDatatype for UncommittedUserDatatype {}
