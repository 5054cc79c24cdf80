//! Collectives with a special process, the root.

use std::process::Command;

use mpi_coll::InPlaceOr::Buf;
use mpi_datatype::RecvBuf;

use super::convert::reduce_into;
use super::operation::{Operation, core_op};
use super::parts::{Parts, data, even, even_data, started};
use super::spawn;
use crate::MpiError;
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf};
use crate::error::ok;
use crate::ffi::{MPI_PROC_NULL, MPI_ROOT};
use crate::request::{Request, Scope};
use crate::topology::traits::*;
use crate::topology::{InterCommunicator, Process, Rank, core_comm};

/// A process as the root of collectives. The root calls the methods named `_root`, all others the ones without.
pub trait Root: AsCommunicator {
    /// The root's rank.
    fn root_rank(&self) -> Rank;

    /// Gives every process what the root's buffer holds (MPI-4.1 §6.4, `MPI_Bcast`).
    fn broadcast_into<Buf>(&self, buffer: &mut Buf)
    where
        Buf: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        let datatype = buffer.as_datatype();
        ok(comm, comm.broadcast(recv_buf(buffer, &datatype), root(self)));
    }

    /// Sends to the root, which gathers (MPI-4.1 §6.5, `MPI_Gather`).
    ///
    /// # Panics
    /// On the root.
    fn gather_into<S>(&self, sendbuf: &S)
    where
        S: ?Sized + Buffer,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let s = sendbuf.as_datatype();
        ok(comm, comm.gather(data(sendbuf, &s), None, root(self)));
    }

    /// Gathers what all ranks send, in the order of ranks (`MPI_Gather`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn gather_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        ok(comm, comm.gather(data(sendbuf, &s), Some(even(comm, recvbuf, &r)), root(self)));
    }

    /// Sends to the root, which gathers parts of different lengths (`MPI_Gatherv`).
    ///
    /// # Panics
    /// On the root.
    fn gather_varcount_into<S>(&self, sendbuf: &S)
    where
        S: ?Sized + Buffer,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let s = sendbuf.as_datatype();
        ok(comm, comm.gatherv(data(sendbuf, &s), None, root(self)));
    }

    /// Gathers parts of different lengths (`MPI_Gatherv`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn gather_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(recvbuf);
        let room = parts.recv(comm, recvbuf, &r);
        ok(comm, comm.gatherv(data(sendbuf, &s), Some(room), root(self)));
    }

    /// Receives this rank's part of what the root scatters (MPI-4.1 §6.6, `MPI_Scatter`).
    ///
    /// # Panics
    /// On the root.
    fn scatter_into<R>(&self, recvbuf: &mut R)
    where
        R: ?Sized + BufferMut,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let r = recvbuf.as_datatype();
        ok(comm, comm.scatter(None, Buf(recv_buf(recvbuf, &r)), root(self)));
    }

    /// Gives rank `i` the `i`th part of `sendbuf` (`MPI_Scatter`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn scatter_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        ok(comm, comm.scatter(Some(even_data(comm, sendbuf, &s)), Buf(recv_buf(recvbuf, &r)), root(self)));
    }

    /// Receives this rank's part, of a length of its own, of what the root scatters (`MPI_Scatterv`).
    ///
    /// # Panics
    /// On the root.
    fn scatter_varcount_into<R>(&self, recvbuf: &mut R)
    where
        R: ?Sized + BufferMut,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let r = recvbuf.as_datatype();
        ok(comm, comm.scatterv(None, Buf(recv_buf(recvbuf, &r)), root(self)));
    }

    /// Gives each rank a part of a length of its own (`MPI_Scatterv`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn scatter_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + BufferMut,
    {
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(sendbuf);
        let whole = parts.send(comm, sendbuf, &s);
        ok(comm, comm.scatterv(Some(whole), Buf(recv_buf(recvbuf, &r)), root(self)));
    }

    /// Sends to the root, which gets the combination of what all send (MPI-4.1 §6.9.1, `MPI_Reduce`).
    ///
    /// # Panics
    /// On the root.
    fn reduce_into<S, O>(&self, sendbuf: &S, op: O)
    where
        S: ?Sized + Buffer,
        O: Operation,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let s = sendbuf.as_datatype();
        ok(comm, comm.reduce(data(sendbuf, &s), None, core_op(&op), root(self)));
    }

    /// Combines what all ranks send, element by element (`MPI_Reduce`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn reduce_into_root<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (operands, result) = (data(sendbuf, &s), recv_buf(recvbuf, &r));
        let call = |result: RecvBuf<'_>| comm.reduce(operands, Some(result), core_op(&op), root(self));
        ok(comm, reduce_into(comm, core_type(&s), result, call));
    }

    /// Starts [`broadcast_into`](Self::broadcast_into) (MPI-4.1 §6.12.2, `MPI_Ibcast`).
    fn immediate_broadcast_into<'a, Buf, Sc>(&self, scope: Sc, buf: &'a mut Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let datatype = buf.as_datatype();
        let request = comm.ibroadcast(recv_buf(buf, &datatype), root(self));
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// Starts [`gather_into`](Self::gather_into) (`MPI_Igather`).
    ///
    /// # Panics
    /// On the root.
    fn immediate_gather_into<'a, S, Sc>(&self, scope: Sc, sendbuf: &'a S) -> Request<'a, S, Sc>
    where
        S: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let s = sendbuf.as_datatype();
        let request = comm.igather(data(sendbuf, &s), None, root(self));
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, sendbuf, scope) }
    }

    /// Starts [`gather_into_root`](Self::gather_into_root) (`MPI_Igather`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn immediate_gather_into_root<'a, S, R, Sc>(
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
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let room = Some(even(comm, recvbuf, &r));
        let request = comm.igather(data(sendbuf, &s), room, root(self));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`gather_varcount_into`](Self::gather_varcount_into) (`MPI_Igatherv`).
    ///
    /// # Panics
    /// On the root.
    fn immediate_gather_varcount_into<'a, Sc, S>(&self, scope: Sc, sendbuf: &'a S) -> Request<'a, S, Sc>
    where
        S: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let s = sendbuf.as_datatype();
        let request = comm.igatherv(data(sendbuf, &s), None, root(self));
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, sendbuf, scope) }
    }

    /// Starts [`gather_varcount_into_root`](Self::gather_varcount_into_root) (`MPI_Igatherv`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn immediate_gather_varcount_into_root<'a, Sc, S, R>(
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
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(recvbuf);
        let room = Some(parts.recv(comm, recvbuf, &r));
        let request = comm.igatherv(data(sendbuf, &s), room, root(self));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_into`](Self::scatter_into) (`MPI_Iscatter`).
    ///
    /// # Panics
    /// On the root.
    fn immediate_scatter_into<'a, Sc, R>(&self, scope: Sc, recvbuf: &'a mut R) -> Request<'a, R, Sc>
    where
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let r = recvbuf.as_datatype();
        let request = comm.iscatter(None, Buf(recv_buf(recvbuf, &r)), root(self));
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_into_root`](Self::scatter_into_root) (`MPI_Iscatter`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn immediate_scatter_into_root<'a, Sc, S, R>(
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
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let whole = Some(even_data(comm, sendbuf, &s));
        let request = comm.iscatter(whole, Buf(recv_buf(recvbuf, &r)), root(self));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_varcount_into`](Self::scatter_varcount_into) (`MPI_Iscatterv`).
    ///
    /// # Panics
    /// On the root.
    fn immediate_scatter_varcount_into<'a, Sc, R>(&self, scope: Sc, recvbuf: &'a mut R) -> Request<'a, R, Sc>
    where
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let r = recvbuf.as_datatype();
        let request = comm.iscatterv(None, Buf(recv_buf(recvbuf, &r)), root(self));
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_varcount_into_root`](Self::scatter_varcount_into_root) (`MPI_Iscatterv`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn immediate_scatter_varcount_into_root<'a, Sc, S, R>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Request<'a, R, Sc>
    where
        S: ?Sized + 'a + PartitionedBuffer,
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(sendbuf);
        let whole = Some(parts.send(comm, sendbuf, &s));
        let request = comm.iscatterv(whole, Buf(recv_buf(recvbuf, &r)), root(self));
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`reduce_into`](Self::reduce_into) (`MPI_Ireduce`).
    ///
    /// # Panics
    /// On the root.
    fn immediate_reduce_into<'a, Sc, S, O>(&self, scope: Sc, sendbuf: &'a S, op: O) -> Request<'a, S, Sc>
    where
        S: ?Sized + 'a + Buffer,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        assert_not_root(self);
        let comm = core_comm(self.as_communicator());
        let s = sendbuf.as_datatype();
        let request = comm.ireduce(data(sendbuf, &s), None, core_op(&op), root(self));
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, sendbuf, scope) }
    }

    /// Starts [`reduce_into_root`](Self::reduce_into_root) (`MPI_Ireduce`).
    ///
    /// # Panics
    /// On other processes than the root.
    fn immediate_reduce_into_root<'a, Sc, S, R, O>(
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
        assert_root(self);
        let comm = core_comm(self.as_communicator());
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let room = Some(recv_buf(recvbuf, &r));
        let request = comm.ireduce(data(sendbuf, &s), room, core_op(&op), root(self));
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts `maxprocs` processes of a program; all of the communicator get the way to them (MPI-4.1 §11.8.2,
    /// `MPI_Comm_spawn`). Collective; what the root gives counts.
    ///
    /// The command's directory and variables are followed. All processes start, or none does; then the root prints
    /// which program is at fault, and why.
    ///
    /// # Errors
    /// If they did not start, or a word of the command holds a byte of value 0.
    ///
    /// # Panics
    /// If the command removes a variable, or sets one to several lines.
    fn spawn(&self, command: &Command, maxprocs: Rank) -> Result<InterCommunicator, MpiError> {
        spawn::spawn(core_comm(self.as_communicator()), self.root_rank(), &[(command, maxprocs)])
    }

    /// Starts processes of several programs, as many of each as `maxprocs` says (MPI-4.1 §11.8.3,
    /// `MPI_Comm_spawn_multiple`). Collective; what the root gives counts.
    ///
    /// # Errors
    /// As [`spawn`](Root::spawn).
    ///
    /// # Panics
    /// As [`spawn`](Root::spawn), and if there is not one number for each command.
    fn spawn_multiple(&self, commands: &[Command], maxprocs: &[Rank]) -> Result<InterCommunicator, MpiError> {
        assert_eq!(commands.len(), maxprocs.len(), "each command needs its number of processes");
        let pairs: Vec<_> = commands.iter().zip(maxprocs.iter().copied()).collect();
        spawn::spawn(core_comm(self.as_communicator()), self.root_rank(), &pairs)
    }
}

impl Root for Process<'_> {
    #[inline(always)]
    fn root_rank(&self) -> Rank {
        self.rank()
    }
}

fn assert_root<R: Root + ?Sized>(root: &R) {
    assert!(is_root(root), "only the root calls this, and rank {} is not the root", own_rank(root));
}

fn assert_not_root<R: Root + ?Sized>(root: &R) {
    assert!(!is_root(root), "the root calls the method named `_root`");
}

fn own_rank<R: Root + ?Sized>(root: &R) -> Rank {
    root.as_communicator().rank()
}

/// Ranks of roots are those of the other group in an inter-communicator, where the root itself goes by a name of its
/// own.
fn is_root<R: Root + ?Sized>(root: &R) -> bool {
    match core_comm(root.as_communicator()).is_inter() {
        true => root.root_rank() == MPI_ROOT,
        false => root.root_rank() == own_rank(root),
    }
}

/// The root as the layers below name it; what is no rank becomes one that is in no communicator.
#[inline(always)]
fn root<R: Root + ?Sized>(root: &R) -> mpi_coll::Root {
    match root.root_rank() {
        MPI_ROOT => mpi_coll::Root::Root,
        MPI_PROC_NULL => mpi_coll::Root::Null,
        rank => mpi_coll::Root::Rank(rank as usize),
    }
}
