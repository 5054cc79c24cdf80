//! Reductions by closures on values.

use mpi_coll::InPlaceOr::Buf;
use mpi_comm::Comm;
use mpi_datatype::{Datatype, Op, RecvBuf, SendBuf, UserOp};
use std::sync::Arc;

use super::Error;
use super::error::caught;
use crate::collective::parts::is_root;
use crate::collective::root::root;
use crate::collective::traits::*;
use crate::datatype::core_type;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::topology::core_comm;
use crate::topology::traits::*;

/// Whether the operands of a reduction may change places. The operation is associative in either case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operands {
    /// They are combined in the order of ranks: `combine(rank 0's, combine(rank 1's, …))`.
    InOrder,
    /// They may be combined in any order, which can be faster.
    InAnyOrder,
}

/// Reductions by closures on values.
///
/// ```no_run
/// use mpi::ext::{Operands, prelude::*};
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let longest = world.all_reduce_with(&1.5_f64, Operands::InAnyOrder, |a, b| a.max(*b));
/// assert_eq!(longest, 1.5);
/// ```
pub trait ReduceWith: Communicator {
    /// Combines the values of all ranks and gives every rank the result (MPI-4.1 §6.9.6, `MPI_Allreduce`).
    ///
    /// The closure runs inside the library: it must not communicate.
    #[track_caller]
    fn all_reduce_with<T, F>(&self, value: &T, operands: Operands, combine: F) -> T
    where
        T: Equivalence + Clone,
        F: Fn(&T, &T) -> T + Sync,
    {
        let mut result = value.clone();
        let comm = core_comm(self);
        ok(comm, all_reduce(comm, value, &mut result, operands, &combine));
        result
    }

    /// [`all_reduce_with`](Self::all_reduce_with) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_all_reduce_with<T, F>(&self, value: &T, operands: Operands, combine: F) -> Result<T, Error>
    where
        T: Equivalence + Clone,
        F: Fn(&T, &T) -> T + Sync,
    {
        let mut result = value.clone();
        caught(all_reduce(core_comm(self), value, &mut result, operands, &combine))?;
        Ok(result)
    }

    /// As [`all_reduce_with`](Self::all_reduce_with), for each element of a slice; both are as long on all ranks.
    #[track_caller]
    fn all_reduce_into_with<T, F>(&self, values: &[T], results: &mut [T], operands: Operands, combine: F)
    where
        T: Equivalence,
        F: Fn(&T, &T) -> T + Sync,
    {
        let comm = core_comm(self);
        ok(comm, all_reduce(comm, values, results, operands, &combine));
    }

    /// Gives rank `i` the combination of the values of ranks 0 to `i` (MPI-4.1 §6.11.1, `MPI_Scan`).
    #[track_caller]
    fn scan_with<T, F>(&self, value: &T, operands: Operands, combine: F) -> T
    where
        T: Equivalence + Clone,
        F: Fn(&T, &T) -> T + Sync,
    {
        let mut result = value.clone();
        let comm = core_comm(self);
        let done = with_op(operands, &combine, |op| {
            both(value, &mut result, |value, result| comm.scan(Buf(value), result, op))
        });
        ok(comm, done);
        result
    }
}

impl<C: Communicator + ?Sized> ReduceWith for C {}

/// Reductions by closures on values, to a root.
pub trait ReduceToRootWith: Root {
    /// Combines the values of all ranks; the root gets the result, the others none (MPI-4.1 §6.9.1, `MPI_Reduce`).
    ///
    /// The closure runs inside the library: it must not communicate.
    #[track_caller]
    fn reduce_with<T, F>(&self, value: &T, operands: Operands, combine: F) -> Option<T>
    where
        T: Equivalence + Clone,
        F: Fn(&T, &T) -> T + Sync,
    {
        let comm = core_comm(self.as_communicator());
        let root = root(self);
        let is_root = is_root(comm, root);
        let mut result = value.clone();
        let done = with_op(operands, &combine, |op| {
            both(value, &mut result, |value, room| comm.reduce(Buf(value), is_root.then_some(room), op, root))
        });
        ok(comm, done);
        is_root.then_some(result)
    }
}

impl<R: Root + ?Sized> ReduceToRootWith for R {}

fn all_reduce<T, S, R, F>(
    comm: &Comm,
    value: &S,
    result: &mut R,
    operands: Operands,
    combine: &F,
) -> Result<(), mpi_p2p::Error>
where
    T: Equivalence,
    S: Buffer + ?Sized,
    R: BufferMut + ?Sized,
    F: Fn(&T, &T) -> T + Sync,
{
    with_op(operands, combine, |op| {
        both(value, result, |value, result| comm.allreduce(Buf(value), result, op))
    })
}

/// Calls with both buffers as the layers below take them.
fn both<S: Buffer + ?Sized, R: BufferMut + ?Sized, O>(
    value: &S,
    result: &mut R,
    call: impl FnOnce(SendBuf<'_>, RecvBuf<'_>) -> O,
) -> O {
    let (s, r) = (value.as_datatype(), result.as_datatype());
    call(crate::datatype::send_buf(value, &s), crate::datatype::recv_buf(result, &r))
}

/// Calls with the closure as an operation, which is gone when the call is over.
fn with_op<T, F, O>(operands: Operands, combine: &F, call: impl FnOnce(&Op) -> O) -> O
where
    T: Equivalence,
    F: Fn(&T, &T) -> T + Sync,
{
    let wanted = T::equivalent_datatype();
    let wanted = core_type(&wanted).signature();
    let apply = move |input: *const u8, inout: *mut u8, len: usize, datatype: &Datatype| {
        assert_eq!(datatype.signature(), wanted, "the operands of a reduction have the type of its closure");
        for i in 0..len {
            // SAFETY: both arrays hold `len` elements, of the type that was just compared, and do not overlap.
            unsafe {
                let (left, right) = (input.cast::<T>().add(i), inout.cast::<T>().add(i));
                let value = combine(&*left, &*right);
                *right = value;
            }
        }
    };
    let apply: Box<Apply<'_>> = Box::new(apply);
    // SAFETY: the two differ in their lifetime only, and the operation, which is not cloned into anything that outlives
    // a blocking call, is dropped before this returns.
    let apply: Box<Apply<'static>> = unsafe { std::mem::transmute(apply) };
    let commutes = operands == Operands::InAnyOrder;
    call(&Op::User(Arc::new(UserOp::new(apply, commutes))))
}

type Apply<'a> = dyn Fn(*const u8, *mut u8, usize, &Datatype) + Send + Sync + 'a;
