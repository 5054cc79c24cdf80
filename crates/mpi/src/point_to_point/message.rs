//! Messages that a matched probe has set aside (MPI-4.1 §3.8.2, §3.8.3).

use std::mem::MaybeUninit;
use std::{mem, thread};

use mpi_comm::{Comm, Matched};
use mpi_datatype::RecvBuf;
use mpi_p2p::Error;

use super::Status;
use super::received::{Received, whole};
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf};
use crate::error::ok;
use crate::ffi::{MPI_Message, MPI_Request, MessageObject};
use crate::raw::traits::*;
use crate::request::{Request, Scope};

/// A message that only this value can receive.
///
/// # Panics
/// Dropping it without receiving panics.
#[must_use]
pub struct Message(MPI_Message);

impl Message {
    pub(crate) fn new(comm: &Comm, matched: Matched) -> Message {
        Message(MPI_Message::of(comm, matched))
    }

    /// Whether it is the message of the null process, which is empty and need not be received.
    pub fn is_no_proc(&self) -> bool {
        self.0 == MPI_Message::NO_PROC
    }

    /// The message and its communicator, which this value owned.
    pub(crate) fn into_parts(mut self) -> (Comm, Matched) {
        // SAFETY: this value owns the message, and holds the null handle from here on.
        match unsafe { mem::replace(&mut self.0, MPI_Message::NULL).take() } {
            Some(object) => (object.comm, object.matched),
            None => (mpi_comm::world(), Matched::Null),
        }
    }

    /// Receives it as one value, with its errors.
    pub(crate) fn receive_value<Msg: Equivalence>(self) -> (Comm, Result<Received<Msg>, Error>) {
        let datatype = Msg::equivalent_datatype();
        let mut value = MaybeUninit::<Msg>::uninit();
        // SAFETY: there is room for one value; the call is over before the value is looked at.
        let room = unsafe { RecvBuf::new(value.as_mut_ptr().cast(), 1, core_type(&datatype)) };
        let (comm, matched) = self.into_parts();
        let result = comm.mrecv(matched, room).map(|status| {
            // SAFETY: the receive is over, and put a whole value there if it was long enough.
            unsafe { Received::of(&comm, value, Status::from_core(status), room.bytes()) }
        });
        (comm, result)
    }

    /// Receives it into a buffer, with its errors.
    pub(crate) fn receive_into<Buf>(self, buf: &mut Buf) -> (Comm, Result<Status, Error>)
    where
        Buf: ?Sized + BufferMut,
    {
        let datatype = buf.as_datatype();
        let room = recv_buf(buf, &datatype);
        let (comm, matched) = self.into_parts();
        let result = comm.mrecv(matched, room).map(Status::from_core);
        (comm, result)
    }

    /// Starts to receive it into a buffer, with its errors.
    pub(crate) fn start_receive<Buf>(self, buf: &mut Buf) -> (Comm, Result<MPI_Request, Error>)
    where
        Buf: ?Sized + BufferMut,
    {
        let datatype = buf.as_datatype();
        let room = recv_buf(buf, &datatype);
        let (comm, matched) = self.into_parts();
        let result = comm.imrecv(matched, room).map(|request| MPI_Request(Some(request)));
        (comm, result)
    }

    /// Receives it as a vector of its length, with its errors.
    pub(crate) fn receive_vec<Msg: Equivalence>(
        self,
        status: Status,
    ) -> (Comm, Result<(Vec<Msg>, Status), Error>) {
        let datatype = Msg::equivalent_datatype();
        let size = core_type(&datatype).size();
        // A message that is no whole number of elements is an error that the receive reports.
        let count = if size == 0 { 0 } else { status.bytes().div_ceil(size as u64) as usize };
        let mut values = Vec::<Msg>::with_capacity(count);
        // SAFETY: there is room for `count` values; the call is over before they are looked at.
        let room = unsafe { RecvBuf::new(values.as_mut_ptr().cast(), count, core_type(&datatype)) };
        let (comm, matched) = self.into_parts();
        let result = comm.mrecv(matched, room).map(|status| {
            let status = Status::from_core(status);
            let whole = if size == 0 { 0 } else { (status.bytes() / size as u64) as usize };
            // SAFETY: so many whole values arrived, not more than there is room for.
            unsafe { values.set_len(whole.min(count)) };
            (values, status)
        });
        (comm, result)
    }

    /// Receives it as one value (`MPI_Mrecv`).
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    #[track_caller]
    pub fn matched_receive<Msg>(self) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        let (comm, result) = self.receive_value();
        whole(ok(&comm, result))
    }

    /// Receives it into a buffer (`MPI_Mrecv`).
    #[track_caller]
    pub fn matched_receive_into<Buf>(self, buf: &mut Buf) -> Status
    where
        Buf: ?Sized + BufferMut,
    {
        let (comm, result) = self.receive_into(buf);
        ok(&comm, result)
    }

    /// Starts to receive it into a buffer (`MPI_Imrecv`).
    #[track_caller]
    pub fn immediate_matched_receive_into<'a, Sc, Buf>(
        self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + BufferMut,
        Sc: Scope<'a>,
    {
        let (comm, request) = self.start_receive(buf);
        let request = ok(&comm, request);
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        unsafe { Request::from_raw(request, buf, scope) }
    }
}

// SAFETY: the message lives until it is received, which consumes this value.
unsafe impl AsRaw for Message {
    type Raw = MPI_Message;
    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

// SAFETY: what is written there is a handle, by the promise of whoever writes.
unsafe impl AsRawMut for Message {
    fn as_raw_mut(&mut self) -> *mut <Self as AsRaw>::Raw {
        &mut self.0
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let unreceived = !matches!(self.0, MPI_Message::NULL | MPI_Message::NO_PROC);
        if unreceived && !thread::panicking() {
            // SAFETY: the value owns the message, which stays as long.
            let object = unsafe { self.0.object() };
            let what = object.map_or_else(String::new, MessageObject::describe);
            panic!("a matched message was dropped without being received: {what}");
        }
    }
}

/// Receives a matched message as a vector of its length.
pub trait MatchedReceiveVec {
    /// Receives the message.
    #[track_caller]
    fn matched_receive_vec<Msg>(self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence;
}

impl MatchedReceiveVec for (Message, Status) {
    #[track_caller]
    fn matched_receive_vec<Msg>(self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        let (message, status) = self;
        let (comm, result) = message.receive_vec(status);
        ok(&comm, result)
    }
}
