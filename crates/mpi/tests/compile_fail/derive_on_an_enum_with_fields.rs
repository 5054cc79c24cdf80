//! An enum whose variants hold fields has no datatype.
use mpi::traits::*;

#[derive(Equivalence)]
enum Shape {
    Circle(f64),
    Square(f64),
}

fn main() {}
