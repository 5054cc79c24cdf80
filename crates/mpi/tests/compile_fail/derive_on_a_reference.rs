//! A field must have an equivalent datatype; the message points at the field.
use mpi::traits::*;

#[derive(Equivalence)]
struct Borrowing {
    name: &'static str,
}

fn main() {}
