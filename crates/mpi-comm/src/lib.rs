//! MPI groups, communicators, contexts, topologies, init and finalize.
