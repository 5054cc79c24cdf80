//! MPI transport over shared memory.
