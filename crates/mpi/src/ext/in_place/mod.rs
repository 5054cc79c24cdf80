//! Collectives whose operand stands where the result goes (MPI-4.1 §6.2, `MPI_IN_PLACE`).

mod call;
mod root;

pub use self::root::InPlaceRoot;
use super::Error;
use super::error::caught;
use crate::collective::parts::{evenly, started, try_started};
use crate::collective::traits::*;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::request::{Request, Scope};
use crate::topology::core_comm;

/// Collectives in place, in which all processes are alike.
///
/// ```no_run
/// use mpi::collective::SystemOperation;
/// use mpi::ext::prelude::*;
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let mut sum = 1;
/// world.all_reduce_in_place(&mut sum, SystemOperation::sum());
/// assert_eq!(sum, world.size());
/// ```
pub trait InPlaceCollectives: CommunicatorCollectives {
    /// `buf` holds a part for each rank, and this rank's own stands in its place: it becomes what all ranks have
    /// (MPI-4.1 §6.7, `MPI_Allgather`).
    #[track_caller]
    fn all_gather_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) {
        let comm = core_comm(self);
        ok(comm, call::all_gather_in_place(comm, buf));
    }

    /// [`all_gather_in_place`](Self::all_gather_in_place) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation.
    #[track_caller]
    fn try_all_gather_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        let comm = core_comm(self);
        caught(evenly(comm, "allgather", buf.count_usize()))?;
        caught(call::all_gather_in_place(comm, buf))
    }

    /// Starts [`all_gather_in_place`](Self::all_gather_in_place).
    #[track_caller]
    fn immediate_all_gather_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_gather_in_place(comm, buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_all_gather_in_place`](Self::immediate_all_gather_in_place) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_all_gather_in_place<'a, B, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        caught(evenly(comm, "allgather", buf.count_usize()))?;
        let request = call::immediate_all_gather_in_place(comm, buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// Replaces the `i`th part of `buf` by what rank `i` had as the part of this rank (MPI-4.1 §6.8, `MPI_Alltoall`).
    #[track_caller]
    fn all_to_all_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) {
        let comm = core_comm(self);
        ok(comm, call::all_to_all_in_place(comm, buf));
    }

    /// [`all_to_all_in_place`](Self::all_to_all_in_place) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation.
    #[track_caller]
    fn try_all_to_all_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        let comm = core_comm(self);
        caught(evenly(comm, "alltoall", buf.count_usize()))?;
        caught(call::all_to_all_in_place(comm, buf))
    }

    /// Starts [`all_to_all_in_place`](Self::all_to_all_in_place).
    #[track_caller]
    fn immediate_all_to_all_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_to_all_in_place(comm, buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_all_to_all_in_place`](Self::immediate_all_to_all_in_place) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_all_to_all_in_place<'a, B, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        caught(evenly(comm, "alltoall", buf.count_usize()))?;
        let request = call::immediate_all_to_all_in_place(comm, buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// Replaces each element by the combination of those of all ranks (MPI-4.1 §6.9.6, `MPI_Allreduce`).
    #[track_caller]
    fn all_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) {
        let comm = core_comm(self);
        ok(comm, call::all_reduce_in_place(comm, buf, &op));
    }

    /// [`all_reduce_in_place`](Self::all_reduce_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_all_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(
        &self,
        buf: &mut B,
        op: O,
    ) -> Result<(), Error> {
        caught(call::all_reduce_in_place(core_comm(self), buf, &op))
    }

    /// Starts [`all_reduce_in_place`](Self::all_reduce_in_place).
    #[track_caller]
    fn immediate_all_reduce_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_reduce_in_place(comm, buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_all_reduce_in_place`](Self::immediate_all_reduce_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_all_reduce_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = call::immediate_all_reduce_in_place(core_comm(self), buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// `buf` holds a part for each rank. Its first part becomes the combination of the parts for this rank that all ranks
    /// have (MPI-4.1 §6.10.1, `MPI_Reduce_scatter_block`).
    #[track_caller]
    fn reduce_scatter_block_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) {
        let comm = core_comm(self);
        ok(comm, call::reduce_scatter_block_in_place(comm, buf, &op));
    }

    /// [`reduce_scatter_block_in_place`](Self::reduce_scatter_block_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_reduce_scatter_block_in_place<B: ?Sized + BufferMut, O: Operation>(
        &self,
        buf: &mut B,
        op: O,
    ) -> Result<(), Error> {
        caught(call::reduce_scatter_block_in_place(core_comm(self), buf, &op))
    }

    /// Starts [`reduce_scatter_block_in_place`](Self::reduce_scatter_block_in_place).
    #[track_caller]
    fn immediate_reduce_scatter_block_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_reduce_scatter_block_in_place(comm, buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_reduce_scatter_block_in_place`](Self::immediate_reduce_scatter_block_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_reduce_scatter_block_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = call::immediate_reduce_scatter_block_in_place(core_comm(self), buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// Replaces each element by the combination of those of ranks 0 to this one (MPI-4.1 §6.11.1, `MPI_Scan`).
    #[track_caller]
    fn scan_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) {
        let comm = core_comm(self);
        ok(comm, call::scan_in_place(comm, buf, &op));
    }

    /// [`scan_in_place`](Self::scan_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scan_in_place<B: ?Sized + BufferMut, O: Operation>(
        &self,
        buf: &mut B,
        op: O,
    ) -> Result<(), Error> {
        caught(call::scan_in_place(core_comm(self), buf, &op))
    }

    /// Starts [`scan_in_place`](Self::scan_in_place).
    #[track_caller]
    fn immediate_scan_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_scan_in_place(comm, buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_scan_in_place`](Self::immediate_scan_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_scan_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = call::immediate_scan_in_place(core_comm(self), buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// Replaces each element by the combination of those of the ranks before this one; rank 0's stay (MPI-4.1 §6.11.2,
    /// `MPI_Exscan`).
    #[track_caller]
    fn exclusive_scan_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) {
        let comm = core_comm(self);
        ok(comm, call::exclusive_scan_in_place(comm, buf, &op));
    }

    /// [`exclusive_scan_in_place`](Self::exclusive_scan_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_exclusive_scan_in_place<B: ?Sized + BufferMut, O: Operation>(
        &self,
        buf: &mut B,
        op: O,
    ) -> Result<(), Error> {
        caught(call::exclusive_scan_in_place(core_comm(self), buf, &op))
    }

    /// Starts [`exclusive_scan_in_place`](Self::exclusive_scan_in_place).
    #[track_caller]
    fn immediate_exclusive_scan_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_exclusive_scan_in_place(comm, buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_exclusive_scan_in_place`](Self::immediate_exclusive_scan_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_exclusive_scan_in_place<'a, B, O, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut B,
        op: O,
    ) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = call::immediate_exclusive_scan_in_place(core_comm(self), buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }
}

impl<C: CommunicatorCollectives + ?Sized> InPlaceCollectives for C {}
