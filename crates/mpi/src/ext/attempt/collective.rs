//! Collectives in which all processes are alike, with errors as values.

use crate::collective::call;
use crate::collective::parts::{evenly, try_started};
use crate::collective::traits::*;
use crate::datatype::traits::*;
use crate::ext::Error;
use crate::ext::error::caught;
use crate::request::{Request, Scope, StaticScope};
use crate::topology::core_comm;

/// The operations of [`CommunicatorCollectives`] with errors as values.
pub trait TryCommunicatorCollectives: CommunicatorCollectives {
    /// [`barrier`](CommunicatorCollectives::barrier) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_barrier(&self) -> Result<(), Error> {
        caught(call::barrier(core_comm(self)))
    }

    /// [`all_gather_into`](CommunicatorCollectives::all_gather_into) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation.
    #[track_caller]
    fn try_all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        caught(evenly(comm, "allgather", recvbuf.count_usize()))?;
        caught(call::all_gather_into(comm, sendbuf, recvbuf))
    }

    /// [`all_gather_varcount_into`](CommunicatorCollectives::all_gather_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        caught(call::all_gather_varcount_into(core_comm(self), sendbuf, recvbuf))
    }

    /// [`all_to_all_into`](CommunicatorCollectives::all_to_all_into) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation.
    #[track_caller]
    fn try_all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        caught(evenly(comm, "alltoall", sendbuf.count_usize()))?;
        caught(evenly(comm, "alltoall", recvbuf.count_usize()))?;
        caught(call::all_to_all_into(comm, sendbuf, recvbuf))
    }

    /// [`all_to_all_varcount_into`](CommunicatorCollectives::all_to_all_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + PartitionedBufferMut,
    {
        caught(call::all_to_all_varcount_into(core_comm(self), sendbuf, recvbuf))
    }

    /// [`all_reduce_into`](CommunicatorCollectives::all_reduce_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_all_reduce_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        caught(call::all_reduce_into(core_comm(self), sendbuf, recvbuf, &op))
    }

    /// [`reduce_scatter_block_into`](CommunicatorCollectives::reduce_scatter_block_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_reduce_scatter_block_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        caught(call::reduce_scatter_block_into(core_comm(self), sendbuf, recvbuf, &op))
    }

    /// [`scan_into`](CommunicatorCollectives::scan_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        caught(call::scan_into(core_comm(self), sendbuf, recvbuf, &op))
    }

    /// [`exclusive_scan_into`](CommunicatorCollectives::exclusive_scan_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_exclusive_scan_into<S, R, O>(&self, sendbuf: &S, recvbuf: &mut R, op: O) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
        O: Operation,
    {
        caught(call::exclusive_scan_into(core_comm(self), sendbuf, recvbuf, &op))
    }

    /// [`immediate_barrier`](CommunicatorCollectives::immediate_barrier) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_barrier(&self) -> Result<Request<'static, ()>, Error> {
        let request = call::immediate_barrier(core_comm(self));
        // SAFETY: it uses no memory.
        unsafe { try_started(request, &(), StaticScope) }
    }

    /// [`immediate_all_gather_into`](CommunicatorCollectives::immediate_all_gather_into) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_all_gather_into<'a, S, R, Sc>(
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
        let comm = core_comm(self);
        caught(evenly(comm, "allgather", recvbuf.count_usize()))?;
        let request = call::immediate_all_gather_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_all_gather_varcount_into`](CommunicatorCollectives::immediate_all_gather_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_all_gather_varcount_into<'a, S, R, Sc>(
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
        let request = call::immediate_all_gather_varcount_into(core_comm(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_all_to_all_into`](CommunicatorCollectives::immediate_all_to_all_into) with its error as a value.
    ///
    /// # Errors
    /// `Count` where a buffer is no equal part for each rank.
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_all_to_all_into<'a, S, R, Sc>(
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
        let comm = core_comm(self);
        caught(evenly(comm, "alltoall", sendbuf.count_usize()))?;
        caught(evenly(comm, "alltoall", recvbuf.count_usize()))?;
        let request = call::immediate_all_to_all_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_all_to_all_varcount_into`](CommunicatorCollectives::immediate_all_to_all_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_all_to_all_varcount_into<'a, S, R, Sc>(
        &self,
        scope: Sc,
        sendbuf: &'a S,
        recvbuf: &'a mut R,
    ) -> Result<Request<'a, R, Sc>, Error>
    where
        S: ?Sized + 'a + PartitionedBuffer,
        R: ?Sized + 'a + PartitionedBufferMut,
        Sc: Scope<'a>,
    {
        let request = call::immediate_all_to_all_varcount_into(core_comm(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_all_reduce_into`](CommunicatorCollectives::immediate_all_reduce_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_all_reduce_into<'a, S, R, O, Sc>(
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
        let request = call::immediate_all_reduce_into(core_comm(self), sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_reduce_scatter_block_into`](CommunicatorCollectives::immediate_reduce_scatter_block_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_reduce_scatter_block_into<'a, S, R, O, Sc>(
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
        let request = call::immediate_reduce_scatter_block_into(core_comm(self), sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_scan_into`](CommunicatorCollectives::immediate_scan_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_scan_into<'a, S, R, O, Sc>(
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
        let request = call::immediate_scan_into(core_comm(self), sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// [`immediate_exclusive_scan_into`](CommunicatorCollectives::immediate_exclusive_scan_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_immediate_exclusive_scan_into<'a, S, R, O, Sc>(
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
        let request = call::immediate_exclusive_scan_into(core_comm(self), sendbuf, recvbuf, &op);
        // SAFETY: both buffers, and what the operation refers to, stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }
}

impl<C: CommunicatorCollectives + ?Sized> TryCommunicatorCollectives for C {}
