//! Collectives that are set up once and started again and again (MPI-4.1 §6.13).

use std::fmt;

use mpi_coll::InPlaceOr::Buf;
use mpi_comm::Comm;
use mpi_datatype::{RecvBuf, SendBuf};
use mpi_p2p::{Error as Core, ErrorClass, RequestId};

use super::Error;
use super::error::caught;
use super::persistent::Start;
use crate::collective::SystemOperation;
use crate::collective::operation::core_op;
use crate::collective::parts::is_root;
use crate::collective::root::root;
use crate::collective::traits::*;
use crate::datatype::core_type;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::topology::core_comm;

/// Collectives that are set up once, in which all processes are alike. All of them set up theirs in the same order, and
/// may start them in any.
///
/// ```no_run
/// use mpi::collective::SystemOperation;
/// use mpi::ext::{Start, prelude::*};
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let mut sum = world.all_reduce_init(vec![0.0; 10], SystemOperation::sum());
/// for step in 0..100 {
///     sum.data_mut().fill(f64::from(step));
///     sum.start();
///     sum.wait();
///     assert_eq!(sum.result()[0], f64::from(step * world.size()));
/// }
/// ```
pub trait PersistentCollectives: CommunicatorCollectives {
    /// A barrier (`MPI_Barrier_init`).
    #[track_caller]
    fn barrier_init(&self) -> PersistentCollective<u8> {
        let comm = core_comm(self);
        ok(comm, set_up(comm, Vec::new(), 0, |_, _| comm.barrier_init()))
    }

    /// Combines the data of all ranks, element by element, into everybody's result (`MPI_Allreduce_init`).
    #[track_caller]
    fn all_reduce_init<T>(&self, data: Vec<T>, op: SystemOperation) -> PersistentCollective<T>
    where
        T: Equivalence + Send + Clone + 'static,
    {
        let (comm, len) = (core_comm(self), data.len());
        ok(comm, set_up(comm, data, len, |send, recv| comm.allreduce_init(Buf(send), recv, core_op(&op))))
    }

    /// Puts the data of all ranks, in their order, into everybody's result (`MPI_Allgather_init`).
    #[track_caller]
    fn all_gather_init<T>(&self, data: Vec<T>) -> PersistentCollective<T>
    where
        T: Equivalence + Send + Clone + 'static,
    {
        let comm = core_comm(self);
        let len = data.len() * comm.target_size() as usize;
        ok(comm, set_up(comm, data, len, |send, recv| comm.allgather_init(Buf(send), recv)))
    }

    /// Sends the `j`th part of the data to rank `j`; what rank `i` sends is the `i`th part of the result
    /// (`MPI_Alltoall_init`).
    #[track_caller]
    fn all_to_all_init<T>(&self, data: Vec<T>) -> PersistentCollective<T>
    where
        T: Equivalence + Send + Clone + 'static,
    {
        let (comm, len) = (core_comm(self), data.len());
        ok(comm, set_up(comm, data, len, |send, recv| comm.alltoall_init(Buf(send), recv)))
    }

    /// Gives rank `i` the combination of the data of ranks 0 to `i` (`MPI_Scan_init`).
    #[track_caller]
    fn scan_init<T>(&self, data: Vec<T>, op: SystemOperation) -> PersistentCollective<T>
    where
        T: Equivalence + Send + Clone + 'static,
    {
        let (comm, len) = (core_comm(self), data.len());
        ok(comm, set_up(comm, data, len, |send, recv| comm.scan_init(Buf(send), recv, core_op(&op))))
    }
}

impl<C: CommunicatorCollectives + ?Sized> PersistentCollectives for C {}

/// Collectives that are set up once, with a root.
pub trait PersistentRoot: Root {
    /// Gives every rank the root's result as its own: `data` is room for as many elements on every rank
    /// (`MPI_Bcast_init`). What is broadcast stands in, and arrives in, the [`result`](PersistentCollective::result).
    #[track_caller]
    fn broadcast_init<T>(&self, data: Vec<T>) -> PersistentCollective<T>
    where
        T: Equivalence + Send + Clone + 'static,
    {
        let comm = core_comm(self.as_communicator());
        let root = root(self);
        ok(comm, set_up_with(comm, Vec::new(), data, |_, recv| comm.broadcast_init(recv, root)))
    }

    /// Combines the data of all ranks into the root's result (`MPI_Reduce_init`).
    #[track_caller]
    fn reduce_init<T>(&self, data: Vec<T>, op: SystemOperation) -> PersistentCollective<T>
    where
        T: Equivalence + Send + Clone + 'static,
    {
        let comm = core_comm(self.as_communicator());
        let root = root(self);
        let is_root = is_root(comm, root);
        let len = if is_root { data.len() } else { 0 };
        let made = set_up(comm, data, len, |send, recv| {
            comm.reduce_init(Buf(send), is_root.then_some(recv), core_op(&op), root)
        });
        ok(comm, made)
    }

    /// Puts the data of all ranks, in their order, into the root's result (`MPI_Gather_init`).
    #[track_caller]
    fn gather_init<T>(&self, data: Vec<T>) -> PersistentCollective<T>
    where
        T: Equivalence + Send + Clone + 'static,
    {
        let comm = core_comm(self.as_communicator());
        let root = root(self);
        let is_root = is_root(comm, root);
        let len = if is_root { data.len() * comm.target_size() as usize } else { 0 };
        let made =
            set_up(comm, data, len, |send, recv| comm.gather_init(Buf(send), is_root.then_some(recv), root));
        ok(comm, made)
    }
}

impl<R: Root + ?Sized> PersistentRoot for R {}

/// Sets up a collective whose result has `len` elements, at first copies of the first of `data`.
fn set_up<T>(
    comm: &Comm,
    data: Vec<T>,
    len: usize,
    call: impl FnOnce(SendBuf<'_>, RecvBuf<'_>) -> Result<RequestId, Core>,
) -> Result<PersistentCollective<T>, Core>
where
    T: Equivalence + Send + Clone + 'static,
{
    let result = data.first().map_or_else(Vec::new, |first| vec![first.clone(); len]);
    set_up_with(comm, data, result, call)
}

fn set_up_with<T: Equivalence + Send + 'static>(
    comm: &Comm,
    data: Vec<T>,
    mut result: Vec<T>,
    call: impl FnOnce(SendBuf<'_>, RecvBuf<'_>) -> Result<RequestId, Core>,
) -> Result<PersistentCollective<T>, Core> {
    let datatype = T::equivalent_datatype();
    let datatype = core_type(&datatype);
    // SAFETY: the elements stay where they are as long as the operation, and are its alone while it is active: the value
    // owns them, lends them out only between rounds, and leaves them to the engine if it is dropped in one.
    let (send, recv) = unsafe {
        (
            SendBuf::new(data.as_ptr().cast(), data.len(), datatype),
            RecvBuf::new(result.as_mut_ptr().cast(), result.len(), datatype),
        )
    };
    let request = call(send, recv)?;
    Ok(PersistentCollective { request, comm: comm.clone(), data, result, active: false })
}

/// A collective that is started again and again, with its buffers.
///
/// Between [`start`](Start::start) and the [`wait`](Self::wait) or [`test`](Self::test) that ends the round the
/// operation is active, and the buffers are its alone.
pub struct PersistentCollective<T: Send + 'static> {
    request: RequestId,
    comm: Comm,
    data: Vec<T>,
    result: Vec<T>,
    active: bool,
}

impl<T: Send + 'static> Start for PersistentCollective<T> {
    #[track_caller]
    fn start(&mut self) {
        let started = self.restart();
        ok(&self.comm, started);
    }

    #[track_caller]
    fn try_start(&mut self) -> Result<(), Error> {
        caught(self.restart())
    }
}

impl<T: Send + 'static> PersistentCollective<T> {
    fn restart(&mut self) -> Result<(), Core> {
        self.comm.alive("start")?;
        if self.active {
            let error = Core::new(ErrorClass::Request, "start", "the operation is active already");
            return Err(error.on(self.comm.name(), self.comm.context().id()));
        }
        self.comm.engine().restart(self.request)?;
        self.active = true;
        Ok(())
    }

    /// Waits until the round is over; at once where none is active (`MPI_Wait`).
    #[track_caller]
    pub fn wait(&mut self) {
        let result = self.finish();
        ok(&self.comm, result);
    }

    /// [`wait`](Self::wait) with its error as a value.
    ///
    /// # Errors
    /// The operation's.
    #[track_caller]
    pub fn try_wait(&mut self) -> Result<(), Error> {
        caught(self.finish())
    }

    /// Whether the round is over, and how it ended (`MPI_Test`).
    #[track_caller]
    pub fn test(&mut self) -> Option<Result<(), Error>> {
        let result = mpi_comm::test(self.request).transpose()?;
        self.active = false;
        Some(caught(result.map(|_| ())))
    }

    fn finish(&mut self) -> Result<(), Core> {
        let result = mpi_comm::wait(self.request);
        self.active = false;
        result.map(|_| ())
    }

    /// Whether a round has begun and not been completed.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// What this rank gives, to be changed.
    ///
    /// # Panics
    /// While a round is active.
    #[track_caller]
    pub fn data_mut(&mut self) -> &mut [T] {
        self.between_rounds();
        &mut self.data
    }

    /// What this rank gets.
    ///
    /// # Panics
    /// While a round is active.
    #[track_caller]
    pub fn result(&self) -> &[T] {
        self.between_rounds();
        &self.result
    }

    /// What this rank gets, to be changed: a broadcast's root puts there what it gives.
    ///
    /// # Panics
    /// While a round is active.
    #[track_caller]
    pub fn result_mut(&mut self) -> &mut [T] {
        self.between_rounds();
        &mut self.result
    }

    #[track_caller]
    fn between_rounds(&self) {
        if self.active {
            let what = self.comm.engine().describe(self.request).unwrap_or_default();
            panic!("the buffer of an active operation on \"{}\" was asked for: {what}", self.comm.name());
        }
    }
}

impl<T: Send + 'static> Drop for PersistentCollective<T> {
    fn drop(&mut self) {
        let memory = (std::mem::take(&mut self.data), std::mem::take(&mut self.result));
        // Between rounds the request goes at once, and the memory with it; others still count on a round that is
        // active.
        let _ = self.comm.engine().abandon(self.request, Box::new(memory), false);
    }
}

impl<T: Send + 'static> fmt::Debug for PersistentCollective<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentCollective")
            .field("len", &self.data.len())
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}
