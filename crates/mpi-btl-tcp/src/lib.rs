//! MPI transport over TCP.
