//! What one machine gives an MPI job: shared segment, rings, parking, cross-process copy, cpu set.
