//! Sending and receiving in one call, which cannot deadlock (MPI-4.1 §3.10).

use std::mem::MaybeUninit;

use mpi_comm::Comm;
use mpi_datatype::RecvBuf;

use super::{Destination, Source, Status, from, tagged, to};
use crate::Tag;
use crate::datatype::traits::*;
use crate::datatype::{core_type, recv_buf, send_buf};
use crate::error::ok;
use crate::ffi::MPI_ANY_TAG;
use crate::point_to_point::empty_message;
use crate::topology::traits::*;
use crate::topology::{CommunicatorRelation, core_comm};

/// The communicator of both.
fn common<'a, D: Destination, S: Source>(destination: &D, source: &'a S) -> &'a Comm {
    let communicator = source.as_communicator();
    assert_eq!(
        communicator.compare(destination.as_communicator()),
        CommunicatorRelation::Identical,
        "source and destination must belong to the same communicator"
    );
    core_comm(communicator)
}

/// Sends `msg` to `destination` and receives one value from `source` (`MPI_Sendrecv`).
///
/// # Panics
/// If the two belong to different communicators, or the message is empty or too short to be a value.
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
    let comm = common(destination, source);
    let (sent, received) = (msg.as_datatype(), R::equivalent_datatype());
    let mut value = MaybeUninit::<R>::uninit();
    // SAFETY: there is room for one value; the call is over before the value is looked at.
    let room = unsafe { RecvBuf::new(value.as_mut_ptr().cast(), 1, core_type(&received)) };
    let status = Status::from_core(ok(
        comm,
        comm.sendrecv(
            to(destination.destination_rank()),
            sendtag,
            send_buf(msg, &sent),
            from(source.source_rank()),
            tagged(receivetag),
            room,
        ),
    ));
    if status.is_short_of(room.bytes()) {
        empty_message(&status, room.bytes());
    }
    // SAFETY: a whole value arrived, and `Equivalence` promises that it is valid.
    (unsafe { value.assume_init() }, status)
}

/// Sends `msg` to `destination` with tag 0 and receives one value with any tag from `source` (`MPI_Sendrecv`).
///
/// # Panics
/// As [`send_receive_with_tags`].
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
    let comm = common(destination, source);
    let (sent, received) = (msg.as_datatype(), buf.as_datatype());
    Status::from_core(ok(
        comm,
        comm.sendrecv(
            to(destination.destination_rank()),
            sendtag,
            send_buf(msg, &sent),
            from(source.source_rank()),
            tagged(receivetag),
            recv_buf(buf, &received),
        ),
    ))
}

/// Sends `msg` to `destination` with tag 0 and receives into `buf` with any tag from `source` (`MPI_Sendrecv`).
///
/// # Panics
/// If the two belong to different communicators.
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
    let comm = common(destination, source);
    let datatype = buf.as_datatype();
    Status::from_core(ok(
        comm,
        comm.sendrecv_replace(
            recv_buf(buf, &datatype),
            to(destination.destination_rank()),
            sendtag,
            from(source.source_rank()),
            tagged(receivetag),
        ),
    ))
}

/// Sends what is in `buf` to `destination` with tag 0 and receives into it with any tag from `source`
/// (`MPI_Sendrecv_replace`).
///
/// # Panics
/// If the two belong to different communicators.
pub fn send_receive_replace_into<B, D, S>(buf: &mut B, destination: &D, source: &S) -> Status
where
    B: ?Sized + BufferMut,
    D: Destination,
    S: Source,
{
    send_receive_replace_into_with_tags(buf, destination, Tag::default(), source, MPI_ANY_TAG)
}
