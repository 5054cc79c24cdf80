//! The layouts of datatypes that programs build, from the arguments of rsmpi's constructors.

use mpi_datatype::{Datatype, DatatypeError};

use super::{UncommittedDatatype, core_type};
use crate::{Address, Count};

/// A layout, or why there is no such.
pub(crate) type Made = Result<Datatype, DatatypeError>;

pub(crate) fn contiguous<D: UncommittedDatatype>(count: Count, oldtype: &D) -> Made {
    Datatype::contiguous(size("count", count)?, core_type(oldtype))
}

pub(crate) fn vector<D>(count: Count, blocklength: Count, stride: Count, oldtype: &D) -> Made
where
    D: UncommittedDatatype,
{
    let (count, block) = (size("count", count)?, size("block length", blocklength)?);
    Datatype::vector(count, block, stride as isize, core_type(oldtype))
}

pub(crate) fn heterogeneous_vector<D>(count: Count, blocklength: Count, stride: Address, oldtype: &D) -> Made
where
    D: UncommittedDatatype,
{
    let (count, block) = (size("count", count)?, size("block length", blocklength)?);
    Datatype::hvector(count, block, stride, core_type(oldtype))
}

pub(crate) fn indexed<D>(blocklengths: &[Count], displacements: &[Count], oldtype: &D) -> Made
where
    D: UncommittedDatatype,
{
    equally_many(blocklengths.len(), displacements.len())?;
    Datatype::indexed(&lengths(blocklengths)?, &widen(displacements), core_type(oldtype))
}

pub(crate) fn heterogeneous_indexed<D>(blocklengths: &[Count], displacements: &[Address], oldtype: &D) -> Made
where
    D: UncommittedDatatype,
{
    equally_many(blocklengths.len(), displacements.len())?;
    Datatype::hindexed(&lengths(blocklengths)?, displacements, core_type(oldtype))
}

pub(crate) fn indexed_block<D>(blocklength: Count, displacements: &[Count], oldtype: &D) -> Made
where
    D: UncommittedDatatype,
{
    Datatype::indexed_block(size("block length", blocklength)?, &widen(displacements), core_type(oldtype))
}

pub(crate) fn heterogeneous_indexed_block<D>(
    blocklength: Count,
    displacements: &[Address],
    oldtype: &D,
) -> Made
where
    D: UncommittedDatatype,
{
    Datatype::hindexed_block(size("block length", blocklength)?, displacements, core_type(oldtype))
}

pub(crate) fn structured<D>(blocklengths: &[Count], displacements: &[Address], types: &[D]) -> Made
where
    D: UncommittedDatatype,
{
    equally_many(blocklengths.len(), displacements.len())?;
    equally_many(blocklengths.len(), types.len())?;
    let types: Vec<Datatype> = types.iter().map(|t| core_type(t).clone()).collect();
    Datatype::structured(&lengths(blocklengths)?, displacements, &types)
}

fn equally_many(blocks: usize, others: usize) -> Result<(), DatatypeError> {
    if blocks == others {
        return Ok(());
    }
    let detail = format!("{blocks} block lengths, but {others} displacements or types");
    Err(DatatypeError::Argument { what: "number of blocks", detail })
}

fn size(what: &'static str, value: Count) -> Result<usize, DatatypeError> {
    usize::try_from(value)
        .map_err(|_| DatatypeError::Argument { what, detail: format!("{value} is negative") })
}

fn lengths(values: &[Count]) -> Result<Vec<usize>, DatatypeError> {
    values.iter().map(|&v| size("block length", v)).collect()
}

fn widen(values: &[Count]) -> Vec<isize> {
    values.iter().map(|&v| v as isize).collect()
}
