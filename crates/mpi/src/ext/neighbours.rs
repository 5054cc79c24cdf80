//! Collectives among neighbours in a topology (MPI-4.1 §8.6).

use mpi_comm::Comm;
use mpi_p2p::RequestId;

use super::Error;
use super::error::caught;
use super::graph::Neighbourhood;
use crate::collective::parts::{Parts, started, try_started};
use crate::datatype::traits::*;
use crate::datatype::{recv_buf, send_buf};
use crate::error::ok;
use crate::request::{Request, Scope};
use crate::topology::core_comm;

type Core<T> = Result<T, mpi_p2p::Error>;

/// Collectives among neighbours: of a grid, a graph, or a distributed graph.
///
/// Where a buffer holds something for each neighbour, its length is divided evenly among them, in the order of
/// [`neighbours_in`](Neighbourhood::neighbours_in) and [`neighbours_out`](Neighbourhood::neighbours_out). At the edge of
/// a grid, where there is no neighbour, a part is neither sent nor written.
///
/// ```no_run
/// use mpi::ext::prelude::*;
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let ring = world.create_cartesian_communicator(&[world.size()], &[true], false).unwrap();
/// let mut values = [0; 2];
/// ring.neighbour_all_gather_into(&ring.rank(), &mut values[..]);
/// assert_eq!(values.to_vec(), ring.neighbours_in());
/// ```
pub trait NeighbourCollectives: Neighbourhood {
    /// Sends `sendbuf` to every neighbour, and receives what each sends as its part of `recvbuf`
    /// (`MPI_Neighbor_allgather`).
    #[track_caller]
    fn neighbour_all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::neighbour_all_gather_into(comm, sendbuf, recvbuf));
    }

    /// [`neighbour_all_gather_into`](Self::neighbour_all_gather_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_neighbour_all_gather_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        caught(call::neighbour_all_gather_into(core_comm(self), sendbuf, recvbuf))
    }

    /// Starts [`neighbour_all_gather_into`](Self::neighbour_all_gather_into).
    #[track_caller]
    fn immediate_neighbour_all_gather_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_gather_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// [`immediate_neighbour_all_gather_into`](Self::immediate_neighbour_all_gather_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_neighbour_all_gather_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_gather_into(core_comm(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// As [`neighbour_all_gather_into`](Self::neighbour_all_gather_into), with a part of its own length for each neighbour
    /// (`MPI_Neighbor_allgatherv`).
    #[track_caller]
    fn neighbour_all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::neighbour_all_gather_varcount_into(comm, sendbuf, recvbuf));
    }

    /// [`neighbour_all_gather_varcount_into`](Self::neighbour_all_gather_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_neighbour_all_gather_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        caught(call::neighbour_all_gather_varcount_into(core_comm(self), sendbuf, recvbuf))
    }

    /// Starts [`neighbour_all_gather_varcount_into`](Self::neighbour_all_gather_varcount_into).
    #[track_caller]
    fn immediate_neighbour_all_gather_varcount_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_gather_varcount_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// [`immediate_neighbour_all_gather_varcount_into`](Self::immediate_neighbour_all_gather_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_neighbour_all_gather_varcount_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_gather_varcount_into(core_comm(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// Sends each neighbour its part of `sendbuf`, and receives what each sends as its part of `recvbuf`
    /// (`MPI_Neighbor_alltoall`).
    #[track_caller]
    fn neighbour_all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::neighbour_all_to_all_into(comm, sendbuf, recvbuf));
    }

    /// [`neighbour_all_to_all_into`](Self::neighbour_all_to_all_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_neighbour_all_to_all_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        caught(call::neighbour_all_to_all_into(core_comm(self), sendbuf, recvbuf))
    }

    /// Starts [`neighbour_all_to_all_into`](Self::neighbour_all_to_all_into).
    #[track_caller]
    fn immediate_neighbour_all_to_all_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_to_all_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// [`immediate_neighbour_all_to_all_into`](Self::immediate_neighbour_all_to_all_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_neighbour_all_to_all_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_to_all_into(core_comm(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }

    /// As [`neighbour_all_to_all_into`](Self::neighbour_all_to_all_into), with parts of their own lengths
    /// (`MPI_Neighbor_alltoallv`).
    #[track_caller]
    fn neighbour_all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R)
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let comm = core_comm(self);
        ok(comm, call::neighbour_all_to_all_varcount_into(comm, sendbuf, recvbuf));
    }

    /// [`neighbour_all_to_all_varcount_into`](Self::neighbour_all_to_all_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation.
    #[track_caller]
    fn try_neighbour_all_to_all_varcount_into<S, R>(&self, sendbuf: &S, recvbuf: &mut R) -> Result<(), Error>
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + PartitionedBufferMut,
    {
        caught(call::neighbour_all_to_all_varcount_into(core_comm(self), sendbuf, recvbuf))
    }

    /// Starts [`neighbour_all_to_all_varcount_into`](Self::neighbour_all_to_all_varcount_into).
    #[track_caller]
    fn immediate_neighbour_all_to_all_varcount_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_to_all_varcount_into(comm, sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { started(comm, request, recvbuf, scope) }
    }

    /// [`immediate_neighbour_all_to_all_varcount_into`](Self::immediate_neighbour_all_to_all_varcount_into) with its error as a value.
    ///
    /// # Errors
    /// Those of the operation's arguments; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_neighbour_all_to_all_varcount_into<'a, S, R, Sc>(
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
        let request = call::immediate_neighbour_all_to_all_varcount_into(core_comm(self), sendbuf, recvbuf);
        // SAFETY: both buffers stay borrowed for `'a`.
        unsafe { try_started(request, recvbuf, scope) }
    }
}

impl<C: Neighbourhood + ?Sized> NeighbourCollectives for C {}

/// The operations themselves, with their errors.
mod call {
    use super::*;

    /// So many elements as are divided evenly among so many neighbours.
    fn divisible(count: usize, neighbours: usize) -> usize {
        count - count % neighbours.max(1)
    }

    pub(super) fn neighbour_all_gather_into<S, R>(comm: &Comm, sendbuf: &S, recvbuf: &mut R) -> Core<()>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let (sources, _) = comm.neighbours()?;
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let room = recv_buf(recvbuf, &r);
        comm.neighbor_allgather(send_buf(sendbuf, &s), room.part(0, divisible(room.count(), sources.len())))
    }

    pub(super) fn immediate_neighbour_all_gather_into<S, R>(
        comm: &Comm,
        sendbuf: &S,
        recvbuf: &mut R,
    ) -> Core<RequestId>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let (sources, _) = comm.neighbours()?;
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let room = recv_buf(recvbuf, &r);
        comm.ineighbor_allgather(send_buf(sendbuf, &s), room.part(0, divisible(room.count(), sources.len())))
    }

    pub(super) fn neighbour_all_gather_varcount_into<S, R>(
        comm: &Comm,
        sendbuf: &S,
        recvbuf: &mut R,
    ) -> Core<()>
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(comm, recvbuf)?;
        comm.neighbor_allgatherv(send_buf(sendbuf, &s), parts.recv(comm, recvbuf, &r)?)
    }

    pub(super) fn immediate_neighbour_all_gather_varcount_into<S, R>(
        comm: &Comm,
        sendbuf: &S,
        recvbuf: &mut R,
    ) -> Core<RequestId>
    where
        S: ?Sized + Buffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let parts = Parts::of(comm, recvbuf)?;
        comm.ineighbor_allgatherv(send_buf(sendbuf, &s), parts.recv(comm, recvbuf, &r)?)
    }

    pub(super) fn neighbour_all_to_all_into<S, R>(comm: &Comm, sendbuf: &S, recvbuf: &mut R) -> Core<()>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let (sources, destinations) = comm.neighbours()?;
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (whole, room) = (send_buf(sendbuf, &s), recv_buf(recvbuf, &r));
        comm.neighbor_alltoall(
            whole.part(0, divisible(whole.count(), destinations.len())),
            room.part(0, divisible(room.count(), sources.len())),
        )
    }

    pub(super) fn immediate_neighbour_all_to_all_into<S, R>(
        comm: &Comm,
        sendbuf: &S,
        recvbuf: &mut R,
    ) -> Core<RequestId>
    where
        S: ?Sized + Buffer,
        R: ?Sized + BufferMut,
    {
        let (sources, destinations) = comm.neighbours()?;
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (whole, room) = (send_buf(sendbuf, &s), recv_buf(recvbuf, &r));
        comm.ineighbor_alltoall(
            whole.part(0, divisible(whole.count(), destinations.len())),
            room.part(0, divisible(room.count(), sources.len())),
        )
    }

    pub(super) fn neighbour_all_to_all_varcount_into<S, R>(
        comm: &Comm,
        sendbuf: &S,
        recvbuf: &mut R,
    ) -> Core<()>
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (from, to) = (Parts::of(comm, sendbuf)?, Parts::of(comm, recvbuf)?);
        comm.neighbor_alltoallv(from.send(comm, sendbuf, &s)?, to.recv(comm, recvbuf, &r)?)
    }

    pub(super) fn immediate_neighbour_all_to_all_varcount_into<S, R>(
        comm: &Comm,
        sendbuf: &S,
        recvbuf: &mut R,
    ) -> Core<RequestId>
    where
        S: ?Sized + PartitionedBuffer,
        R: ?Sized + PartitionedBufferMut,
    {
        let (s, r) = (sendbuf.as_datatype(), recvbuf.as_datatype());
        let (from, to) = (Parts::of(comm, sendbuf)?, Parts::of(comm, recvbuf)?);
        comm.ineighbor_alltoallv(from.send(comm, sendbuf, &s)?, to.recv(comm, recvbuf, &r)?)
    }
}
