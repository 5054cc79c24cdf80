//! A union has no datatype: nobody knows which of its fields is there.
use mpi::traits::*;

#[derive(Equivalence)]
union Either {
    whole: i64,
    halves: [i32; 2],
}

fn main() {}
