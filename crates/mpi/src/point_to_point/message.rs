//! Messages that a matched probe has set aside (MPI-4.1 §3.8.2, §3.8.3).

use std::mem::MaybeUninit;
use std::{mem, thread};

use mpi_comm::{Comm, Matched};
use mpi_datatype::RecvBuf;

use super::{Status, empty_message};
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf};
use crate::error::ok;
use crate::ffi::{MPI_Message, MPI_Request};
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

    fn receive_buf(mut self, room: RecvBuf<'_>) -> Status {
        // SAFETY: this value owns the message, and holds the null handle from here on.
        match unsafe { mem::replace(&mut self.0, MPI_Message::NULL).take() } {
            Some(object) => Status::from_core(ok(&object.comm, object.comm.mrecv(object.matched, room))),
            None => Status::no_proc(),
        }
    }

    /// Receives it as one value (`MPI_Mrecv`).
    ///
    /// # Panics
    /// If the message is empty, or too short to be a value.
    pub fn matched_receive<Msg>(self) -> (Msg, Status)
    where
        Msg: Equivalence,
    {
        let datatype = Msg::equivalent_datatype();
        let mut value = MaybeUninit::<Msg>::uninit();
        // SAFETY: there is room for one value; the call is over before the value is looked at.
        let room = unsafe { RecvBuf::new(value.as_mut_ptr().cast(), 1, core_type(&datatype)) };
        let status = self.receive_buf(room);
        if status.is_short_of(room.bytes()) {
            empty_message(&status, room.bytes());
        }
        // SAFETY: a whole value arrived, and `Equivalence` promises that it is valid.
        (unsafe { value.assume_init() }, status)
    }

    /// Receives it into a buffer (`MPI_Mrecv`).
    pub fn matched_receive_into<Buf>(self, buf: &mut Buf) -> Status
    where
        Buf: ?Sized + BufferMut,
    {
        let datatype = buf.as_datatype();
        self.receive_buf(recv_buf(buf, &datatype))
    }

    /// Starts to receive it into a buffer (`MPI_Imrecv`).
    pub fn immediate_matched_receive_into<'a, Sc, Buf>(
        mut self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Request<'a, Buf, Sc>
    where
        Buf: ?Sized + BufferMut,
        Sc: Scope<'a>,
    {
        let datatype = buf.as_datatype();
        let room = recv_buf(buf, &datatype);
        // SAFETY: this value owns the message, and holds the null handle from here on.
        let object = unsafe { mem::replace(&mut self.0, MPI_Message::NULL).take() };
        let (comm, matched) = match object {
            Some(object) => (object.comm, object.matched),
            None => (mpi_comm::world(), Matched::Null),
        };
        let request = ok(&comm, comm.imrecv(matched, room));
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        unsafe { Request::from_raw(MPI_Request(Some(request)), buf, scope) }
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
        assert!(!unreceived || thread::panicking(), "a matched message was dropped without being received");
    }
}

/// Receives a matched message as a vector of its length.
pub trait MatchedReceiveVec {
    /// Receives the message.
    fn matched_receive_vec<Msg>(self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence;
}

impl MatchedReceiveVec for (Message, Status) {
    fn matched_receive_vec<Msg>(self) -> (Vec<Msg>, Status)
    where
        Msg: Equivalence,
    {
        let (message, status) = self;
        let datatype = Msg::equivalent_datatype();
        let size = core_type(&datatype).size();
        // A message that is no whole number of elements is an error that the receive reports.
        let count = if size == 0 { 0 } else { status.bytes().div_ceil(size as u64) as usize };
        let mut values = Vec::<Msg>::with_capacity(count);
        // SAFETY: there is room for `count` values; the call is over before they are looked at.
        let room = unsafe { RecvBuf::new(values.as_mut_ptr().cast(), count, core_type(&datatype)) };
        let status = message.receive_buf(room);
        let whole = if size == 0 { 0 } else { (status.bytes() / size as u64) as usize };
        // SAFETY: so many whole values arrived, not more than there is room for.
        unsafe { values.set_len(whole.min(count)) };
        (values, status)
    }
}
