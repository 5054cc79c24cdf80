//! Start-up of an MPI job: native protocol, PMI-1 and PMI-2, client and server.
