//! MPI in Rust from the socket up, source-compatible with rsmpi.
