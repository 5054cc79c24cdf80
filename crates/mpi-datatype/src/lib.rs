//! MPI datatypes: type maps, commit, pack and unpack, reduction kernels.
