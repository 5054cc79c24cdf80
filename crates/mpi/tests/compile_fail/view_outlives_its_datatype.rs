//! A view borrows its datatype.
use mpi::datatype::{UserDatatype, View};
use mpi::traits::*;

fn main() {
    let _universe = mpi::initialize().unwrap();
    let matrix = [0.0; 16];
    let view = {
        let column = UserDatatype::vector(4, 1, 4, &f64::equivalent_datatype());
        // SAFETY: four blocks of one, four apart, stay inside the matrix.
        unsafe { View::with_count_and_datatype(&matrix[..], 1, &column) }
    };
    let _ = view.count();
}
