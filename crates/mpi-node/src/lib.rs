//! What one machine gives an MPI job: shared segment, rings, parking, cross-process copy, cpu set.
#![deny(missing_docs)]

pub mod spawn;
