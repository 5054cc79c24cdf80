//! An enum whose variants hold fields has no datatype.
use mpi::traits::*;

#[derive(Equivalence)]
#[repr(u8)]
enum Shape {
    Circle(f64),
    Square(f64),
}

fn main() {}
