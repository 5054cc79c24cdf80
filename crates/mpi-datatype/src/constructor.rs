//! How a datatype was made: one variant per combiner of MPI 5.0, section 5.1.13.

use crate::{Datatype, Primitive};

/// Order of the elements of an array in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayOrder {
    /// The last dimension is contiguous.
    C,
    /// The first dimension is contiguous.
    Fortran,
}

/// How a dimension of a distributed array is dealt out (`MPI_DISTRIBUTE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Not distributed.
    Whole,
    /// One block per process; `None` takes the smallest that reaches.
    Block(Option<usize>),
    /// Blocks dealt out in turn; `None` takes blocks of one.
    Cyclic(Option<usize>),
}

/// A constructor with its arguments. Counts in elements, `hv`/`h` displacements and strides in bytes, others in
/// extents of the old type.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Constructor {
    Named(Primitive),
    Dup(Datatype),
    Contiguous {
        count: usize,
        of: Datatype,
    },
    Vector {
        count: usize,
        block: usize,
        stride: isize,
        of: Datatype,
    },
    Hvector {
        count: usize,
        block: usize,
        stride: isize,
        of: Datatype,
    },
    Indexed {
        blocks: Vec<usize>,
        displacements: Vec<isize>,
        of: Datatype,
    },
    Hindexed {
        blocks: Vec<usize>,
        displacements: Vec<isize>,
        of: Datatype,
    },
    IndexedBlock {
        block: usize,
        displacements: Vec<isize>,
        of: Datatype,
    },
    HindexedBlock {
        block: usize,
        displacements: Vec<isize>,
        of: Datatype,
    },
    Struct {
        blocks: Vec<usize>,
        displacements: Vec<isize>,
        of: Vec<Datatype>,
    },
    Resized {
        lb: isize,
        extent: isize,
        of: Datatype,
    },
    Subarray {
        sizes: Vec<usize>,
        subsizes: Vec<usize>,
        starts: Vec<usize>,
        order: ArrayOrder,
        of: Datatype,
    },
    DistributedArray {
        size: usize,
        rank: usize,
        sizes: Vec<usize>,
        distributions: Vec<Distribution>,
        processes: Vec<usize>,
        order: ArrayOrder,
        of: Datatype,
    },
}

impl Constructor {
    /// Name of the combiner.
    pub fn combiner(&self) -> &'static str {
        match self {
            Constructor::Named(_) => "named",
            Constructor::Dup(_) => "dup",
            Constructor::Contiguous { .. } => "contiguous",
            Constructor::Vector { .. } => "vector",
            Constructor::Hvector { .. } => "hvector",
            Constructor::Indexed { .. } => "indexed",
            Constructor::Hindexed { .. } => "hindexed",
            Constructor::IndexedBlock { .. } => "indexed block",
            Constructor::HindexedBlock { .. } => "hindexed block",
            Constructor::Struct { .. } => "struct",
            Constructor::Resized { .. } => "resized",
            Constructor::Subarray { .. } => "subarray",
            Constructor::DistributedArray { .. } => "distributed array",
        }
    }

    /// The datatypes it was made of.
    pub fn children(&self) -> &[Datatype] {
        match self {
            Constructor::Named(_) => &[],
            Constructor::Struct { of, .. } => of,
            Constructor::Dup(of)
            | Constructor::Contiguous { of, .. }
            | Constructor::Vector { of, .. }
            | Constructor::Hvector { of, .. }
            | Constructor::Indexed { of, .. }
            | Constructor::Hindexed { of, .. }
            | Constructor::IndexedBlock { of, .. }
            | Constructor::HindexedBlock { of, .. }
            | Constructor::Resized { of, .. }
            | Constructor::Subarray { of, .. }
            | Constructor::DistributedArray { of, .. } => std::slice::from_ref(of),
        }
    }
}
