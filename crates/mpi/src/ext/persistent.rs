//! Operations that are set up once and started again and again (MPI-4.1 §3.9).

use std::fmt;

use mpi_comm::Comm;
use mpi_datatype::{RecvBuf, SendBuf};
use mpi_p2p::{Error as Core, RequestId, SendMode};

use super::Error;
use super::error::caught;
use crate::Tag;
use crate::datatype::core_type;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::ffi::MPI_ANY_TAG;
use crate::point_to_point::{Destination, Source, Status, from, tagged, to};
use crate::topology::core_comm;

/// Sends that are set up once.
pub trait PersistentDestination: Destination {
    /// Sets up a send of `data`, which the operation owns and lends out between its rounds (`MPI_Send_init`).
    ///
    /// ```no_run
    /// use mpi::ext::{prelude::*, start_all};
    /// use mpi::traits::*;
    ///
    /// let universe = mpi::initialize().unwrap();
    /// let world = universe.world();
    /// let mut send = world.this_process().send_init(vec![0; 100]);
    /// let mut receive = world.this_process().receive_init(vec![0; 100]);
    /// for round in 0..10 {
    ///     send.data_mut().fill(round);
    ///     start_all(&mut [&mut receive, &mut send]);
    ///     send.wait();
    ///     receive.wait();
    ///     assert_eq!(receive.data()[99], round);
    /// }
    /// ```
    #[track_caller]
    fn send_init<T: Equivalence + Send + 'static>(&self, data: Vec<T>) -> Persistent<T> {
        self.send_init_with_tag(data, Tag::default())
    }

    /// As [`send_init`](Self::send_init), with the tag.
    #[track_caller]
    fn send_init_with_tag<T: Equivalence + Send + 'static>(&self, data: Vec<T>, tag: Tag) -> Persistent<T> {
        let comm = core_comm(self.as_communicator());
        ok(comm, send_init(self, data, tag, SendMode::Standard))
    }

    /// As [`send_init_with_tag`](Self::send_init_with_tag); a round is complete when its receive has begun
    /// (`MPI_Ssend_init`).
    #[track_caller]
    fn synchronous_send_init_with_tag<T: Equivalence + Send + 'static>(
        &self,
        data: Vec<T>,
        tag: Tag,
    ) -> Persistent<T> {
        let comm = core_comm(self.as_communicator());
        ok(comm, send_init(self, data, tag, SendMode::Synchronous))
    }

    /// As [`send_init_with_tag`](Self::send_init_with_tag), from the attached buffer (`MPI_Bsend_init`).
    #[track_caller]
    fn buffered_send_init_with_tag<T: Equivalence + Send + 'static>(
        &self,
        data: Vec<T>,
        tag: Tag,
    ) -> Persistent<T> {
        let comm = core_comm(self.as_communicator());
        ok(comm, send_init(self, data, tag, SendMode::Buffered))
    }

    /// [`send_init_with_tag`](Self::send_init_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`.
    #[track_caller]
    fn try_send_init_with_tag<T: Equivalence + Send + 'static>(
        &self,
        data: Vec<T>,
        tag: Tag,
    ) -> Result<Persistent<T>, Error> {
        caught(send_init(self, data, tag, SendMode::Standard))
    }
}

impl<D: Destination + ?Sized> PersistentDestination for D {}

/// Receives that are set up once.
pub trait PersistentSource: Source {
    /// Sets up a receive with any tag into `room`, which the operation owns and lends out between its rounds
    /// (`MPI_Recv_init`).
    #[track_caller]
    fn receive_init<T: Equivalence + Send + 'static>(&self, room: Vec<T>) -> Persistent<T> {
        self.receive_init_with_tag(room, MPI_ANY_TAG)
    }

    /// As [`receive_init`](Self::receive_init), with the tag.
    #[track_caller]
    fn receive_init_with_tag<T: Equivalence + Send + 'static>(
        &self,
        room: Vec<T>,
        tag: Tag,
    ) -> Persistent<T> {
        ok(core_comm(self.as_communicator()), receive_init(self, room, tag))
    }

    /// [`receive_init_with_tag`](Self::receive_init_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`.
    #[track_caller]
    fn try_receive_init_with_tag<T: Equivalence + Send + 'static>(
        &self,
        room: Vec<T>,
        tag: Tag,
    ) -> Result<Persistent<T>, Error> {
        caught(receive_init(self, room, tag))
    }
}

impl<S: Source + ?Sized> PersistentSource for S {}

fn send_init<D, T>(destination: &D, data: Vec<T>, tag: Tag, mode: SendMode) -> Result<Persistent<T>, Core>
where
    D: Destination + ?Sized,
    T: Equivalence + Send + 'static,
{
    let comm = core_comm(destination.as_communicator());
    let datatype = T::equivalent_datatype();
    // SAFETY: the elements stay where they are as long as the operation, and as they are while it is active: the value
    // owns them, lends them out only between rounds, and leaves them to the engine if it is dropped in one.
    let buffer = unsafe { SendBuf::new(data.as_ptr().cast(), data.len(), core_type(&datatype)) };
    let request = comm.send_init(to(destination.destination_rank()), tag, buffer, mode)?;
    Ok(Persistent { request, comm: comm.clone(), data, active: false, receives: false })
}

fn receive_init<S, T>(source: &S, mut room: Vec<T>, tag: Tag) -> Result<Persistent<T>, Core>
where
    S: Source + ?Sized,
    T: Equivalence + Send + 'static,
{
    let comm = core_comm(source.as_communicator());
    let datatype = T::equivalent_datatype();
    // SAFETY: as for a send.
    let buffer = unsafe { RecvBuf::new(room.as_mut_ptr().cast(), room.len(), core_type(&datatype)) };
    let request = comm.recv_init(from(source.source_rank()), tagged(tag), buffer)?;
    Ok(Persistent { request, comm: comm.clone(), data: room, active: false, receives: true })
}

/// A send or a receive that is started again and again, with its buffer.
///
/// Between [`start`](Start::start) and the [`wait`](Persistent::wait) or [`test`](Persistent::test) that ends the round
/// the operation is active, and the buffer is its alone.
pub struct Persistent<T: Send + 'static> {
    request: RequestId,
    comm: Comm,
    data: Vec<T>,
    active: bool,
    receives: bool,
}

/// An operation that can be started.
pub trait Start {
    /// Starts a round (`MPI_Start`).
    ///
    /// # Panics
    /// If one is active.
    fn start(&mut self);

    /// [`start`](Start::start) with its error as a value.
    ///
    /// # Errors
    /// `Request` where one is active, `Buffer`.
    fn try_start(&mut self) -> Result<(), Error>;
}

/// Starts a round of each (`MPI_Startall`).
#[track_caller]
pub fn start_all(operations: &mut [&mut dyn Start]) {
    operations.iter_mut().for_each(|operation| operation.start());
}

impl<T: Send + 'static> Start for Persistent<T> {
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

impl<T: Send + 'static> Persistent<T> {
    fn restart(&mut self) -> Result<(), Core> {
        self.comm.alive("start")?;
        if self.active {
            let detail = "the operation is active already";
            let error = Core::new(mpi_p2p::ErrorClass::Request, "start", detail);
            return Err(error.on(self.comm.name(), self.comm.context().id()));
        }
        self.comm.engine().restart(self.request)?;
        self.active = true;
        Ok(())
    }

    /// Waits until the round is over; at once where none is active (`MPI_Wait`).
    #[track_caller]
    pub fn wait(&mut self) -> Status {
        let result = self.finish();
        ok(&self.comm, result)
    }

    /// [`wait`](Self::wait) with its error as a value.
    ///
    /// # Errors
    /// The operation's; it may be started again.
    #[track_caller]
    pub fn try_wait(&mut self) -> Result<Status, Error> {
        caught(self.finish())
    }

    /// Whether the round is over, and how it ended (`MPI_Test`).
    #[track_caller]
    pub fn test(&mut self) -> Option<Result<Status, Error>> {
        let result = mpi_comm::test(self.request).transpose()?;
        self.active = false;
        Some(caught(result.map(Status::from_core)))
    }

    fn finish(&mut self) -> Result<Status, Core> {
        let result = mpi_comm::wait(self.request).map(Status::from_core);
        self.active = false;
        result
    }

    /// Whether a round has begun and not been completed.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// The buffer.
    ///
    /// # Panics
    /// While a round is active.
    #[track_caller]
    pub fn data(&self) -> &[T] {
        self.between_rounds();
        &self.data
    }

    /// The buffer, to be changed.
    ///
    /// # Panics
    /// While a round is active.
    #[track_caller]
    pub fn data_mut(&mut self) -> &mut [T] {
        self.between_rounds();
        &mut self.data
    }

    /// Gives the operation up for its buffer (`MPI_Request_free`).
    ///
    /// # Panics
    /// While a round is active.
    #[track_caller]
    pub fn into_data(mut self) -> Vec<T> {
        self.between_rounds();
        std::mem::take(&mut self.data)
    }

    #[track_caller]
    fn between_rounds(&self) {
        if self.active {
            let what = self.comm.engine().describe(self.request).unwrap_or_default();
            panic!("the buffer of an active operation was asked for: {what}");
        }
    }
}

impl<T: Send + 'static> Drop for Persistent<T> {
    fn drop(&mut self) {
        // Between rounds the request goes at once, and the memory with it. After finalisation nothing runs.
        let memory = Box::new(std::mem::take(&mut self.data));
        let _ = self.comm.engine().abandon(self.request, memory, self.active && self.receives);
    }
}

impl<T: Send + 'static> fmt::Debug for Persistent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent")
            .field("len", &self.data.len())
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}
