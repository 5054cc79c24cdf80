//! MPI collectives as programs of steps.
