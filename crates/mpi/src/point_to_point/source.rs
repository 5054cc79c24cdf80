//! Where messages come from.

use super::received::whole;
use super::{MatchedReceiveVec, Message, ReceiveFuture, Status};
use crate::Tag;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::ffi::{MPI_ANY_SOURCE, MPI_ANY_TAG};
use crate::request::{Request, Scope};
use crate::topology::traits::*;
use crate::topology::{AnyProcess, Process, Rank, core_comm};

/// Something to receive from: one process, or any.
///
/// Operations without a tag take any.
///
/// # Safety
/// The rank must be one of the communicator, or a special value that means a source.
pub unsafe trait Source: AsCommunicator {
    /// The rank, or the value that means any.
    fn source_rank(&self) -> Rank;

    /// Waits for a message with the tag and says what is known of it, without receiving it (MPI-4.1 §3.8.1,
    /// `MPI_Probe`).
    #[track_caller]
    fn probe_with_tag(&self, tag: Tag) -> Status {
        done(self, call::probe(self, tag))
    }

    /// Waits for a message and says what is known of it, without receiving it (`MPI_Probe`).
    #[track_caller]
    fn probe(&self) -> Status {
        self.probe_with_tag(MPI_ANY_TAG)
    }

    /// Waits for a message with the tag and sets it aside, so that only [`Message`] can receive it (MPI-4.1 §3.8.2,
    /// `MPI_Mprobe`).
    #[track_caller]
    fn matched_probe_with_tag(&self, tag: Tag) -> (Message, Status) {
        done(self, call::matched_probe(self, tag))
    }

    /// Waits for a message and sets it aside, so that only [`Message`] can receive it (`MPI_Mprobe`).
    #[track_caller]
    fn matched_probe(&self) -> (Message, Status) {
        self.matched_probe_with_tag(MPI_ANY_TAG)
    }

    /// Receives one value with the tag (MPI-4.1 §3.2.4, `MPI_Recv`).
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    #[inline]
    #[track_caller]
    fn receive_with_tag<Msg>(&self, tag: Tag) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        whole(done(self, call::receive(self, tag)))
    }

    /// Receives one value (`MPI_Recv`).
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    #[inline]
    #[track_caller]
    fn receive<Msg>(&self) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        self.receive_with_tag(MPI_ANY_TAG)
    }

    /// Receives a message with the tag into a buffer, which may be longer than the message (`MPI_Recv`).
    #[inline]
    #[track_caller]
    fn receive_into_with_tag<Buf>(&self, buf: &mut Buf, tag: Tag) -> Status
    where
        Buf: ?Sized + BufferMut,
    {
        done(self, call::receive_into(self, buf, tag))
    }

    /// Receives a message into a buffer, which may be longer than the message (`MPI_Recv`).
    #[inline]
    #[track_caller]
    fn receive_into<Buf>(&self, buf: &mut Buf) -> Status
    where
        Buf: ?Sized + BufferMut,
    {
        self.receive_into_with_tag(buf, MPI_ANY_TAG)
    }

    /// Receives a message of any length with the tag.
    #[track_caller]
    fn receive_vec_with_tag<Msg>(&self, tag: Tag) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        done(self, call::matched_for("receive_vec", self, tag)).matched_receive_vec()
    }

    /// Receives a message of any length.
    #[track_caller]
    fn receive_vec<Msg>(&self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        self.receive_vec_with_tag(MPI_ANY_TAG)
    }

    /// Starts to receive a message with the tag into a buffer (MPI-4.1 §3.7.2, `MPI_Irecv`).
    #[inline]
    #[track_caller]
    fn immediate_receive_into_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
        tag: Tag,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = done(self, call::start_receive(self, buf, tag));
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        unsafe { Request::from_raw(request, buf, scope) }
    }

    /// Starts to receive a message into a buffer (`MPI_Irecv`).
    #[inline]
    #[track_caller]
    fn immediate_receive_into<'a, Sc, Buf>(&self, scope: Sc, buf: &'a mut Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        self.immediate_receive_into_with_tag(scope, buf, MPI_ANY_TAG)
    }

    /// Starts to receive one value with the tag (`MPI_Irecv`).
    #[track_caller]
    fn immediate_receive_with_tag<Msg>(&self, tag: Tag) -> ReceiveFuture<Msg>
    where
        Msg: Equivalence,
    {
        done(self, call::receive_future(self, tag))
    }

    /// Starts to receive one value (`MPI_Irecv`).
    #[track_caller]
    fn immediate_receive<Msg>(&self) -> ReceiveFuture<Msg>
    where
        Msg: Equivalence,
    {
        self.immediate_receive_with_tag(MPI_ANY_TAG)
    }

    /// As [`probe_with_tag`](Self::probe_with_tag), but does not wait (`MPI_Iprobe`).
    #[track_caller]
    fn immediate_probe_with_tag(&self, tag: Tag) -> Option<Status> {
        done(self, call::immediate_probe(self, tag))
    }

    /// As [`probe`](Self::probe), but does not wait (`MPI_Iprobe`).
    #[track_caller]
    fn immediate_probe(&self) -> Option<Status> {
        self.immediate_probe_with_tag(MPI_ANY_TAG)
    }

    /// As [`matched_probe_with_tag`](Self::matched_probe_with_tag), but does not wait (`MPI_Improbe`).
    #[track_caller]
    fn immediate_matched_probe_with_tag(&self, tag: Tag) -> Option<(Message, Status)> {
        done(self, call::immediate_matched_probe(self, tag))
    }

    /// As [`matched_probe`](Self::matched_probe), but does not wait (`MPI_Improbe`).
    #[track_caller]
    fn immediate_matched_probe(&self) -> Option<(Message, Status)> {
        self.immediate_matched_probe_with_tag(MPI_ANY_TAG)
    }
}

// SAFETY: the value means any process of the communicator.
unsafe impl Source for AnyProcess<'_> {
    #[inline(always)]
    fn source_rank(&self) -> Rank {
        MPI_ANY_SOURCE
    }
}

// SAFETY: a process has a rank of its communicator.
unsafe impl Source for Process<'_> {
    #[inline(always)]
    fn source_rank(&self) -> Rank {
        self.rank()
    }
}

/// The value, or what the communicator's error handler does.
#[track_caller]
#[inline(always)]
fn done<S: Source + ?Sized, T>(source: &S, result: Result<T, mpi_p2p::Error>) -> T {
    ok(core_comm(source.as_communicator()), result)
}

/// The operations themselves, with their errors.
pub(crate) mod call {
    use std::alloc::Layout;
    use std::mem::MaybeUninit;

    use mpi_datatype::RecvBuf;
    use mpi_p2p::Error;

    use super::super::received::Received;
    use super::super::{from, future, tagged};
    use super::*;
    use crate::datatype::{core_type, recv_buf};
    use crate::ffi::MPI_Request;

    pub(crate) fn probe<S: Source + ?Sized>(source: &S, tag: Tag) -> Result<Status, Error> {
        let comm = core_comm(source.as_communicator());
        comm.probe(from(source.source_rank()), tagged(tag)).map(Status::from_core)
    }

    pub(crate) fn immediate_probe<S: Source + ?Sized>(source: &S, tag: Tag) -> Result<Option<Status>, Error> {
        let comm = core_comm(source.as_communicator());
        Ok(comm.iprobe(from(source.source_rank()), tagged(tag))?.map(Status::from_core))
    }

    pub(crate) fn matched_probe<S: Source + ?Sized>(
        source: &S,
        tag: Tag,
    ) -> Result<(Message, Status), Error> {
        matched_for("probe", source, tag)
    }

    /// A matched probe as the first half of an operation of that name.
    pub(crate) fn matched_for<S: Source + ?Sized>(
        op: &'static str,
        source: &S,
        tag: Tag,
    ) -> Result<(Message, Status), Error> {
        let comm = core_comm(source.as_communicator());
        let (message, status) = comm.mprobe_for(op, from(source.source_rank()), tagged(tag))?;
        Ok((Message::new(comm, message), Status::from_core(status)))
    }

    pub(crate) fn immediate_matched_probe<S: Source + ?Sized>(
        source: &S,
        tag: Tag,
    ) -> Result<Option<(Message, Status)>, Error> {
        let comm = core_comm(source.as_communicator());
        let found = comm.improbe(from(source.source_rank()), tagged(tag))?;
        Ok(found.map(|(message, status)| (Message::new(comm, message), Status::from_core(status))))
    }

    #[inline(always)]
    pub(crate) fn receive<S, Msg>(source: &S, tag: Tag) -> Result<Received<Msg>, Error>
    where
        S: Source + ?Sized,
        Msg: Equivalence,
    {
        let comm = core_comm(source.as_communicator());
        let datatype = Msg::equivalent_datatype();
        let mut value = MaybeUninit::<Msg>::uninit();
        // SAFETY: there is room for one value; the call is over before the value is looked at.
        let room = unsafe { RecvBuf::new(value.as_mut_ptr().cast(), 1, core_type(&datatype)) };
        let status = Status::from_core(comm.recv(from(source.source_rank()), tagged(tag), room)?);
        // SAFETY: the receive is over, and put a whole value there if it was long enough.
        Ok(unsafe { Received::of(comm, value, status, room.bytes()) })
    }

    #[inline(always)]
    pub(crate) fn receive_into<S, Buf>(source: &S, buf: &mut Buf, tag: Tag) -> Result<Status, Error>
    where
        S: Source + ?Sized,
        Buf: BufferMut + ?Sized,
    {
        let comm = core_comm(source.as_communicator());
        let datatype = buf.as_datatype();
        let room = recv_buf(buf, &datatype);
        comm.recv(from(source.source_rank()), tagged(tag), room).map(Status::from_core)
    }

    /// Starts a receive that uses `buf` until it has completed.
    #[inline(always)]
    pub(crate) fn start_receive<S, Buf>(source: &S, buf: &mut Buf, tag: Tag) -> Result<MPI_Request, Error>
    where
        S: Source + ?Sized,
        Buf: BufferMut + ?Sized,
    {
        let comm = core_comm(source.as_communicator());
        let datatype = buf.as_datatype();
        let room = recv_buf(buf, &datatype);
        Ok(MPI_Request(Some(comm.irecv(from(source.source_rank()), tagged(tag), room)?)))
    }

    #[track_caller]
    pub(crate) fn receive_future<S, Msg>(source: &S, tag: Tag) -> Result<ReceiveFuture<Msg>, Error>
    where
        S: Source + ?Sized,
        Msg: Equivalence,
    {
        let comm = core_comm(source.as_communicator());
        let datatype = Msg::equivalent_datatype();
        let place = future::Place::new(Layout::new::<Msg>());
        // SAFETY: there is room for one value, which the future keeps until the operation is over.
        let room = unsafe { RecvBuf::new(place.pointer(), 1, core_type(&datatype)) };
        let request = comm.irecv(from(source.source_rank()), tagged(tag), room)?;
        Ok(ReceiveFuture::new(comm, place, MPI_Request(Some(request))))
    }
}
