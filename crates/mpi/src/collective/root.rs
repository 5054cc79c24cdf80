//! Collectives with a special process, the root.

use std::process::Command;

use super::operation::Operation;
use super::parts::started;
use super::{call, spawn};
use crate::MpiError;
use crate::datatype::traits::*;
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
    #[track_caller]
    fn broadcast_into<Buf>(&self, buffer: &mut Buf)
    where
        Buf: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::broadcast_into(comm, root(self), buffer));
    }

    /// Sends to the root, which gathers (MPI-4.1 §6.5, `MPI_Gather`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn gather_into<S>(&self, sendbuf: &S)
    where
        S: ?Sized + Buffer,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::gather_into(comm, root(self), sendbuf));
    }

    /// Gathers what all ranks send, in the order of ranks (`MPI_Gather`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn gather_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::gather_into_root(comm, root(self), sendbuf, recvbuf));
    }

    /// Sends to the root, which gathers parts of different lengths (`MPI_Gatherv`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn gather_varcount_into<S>(&self, sendbuf: &S)
    where
        S: ?Sized + Buffer,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::gather_varcount_into(comm, root(self), sendbuf));
    }

    /// Gathers parts of different lengths (`MPI_Gatherv`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn gather_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::gather_varcount_into_root(comm, root(self), sendbuf, recvbuf));
    }

    /// Receives this rank's part of what the root scatters (MPI-4.1 §6.6, `MPI_Scatter`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn scatter_into<R>(&self, recvbuf: &mut R)
    where
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::scatter_into(comm, root(self), recvbuf));
    }

    /// Gives rank `i` the `i`th part of `sendbuf` (`MPI_Scatter`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn scatter_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::scatter_into_root(comm, root(self), sendbuf, recvbuf));
    }

    /// Receives this rank's part, of a length of its own, of what the root scatters (`MPI_Scatterv`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn scatter_varcount_into<R>(&self, recvbuf: &mut R)
    where
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::scatter_varcount_into(comm, root(self), recvbuf));
    }

    /// Gives each rank a part of a length of its own (`MPI_Scatterv`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn scatter_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::scatter_varcount_into_root(comm, root(self), sendbuf, recvbuf));
    }

    /// Sends to the root, which gets the combination of what all send (MPI-4.1 §6.9.1, `MPI_Reduce`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn reduce_into<S, O>(&self, sendbuf: &S, op: O)
    where
        S: ?Sized + Buffer,
        O: Operation,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::reduce_into(comm, root(self), sendbuf, &op));
    }

    /// Combines what all ranks send, element by element (`MPI_Reduce`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn reduce_into_root<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        let comm = core_comm(self.as_communicator());
        ok(comm, call::reduce_into_root(comm, root(self), sendbuf, recvbuf, &op));
    }

    /// Starts [`broadcast_into`](Self::broadcast_into) (MPI-4.1 §6.12.2, `MPI_Ibcast`).
    #[track_caller]
    fn immediate_broadcast_into<'a, Buf, Sc>(&self, scope: Sc, buf: &'a mut Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_broadcast_into(comm, root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, buf, scope) }
    }

    /// Starts [`gather_into`](Self::gather_into) (`MPI_Igather`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn immediate_gather_into<'a, S, Sc>(&self, scope: Sc, sendbuf: &'a S) -> Request<'a, S, Sc>
    where
        S: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_gather_into(comm, root(self), sendbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, sendbuf, scope) }
    }

    /// Starts [`gather_into_root`](Self::gather_into_root) (`MPI_Igather`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
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
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_gather_into_root(comm, root(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`gather_varcount_into`](Self::gather_varcount_into) (`MPI_Igatherv`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn immediate_gather_varcount_into<'a, Sc, S>(&self, scope: Sc, sendbuf: &'a S) -> Request<'a, S, Sc>
    where
        S: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_gather_varcount_into(comm, root(self), sendbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, sendbuf, scope) }
    }

    /// Starts [`gather_varcount_into_root`](Self::gather_varcount_into_root) (`MPI_Igatherv`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
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
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_gather_varcount_into_root(comm, root(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_into`](Self::scatter_into) (`MPI_Iscatter`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn immediate_scatter_into<'a, Sc, R>(&self, scope: Sc, recvbuf: &'a mut R) -> Request<'a, R, Sc>
    where
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_scatter_into(comm, root(self), recvbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_into_root`](Self::scatter_into_root) (`MPI_Iscatter`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
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
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_scatter_into_root(comm, root(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_varcount_into`](Self::scatter_varcount_into) (`MPI_Iscatterv`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn immediate_scatter_varcount_into<'a, Sc, R>(&self, scope: Sc, recvbuf: &'a mut R) -> Request<'a, R, Sc>
    where
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_scatter_varcount_into(comm, root(self), recvbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`scatter_varcount_into_root`](Self::scatter_varcount_into_root) (`MPI_Iscatterv`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
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
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_scatter_varcount_into_root(comm, root(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// Starts [`reduce_into`](Self::reduce_into) (`MPI_Ireduce`).
    ///
    /// On the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
    fn immediate_reduce_into<'a, Sc, S, O>(&self, scope: Sc, sendbuf: &'a S, op: O) -> Request<'a, S, Sc>
    where
        S: ?Sized + 'a + Buffer,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_reduce_into(comm, root(self), sendbuf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { started(comm, request, sendbuf, scope) }
    }

    /// Starts [`reduce_into_root`](Self::reduce_into_root) (`MPI_Ireduce`).
    ///
    /// On other processes than the root this is an error of class `MPI_ERR_ROOT`.
    #[track_caller]
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
        let comm = core_comm(self.as_communicator());
        let request = call::immediate_reduce_into_root(comm, root(self), sendbuf, recvbuf, &op);
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
    #[track_caller]
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
    #[track_caller]
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

/// The root as the layers below name it; what is no rank becomes one that is in no communicator.
#[inline(always)]
pub(crate) fn root<R: Root + ?Sized>(root: &R) -> mpi_coll::Root {
    match root.root_rank() {
        MPI_ROOT => mpi_coll::Root::Root,
        MPI_PROC_NULL => mpi_coll::Root::Null,
        rank => mpi_coll::Root::Rank(rank as usize),
    }
}
