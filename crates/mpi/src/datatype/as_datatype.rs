//! The traits of datatypes themselves.

use super::Equivalence;
use crate::error;
use crate::ffi::MPI_Datatype;
use crate::raw::traits::*;

/// A datatype that communication may use: it has been committed (MPI-4.1 §5.1.9).
pub trait Datatype: UncommittedDatatype {}
impl<'a, D> Datatype for &'a D where D: 'a + Datatype {}

/// A datatype that other datatypes may be built from, committed or not.
pub trait UncommittedDatatype: AsRaw<Raw = MPI_Datatype> {
    /// What a duplicate is: committed if this is.
    type DuplicatedDatatype: FromRaw<Raw = MPI_Datatype>;

    /// A new datatype of the same layout (MPI-4.1 §5.1.10, `MPI_Type_dup`).
    #[track_caller]
    fn dup(&self) -> Self::DuplicatedDatatype {
        match mpi_datatype::Datatype::dup(core_type(self)) {
            // SAFETY: the handle is new and owned by nobody else.
            Ok(copy) => unsafe { Self::DuplicatedDatatype::from_raw(MPI_Datatype::give(copy)) },
            Err(fault) => error::refused_datatype("duplicate datatype", &fault),
        }
    }
}
impl<'a, D> UncommittedDatatype for &'a D
where
    D: 'a + UncommittedDatatype,
{
    type DuplicatedDatatype = <D as UncommittedDatatype>::DuplicatedDatatype;
}

/// A buffer that knows the datatype of its elements.
///
/// # Safety
/// The datatype must describe the elements as they lie in memory.
pub unsafe trait AsDatatype {
    /// The datatype, owned or borrowed.
    type Out: Datatype;
    /// The datatype of one element.
    fn as_datatype(&self) -> Self::Out;
}

// SAFETY: `Equivalence` promises it.
unsafe impl<T> AsDatatype for T
where
    T: Equivalence,
{
    type Out = <T as Equivalence>::Out;
    #[inline(always)]
    fn as_datatype(&self) -> Self::Out {
        <T as Equivalence>::equivalent_datatype()
    }
}

// SAFETY: elements of a slice are laid out as `Equivalence` promises.
unsafe impl<T> AsDatatype for [T]
where
    T: Equivalence,
{
    type Out = <T as Equivalence>::Out;
    #[inline(always)]
    fn as_datatype(&self) -> Self::Out {
        <T as Equivalence>::equivalent_datatype()
    }
}

// SAFETY: as for a slice.
unsafe impl<T> AsDatatype for Vec<T>
where
    T: Equivalence,
{
    type Out = <T as Equivalence>::Out;
    #[inline(always)]
    fn as_datatype(&self) -> Self::Out {
        <T as Equivalence>::equivalent_datatype()
    }
}

// SAFETY: as for a slice.
unsafe impl<T, const D: usize> AsDatatype for [T; D]
where
    T: Equivalence,
{
    type Out = <T as Equivalence>::Out;
    #[inline(always)]
    fn as_datatype(&self) -> Self::Out {
        <T as Equivalence>::equivalent_datatype()
    }
}

/// The datatype of the layers below that a typed one stands for.
#[inline(always)]
pub(crate) fn core_type<D: UncommittedDatatype + ?Sized>(datatype: &D) -> &mpi_datatype::Datatype {
    // SAFETY: `AsRaw` promises that the object lives as long as `datatype` does.
    unsafe { datatype.as_raw().get() }
}
