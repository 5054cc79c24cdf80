//! Messages that are looked at where they lie, without a copy.

use mpi_comm::Matched;
use mpi_datatype::RecvBuf;
use mpi_p2p::ErrorClass;

use super::Error;
use super::error::caught;
use crate::Tag;
use crate::datatype::core_type;
use crate::datatype::traits::*;
use crate::error::ok;
use crate::ffi::MPI_ANY_TAG;
use crate::point_to_point::source::call;
use crate::point_to_point::{Message, Source, Status};
use crate::topology::core_comm;

/// Receives that lend the message to a closure.
pub trait LendingSource: Source {
    /// Receives a message of any length and lends its elements to `look`, in the memory in which the library keeps them:
    /// nothing is copied for the receive. Where that cannot be (a message too long to have been sent before it was
    /// asked for, or elements that do not lie there as in memory of the program) they are copied first.
    ///
    /// ```no_run
    /// use mpi::ext::prelude::*;
    /// use mpi::traits::*;
    ///
    /// let universe = mpi::initialize().unwrap();
    /// let world = universe.world();
    /// world.this_process().send(&[1.5, 2.5]);
    /// let sum: f64 = world.any_process().receive_ref(|values: &[f64], _status| values.iter().sum());
    /// assert_eq!(sum, 4.0);
    /// ```
    #[track_caller]
    fn receive_ref<T, R>(&self, look: impl FnOnce(&[T], Status) -> R) -> R
    where
        T: Equivalence,
    {
        self.receive_ref_with_tag(MPI_ANY_TAG, look)
    }

    /// As [`receive_ref`](Self::receive_ref), with the tag.
    #[track_caller]
    fn receive_ref_with_tag<T, R>(&self, tag: Tag, look: impl FnOnce(&[T], Status) -> R) -> R
    where
        T: Equivalence,
    {
        ok(core_comm(self.as_communicator()), lend("receive_ref", self, tag, look))
    }

    /// [`receive_ref_with_tag`](Self::receive_ref_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`, `Type`, `Truncate` where the message is no whole number of elements; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_receive_ref_with_tag<T, R>(
        &self,
        tag: Tag,
        look: impl FnOnce(&[T], Status) -> R,
    ) -> Result<R, Error>
    where
        T: Equivalence,
    {
        caught(lend("receive_ref", self, tag, look))
    }

    /// As [`receive_ref`](Self::receive_ref), and a message that comes while this waits for it is lent out of the
    /// transport's own memory: no byte of it is moved at all. For that `look` runs inside of MPI, which it must not
    /// call, and other threads that call it wait.
    ///
    /// # Panics
    /// When `look` calls MPI.
    #[track_caller]
    fn receive_on_loan<T, R>(&self, look: impl FnOnce(&[T], Status) -> R) -> R
    where
        T: Equivalence,
    {
        self.receive_on_loan_with_tag(MPI_ANY_TAG, look)
    }

    /// As [`receive_on_loan`](Self::receive_on_loan), with the tag.
    #[track_caller]
    fn receive_on_loan_with_tag<T, R>(&self, tag: Tag, look: impl FnOnce(&[T], Status) -> R) -> R
    where
        T: Equivalence,
    {
        ok(core_comm(self.as_communicator()), on_loan(self, tag, look))
    }

    /// [`receive_on_loan_with_tag`](Self::receive_on_loan_with_tag) with its error as a value.
    ///
    /// # Errors
    /// As [`try_receive_ref_with_tag`](Self::try_receive_ref_with_tag).
    #[track_caller]
    fn try_receive_on_loan_with_tag<T, R>(
        &self,
        tag: Tag,
        look: impl FnOnce(&[T], Status) -> R,
    ) -> Result<R, Error>
    where
        T: Equivalence,
    {
        caught(on_loan(self, tag, look))
    }
}

impl<S: Source + ?Sized> LendingSource for S {}

fn lend<S, T, R>(
    op: &'static str,
    source: &S,
    tag: Tag,
    look: impl FnOnce(&[T], Status) -> R,
) -> Result<R, mpi_p2p::Error>
where
    S: Source + ?Sized,
    T: Equivalence,
{
    let (message, status) = call::matched_for(op, source, tag)?;
    let datatype = T::equivalent_datatype();
    let datatype = core_type(&datatype);
    let (comm, matched) = message.into_parts();
    let matched = match matched {
        Matched::Message(message) => match comm.engine().take_bytes(message, datatype) {
            Ok((bytes, status)) => {
                let status = Status::from_core(status);
                if let Some(elements) = elements::<T>(&bytes, datatype) {
                    return Ok(look(elements, status));
                }
                return unpacked::<T>(&comm, &bytes, datatype, status).map(|values| look(&values, status));
            }
            Err(message) => Matched::Message(message),
        },
        null => null,
    };
    let (values, status) = Message::new(&comm, matched).receive_vec::<T>(status).1?;
    Ok(look(&values, status))
}

fn on_loan<S, T, R>(source: &S, tag: Tag, look: impl FnOnce(&[T], Status) -> R) -> Result<R, mpi_p2p::Error>
where
    S: Source + ?Sized,
    T: Equivalence,
{
    let engine = core_comm(source.as_communicator()).engine();
    match lend_as_it_comes(source, tag, look) {
        Ok(result) => Ok(result),
        // The same rule whichever way it came: what looks at it is inside.
        Err(look) => lend("receive_on_loan", source, tag, |elements: &[T], status| {
            engine.inside(|| look(elements, status))
        }),
    }
}

/// Lends a message in the transport's memory, where a rank is named and its message comes in one piece while this
/// waits for it; else gives `look` back.
fn lend_as_it_comes<S, T, R, L>(source: &S, tag: Tag, look: L) -> Result<R, L>
where
    S: Source + ?Sized,
    T: Equivalence,
    L: FnOnce(&[T], Status) -> R,
{
    let comm = core_comm(source.as_communicator());
    let tag = match tag {
        MPI_ANY_TAG => mpi_p2p::Tag::Any,
        0.. => mpi_p2p::Tag::Is(tag),
        _ => return Err(look),
    };
    let Ok(rank) = u32::try_from(source.source_rank()) else { return Err(look) };
    let datatype = T::equivalent_datatype();
    let datatype = core_type(&datatype);
    let (mut look, mut result) = (Some(look), None);
    comm.engine().recv_lent(comm.context(), rank, tag, datatype.signature(), &mut |bytes, status| {
        let Some(elements) = elements::<T>(bytes, datatype) else { return false };
        result = look.take().map(|look| look(elements, Status::from_core(status)));
        result.is_some()
    });
    match (result, look) {
        (None, Some(look)) => Err(look),
        (Some(result), _) => Ok(result),
        (None, None) => unreachable!("what was called has given a result"),
    }
}

/// The bytes as elements, where they are laid out as such, and valid.
fn elements<'a, T: Equivalence>(bytes: &'a [u8], datatype: &mpi_datatype::Datatype) -> Option<&'a [T]> {
    let size = size_of::<T>();
    let as_in_memory = cfg!(target_endian = "little")
        && datatype.is_contiguous()
        && size != 0
        && datatype.size() == size
        && bytes.len() % size == 0
        && bytes.as_ptr().cast::<T>().is_aligned()
        && (!datatype.needs_validation() || datatype.validate(bytes).is_ok());
    // SAFETY: packed elements of a contiguous datatype are the elements themselves on a little-endian host; they are
    // aligned, whole, and their values are valid.
    as_in_memory.then(|| unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size) })
}

/// The elements in memory of their own.
fn unpacked<T: Equivalence>(
    comm: &mpi_comm::Comm,
    bytes: &[u8],
    datatype: &mpi_datatype::Datatype,
    status: Status,
) -> Result<Vec<T>, mpi_p2p::Error> {
    let fail = |class, detail: String| {
        let mut error = mpi_p2p::Error::new(class, "receive", detail).on(comm.name(), comm.context().id());
        (error.peer, error.tag) = (Some(status.source_rank()), Some(status.tag()));
        error.bytes = Some(bytes.len() as u64);
        error
    };
    let size = datatype.size().max(1);
    if bytes.len() % size != 0 {
        let detail = format!("message of {} bytes is no whole number of elements of {size}", bytes.len());
        return Err(fail(ErrorClass::Truncate, detail));
    }
    let count = bytes.len() / size;
    let mut values = Vec::<T>::with_capacity(count);
    // SAFETY: there is room for `count` values.
    let room = unsafe { RecvBuf::new(values.as_mut_ptr().cast(), count, datatype) };
    room.unpack(0, bytes);
    room.sanitize(bytes.len()).map_err(|fault| fail(ErrorClass::Type, fault.to_string()))?;
    // SAFETY: so many values were just put there, and are valid.
    unsafe { values.set_len(count) };
    Ok(values)
}
