//! That a datatype fits a buffer is a promise that the compiler cannot check.
use mpi::datatype::{UserDatatype, View};
use mpi::traits::*;

fn main() {
    let _universe = mpi::initialize().unwrap();
    let matrix = [0.0; 16];
    let column = UserDatatype::vector(4, 1, 4, &f64::equivalent_datatype());
    let _view = View::with_count_and_datatype(&matrix[..], 1, &column);
}
