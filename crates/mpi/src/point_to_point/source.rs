//! Where messages come from.

use std::alloc::Layout;
use std::mem::MaybeUninit;

use mpi_datatype::RecvBuf;

use super::{MatchedReceiveVec, Message, ReceiveFuture, Status, empty_message, from, tagged};
use crate::Tag;
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf};
use crate::error::ok;
use crate::ffi::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_Request};
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
    fn probe_with_tag(&self, tag: Tag) -> Status {
        let comm = core_comm(self.as_communicator());
        Status::from_core(ok(comm, comm.probe(from(self.source_rank()), tagged(tag))))
    }

    /// Waits for a message and says what is known of it, without receiving it (`MPI_Probe`).
    fn probe(&self) -> Status {
        self.probe_with_tag(MPI_ANY_TAG)
    }

    /// Waits for a message with the tag and sets it aside, so that only [`Message`] can receive it (MPI-4.1 §3.8.2,
    /// `MPI_Mprobe`).
    fn matched_probe_with_tag(&self, tag: Tag) -> (Message, Status) {
        let comm = core_comm(self.as_communicator());
        let (message, status) = ok(comm, comm.mprobe(from(self.source_rank()), tagged(tag)));
        (Message::new(comm, message), Status::from_core(status))
    }

    /// Waits for a message and sets it aside, so that only [`Message`] can receive it (`MPI_Mprobe`).
    fn matched_probe(&self) -> (Message, Status) {
        self.matched_probe_with_tag(MPI_ANY_TAG)
    }

    /// Receives one value with the tag (MPI-4.1 §3.2.4, `MPI_Recv`).
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    #[inline]
    fn receive_with_tag<Msg>(&self, tag: Tag) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        let comm = core_comm(self.as_communicator());
        let datatype = Msg::equivalent_datatype();
        let mut value = MaybeUninit::<Msg>::uninit();
        // SAFETY: there is room for one value; the call is over before the value is looked at.
        let room = unsafe { RecvBuf::new(value.as_mut_ptr().cast(), 1, core_type(&datatype)) };
        let status = Status::from_core(ok(comm, comm.recv(from(self.source_rank()), tagged(tag), room)));
        if status.is_short_of(room.bytes()) {
            empty_message(&status, room.bytes());
        }
        // SAFETY: a whole value arrived, and `Equivalence` promises that it is valid.
        (unsafe { value.assume_init() }, status)
    }

    /// Receives one value (`MPI_Recv`).
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    #[inline]
    fn receive<Msg>(&self) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        self.receive_with_tag(MPI_ANY_TAG)
    }

    /// Receives a message with the tag into a buffer, which may be longer than the message (`MPI_Recv`).
    #[inline]
    fn receive_into_with_tag<Buf>(&self, buf: &mut Buf, tag: Tag) -> Status
    where
        Buf: ?Sized + BufferMut,
    {
        let comm = core_comm(self.as_communicator());
        let datatype = buf.as_datatype();
        let room = recv_buf(buf, &datatype);
        Status::from_core(ok(comm, comm.recv(from(self.source_rank()), tagged(tag), room)))
    }

    /// Receives a message into a buffer, which may be longer than the message (`MPI_Recv`).
    #[inline]
    fn receive_into<Buf>(&self, buf: &mut Buf) -> Status
    where
        Buf: ?Sized + BufferMut,
    {
        self.receive_into_with_tag(buf, MPI_ANY_TAG)
    }

    /// Receives a message of any length with the tag.
    fn receive_vec_with_tag<Msg>(&self, tag: Tag) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        self.matched_probe_with_tag(tag).matched_receive_vec()
    }

    /// Receives a message of any length.
    fn receive_vec<Msg>(&self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        self.receive_vec_with_tag(MPI_ANY_TAG)
    }

    /// Starts to receive a message with the tag into a buffer (MPI-4.1 §3.7.2, `MPI_Irecv`).
    #[inline]
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
        let comm = core_comm(self.as_communicator());
        let datatype = buf.as_datatype();
        let room = recv_buf(buf, &datatype);
        let request = ok(comm, comm.irecv(from(self.source_rank()), tagged(tag), room));
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) }
    }

    /// Starts to receive a message into a buffer (`MPI_Irecv`).
    #[inline]
    fn immediate_receive_into<'a, Sc, Buf>(&self, scope: Sc, buf: &'a mut Buf) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        self.immediate_receive_into_with_tag(scope, buf, MPI_ANY_TAG)
    }

    /// Starts to receive one value with the tag (`MPI_Irecv`).
    fn immediate_receive_with_tag<Msg>(&self, tag: Tag) -> ReceiveFuture<Msg>
    where
        Msg: Equivalence,
    {
        let comm = core_comm(self.as_communicator());
        let datatype = Msg::equivalent_datatype();
        let place = super::future::place(Layout::new::<Msg>());
        // SAFETY: there is room for one value, which the future keeps until the operation is over.
        let room = unsafe { RecvBuf::new(place.as_ptr(), 1, core_type(&datatype)) };
        let request = ok(comm, comm.irecv(from(self.source_rank()), tagged(tag), room));
        ReceiveFuture::new(place.cast(), MPI_Request(Some(request)))
    }

    /// Starts to receive one value (`MPI_Irecv`).
    fn immediate_receive<Msg>(&self) -> ReceiveFuture<Msg>
    where
        Msg: Equivalence,
    {
        self.immediate_receive_with_tag(MPI_ANY_TAG)
    }

    /// As [`probe_with_tag`](Self::probe_with_tag), but does not wait (`MPI_Iprobe`).
    fn immediate_probe_with_tag(&self, tag: Tag) -> Option<Status> {
        let comm = core_comm(self.as_communicator());
        ok(comm, comm.iprobe(from(self.source_rank()), tagged(tag))).map(Status::from_core)
    }

    /// As [`probe`](Self::probe), but does not wait (`MPI_Iprobe`).
    fn immediate_probe(&self) -> Option<Status> {
        self.immediate_probe_with_tag(MPI_ANY_TAG)
    }

    /// As [`matched_probe_with_tag`](Self::matched_probe_with_tag), but does not wait (`MPI_Improbe`).
    fn immediate_matched_probe_with_tag(&self, tag: Tag) -> Option<(Message, Status)> {
        let comm = core_comm(self.as_communicator());
        let found = ok(comm, comm.improbe(from(self.source_rank()), tagged(tag)))?;
        Some((Message::new(comm, found.0), Status::from_core(found.1)))
    }

    /// As [`matched_probe`](Self::matched_probe), but does not wait (`MPI_Improbe`).
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
