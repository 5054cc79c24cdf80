//! Takes the place of its namesake for mpi-rs, which has no such datatypes: no figures.

use mpi::topology::SimpleCommunicator;

pub fn layouts(_: &SimpleCommunicator, _: &[usize]) {}
