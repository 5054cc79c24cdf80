//! Operations among all processes of a communicator (MPI-4.1 §6).
//!
//! All processes of the communicator must call the same collectives in the same order. Those without a special
//! process are methods of the communicator, in [`CommunicatorCollectives`]; those with one, the root, are methods of
//! that [`Process`](crate::topology::Process), in [`Root`].
//!
//! ```no_run
//! use mpi::collective::SystemOperation;
//! use mpi::traits::*;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let mut sum = 0;
//! world.all_reduce_into(&world.rank(), &mut sum, SystemOperation::sum());
//! assert_eq!(sum, world.size() * (world.size() - 1) / 2);
//! ```

pub(crate) mod call;
mod communicator;
mod convert;
pub(crate) mod operation;
pub(crate) mod parts;
pub(crate) mod root;
pub(crate) mod spawn;

pub use self::communicator::CommunicatorCollectives;
#[cfg(feature = "user-operations")]
pub use self::operation::UserOperation;
pub use self::operation::{Operation, SystemOperation, UnsafeUserFunction, UnsafeUserOperation};
pub use self::root::Root;
use crate::datatype::traits::*;
use crate::datatype::{recv_buf, send_buf};
use crate::error;

/// The traits of this module, for a glob import.
pub mod traits {
    pub use super::{CommunicatorCollectives, Operation, Root};
}

/// Combines each element of `inbuf` with one of `inoutbuf`, into the latter; no other process takes part
/// (MPI-4.1 §6.9.7, `MPI_Reduce_local`).
///
/// # Panics
/// If the buffers hold different numbers of elements.
#[allow(clippy::needless_pass_by_value)]
#[track_caller]
pub fn reduce_local_into<S, R, O>(inbuf: &S, inoutbuf: &mut R, op: O)
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    let (input, inout) = (inbuf.as_datatype(), inoutbuf.as_datatype());
    assert_eq!(inbuf.count_usize(), inoutbuf.count_usize(), "both buffers must hold equally many elements");
    let done = operation::core_op(&op).apply(send_buf(inbuf, &input), recv_buf(inoutbuf, &inout));
    if let Err(fault) = done {
        error::refused_datatype("reduce local", &fault);
    }
}
