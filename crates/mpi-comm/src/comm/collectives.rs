//! Collectives, mirrored from mpi-coll on the collective plane.
