//! Launcher of MPI jobs.
fn main() {}
