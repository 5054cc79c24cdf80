//! The untyped face: handles, constants and functions under the names of the C binding.
//!
//! No C library stands behind it. A handle is a small `Copy` value that names a reference-counted object of this
//! library and owns nothing; [`AsRaw`](crate::raw::AsRaw) lends one out and [`FromRaw`](crate::raw::FromRaw) takes
//! one back. Numbers are those of the MPI-5 standard ABI.

#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]

mod call;
mod collective;
mod communicator;
mod constants;
mod datatype;
mod dynamic;
mod environment;
mod errors;
mod handles;
mod info;
mod intercomm;
mod persistent;
mod point_to_point;
mod topology;
mod window;

pub use collective::*;
pub use communicator::*;
pub use constants::*;
pub use datatype::*;
pub use dynamic::*;
pub use environment::*;
pub use errors::*;
pub use handles::*;
pub use info::*;
pub use intercomm::*;
pub use persistent::*;
pub use point_to_point::*;
pub use topology::*;
pub use window::*;
