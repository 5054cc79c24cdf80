//! MPI datatypes: type maps with bounds, pack and unpack, typed copies, reduction operations.
//!
//! A [`Datatype`] says which primitives stand where. A [`SendBuf`] or [`RecvBuf`] is a datatype with an address
//! and a count: to make one is unsafe and a promise, everything after is safe. An [`Op`] combines two buffers.
//!
//! What never happens: this crate knows no operating system, no rank and no message; packing never touches a hole;
//! no count, stride or extent overflows silently; predefined types never allocate.
//!
//! `unsafe` lives in `buffer.rs` (the promises), `pack.rs` (moving bytes), `op.rs` and `kernels.rs`
//! (reductions), `scratch.rs` and `pool.rs` (temporaries).
#![deny(missing_docs)]

mod array;
mod buffer;
mod build;
mod constructor;
mod datatype;
mod error;
mod flatten;
mod kernels;
mod layout;
pub mod limits;
mod op;
mod pack;
mod pool;
mod primitive;
mod scratch;
mod signature;

pub use buffer::{RecvBlocks, RecvBuf, RecvMem, SendBlocks, SendBuf, SendMem};
pub use constructor::{ArrayOrder, Constructor, Distribution};
pub use datatype::{Datatype, Derived};
pub use error::DatatypeError;
pub use flatten::Strip;
pub use layout::Values;
pub use op::{Op, PackedFn, UserFn, UserOp};
pub use pack::copy;
pub use primitive::Primitive;
pub use scratch::{Scratch, SmallScratch};
pub use signature::Signature;
