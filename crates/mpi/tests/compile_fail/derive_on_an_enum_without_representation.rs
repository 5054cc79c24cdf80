//! An enum's representation must be declared: what the compiler would choose is nobody's business on the wire.
use mpi::traits::*;

#[derive(Equivalence)]
enum Colour {
    Red,
    Green,
}

fn main() {}
