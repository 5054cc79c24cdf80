//! Collectives whose operand stands where the result goes (MPI-4.1 §6.2, `MPI_IN_PLACE`).

use mpi_coll::InPlaceOr::InPlace;
use mpi_comm::Comm;
use mpi_p2p::RequestId;

use super::Error;
use super::error::caught;
use crate::collective::operation::core_op;
use crate::collective::parts::{even, only_root, started};
use crate::collective::root::root;
use crate::collective::traits::*;
use crate::datatype::recv_buf;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::ffi::MPI_Request;
use crate::request::{Request, Scope};
use crate::topology::core_comm;
use crate::topology::traits::*;

type Core<T> = Result<T, mpi_p2p::Error>;

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
    /// Those of the operation.
    #[track_caller]
    fn try_all_gather_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        caught(call::all_gather_in_place(core_comm(self), buf))
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
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_all_gather_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_all_gather_in_place(core_comm(self), buf))?;
        // SAFETY: the buffer stays borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
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
    /// Those of the operation.
    #[track_caller]
    fn try_all_to_all_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        caught(call::all_to_all_in_place(core_comm(self), buf))
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
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_all_to_all_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_all_to_all_in_place(core_comm(self), buf))?;
        // SAFETY: the buffer stays borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
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
    fn try_all_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) -> Result<(), Error> {
        caught(call::all_reduce_in_place(core_comm(self), buf, &op))
    }

    /// Starts [`all_reduce_in_place`](Self::all_reduce_in_place).
    #[track_caller]
    fn immediate_all_reduce_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Request<'a, B, Sc>
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
    fn try_immediate_all_reduce_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_all_reduce_in_place(core_comm(self), buf, &op))?;
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
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
    fn try_reduce_scatter_block_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) -> Result<(), Error> {
        caught(call::reduce_scatter_block_in_place(core_comm(self), buf, &op))
    }

    /// Starts [`reduce_scatter_block_in_place`](Self::reduce_scatter_block_in_place).
    #[track_caller]
    fn immediate_reduce_scatter_block_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Request<'a, B, Sc>
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
    fn try_immediate_reduce_scatter_block_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_reduce_scatter_block_in_place(core_comm(self), buf, &op))?;
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
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
    fn try_scan_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) -> Result<(), Error> {
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
    fn try_immediate_scan_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_scan_in_place(core_comm(self), buf, &op))?;
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
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
    fn try_exclusive_scan_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) -> Result<(), Error> {
        caught(call::exclusive_scan_in_place(core_comm(self), buf, &op))
    }

    /// Starts [`exclusive_scan_in_place`](Self::exclusive_scan_in_place).
    #[track_caller]
    fn immediate_exclusive_scan_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Request<'a, B, Sc>
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
    fn try_immediate_exclusive_scan_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_exclusive_scan_in_place(core_comm(self), buf, &op))?;
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
    }
}

impl<C: CommunicatorCollectives + ?Sized> InPlaceCollectives for C {}

/// Collectives in place, as the root calls them; the others call the plain ones.
pub trait InPlaceRoot: Root {
    /// `buf` holds a part for each rank, and the root's own stands in its place: the others are gathered (MPI-4.1 §6.5,
    /// `MPI_Gather`). Only the root calls it.
    #[track_caller]
    fn gather_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::gather_in_place(comm, root(self), buf));
    }

    /// [`gather_in_place`](Self::gather_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_gather_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        caught(call::gather_in_place(core_comm(self.as_communicator()), root(self), buf))
    }

    /// Starts [`gather_in_place`](Self::gather_in_place).
    #[track_caller]
    fn immediate_gather_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_gather_in_place(comm, root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_gather_in_place`](Self::immediate_gather_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_gather_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_gather_in_place(core_comm(self.as_communicator()), root(self), buf))?;
        // SAFETY: the buffer stays borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
    }

    /// Gives rank `i` the `i`th part of `buf`, and leaves the root's own where it is (MPI-4.1 §6.6, `MPI_Scatter`). Only the
    /// root calls it.
    #[track_caller]
    fn scatter_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::scatter_in_place(comm, root(self), buf));
    }

    /// [`scatter_in_place`](Self::scatter_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scatter_in_place<B: ?Sized + BufferMut>(&self, buf: &mut B) -> Result<(), Error> {
        caught(call::scatter_in_place(core_comm(self.as_communicator()), root(self), buf))
    }

    /// Starts [`scatter_in_place`](Self::scatter_in_place).
    #[track_caller]
    fn immediate_scatter_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_scatter_in_place(comm, root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_scatter_in_place`](Self::immediate_scatter_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_scatter_in_place<'a, B, Sc>(&self, scope: Sc, buf: &'a mut B) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_scatter_in_place(core_comm(self.as_communicator()), root(self), buf))?;
        // SAFETY: the buffer stays borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
    }

    /// Replaces each element by the combination of those of all ranks (MPI-4.1 §6.9.1, `MPI_Reduce`). Only the root calls
    /// it.
    #[track_caller]
    fn reduce_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::reduce_in_place(comm, root(self), buf, &op));
    }

    /// [`reduce_in_place`](Self::reduce_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(&self, buf: &mut B, op: O) -> Result<(), Error> {
        caught(call::reduce_in_place(core_comm(self.as_communicator()), root(self), buf, &op))
    }

    /// Starts [`reduce_in_place`](Self::reduce_in_place).
    #[track_caller]
    fn immediate_reduce_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Request<'a, B, Sc>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_reduce_in_place(comm, root(self), buf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// [`immediate_reduce_in_place`](Self::immediate_reduce_in_place) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_reduce_in_place<'a, B, O, Sc>(&self, scope: Sc, buf: &'a mut B, op: O) -> Result<Request<'a, B, Sc>, Error>
    where
        B: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = caught(call::immediate_reduce_in_place(core_comm(self.as_communicator()), root(self), buf, &op))?;
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        Ok(unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) })
    }
}

impl<R: Root + ?Sized> InPlaceRoot for R {}

/// The operations themselves, with their errors.
mod call {
    use super::*;

    pub(super) fn all_gather_in_place<B: ?Sized + BufferMut>(comm: &Comm, buf: &mut B) -> Core<()> {
        let r = buf.as_datatype();
        comm.allgather(InPlace, even(comm, buf, &r))
    }

    pub(super) fn immediate_all_gather_in_place<B: ?Sized + BufferMut>(comm: &Comm, buf: &mut B) -> Core<RequestId> {
        let r = buf.as_datatype();
        comm.iallgather(InPlace, even(comm, buf, &r))
    }

    pub(super) fn all_to_all_in_place<B: ?Sized + BufferMut>(comm: &Comm, buf: &mut B) -> Core<()> {
        let r = buf.as_datatype();
        comm.alltoall(InPlace, even(comm, buf, &r))
    }

    pub(super) fn immediate_all_to_all_in_place<B: ?Sized + BufferMut>(comm: &Comm, buf: &mut B) -> Core<RequestId> {
        let r = buf.as_datatype();
        comm.ialltoall(InPlace, even(comm, buf, &r))
    }

    pub(super) fn all_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<()> {
        let r = buf.as_datatype();
        comm.allreduce(InPlace, recv_buf(buf, &r), core_op(op))
    }

    pub(super) fn immediate_all_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<RequestId> {
        let r = buf.as_datatype();
        comm.iallreduce(InPlace, recv_buf(buf, &r), core_op(op))
    }

    pub(super) fn reduce_scatter_block_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<()> {
        let r = buf.as_datatype();
        comm.reduce_scatter_block(InPlace, even(comm, buf, &r), core_op(op))
    }

    pub(super) fn immediate_reduce_scatter_block_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<RequestId> {
        let r = buf.as_datatype();
        comm.ireduce_scatter_block(InPlace, even(comm, buf, &r), core_op(op))
    }

    pub(super) fn scan_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<()> {
        let r = buf.as_datatype();
        comm.scan(InPlace, recv_buf(buf, &r), core_op(op))
    }

    pub(super) fn immediate_scan_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<RequestId> {
        let r = buf.as_datatype();
        comm.iscan(InPlace, recv_buf(buf, &r), core_op(op))
    }

    pub(super) fn exclusive_scan_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<()> {
        let r = buf.as_datatype();
        comm.exscan(InPlace, recv_buf(buf, &r), core_op(op))
    }

    pub(super) fn immediate_exclusive_scan_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, buf: &mut B, op: &O) -> Core<RequestId> {
        let r = buf.as_datatype();
        comm.iexscan(InPlace, recv_buf(buf, &r), core_op(op))
    }

    pub(super) fn gather_in_place<B: ?Sized + BufferMut>(comm: &Comm, root: usize, buf: &mut B) -> Core<()> {
        only_root(comm, root)?;
let r = buf.as_datatype();
        comm.gather(InPlace, Some(even(comm, buf, &r)), root)
    }

    pub(super) fn immediate_gather_in_place<B: ?Sized + BufferMut>(comm: &Comm, root: usize, buf: &mut B) -> Core<RequestId> {
        only_root(comm, root)?;
let r = buf.as_datatype();
        comm.igather(InPlace, Some(even(comm, buf, &r)), root)
    }

    pub(super) fn scatter_in_place<B: ?Sized + BufferMut>(comm: &Comm, root: usize, buf: &mut B) -> Core<()> {
        only_root(comm, root)?;
let r = buf.as_datatype();
        comm.scatter(Some(even(comm, buf, &r).as_send()), InPlace, root)
    }

    pub(super) fn immediate_scatter_in_place<B: ?Sized + BufferMut>(comm: &Comm, root: usize, buf: &mut B) -> Core<RequestId> {
        only_root(comm, root)?;
let r = buf.as_datatype();
        comm.iscatter(Some(even(comm, buf, &r).as_send()), InPlace, root)
    }

    pub(super) fn reduce_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, root: usize, buf: &mut B, op: &O) -> Core<()> {
        only_root(comm, root)?;
let r = buf.as_datatype();
        comm.reduce(InPlace, Some(recv_buf(buf, &r)), core_op(op), root)
    }

    pub(super) fn immediate_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(comm: &Comm, root: usize, buf: &mut B, op: &O) -> Core<RequestId> {
        only_root(comm, root)?;
let r = buf.as_datatype();
        comm.ireduce(InPlace, Some(recv_buf(buf, &r)), core_op(op), root)
    }
}
