//! A seeded simulated MPI transport and the conformance tests of every transport.
