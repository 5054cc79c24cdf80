//! Collectives in which all processes are alike.

use mpi_coll::InPlaceOr::Buf;

use super::convert::reduce_into;
use super::operation::{Operation, core_op};
use super::parts::{Parts, data, even, even_data, started};
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf};
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
    fn barrier(&self) {
        let comm = core_comm(self);
        ok(comm, comm.barrier());
    }

    /// Puts what each rank sends, in the order of ranks, into every rank's buffer (MPI-4.1 §6.7, `MPI_Allgather`).
    fn all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        ok(comm, comm.allgather(data(sendbuf, &s), even(comm, recvbuf, &r)));
    }

    /// As [`all_gather_into`](Self::all_gather_into), with a part of its own length for each rank (`MPI_Allgatherv`).
    fn all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let comm = core_comm(self);
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(recvbuf);
        ok(comm, comm.allgatherv(data(sendbuf, &s), parts.recv(comm, recvbuf, &r)));
    }

    /// Sends the `j`th part of `sendbuf` to rank `j`, and receives what rank `i` sends as the `i`th part of `recvbuf`
    /// (MPI-4.1 §6.8, `MPI_Alltoall`).
    fn all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        ok(comm, comm.alltoall(Buf(even_data(comm, sendbuf, &s)), even(comm, recvbuf, &r)));
    }

    /// As [`all_to_all_into`](Self::all_to_all_into), with parts of their own lengths (`MPI_Alltoallv`).
    fn all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let comm = core_comm(self);
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (from, to) = (Parts::of(sendbuf), Parts::of(recvbuf));
        ok(comm, comm.alltoallv(Buf(from.send(comm, sendbuf, &s)), to.recv(comm, recvbuf, &r)));
    }

    /// Combines what all ranks send, element by element, and gives every rank the result (MPI-4.1 §6.9.6,
    /// `MPI_Allreduce`).
    fn all_reduce_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
        ok(
            comm,
            reduce_into(comm, core_type(&s), result, |result| comm.allreduce(operands, result, core_op(&op))),
        );
    }

    /// Combines what all ranks send, and gives rank `i` the `i`th part of the result (MPI-4.1 §6.10.1,
    /// `MPI_Reduce_scatter_block`).
    ///
    /// # Panics
    /// If `sendbuf` is not as long as the parts of all ranks together.
    fn reduce_scatter_block_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        assert_one_part(comm, sendbuf.count_usize(), recvbuf.count_usize());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
        ok(
            comm,
            reduce_into(comm, core_type(&s), result, |result| {
                comm.reduce_scatter_block(operands, result, core_op(&op))
            }),
        );
    }

    /// Gives rank `i` the combination of what ranks 0 to `i` send (MPI-4.1 §6.11.1, `MPI_Scan`).
    fn scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
        ok(
            comm,
            reduce_into(comm, core_type(&s), result, |result| comm.scan(operands, result, core_op(&op))),
        );
    }

    /// Gives rank `i` the combination of what ranks 0 to `i - 1` send; rank 0's buffer stays as it is (MPI-4.1
    /// §6.11.2, `MPI_Exscan`).
    fn exclusive_scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self);
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
        ok(
            comm,
            reduce_into(comm, core_type(&s), result, |result| comm.exscan(operands, result, core_op(&op))),
        );
    }

    /// Starts a barrier, which completes when all processes have started it (MPI-4.1 §6.12.1, `MPI_Ibarrier`).
    fn immediate_barrier(&self) -> Request<'static, ()> {
        let comm = core_comm(self);
        // SAFETY: it uses no memory.
        unsafe { started(comm, comm.ibarrier(), &(), StaticScope) }
    }

    /// Starts [`all_gather_into`](Self::all_gather_into) (`MPI_Iallgather`).
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
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let request = comm.iallgather(data(sendbuf, &s), even(comm, recvbuf, &r));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_gather_varcount_into`](Self::all_gather_varcount_into) (`MPI_Iallgatherv`).
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
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(recvbuf);
        let request = comm.iallgatherv(data(sendbuf, &s), parts.recv(comm, recvbuf, &r));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_to_all_into`](Self::all_to_all_into) (`MPI_Ialltoall`).
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
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let request = comm.ialltoall(Buf(even_data(comm, sendbuf, &s)), even(comm, recvbuf, &r));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_to_all_varcount_into`](Self::all_to_all_varcount_into) (`MPI_Ialltoallv`).
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
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (from, to) = (Parts::of(sendbuf), Parts::of(recvbuf));
        let request = comm.ialltoallv(Buf(from.send(comm, sendbuf, &s)), to.recv(comm, recvbuf, &r));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`all_reduce_into`](Self::all_reduce_into) (`MPI_Iallreduce`).
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
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let request = comm.iallreduce(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(&op));
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`reduce_scatter_block_into`](Self::reduce_scatter_block_into) (`MPI_Ireduce_scatter_block`).
    ///
    /// # Panics
    /// If `sendbuf` is not as long as the parts of all ranks together.
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
        assert_one_part(comm, sendbuf.count_usize(), recvbuf.count_usize());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let request = comm.ireduce_scatter_block(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(&op));
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scan_into`](Self::scan_into) (`MPI_Iscan`).
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
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let request = comm.iscan(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(&op));
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`exclusive_scan_into`](Self::exclusive_scan_into) (`MPI_Iexscan`).
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
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let request = comm.iexscan(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(&op));
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }
}

impl<C: Communicator + ?Sized> CommunicatorCollectives for C {}

fn assert_one_part(comm: &mpi_comm::Comm, whole: usize, part: usize) {
    let ranks = comm.size() as usize;
    assert_eq!(part * ranks, whole, "{whole} elements are not {part} for each of {ranks} ranks");
}
