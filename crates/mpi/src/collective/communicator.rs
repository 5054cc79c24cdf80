//! Collectives in which all processes are alike.

use super::call;
use super::operation::Operation;
use super::parts::started;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::request::{Request, Scope, StaticScope};
use crate::topology::core_comm;
use crate::topology::traits::*;

/// Collectives in which all processes are alike.
///
/// Where a buffer holds something for each rank, its length is divided evenly among them; those named `varcount` take
/// partitions with a count for each.
pub trait CommunicatorCollectives: Communicator {
    /// Returns when all processes have called it (MPI-4.1 §6.3, `MPI_Barrier`).
    #[inline]
    #[track_caller]
    fn barrier(&self) {
        let comm = core_comm(self);
        ok(comm, call::barrier(comm));
    }

    /// Puts what each rank sends, in the order of ranks, into every rank's buffer (MPI-4.1 §6.7, `MPI_Allgather`).
    #[track_caller]
    fn all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::all_gather_into(comm, sendbuf, recvbuf));
    }

    /// As [`all_gather_into`](Self::all_gather_into), with a part of its own length for each rank (`MPI_Allgatherv`).
    #[track_caller]
    fn all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::all_gather_varcount_into(comm, sendbuf, recvbuf));
    }

    /// Sends the `j`th part of `sendbuf` to rank `j`, and receives what rank `i` sends as the `i`th part of `recvbuf`
    /// (MPI-4.1 §6.8, `MPI_Alltoall`).
    #[track_caller]
    fn all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::all_to_all_into(comm, sendbuf, recvbuf));
    }

    /// As [`all_to_all_into`](Self::all_to_all_into), with parts of their own lengths (`MPI_Alltoallv`).
    #[track_caller]
    fn all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::all_to_all_varcount_into(comm, sendbuf, recvbuf));
    }

    /// Combines what all ranks send, element by element, and gives every rank the result (MPI-4.1 §6.9.6,
    /// `MPI_Allreduce`).
    #[track_caller]
    fn all_reduce_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        ok(comm, call::all_reduce_into(comm, sendbuf, recvbuf, &op));
    }

    /// Combines what all ranks send, and gives rank `i` the `i`th part of the result (MPI-4.1 §6.10.1,
    /// `MPI_Reduce_scatter_block`).
    ///
    /// A `sendbuf` that is not as long as the parts of all ranks together is an error of class `MPI_ERR_COUNT`.
    #[track_caller]
    fn reduce_scatter_block_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        ok(comm, call::reduce_scatter_block_into(comm, sendbuf, recvbuf, &op));
    }

    /// Gives rank `i` the combination of what ranks 0 to `i` send (MPI-4.1 §6.11.1, `MPI_Scan`).
    #[track_caller]
    fn scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        ok(comm, call::scan_into(comm, sendbuf, recvbuf, &op));
    }

    /// Gives rank `i` the combination of what ranks 0 to `i - 1` send; rank 0's buffer stays as it is (MPI-4.1
    /// §6.11.2, `MPI_Exscan`).
    #[track_caller]
    fn exclusive_scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        ok(comm, call::exclusive_scan_into(comm, sendbuf, recvbuf, &op));
    }

    /// Starts a barrier, which completes when all processes have started it (MPI-4.1 §6.12.1, `MPI_Ibarrier`).
    #[track_caller]
    fn immediate_barrier(&self) -> Request<'static, ()> {
        let comm = core_comm(self);
        let request = call::immediate_barrier(comm);
        // SAFETY: it uses no memory.
        unsafe { started(comm, request, &(), StaticScope) }
    }

    /// Starts [`all_gather_into`](Self::all_gather_into) (`MPI_Iallgather`).
    #[track_caller]
    fn immediate_all_gather_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_gather_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_gather_varcount_into`](Self::all_gather_varcount_into) (`MPI_Iallgatherv`).
    #[track_caller]
    fn immediate_all_gather_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + PartitionedBufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_gather_varcount_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_to_all_into`](Self::all_to_all_into) (`MPI_Ialltoall`).
    #[track_caller]
    fn immediate_all_to_all_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_to_all_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_to_all_varcount_into`](Self::all_to_all_varcount_into) (`MPI_Ialltoallv`).
    #[track_caller]
    fn immediate_all_to_all_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + PartitionedBuffer,
        R: ?Sized + 'a + PartitionedBufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_to_all_varcount_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_reduce_into`](Self::all_reduce_into) (`MPI_Iallreduce`).
    #[track_caller]
    fn immediate_all_reduce_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_all_reduce_into(comm, sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`reduce_scatter_block_into`](Self::reduce_scatter_block_into) (`MPI_Ireduce_scatter_block`).
    ///
    /// A `sendbuf` that is not as long as the parts of all ranks together is an error of class `MPI_ERR_COUNT`.
    #[track_caller]
    fn immediate_reduce_scatter_block_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_reduce_scatter_block_into(comm, sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scan_into`](Self::scan_into) (`MPI_Iscan`).
    #[track_caller]
    fn immediate_scan_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_scan_into(comm, sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`exclusive_scan_into`](Self::exclusive_scan_into) (`MPI_Iexscan`).
    #[track_caller]
    fn immediate_exclusive_scan_into<'a, S, R, O, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self);
        let request = call::immediate_exclusive_scan_into(comm, sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }
}

impl<C: Communicator + ?Sized> CommunicatorCollectives for C {}
