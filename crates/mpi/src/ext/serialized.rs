//! Messages of values of any shape, by serde (feature `serde`).
//!
//! A value travels in the format of postcard, whose numbers have the same bytes on every host. A message that cannot be
//! made, is longer than [`SERIALIZED_MESSAGE_MAX_BYTES`], or holds no such value is an error of whoever notices;
//! collectives then return an error on every rank that needed it, and leave nothing behind.

use mpi_coll::InPlaceOr::Buf;
use mpi_datatype::{Datatype, Primitive, RecvBlocks, RecvBuf, SendBlocks, SendBuf};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use crate::collective::parts::is_root;
use crate::collective::root::root;
use crate::collective::traits::*;
use crate::ffi::MPI_ANY_TAG;
use crate::limits::SERIALIZED_MESSAGE_MAX_BYTES;
use crate::point_to_point::destination::send;
use crate::point_to_point::source::call;
use crate::point_to_point::{Destination, Source, Status};
use crate::topology::core_comm;
use crate::topology::traits::*;
use crate::{Rank, Tag};
use mpi_p2p::SendMode;

/// What went wrong with a message of a serialised value.
#[derive(thiserror::Error, Debug)]
pub enum SerializedError {
    /// The operation failed.
    #[error(transparent)]
    Mpi(#[from] Error),
    /// The value cannot be serialised.
    #[error("the value cannot be serialised: {0}")]
    Encode(String),
    /// The message holds no such value.
    #[error("the message of {bytes} bytes from rank {rank} holds no value of the type asked for: {why}")]
    Decode {
        /// Who sent it.
        rank: Rank,
        /// Its length.
        bytes: usize,
        /// What does not fit.
        why: String,
    },
    /// The message is too long.
    #[error("a message of {bytes} bytes is longer than the limit of {SERIALIZED_MESSAGE_MAX_BYTES}")]
    TooLong {
        /// Its length.
        bytes: u64,
    },
    /// Another rank had no message to give.
    #[error("rank {rank} could not make its message")]
    Peer {
        /// Which one.
        rank: Rank,
    },
    /// The root of a broadcast gave no value.
    #[error("the root gave no value to broadcast")]
    Missing,
    /// A root gave a wrong number of values.
    #[error("{given} values for {ranks} ranks")]
    Number {
        /// How many it gave.
        given: usize,
        /// How many ranks there are.
        ranks: usize,
    },
    /// There is no memory for the messages.
    #[error("no memory for messages of {bytes} bytes")]
    Memory {
        /// Their length.
        bytes: usize,
    },
}

type Outcome<T> = Result<T, SerializedError>;

/// The length of a message that could not be made.
const FAILED: u64 = u64::MAX;

static BYTE: Datatype = Datatype::predefined(Primitive::U8);
static LENGTH: Datatype = Datatype::predefined(Primitive::U64);

/// Sends of serialised values.
///
/// ```no_run
/// use mpi::ext::prelude::*;
/// use mpi::traits::*;
/// use std::collections::BTreeMap;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let ages = BTreeMap::from([("Ada".to_owned(), 36), ("Emmy".to_owned(), 53)]);
/// world.this_process().send_serialized(&ages).unwrap();
/// let (got, _) = world.any_process().receive_serialized::<BTreeMap<String, i32>>().unwrap();
/// assert_eq!(got, ages);
/// ```
pub trait SerializedDestination: Destination {
    /// Sends a value.
    ///
    /// # Errors
    /// The value cannot be serialised, or is too long; those of a send.
    #[track_caller]
    fn send_serialized<T: Serialize + ?Sized>(&self, value: &T) -> Outcome<()> {
        self.send_serialized_with_tag(value, Tag::default())
    }

    /// Sends a value with the tag.
    ///
    /// # Errors
    /// As [`send_serialized`](Self::send_serialized).
    #[track_caller]
    fn send_serialized_with_tag<T: Serialize + ?Sized>(&self, value: &T, tag: Tag) -> Outcome<()> {
        let bytes = encode(value)?;
        match send(self, &bytes[..], tag, SendMode::Standard) {
            Ok(()) => Ok(()),
            Err(error) => Err(Error::from(error).into()),
        }
    }
}

impl<D: Destination + ?Sized> SerializedDestination for D {}

/// Receives of serialised values.
pub trait SerializedSource: Source {
    /// Receives a value.
    ///
    /// # Errors
    /// The message is too long, or holds no such value; those of a receive. The message is gone in either case.
    #[track_caller]
    fn receive_serialized<T: DeserializeOwned>(&self) -> Outcome<(T, Status)> {
        self.receive_serialized_with_tag(MPI_ANY_TAG)
    }

    /// Receives a value with the tag.
    ///
    /// # Errors
    /// As [`receive_serialized`](Self::receive_serialized).
    #[track_caller]
    fn receive_serialized_with_tag<T: DeserializeOwned>(&self, tag: Tag) -> Outcome<(T, Status)> {
        let bytes = match bytes_of(self, tag) {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(bytes)) => return Err(SerializedError::TooLong { bytes }),
            Err(error) => return Err(Error::from(error).into()),
        };
        Ok((decode(bytes.1.source_rank(), &bytes.0)?, bytes.1))
    }
}

impl<S: Source + ?Sized> SerializedSource for S {}

/// Collectives of serialised values.
pub trait SerializedCollectives: Communicator {
    /// Gives every rank the values of all, in the order of ranks.
    ///
    /// # Errors
    /// A value cannot be serialised, or is too long; those of the operation.
    #[track_caller]
    fn all_gather_serialized<T: Serialize + DeserializeOwned>(&self, value: &T) -> Outcome<Vec<T>> {
        let comm = core_comm(self);
        let own = encode(value);
        let mut lengths = vec![0; comm.size() as usize];
        checked(comm.allgather(Buf(length(&length_of(&own))), lengths_room(&mut lengths)))?;
        let parts = Layout::of(&lengths)?;
        let mut bytes = parts.room()?;
        checked(
            comm.allgatherv(Buf(send_bytes(own.as_deref().unwrap_or_default())), parts.recv(&mut bytes)?),
        )?;
        own?;
        parts.values(&bytes)
    }
}

impl<C: Communicator + ?Sized> SerializedCollectives for C {}

/// Collectives of serialised values, with a root.
pub trait SerializedRoot: Root {
    /// Gives every rank the root's value. The root gives it, the others give none.
    ///
    /// # Errors
    /// The value cannot be serialised, or is too long; those of the operation. Every rank then returns one.
    #[track_caller]
    fn broadcast_serialized<T: Serialize + DeserializeOwned>(&self, value: Option<T>) -> Outcome<T> {
        let comm = core_comm(self.as_communicator());
        let (root, rank) = (root(self), self.root_rank());
        let is_root = is_root(comm, root);
        let given = match (&value, is_root) {
            (Some(value), true) => encode(value),
            (None, true) => Err(SerializedError::Missing),
            (_, false) => Ok(Vec::new()),
        };
        let mut lengths = [length_of(&given)];
        checked(comm.broadcast(lengths_room(&mut lengths), root))?;
        let mut bytes = given?;
        if lengths[0] == FAILED {
            return Err(SerializedError::Peer { rank });
        }
        if !is_root {
            bytes = Layout::of(&lengths)?.room()?;
        }
        checked(comm.broadcast(recv_bytes(&mut bytes), root))?;
        match value {
            Some(value) if is_root => Ok(value),
            _ => decode(rank, &bytes),
        }
    }

    /// Gives the root the values of all, in the order of ranks, and the others none.
    ///
    /// # Errors
    /// A value cannot be serialised, or is too long; those of the operation.
    #[track_caller]
    fn gather_serialized<T: Serialize + DeserializeOwned>(&self, value: &T) -> Outcome<Option<Vec<T>>> {
        let comm = core_comm(self.as_communicator());
        let root = root(self);
        let own = encode(value);
        let own_length = length_of(&own);
        let own_bytes = own.as_deref().unwrap_or_default();
        if !is_root(comm, root) {
            checked(comm.gather(Buf(length(&own_length)), None, root))?;
            checked(comm.gatherv(Buf(send_bytes(own_bytes)), None, root))?;
            return own.map(|_| None);
        }
        let mut lengths = vec![0; comm.size() as usize];
        checked(comm.gather(Buf(length(&own_length)), Some(lengths_room(&mut lengths)), root))?;
        let parts = Layout::of(&lengths)?;
        let mut bytes = parts.room()?;
        checked(comm.gatherv(Buf(send_bytes(own_bytes)), Some(parts.recv(&mut bytes)?), root))?;
        own?;
        parts.values(&bytes).map(Some)
    }

    /// Gives rank `i` the `i`th of the root's values. The root gives one for each rank, the others give none.
    ///
    /// # Errors
    /// A value cannot be serialised, or is too long, or their number is wrong; those of the operation. Every rank then
    /// returns one.
    #[track_caller]
    fn scatter_serialized<T: Serialize + DeserializeOwned>(&self, values: Option<&[T]>) -> Outcome<T> {
        let comm = core_comm(self.as_communicator());
        let (root, rank) = (root(self), self.root_rank());
        let mut own_length = [0];
        if !is_root(comm, root) {
            checked(comm.scatter(None, Buf(lengths_room(&mut own_length)), root))?;
            if own_length[0] == FAILED {
                return Err(SerializedError::Peer { rank });
            }
            let mut bytes = Layout::of(&own_length)?.room()?;
            checked(comm.scatterv(None, Buf(recv_bytes(&mut bytes)), root))?;
            return decode(rank, &bytes);
        }
        let ranks = comm.size() as usize;
        let given = values.unwrap_or_default();
        let encoded = match given.len() == ranks {
            true => given.iter().map(encode).collect::<Outcome<Vec<_>>>(),
            false => Err(SerializedError::Number { given: given.len(), ranks }),
        };
        let lengths = match &encoded {
            Ok(all) => all.iter().map(|bytes| bytes.len() as u64).collect(),
            Err(_) => vec![FAILED; ranks],
        };
        // SAFETY: there are so many lengths, which outlive the call.
        let all_lengths = unsafe { SendBuf::new(lengths.as_ptr().cast(), ranks, &LENGTH) };
        checked(comm.scatter(Some(all_lengths), Buf(lengths_room(&mut own_length)), root))?;
        let bytes = encoded?.concat();
        let parts = Layout::of(&lengths)?;
        let mut own = Layout::of(&own_length)?.room()?;
        checked(comm.scatterv(Some(parts.send(&bytes)?), Buf(recv_bytes(&mut own)), root))?;
        decode(rank, &own)
    }
}

impl<R: Root + ?Sized> SerializedRoot for R {}

fn encode<T: Serialize + ?Sized>(value: &T) -> Outcome<Vec<u8>> {
    let bytes = postcard::to_stdvec(value).map_err(|error| SerializedError::Encode(error.to_string()))?;
    if bytes.len() > SERIALIZED_MESSAGE_MAX_BYTES {
        return Err(SerializedError::TooLong { bytes: bytes.len() as u64 });
    }
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(rank: Rank, message: &[u8]) -> Outcome<T> {
    let fault = |why: String| SerializedError::Decode { rank, bytes: message.len(), why };
    match postcard::take_from_bytes(message) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(fault(format!("{} bytes are left over", rest.len()))),
        Err(error) => Err(fault(error.to_string())),
    }
}

fn length_of(encoded: &Outcome<Vec<u8>>) -> u64 {
    encoded.as_ref().map_or(FAILED, |bytes| bytes.len() as u64)
}

/// The bytes of the next message; its length where that is beyond the limit, and then the message is thrown away.
#[allow(clippy::type_complexity, reason = "the message, or only its length")]
fn bytes_of<S: Source + ?Sized>(
    source: &S,
    tag: Tag,
) -> Result<Result<(Vec<u8>, Status), u64>, mpi_p2p::Error> {
    let (message, status) = call::matched_for("receive_serialized", source, tag)?;
    if status.bytes() <= SERIALIZED_MESSAGE_MAX_BYTES as u64 {
        return message.receive_vec::<u8>(status).1.map(Ok);
    }
    // Nothing of it fits, so that this is an error, after which the message is gone.
    let _ = message.receive_into::<[u8]>(&mut []);
    Ok(Err(status.bytes()))
}

#[track_caller]
fn checked<T>(result: Result<T, mpi_p2p::Error>) -> Outcome<T> {
    match result {
        Ok(value) => Ok(value),
        Err(error) => Err(Error::from(error).into()),
    }
}

fn length(length: &u64) -> SendBuf<'_> {
    // SAFETY: it is one number, borrowed as long as the buffer.
    unsafe { SendBuf::new(std::ptr::from_ref(length).cast(), 1, &LENGTH) }
}

fn lengths_room(lengths: &mut [u64]) -> RecvBuf<'_> {
    // SAFETY: there are so many numbers, borrowed as long as the buffer.
    unsafe { RecvBuf::new(lengths.as_mut_ptr().cast(), lengths.len(), &LENGTH) }
}

fn send_bytes(bytes: &[u8]) -> SendBuf<'_> {
    // SAFETY: there are so many bytes, borrowed as long as the buffer.
    unsafe { SendBuf::new(bytes.as_ptr(), bytes.len(), &BYTE) }
}

fn recv_bytes(bytes: &mut [u8]) -> RecvBuf<'_> {
    // SAFETY: there are so many bytes, borrowed as long as the buffer.
    unsafe { RecvBuf::new(bytes.as_mut_ptr(), bytes.len(), &BYTE) }
}

/// Messages one after another.
struct Layout {
    counts: Vec<usize>,
    displacements: Vec<isize>,
    total: usize,
    /// The first rank that had none.
    failed: Option<Rank>,
}

impl Layout {
    /// Of messages of the lengths that the ranks gave.
    fn of(lengths: &[u64]) -> Outcome<Layout> {
        let mut layout = Layout { counts: Vec::new(), displacements: Vec::new(), total: 0, failed: None };
        for (rank, &bytes) in lengths.iter().enumerate() {
            let count = match bytes {
                FAILED => {
                    layout.failed = layout.failed.or(Some(rank as Rank));
                    0
                }
                bytes if bytes > SERIALIZED_MESSAGE_MAX_BYTES as u64 => {
                    return Err(SerializedError::TooLong { bytes });
                }
                bytes => bytes as usize,
            };
            layout.counts.push(count);
            layout.displacements.push(layout.total as isize);
            layout.total += count;
        }
        Ok(layout)
    }

    /// Memory for all.
    fn room(&self) -> Outcome<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.total).map_err(|_| SerializedError::Memory { bytes: self.total })?;
        bytes.resize(self.total, 0);
        Ok(bytes)
    }

    #[track_caller]
    fn recv<'a>(&'a self, bytes: &'a mut [u8]) -> Outcome<RecvBlocks<'a>> {
        assert_eq!(bytes.len(), self.total);
        // SAFETY: the blocks lie one after another in memory that is borrowed as long.
        let blocks = unsafe { RecvBlocks::new(bytes.as_mut_ptr(), &self.counts, &self.displacements, &BYTE) };
        blocks.map_err(|fault| Error::new(mpi_p2p::ErrorClass::Arg, "gather", fault.to_string()).into())
    }

    #[track_caller]
    fn send<'a>(&'a self, bytes: &'a [u8]) -> Outcome<SendBlocks<'a>> {
        assert_eq!(bytes.len(), self.total);
        // SAFETY: the blocks lie one after another in memory that is borrowed as long.
        let blocks = unsafe { SendBlocks::new(bytes.as_ptr(), &self.counts, &self.displacements, &BYTE) };
        blocks.map_err(|fault| Error::new(mpi_p2p::ErrorClass::Arg, "scatter", fault.to_string()).into())
    }

    /// The values, one of each rank.
    fn values<T: DeserializeOwned>(&self, bytes: &[u8]) -> Outcome<Vec<T>> {
        if let Some(rank) = self.failed {
            return Err(SerializedError::Peer { rank });
        }
        let each = self.counts.iter().zip(&self.displacements).zip(0..);
        each.map(|((count, at), rank)| decode(rank, &bytes[*at as usize..][..*count])).collect()
    }
}
