//! Derive macro for the Equivalence trait of the crate mpi.
