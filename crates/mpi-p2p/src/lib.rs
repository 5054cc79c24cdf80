//! MPI point-to-point engine: matching, eager and rendezvous, requests, probe, progress.
