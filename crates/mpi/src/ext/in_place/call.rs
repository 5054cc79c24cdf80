//! The operations themselves, with their errors.

use mpi_coll::InPlaceOr::InPlace;
use mpi_coll::Root;
use mpi_comm::Comm;
use mpi_p2p::RequestId;

use crate::collective::Operation;
use crate::collective::operation::core_op;
use crate::collective::parts::{even, only_root};
use crate::datatype::recv_buf;
use crate::datatype::traits::*;

type Core<T> = Result<T, mpi_p2p::Error>;

pub(super) fn all_gather_in_place<B: ?Sized + BufferMut>(comm: &Comm, buf: &mut B) -> Core<()> {
    let r = buf.as_datatype();
    comm.allgather(InPlace, even(comm, buf, &r))
}

pub(super) fn immediate_all_gather_in_place<B: ?Sized + BufferMut>(
    comm: &Comm,
    buf: &mut B,
) -> Core<RequestId> {
    let r = buf.as_datatype();
    comm.iallgather(InPlace, even(comm, buf, &r))
}

pub(super) fn all_to_all_in_place<B: ?Sized + BufferMut>(comm: &Comm, buf: &mut B) -> Core<()> {
    let r = buf.as_datatype();
    comm.alltoall(InPlace, even(comm, buf, &r))
}

pub(super) fn immediate_all_to_all_in_place<B: ?Sized + BufferMut>(
    comm: &Comm,
    buf: &mut B,
) -> Core<RequestId> {
    let r = buf.as_datatype();
    comm.ialltoall(InPlace, even(comm, buf, &r))
}

pub(super) fn all_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<()> {
    let r = buf.as_datatype();
    comm.allreduce(InPlace, recv_buf(buf, &r), core_op(op))
}

pub(super) fn immediate_all_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<RequestId> {
    let r = buf.as_datatype();
    comm.iallreduce(InPlace, recv_buf(buf, &r), core_op(op))
}

pub(super) fn reduce_scatter_block_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<()> {
    let r = buf.as_datatype();
    comm.reduce_scatter_block(InPlace, even(comm, buf, &r), core_op(op))
}

pub(super) fn immediate_reduce_scatter_block_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<RequestId> {
    let r = buf.as_datatype();
    comm.ireduce_scatter_block(InPlace, even(comm, buf, &r), core_op(op))
}

pub(super) fn scan_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<()> {
    let r = buf.as_datatype();
    comm.scan(InPlace, recv_buf(buf, &r), core_op(op))
}

pub(super) fn immediate_scan_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<RequestId> {
    let r = buf.as_datatype();
    comm.iscan(InPlace, recv_buf(buf, &r), core_op(op))
}

pub(super) fn exclusive_scan_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<()> {
    let r = buf.as_datatype();
    comm.exscan(InPlace, recv_buf(buf, &r), core_op(op))
}

pub(super) fn immediate_exclusive_scan_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    buf: &mut B,
    op: &O,
) -> Core<RequestId> {
    let r = buf.as_datatype();
    comm.iexscan(InPlace, recv_buf(buf, &r), core_op(op))
}

pub(super) fn gather_in_place<B: ?Sized + BufferMut>(comm: &Comm, root: Root, buf: &mut B) -> Core<()> {
    only_root("gather", comm, root)?;
    let r = buf.as_datatype();
    comm.gather(InPlace, Some(even(comm, buf, &r)), root)
}

pub(super) fn immediate_gather_in_place<B: ?Sized + BufferMut>(
    comm: &Comm,
    root: Root,
    buf: &mut B,
) -> Core<RequestId> {
    only_root("gather", comm, root)?;
    let r = buf.as_datatype();
    comm.igather(InPlace, Some(even(comm, buf, &r)), root)
}

pub(super) fn scatter_in_place<B: ?Sized + BufferMut>(comm: &Comm, root: Root, buf: &mut B) -> Core<()> {
    only_root("scatter", comm, root)?;
    let r = buf.as_datatype();
    comm.scatter(Some(even(comm, buf, &r).as_send()), InPlace, root)
}

pub(super) fn immediate_scatter_in_place<B: ?Sized + BufferMut>(
    comm: &Comm,
    root: Root,
    buf: &mut B,
) -> Core<RequestId> {
    only_root("scatter", comm, root)?;
    let r = buf.as_datatype();
    comm.iscatter(Some(even(comm, buf, &r).as_send()), InPlace, root)
}

pub(super) fn reduce_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    root: Root,
    buf: &mut B,
    op: &O,
) -> Core<()> {
    only_root("reduce", comm, root)?;
    let r = buf.as_datatype();
    comm.reduce(InPlace, Some(recv_buf(buf, &r)), core_op(op), root)
}

pub(super) fn immediate_reduce_in_place<B: ?Sized + BufferMut, O: Operation>(
    comm: &Comm,
    root: Root,
    buf: &mut B,
    op: &O,
) -> Core<RequestId> {
    only_root("reduce", comm, root)?;
    let r = buf.as_datatype();
    comm.ireduce(InPlace, Some(recv_buf(buf, &r)), core_op(op), root)
}
