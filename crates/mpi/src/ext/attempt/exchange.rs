//! Sending and receiving in one call, with errors as values.

use crate::Tag;
use crate::datatype::traits::*;
use crate::ext::Error;
use crate::ext::error::caught;
use crate::point_to_point::exchange::call;
use crate::point_to_point::{Destination, Source, Status};

/// [`send_receive_with_tags`](crate::point_to_point::send_receive_with_tags) with its error as a value.
///
/// # Errors
/// Those of a send and of a receive; `Comm` for two communicators, `Count` for a message too short to be a value.
#[track_caller]
pub fn try_send_receive_with_tags<M, D, R, S>(
    msg: &M,
    destination: &D,
    sendtag: Tag,
    source: &S,
    receivetag: Tag,
) -> Result<(R, Status), Error>
where
    M: Equivalence,
    D: Destination,
    R: Equivalence,
    S: Source,
{
    let received = call::send_receive(msg, destination, sendtag, source, receivetag);
    caught(received.and_then(|received| received.flatten()))
}

/// [`send_receive_into_with_tags`](crate::point_to_point::send_receive_into_with_tags) with its error as a value.
///
/// # Errors
/// Those of a send and of a receive; `Comm` for two communicators.
#[track_caller]
pub fn try_send_receive_into_with_tags<M, D, B, S>(
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
    caught(call::send_receive_into(msg, destination, sendtag, buf, source, receivetag))
}

/// [`send_receive_replace_into_with_tags`](crate::point_to_point::send_receive_replace_into_with_tags) with its error
/// as a value.
///
/// # Errors
/// Those of a send and of a receive; `Comm` for two communicators.
#[track_caller]
pub fn try_send_receive_replace_into_with_tags<B, D, S>(
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
    caught(call::send_receive_replace_into(buf, destination, sendtag, source, receivetag))
}
