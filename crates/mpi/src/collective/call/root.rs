//! Collectives with a root, with their errors.

use mpi_coll::InPlaceOr::Buf;
use mpi_coll::Root;
use mpi_comm::Comm;
use mpi_datatype::RecvBuf;
use mpi_p2p::{Error, RequestId};

use crate::collective::convert;
use crate::collective::operation::{Operation, core_op};
use crate::collective::parts::{Parts, data, even, even_data, not_root, only_root, with_parts};
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf};

pub(crate) fn broadcast_into<Buf>(comm: &Comm, root: Root, buffer: &mut Buf) -> Result<(), Error>
where
    Buf: ?Sized + BufferMut,
{
    let datatype = buffer.as_datatype();
    comm.broadcast(recv_buf(buffer, &datatype), root)
}

pub(crate) fn gather_into<S>(comm: &Comm, root: Root, sendbuf: &S) -> Result<(), Error>
where
    S: ?Sized + Buffer,
{
    not_root("gather", comm, root)?;
    let s = sendbuf.as_datatype();
    comm.gather(data(sendbuf, &s), None, root)
}

pub(crate) fn gather_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    only_root("gather", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let room = Some(even(comm, recvbuf, &r));
    with_parts(comm, recvbuf.count_usize(), comm.gather(data(sendbuf, &s), room, root))
}

pub(crate) fn gather_varcount_into<S>(comm: &Comm, root: Root, sendbuf: &S) -> Result<(), Error>
where
    S: ?Sized + Buffer,
{
    not_root("gatherv", comm, root)?;
    let s = sendbuf.as_datatype();
    comm.gatherv(data(sendbuf, &s), None, root)
}

pub(crate) fn gather_varcount_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + PartitionedBufferMut,
{
    only_root("gatherv", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let parts = Parts::of(comm, recvbuf)?;
    let room = parts.recv(comm, recvbuf, &r)?;
    comm.gatherv(data(sendbuf, &s), Some(room), root)
}

pub(crate) fn scatter_into<R>(comm: &Comm, root: Root, recvbuf: &mut R) -> Result<(), Error>
where
    R: ?Sized + BufferMut,
{
    not_root("scatter", comm, root)?;
    let r = recvbuf.as_datatype();
    comm.scatter(None, Buf(recv_buf(recvbuf, &r)), root)
}

pub(crate) fn scatter_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    only_root("scatter", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let whole = Some(even_data(comm, sendbuf, &s));
    with_parts(comm, sendbuf.count_usize(), comm.scatter(whole, Buf(recv_buf(recvbuf, &r)), root))
}

pub(crate) fn scatter_varcount_into<R>(comm: &Comm, root: Root, recvbuf: &mut R) -> Result<(), Error>
where
    R: ?Sized + BufferMut,
{
    not_root("scatterv", comm, root)?;
    let r = recvbuf.as_datatype();
    comm.scatterv(None, Buf(recv_buf(recvbuf, &r)), root)
}

pub(crate) fn scatter_varcount_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<(), Error>
where
    S: ?Sized + PartitionedBuffer,
    R: ?Sized + BufferMut,
{
    only_root("scatterv", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let parts = Parts::of(comm, sendbuf)?;
    let whole = parts.send(comm, sendbuf, &s)?;
    comm.scatterv(Some(whole), Buf(recv_buf(recvbuf, &r)), root)
}

pub(crate) fn reduce_into<S, O>(comm: &Comm, root: Root, sendbuf: &S, op: &O) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    O: Operation,
{
    not_root("reduce", comm, root)?;
    let s = sendbuf.as_datatype();
    comm.reduce(data(sendbuf, &s), None, core_op(op), root)
}

pub(crate) fn reduce_into_root<S, R, O>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<(), Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    only_root("reduce", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
    let call = |result: RecvBuf<'_>| comm.reduce(operands, Some(result), core_op(op), root);
    convert::reduce_into(comm, core_type(&s), result, call)
}

pub(crate) fn immediate_broadcast_into<Buf>(
    comm: &Comm,
    root: Root,
    buf: &mut Buf,
) -> Result<RequestId, Error>
where
    Buf: ?Sized + BufferMut,
{
    let datatype = buf.as_datatype();
    comm.ibroadcast(recv_buf(buf, &datatype), root)
}

pub(crate) fn immediate_gather_into<S>(comm: &Comm, root: Root, sendbuf: &S) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
{
    not_root("gather", comm, root)?;
    let s = sendbuf.as_datatype();
    comm.igather(data(sendbuf, &s), None, root)
}

pub(crate) fn immediate_gather_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    only_root("gather", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let room = Some(even(comm, recvbuf, &r));
    with_parts(comm, recvbuf.count_usize(), comm.igather(data(sendbuf, &s), room, root))
}

pub(crate) fn immediate_gather_varcount_into<S>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
{
    not_root("gatherv", comm, root)?;
    let s = sendbuf.as_datatype();
    comm.igatherv(data(sendbuf, &s), None, root)
}

pub(crate) fn immediate_gather_varcount_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + PartitionedBufferMut,
{
    only_root("gatherv", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let parts = Parts::of(comm, recvbuf)?;
    let room = Some(parts.recv(comm, recvbuf, &r)?);
    comm.igatherv(data(sendbuf, &s), room, root)
}

pub(crate) fn immediate_scatter_into<R>(comm: &Comm, root: Root, recvbuf: &mut R) -> Result<RequestId, Error>
where
    R: ?Sized + BufferMut,
{
    not_root("scatter", comm, root)?;
    let r = recvbuf.as_datatype();
    comm.iscatter(None, Buf(recv_buf(recvbuf, &r)), root)
}

pub(crate) fn immediate_scatter_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
{
    only_root("scatter", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let whole = Some(even_data(comm, sendbuf, &s));
    with_parts(comm, sendbuf.count_usize(), comm.iscatter(whole, Buf(recv_buf(recvbuf, &r)), root))
}

pub(crate) fn immediate_scatter_varcount_into<R>(
    comm: &Comm,
    root: Root,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    R: ?Sized + BufferMut,
{
    not_root("scatterv", comm, root)?;
    let r = recvbuf.as_datatype();
    comm.iscatterv(None, Buf(recv_buf(recvbuf, &r)), root)
}

pub(crate) fn immediate_scatter_varcount_into_root<S, R>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
) -> Result<RequestId, Error>
where
    S: ?Sized + PartitionedBuffer,
    R: ?Sized + BufferMut,
{
    only_root("scatterv", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let parts = Parts::of(comm, sendbuf)?;
    let whole = Some(parts.send(comm, sendbuf, &s)?);
    comm.iscatterv(whole, Buf(recv_buf(recvbuf, &r)), root)
}

pub(crate) fn immediate_reduce_into<S, O>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    op: &O,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    O: Operation,
{
    not_root("reduce", comm, root)?;
    let s = sendbuf.as_datatype();
    comm.ireduce(data(sendbuf, &s), None, core_op(op), root)
}

pub(crate) fn immediate_reduce_into_root<S, R, O>(
    comm: &Comm,
    root: Root,
    sendbuf: &S,
    recvbuf: &mut R,
    op: &O,
) -> Result<RequestId, Error>
where
    S: ?Sized + Buffer,
    R: ?Sized + BufferMut,
    O: Operation,
{
    only_root("reduce", comm, root)?;
    let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
    let room = Some(recv_buf(recvbuf, &r));
    comm.ireduce(data(sendbuf, &s), room, core_op(op), root)
}
