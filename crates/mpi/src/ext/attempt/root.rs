//! Collectives with a root, with errors as values.

use crate::collective::call;
use crate::collective::parts::try_started;
use crate::collective::root::root;
use crate::collective::spawn;
use crate::collective::traits::*;
use crate::datatype::traits::*;
use crate::ext::error::caught;
use crate::ext::{Error, ErrorClass};
use crate::request::{Request, Scope};
use crate::topology::{InterCommunicator, Rank, core_comm};
use mpi_comm::Comm;
use std::process::Command;

/// The operations of [`Root`] with errors as values.
pub trait TryRoot: Root {
    /// [`spawn`](Root::spawn) with its error as a value, which names the program and the reason.
    ///
    /// # Errors
    /// `Spawn`, on every process, if they did not start; `Arg` where a word of the command holds a byte of value 0.
    ///
    /// # Panics
    /// As [`spawn`](Root::spawn).
    #[track_caller]
    fn try_spawn(&self, command: &Command, maxprocs: Rank) -> Result<InterCommunicator, Error> {
        started(core_comm(self.as_communicator()), self.root_rank(), &[(command, maxprocs)])
    }

    /// [`spawn_multiple`](Root::spawn_multiple) with its error as a value, which names the program and the reason.
    ///
    /// # Errors
    /// As [`try_spawn`](TryRoot::try_spawn); `Arg` where the root gave not one number for each command.
    ///
    /// # Panics
    /// As [`spawn`](Root::spawn).
    #[track_caller]
    fn try_spawn_multiple(
        &self,
        commands: &[Command],
        maxprocs: &[Rank],
    ) -> Result<InterCommunicator, Error> {
        let pairs: Vec<_> = commands.iter().zip(maxprocs.iter().copied()).collect();
        if commands.len() != maxprocs.len() {
            let detail = format!("{} commands, but {} numbers of processes", commands.len(), maxprocs.len());
            let fault = mpi_p2p::Error::new(ErrorClass::Arg, "spawn", detail);
            let comm = core_comm(self.as_communicator());
            return caught(comm.spawn_or_refuse(self.root_rank(), Err(fault)).map(InterCommunicator::made));
        }
        started(core_comm(self.as_communicator()), self.root_rank(), &pairs)
    }

    /// [`broadcast_into`](Root::broadcast_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_broadcast_into<Buf>(&self, buffer: &mut Buf) -> Result<(), Error>
    where
        Buf: ?Sized + BufferMut,
    {
        caught(call::broadcast_into(core_comm(self.as_communicator()), root(self), buffer))
    }

    /// [`gather_into`](Root::gather_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_gather_into<S>(&self, sendbuf: &S) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
    {
        caught(call::gather_into(core_comm(self.as_communicator()), root(self), sendbuf))
    }

    /// [`gather_into_root`](Root::gather_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_gather_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        caught(call::gather_into_root(core_comm(self.as_communicator()), root(self), sendbuf, recvbuf))
    }

    /// [`gather_varcount_into`](Root::gather_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_gather_varcount_into<S>(&self, sendbuf: &S) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
    {
        caught(call::gather_varcount_into(core_comm(self.as_communicator()), root(self), sendbuf))
    }

    /// [`gather_varcount_into_root`](Root::gather_varcount_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_gather_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        caught(call::gather_varcount_into_root(
            core_comm(self.as_communicator()),
            root(self),
            sendbuf,
            recvbuf,
        ))
    }

    /// [`scatter_into`](Root::scatter_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scatter_into<R>(&self, recvbuf: &mut R) -> Result<(), Error>
    where
        R: ?Sized + BufferMut,
    {
        caught(call::scatter_into(core_comm(self.as_communicator()), root(self), recvbuf))
    }

    /// [`scatter_into_root`](Root::scatter_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scatter_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        caught(call::scatter_into_root(core_comm(self.as_communicator()), root(self), sendbuf, recvbuf))
    }

    /// [`scatter_varcount_into`](Root::scatter_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scatter_varcount_into<R>(&self, recvbuf: &mut R) -> Result<(), Error>
    where
        R: ?Sized + BufferMut,
    {
        caught(call::scatter_varcount_into(core_comm(self.as_communicator()), root(self), recvbuf))
    }

    /// [`scatter_varcount_into_root`](Root::scatter_varcount_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scatter_varcount_into_root<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + BufferMut,
    {
        caught(call::scatter_varcount_into_root(
            core_comm(self.as_communicator()),
            root(self),
            sendbuf,
            recvbuf,
        ))
    }

    /// [`reduce_into`](Root::reduce_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_reduce_into<S, O>(&self, sendbuf: &S, op: O) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        O: Operation,
    {
        caught(call::reduce_into(core_comm(self.as_communicator()), root(self), sendbuf, &op))
    }

    /// [`reduce_into_root`](Root::reduce_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_reduce_into_root<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        caught(call::reduce_into_root(core_comm(self.as_communicator()), root(self), sendbuf, recvbuf, &op))
    }

    /// [`immediate_broadcast_into`](Root::immediate_broadcast_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_broadcast_into<'a, Buf, Sc>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_broadcast_into(core_comm(self.as_communicator()), root(self), buf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, buf, scope) }
    }

    /// [`immediate_gather_into`](Root::immediate_gather_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_gather_into<'a, S, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
    ) -> Result<Request<'a, S, Sc>, Error>
    where
        S: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request = call::immediate_gather_into(core_comm(self.as_communicator()), root(self), sendbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, sendbuf, scope) }
    }

    /// [`immediate_gather_into_root`](Root::immediate_gather_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_gather_into_root<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request =
            call::immediate_gather_into_root(core_comm(self.as_communicator()), root(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_gather_varcount_into`](Root::immediate_gather_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_gather_varcount_into<'a, Sc, S>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
    ) -> Result<Request<'a, S, Sc>, Error>
    where
        S: ?Sized + 'a + Buffer,
        Sc: Scope<'a>,
    {
        let request =
            call::immediate_gather_varcount_into(core_comm(self.as_communicator()), root(self), sendbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, sendbuf, scope) }
    }

    /// [`immediate_gather_varcount_into_root`](Root::immediate_gather_varcount_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_gather_varcount_into_root<'a, Sc, S, R>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + PartitionedBufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_gather_varcount_into_root(
            core_comm(self.as_communicator()),
            root(self),
            sendbuf,
            recvbuf,
        );
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_scatter_into`](Root::immediate_scatter_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_scatter_into<'a, Sc, R>(
        &self,
        scope: Sc,
        recvbuf: &'a mut R,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_scatter_into(core_comm(self.as_communicator()), root(self), recvbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_scatter_into_root`](Root::immediate_scatter_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_scatter_into_root<'a, Sc, S, R>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_scatter_into_root(
            core_comm(self.as_communicator()),
            root(self),
            sendbuf,
            recvbuf,
        );
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_scatter_varcount_into`](Root::immediate_scatter_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_scatter_varcount_into<'a, Sc, R>(
        &self,
        scope: Sc,
        recvbuf: &'a mut R,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request =
            call::immediate_scatter_varcount_into(core_comm(self.as_communicator()), root(self), recvbuf);
        // SAFETY: the buffer stays borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_scatter_varcount_into_root`](Root::immediate_scatter_varcount_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_scatter_varcount_into_root<'a, Sc, S, R>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        S: ?Sized + 'a + PartitionedBuffer,
        R: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_scatter_varcount_into_root(
            core_comm(self.as_communicator()),
            root(self),
            sendbuf,
            recvbuf,
        );
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_reduce_into`](Root::immediate_reduce_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_reduce_into<'a, Sc, S, O>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        op: O,
    ) -> Result<Request<'a, S, Sc>, Error>
    where
        S: ?Sized + 'a + Buffer,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request =
            call::immediate_reduce_into(core_comm(self.as_communicator()), root(self), sendbuf, &op);
        // SAFETY: the buffer, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, sendbuf, scope) }
    }

    /// [`immediate_reduce_into_root`](Root::immediate_reduce_into_root) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_reduce_into_root<'a, Sc, S, R, O>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
        op: O,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        S: ?Sized + 'a + Buffer,
        R: ?Sized + 'a + BufferMut,
        O: 'a + Operation,
        Sc: Scope<'a>,
    {
        let request = call::immediate_reduce_into_root(
            core_comm(self.as_communicator()),
            root(self),
            sendbuf,
            recvbuf,
            &op,
        );
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }
}

impl<R: Root + ?Sized> TryRoot for R {}

#[track_caller]
fn started(comm: &Comm, root: Rank, programs: &[(&Command, Rank)]) -> Result<InterCommunicator, Error> {
    match spawn::attempt(comm, root, programs) {
        Ok(result) => caught(result),
        Err(error) => Err(Error::new(ErrorClass::Arg, "spawn", error.to_string())),
    }
}
