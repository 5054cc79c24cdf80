//! Collectives in which all processes are alike, with their errors.

use mpi_coll::InPlaceOr::Buf;
use mpi_comm::Comm;
use mpi_p2p::{Error, RequestId};

use crate::collective::convert::reduce_into;
use crate::collective::operation::{Operation, core_op};
use crate::collective::parts::{Parts, data, even, even_data, one_part, with_parts};
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf};

pub(crate) fn barrier(comm: &Comm) -> Result<(), Error> {
    comm.barrier()
}

pub(crate) fn all_gather_into<S, R>(comm: &Comm, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let room = even(comm, recvbuf, &r);
    with_parts(comm, recvbuf.count_usize(), comm.allgather(data(sendbuf, &s), room))
}

pub(crate) fn all_gather_varcount_into<S, R>(comm: &Comm, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + PartitionedBufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let parts = Parts::of(comm, recvbuf)?;
    comm.allgatherv(data(sendbuf, &s), parts.recv(comm, recvbuf, &r)?)
}

pub(crate) fn all_to_all_into<S, R>(comm: &Comm, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let room = even(comm, recvbuf, &r);
    let call = comm.alltoall(Buf(even_data(comm, sendbuf, &s)), room);
    with_parts(comm, recvbuf.count_usize(), call)
}

pub(crate) fn all_to_all_varcount_into<S, R>(comm: &Comm, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
where
    S: ?Sized + PartitionedBuffer,
    R: ?Sized + PartitionedBufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let (from, to) = (Parts::of(comm, sendbuf)?, Parts::of(comm, recvbuf)?);
    comm.alltoallv(Buf(from.send(comm, sendbuf, &s)?), to.recv(comm, recvbuf, &r)?)
}

pub(crate) fn all_reduce_into<S, R, O>(comm: &Comm, sendbuf: &S, recvbuf: &mut R, op: &O) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
    reduce_into(comm, core_type(&s), result, |result| comm.allreduce(operands, result, core_op(op)))
}

pub(crate) fn reduce_scatter_block_into<S, R, O>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    one_part(comm, sendbuf.count_usize(), recvbuf.count_usize())?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
    reduce_into(comm, core_type(&s), result, |result| {
        comm.reduce_scatter_block(operands, result, core_op(op))
    })
}

pub(crate) fn scan_into<S, R, O>(comm: &Comm, sendbuf: &S, recvbuf: &mut R, op: &O) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
    reduce_into(comm, core_type(&s), result, |result| comm.scan(operands, result, core_op(op)))
}

pub(crate) fn exclusive_scan_into<S, R, O>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
    reduce_into(comm, core_type(&s), result, |result| comm.exscan(operands, result, core_op(op)))
}

pub(crate) fn immediate_barrier(comm: &Comm) -> Result<RequestId, Error> {
    comm.ibarrier()
}

pub(crate) fn immediate_all_gather_into<S, R>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let room = even(comm, recvbuf, &r);
    with_parts(comm, recvbuf.count_usize(), comm.iallgather(data(sendbuf, &s), room))
}

pub(crate) fn immediate_all_gather_varcount_into<S, R>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + PartitionedBufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let parts = Parts::of(comm, recvbuf)?;
    comm.iallgatherv(data(sendbuf, &s), parts.recv(comm, recvbuf, &r)?)
}

pub(crate) fn immediate_all_to_all_into<S, R>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let room = even(comm, recvbuf, &r);
    let call = comm.ialltoall(Buf(even_data(comm, sendbuf, &s)), room);
    with_parts(comm, recvbuf.count_usize(), call)
}

pub(crate) fn immediate_all_to_all_varcount_into<S, R>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + PartitionedBuffer,
    R: ?Sized + PartitionedBufferMut,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let (from, to) = (Parts::of(comm, sendbuf)?, Parts::of(comm, recvbuf)?);
    comm.ialltoallv(Buf(from.send(comm, sendbuf, &s)?), to.recv(comm, recvbuf, &r)?)
}

pub(crate) fn immediate_all_reduce_into<S, R, O>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    comm.iallreduce(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(op))
}

pub(crate) fn immediate_reduce_scatter_block_into<S, R, O>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    one_part(comm, sendbuf.count_usize(), recvbuf.count_usize())?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    comm.ireduce_scatter_block(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(op))
}

pub(crate) fn immediate_scan_into<S, R, O>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    comm.iscan(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(op))
}

pub(crate) fn immediate_exclusive_scan_into<S, R, O>(
    comm: &Comm,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    comm.iexscan(data(sendbuf, &s), recv_buf(recvbuf, &r), core_op(op))
}
