//! Whole programs on `mpi`. Each stands in a folder of its own beside this one; there is nothing here.
