//! Only types with an equivalent datatype can be sent.
use mpi::traits::*;

struct Handle(*const u8);

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    world.this_process().send(&Handle(std::ptr::null()));
}
