//! Operations that own their memory: no scope, no borrow, and a future each.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use mpi_comm::Comm;
use mpi_datatype::SendBuf;
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

/// A running operation of which somebody else keeps the memory.
struct Running {
    request: RequestId,
    comm: Comm,
}

impl Running {
    fn poll(&self, cx: &Context<'_>) -> Poll<Result<Status, Core>> {
        if let Err(error) = self.comm.alive("await") {
            return Poll::Ready(Err(error));
        }
        self.comm.engine().poll_wait(self.request, cx.waker()).map_ok(Status::from_core)
    }

    fn wait(&self) -> Result<Status, Core> {
        mpi_comm::wait(self.request).map(Status::from_core)
    }

    fn test(&self) -> Option<Result<Status, Core>> {
        mpi_comm::test(self.request).transpose().map(|result| result.map(Status::from_core))
    }

    /// Leaves the operation and its memory to the engine.
    fn abandon(self, memory: Box<dyn std::any::Any + Send>, cancel: bool) {
        // A request that is gone needs no memory either; after finalisation nothing runs.
        let _ = self.comm.engine().abandon(self.request, memory, cancel);
    }
}

/// Sends that own their buffer and give it back.
pub trait OwnedDestination: Destination {
    /// Starts to send a vector, which the operation owns until it has completed (MPI-4.1 §3.7.2, `MPI_Isend`).
    ///
    /// ```no_run
    /// use mpi::ext::prelude::*;
    /// use mpi::traits::*;
    ///
    /// let universe = mpi::initialize().unwrap();
    /// let world = universe.world();
    /// let send = world.process_at_rank(0).isend_owned(vec![1.5; 1000]);
    /// let mut buffer = send.wait(); // to be used again
    /// buffer.clear();
    /// ```
    #[track_caller]
    fn isend_owned<T: Equivalence + Send + 'static>(&self, data: Vec<T>) -> SendOwned<T> {
        self.isend_owned_with_tag(data, Tag::default())
    }

    /// As [`isend_owned`](Self::isend_owned), with the tag.
    #[track_caller]
    fn isend_owned_with_tag<T: Equivalence + Send + 'static>(&self, data: Vec<T>, tag: Tag) -> SendOwned<T> {
        let comm = core_comm(self.as_communicator());
        ok(comm, SendOwned::start(self, data, tag, SendMode::Standard))
    }

    /// As [`isend_owned_with_tag`](Self::isend_owned_with_tag); complete when the receive has begun (`MPI_Issend`).
    #[track_caller]
    fn issend_owned_with_tag<T: Equivalence + Send + 'static>(&self, data: Vec<T>, tag: Tag) -> SendOwned<T> {
        let comm = core_comm(self.as_communicator());
        ok(comm, SendOwned::start(self, data, tag, SendMode::Synchronous))
    }

    /// [`isend_owned_with_tag`](Self::isend_owned_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Rank`; what goes wrong later is the operation's.
    #[track_caller]
    fn try_isend_owned_with_tag<T: Equivalence + Send + 'static>(
        &self,
        data: Vec<T>,
        tag: Tag,
    ) -> Result<SendOwned<T>, Error> {
        caught(SendOwned::start(self, data, tag, SendMode::Standard))
    }
}

impl<D: Destination + ?Sized> OwnedDestination for D {}

/// A send that owns its buffer. A future of the buffer.
///
/// Dropped while it runs, the message is sent nevertheless, and the buffer goes when it is.
#[must_use = "the buffer comes back from `wait` or `await`"]
pub struct SendOwned<T: Send + 'static> {
    running: Option<Running>,
    data: Vec<T>,
}

impl<T: Equivalence + Send + 'static> SendOwned<T> {
    fn start<D>(destination: &D, data: Vec<T>, tag: Tag, mode: SendMode) -> Result<SendOwned<T>, Core>
    where
        D: Destination + ?Sized,
    {
        let comm = core_comm(destination.as_communicator());
        let datatype = T::equivalent_datatype();
        // SAFETY: the elements stay where they are, and as they are, until the operation has completed: the value owns
        // them and lends them to nobody, and leaves them to the engine if it is dropped before.
        let buffer = unsafe { SendBuf::new(data.as_ptr().cast(), data.len(), core_type(&datatype)) };
        let request = comm.isend(to(destination.destination_rank()), tag, buffer, mode)?;
        Ok(SendOwned { running: Some(Running { request, comm: comm.clone() }), data })
    }

    /// Waits until the buffer may be used again, and gives it back (`MPI_Wait`).
    #[track_caller]
    pub fn wait(self) -> Vec<T> {
        let comm = self.running().comm.clone();
        match self.finish() {
            Ok(data) => data,
            Err(error) => ok(&comm, Err(error)),
        }
    }

    /// [`wait`](Self::wait) with its error as a value.
    ///
    /// # Errors
    /// `ProcFailed` where the peer is gone.
    #[track_caller]
    pub fn try_wait(self) -> Result<Vec<T>, Error> {
        caught(self.finish())
    }

    /// The buffer, if the operation has completed; if not, gives the operation back (`MPI_Test`).
    ///
    /// # Errors
    /// The operation itself, still running.
    #[track_caller]
    pub fn test(mut self) -> Result<Result<Vec<T>, Error>, Self> {
        match self.running().test() {
            None => Err(self),
            Some(result) => {
                self.running = None;
                Ok(caught(result.map(|_| mem::take(&mut self.data))))
            }
        }
    }

    fn finish(mut self) -> Result<Vec<T>, Core> {
        let result = self.running().wait();
        self.running = None;
        result.map(|_| mem::take(&mut self.data))
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the operation runs until it gives its result")
    }
}

impl<T: Equivalence + Send + 'static> Future for SendOwned<T> {
    type Output = Result<Vec<T>, Error>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.running().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(result) => {
                self.running = None;
                Poll::Ready(caught(result.map(|_| mem::take(&mut self.data))))
            }
        }
    }
}

// The elements are not pinned: the vector holds them elsewhere.
impl<T: Send + 'static> Unpin for SendOwned<T> {}

impl<T: Send + 'static> Drop for SendOwned<T> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abandon(Box::new(mem::take(&mut self.data)), false);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for SendOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendOwned").field("len", &self.data.len()).finish_non_exhaustive()
    }
}

/// Receives of messages of any length, which need no probe.
pub trait OwnedSource: Source {
    /// Starts to receive a message of any length with any tag; its memory is had when it is here.
    ///
    /// ```no_run
    /// use mpi::ext::prelude::*;
    /// use mpi::traits::*;
    ///
    /// let universe = mpi::initialize().unwrap();
    /// let world = universe.world();
    /// let receive = world.any_process().irecv_vec::<f64>();
    /// world.this_process().send(&[1.0, 2.0, 3.0]);
    /// let (data, status) = receive.wait();
    /// assert_eq!((data.len(), status.source_rank()), (3, world.rank()));
    /// ```
    #[track_caller]
    fn irecv_vec<T: Equivalence + Send + 'static>(&self) -> ReceiveVec<T> {
        self.irecv_vec_with_tag(MPI_ANY_TAG)
    }

    /// As [`irecv_vec`](Self::irecv_vec), with the tag.
    #[track_caller]
    fn irecv_vec_with_tag<T: Equivalence + Send + 'static>(&self, tag: Tag) -> ReceiveVec<T> {
        ok(core_comm(self.as_communicator()), ReceiveVec::start(self, tag))
    }

    /// [`irecv_vec_with_tag`](Self::irecv_vec_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; what goes wrong later is the operation's.
    #[track_caller]
    fn try_irecv_vec_with_tag<T: Equivalence + Send + 'static>(
        &self,
        tag: Tag,
    ) -> Result<ReceiveVec<T>, Error> {
        caught(ReceiveVec::start(self, tag))
    }
}

impl<S: Source + ?Sized> OwnedSource for S {}

/// A receive of a message of any length. A future of its elements and its status.
///
/// It takes its place in the order of receives when it is started. Dropped while it runs, it is cancelled; a message
/// that it has matched already is lost then.
#[must_use = "the message comes from `wait` or `await`"]
pub struct ReceiveVec<T: Send + 'static> {
    running: Option<Running>,
    landing: Landing<T>,
}

/// Where the message goes: had, by the engine, when it is here.
type Landing<T> = Arc<Mutex<Option<Vec<T>>>>;

impl<T: Equivalence + Send + 'static> ReceiveVec<T> {
    fn start<S: Source + ?Sized>(source: &S, tag: Tag) -> Result<ReceiveVec<T>, Core> {
        let comm = core_comm(source.as_communicator());
        let datatype = T::equivalent_datatype();
        let landing: Landing<T> = Arc::default();
        let give = {
            let landing = landing.clone();
            let size = core_type(&datatype).size().max(1);
            move |bytes: usize| {
                let mut room = Vec::<T>::new();
                if room.try_reserve_exact(bytes / size).is_err() {
                    return std::ptr::null_mut();
                }
                let at = room.as_mut_ptr();
                *landing.lock().unwrap_or_else(PoisonError::into_inner) = Some(room);
                at.cast()
            }
        };
        let (from, tag) = (from(source.source_rank()), tagged(tag));
        // SAFETY: the vector has room for the elements, and stays until the operation has completed: the value keeps
        // it, and leaves it to the engine if it is dropped before.
        let request = unsafe { comm.irecv_alloc(from, tag, core_type(&datatype), Box::new(give))? };
        Ok(ReceiveVec { running: Some(Running { request, comm: comm.clone() }), landing })
    }

    /// Waits for the message (`MPI_Wait`).
    #[track_caller]
    pub fn wait(self) -> (Vec<T>, Status) {
        let comm = self.running().comm.clone();
        match self.finish() {
            Ok(received) => received,
            Err(error) => ok(&comm, Err(error)),
        }
    }

    /// [`wait`](Self::wait) with its error as a value.
    ///
    /// # Errors
    /// `Type`, `Truncate` where the message is no whole number of elements, `NoMem`; `ProcFailed` where the peer is gone.
    #[track_caller]
    pub fn try_wait(self) -> Result<(Vec<T>, Status), Error> {
        caught(self.finish())
    }

    /// The message, if it is here; if not, gives the operation back (`MPI_Test`).
    ///
    /// # Errors
    /// The operation itself, still running.
    #[track_caller]
    pub fn test(mut self) -> Result<Result<(Vec<T>, Status), Error>, Self> {
        match self.running().test() {
            None => Err(self),
            Some(result) => Ok(caught(self.landed(result))),
        }
    }

    fn finish(mut self) -> Result<(Vec<T>, Status), Core> {
        let result = self.running().wait();
        self.landed(result)
    }

    /// What the completed operation has brought.
    fn landed(&mut self, result: Result<Status, Core>) -> Result<(Vec<T>, Status), Core> {
        self.running = None;
        let status = result?;
        let room = self.landing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut data = room.unwrap_or_default();
        let datatype = T::equivalent_datatype();
        let whole = status.elements(core_type(&datatype).size()).unwrap_or(0) as usize;
        // SAFETY: so many whole and valid values arrived, not more than there is room for.
        unsafe { data.set_len(whole.min(data.capacity())) };
        Ok((data, status))
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("the operation runs until it gives its result")
    }
}

impl<T: Equivalence + Send + 'static> Future for ReceiveVec<T> {
    type Output = Result<(Vec<T>, Status), Error>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.running().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(result) => Poll::Ready(caught(self.landed(result))),
        }
    }
}

impl<T: Send + 'static> Drop for ReceiveVec<T> {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abandon(Box::new(self.landing.clone()), true);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for ReceiveVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveVec").finish_non_exhaustive()
    }
}
