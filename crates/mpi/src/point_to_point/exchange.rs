//! Sending and receiving in one call, which cannot deadlock (MPI-4.1 §3.10).

use mpi_comm::Comm;

use super::received::whole;
use super::{Destination, Source, Status};
use crate::Tag;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::ffi::MPI_ANY_TAG;
use crate::topology::core_comm;

/// The communicator of both.
#[track_caller]
fn common<'a, D: Destination, S: Source>(destination: &D, source: &'a S) -> &'a Comm {
    if let Err(error) = call::same(destination, source) {
        panic!("{error}");
    }
    core_comm(source.as_communicator())
}

/// Sends `msg` to `destination` and receives one value from `source` (`MPI_Sendrecv`).
///
/// # Panics
/// If the two belong to different communicators, or the message is empty or too short to be a value.
#[track_caller]
pub fn send_receive_with_tags<M, D, R, S>(
    msg: &M,
    destination: &D,
    sendtag: Tag,
    source: &S,
    receivetag: Tag,
) -> (R, Status)
where
    M: Equivalence,
    D: Destination,
    R: Equivalence,
    S: Source,
{
    let result = call::send_receive(msg, destination, sendtag, source, receivetag);
    whole(ok(common(destination, source), result))
}

/// Sends `msg` to `destination` with tag 0 and receives one value with any tag from `source` (`MPI_Sendrecv`).
///
/// # Panics
/// As [`send_receive_with_tags`].
#[track_caller]
pub fn send_receive<R, M, D, S>(msg: &M, destination: &D, source: &S) -> (R, Status)
where
    M: Equivalence,
    D: Destination,
    R: Equivalence,
    S: Source,
{
    send_receive_with_tags(msg, destination, Tag::default(), source, MPI_ANY_TAG)
}

/// Sends `msg` to `destination` and receives into `buf` from `source` (`MPI_Sendrecv`).
///
/// # Panics
/// If the two belong to different communicators.
#[track_caller]
pub fn send_receive_into_with_tags<M, D, B, S>(
    msg: &M,
    destination: &D,
    sendtag: Tag,
    buf: &mut B,
    source: &S,
    receivetag: Tag,
) -> Status
where
    M: ?Sized + Buffer,
    D: Destination,
    B: ?Sized + BufferMut,
    S: Source,
{
    let result = call::send_receive_into(msg, destination, sendtag, buf, source, receivetag);
    ok(common(destination, source), result)
}

/// Sends `msg` to `destination` with tag 0 and receives into `buf` with any tag from `source` (`MPI_Sendrecv`).
///
/// # Panics
/// If the two belong to different communicators.
#[track_caller]
pub fn send_receive_into<M, D, B, S>(msg: &M, destination: &D, buf: &mut B, source: &S) -> Status
where
    M: ?Sized + Buffer,
    D: Destination,
    B: ?Sized + BufferMut,
    S: Source,
{
    send_receive_into_with_tags(msg, destination, Tag::default(), buf, source, MPI_ANY_TAG)
}

/// Sends what is in `buf` to `destination` and receives into it from `source` (`MPI_Sendrecv_replace`).
///
/// # Panics
/// If the two belong to different communicators.
#[track_caller]
pub fn send_receive_replace_into_with_tags<B, D, S>(
    buf: &mut B,
    destination: &D,
    sendtag: Tag,
    source: &S,
    receivetag: Tag,
) -> Status
where
    B: ?Sized + BufferMut,
    D: Destination,
    S: Source,
{
    let result = call::send_receive_replace_into(buf, destination, sendtag, source, receivetag);
    ok(common(destination, source), result)
}

/// Sends what is in `buf` to `destination` with tag 0 and receives into it with any tag from `source`
/// (`MPI_Sendrecv_replace`).
///
/// # Panics
/// If the two belong to different communicators.
#[track_caller]
pub fn send_receive_replace_into<B, D, S>(buf: &mut B, destination: &D, source: &S) -> Status
where
    B: ?Sized + BufferMut,
    D: Destination,
    S: Source,
{
    send_receive_replace_into_with_tags(buf, destination, Tag::default(), source, MPI_ANY_TAG)
}

/// The operations themselves, with their errors.
pub(crate) mod call {
    use std::mem::MaybeUninit;

    use mpi_datatype::RecvBuf;
    use mpi_p2p::{Error, ErrorClass};

    use super::super::received::Received;
    use super::super::{from, tagged, to};
    use super::*;
    use crate::datatype::{core_type, recv_buf, send_buf};
    use crate::topology::CommunicatorRelation;
    use crate::topology::traits::*;

    /// The communicator of both.
    pub(crate) fn same<'a, D: Destination, S: Source>(
        destination: &D,
        source: &'a S,
    ) -> Result<&'a Comm, Error> {
        let communicator = source.as_communicator();
        let comm = core_comm(communicator);
        match communicator.compare(destination.as_communicator()) {
            CommunicatorRelation::Identical => Ok(comm),
            _ => {
                let other = core_comm(destination.as_communicator()).name();
                let detail = format!(
                    "source and destination must belong to the same communicator, and one is of \"{other}\""
                );
                let error = Error::new(ErrorClass::Comm, "send-receive", detail);
                Err(error.on(comm.name(), comm.context().id()))
            }
        }
    }

    pub(crate) fn send_receive<M, D, R, S>(
        msg: &M,
        destination: &D,
        sendtag: Tag,
        source: &S,
        receivetag: Tag,
    ) -> Result<Received<R>, Error>
    where
        M: Equivalence,
        D: Destination,
        R: Equivalence,
        S: Source,
    {
        let comm = same(destination, source)?;
        let (sent, received) = (msg.as_datatype(), R::equivalent_datatype());
        let mut value = MaybeUninit::<R>::uninit();
        // SAFETY: there is room for one value; the call is over before the value is looked at.
        let room = unsafe { RecvBuf::new(value.as_mut_ptr().cast(), 1, core_type(&received)) };
        let status = comm.sendrecv(
            to(destination.destination_rank()),
            sendtag,
            send_buf(msg, &sent),
            from(source.source_rank()),
            tagged(receivetag),
            room,
        )?;
        // SAFETY: the receive is over, and put a whole value there if it was long enough.
        Ok(unsafe { Received::of(comm, value, Status::from_core(status), room.bytes()) })
    }

    pub(crate) fn send_receive_into<M, D, B, S>(
        msg: &M,
        destination: &D,
        sendtag: Tag,
        buf: &mut B,
        source: &S,
        receivetag: Tag,
    ) -> Result<Status, Error>
    where
        M: ?Sized + Buffer,
        D: Destination,
        B: ?Sized + BufferMut,
        S: Source,
    {
        let comm = same(destination, source)?;
        let (sent, received) = (msg.as_datatype(), buf.as_datatype());
        let status = comm.sendrecv(
            to(destination.destination_rank()),
            sendtag,
            send_buf(msg, &sent),
            from(source.source_rank()),
            tagged(receivetag),
            recv_buf(buf, &received),
        )?;
        Ok(Status::from_core(status))
    }

    pub(crate) fn send_receive_replace_into<B, D, S>(
        buf: &mut B,
        destination: &D,
        sendtag: Tag,
        source: &S,
        receivetag: Tag,
    ) -> Result<Status, Error>
    where
        B: ?Sized + BufferMut,
        D: Destination,
        S: Source,
    {
        let comm = same(destination, source)?;
        let datatype = buf.as_datatype();
        let status = comm.sendrecv_replace(
            recv_buf(buf, &datatype),
            to(destination.destination_rank()),
            sendtag,
            from(source.source_rank()),
            tagged(receivetag),
        )?;
        Ok(Status::from_core(status))
    }
}
