//! Receives and probes with errors as values.

use crate::Tag;
use crate::datatype::traits::*;
use crate::ext::Error;
use crate::ext::error::caught;
use crate::ffi::MPI_ANY_TAG;
use crate::point_to_point::source::call;
use crate::point_to_point::{Message, ReceiveFuture, Source, Status};
use crate::request::{Request, Scope};

/// The operations of [`Source`] with errors as values.
///
/// A message that is too short to be the value asked for is an error of class `Count` here.
pub trait TrySource: Source {
    /// [`probe_with_tag`](Source::probe_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_probe_with_tag(&self, tag: Tag) -> Result<Status, Error> {
        caught(call::probe(self, tag))
    }

    /// [`probe`](Source::probe) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_probe(&self) -> Result<Status, Error> {
        caught(call::probe(self, MPI_ANY_TAG))
    }

    /// [`immediate_probe_with_tag`](Source::immediate_probe_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_immediate_probe_with_tag(&self, tag: Tag) -> Result<Option<Status>, Error> {
        caught(call::immediate_probe(self, tag))
    }

    /// [`immediate_probe`](Source::immediate_probe) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_immediate_probe(&self) -> Result<Option<Status>, Error> {
        caught(call::immediate_probe(self, MPI_ANY_TAG))
    }

    /// [`matched_probe_with_tag`](Source::matched_probe_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_matched_probe_with_tag(&self, tag: Tag) -> Result<(Message, Status), Error> {
        caught(call::matched_probe(self, tag))
    }

    /// [`matched_probe`](Source::matched_probe) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_matched_probe(&self) -> Result<(Message, Status), Error> {
        caught(call::matched_probe(self, MPI_ANY_TAG))
    }

    /// [`immediate_matched_probe_with_tag`](Source::immediate_matched_probe_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_immediate_matched_probe_with_tag(&self, tag: Tag) -> Result<Option<(Message, Status)>, Error> {
        caught(call::immediate_matched_probe(self, tag))
    }

    /// [`immediate_matched_probe`](Source::immediate_matched_probe) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_immediate_matched_probe(&self) -> Result<Option<(Message, Status)>, Error> {
        caught(call::immediate_matched_probe(self, MPI_ANY_TAG))
    }

    /// [`receive_with_tag`](Source::receive_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`, `Count`, `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_receive_with_tag<Msg>(&self, tag: Tag) -> Result<(Msg, Status), Error>
    where
        Msg: Equivalence,
    {
        caught(call::receive(self, tag).and_then(|received| received.flatten()))
    }

    /// [`receive`](Source::receive) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`, `Count`, `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_receive<Msg>(&self) -> Result<(Msg, Status), Error>
    where
        Msg: Equivalence,
    {
        caught(call::receive(self, MPI_ANY_TAG).and_then(|received| received.flatten()))
    }

    /// [`receive_into_with_tag`](Source::receive_into_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`, `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_receive_into_with_tag<Buf>(&self, buf: &mut Buf, tag: Tag) -> Result<Status, Error>
    where
        Buf: ?Sized + BufferMut,
    {
        caught(call::receive_into(self, buf, tag))
    }

    /// [`receive_into`](Source::receive_into) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`, `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_receive_into<Buf>(&self, buf: &mut Buf) -> Result<Status, Error>
    where
        Buf: ?Sized + BufferMut,
    {
        caught(call::receive_into(self, buf, MPI_ANY_TAG))
    }

    /// [`receive_vec_with_tag`](Source::receive_vec_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`, `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_receive_vec_with_tag<Msg>(&self, tag: Tag) -> Result<(Vec<Msg>, Status), Error>
    where
        Msg: Equivalence,
    {
        let (message, status) = caught(call::matched_for("receive_vec", self, tag))?;
        caught(message.receive_vec(status).1)
    }

    /// [`receive_vec`](Source::receive_vec) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`, `Tag`; `ProcFailed` where the peer is gone.
    #[track_caller]
    fn try_receive_vec<Msg>(&self) -> Result<(Vec<Msg>, Status), Error>
    where
        Msg: Equivalence,
    {
        let (message, status) = caught(call::matched_for("receive_vec", self, MPI_ANY_TAG))?;
        caught(message.receive_vec(status).1)
    }

    /// [`immediate_receive_into_with_tag`](Source::immediate_receive_into_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Type`, `Tag`; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_receive_into_with_tag<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
        tag: Tag,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = caught(call::start_receive(self, buf, tag))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`immediate_receive_into`](Source::immediate_receive_into) with its error as a value.
    ///
    /// # Errors
    /// `Type`, `Tag`; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_receive_into<'a, Sc, Buf>(
        &self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + 'a + BufferMut,
        Sc: Scope<'a>,
    {
        let request = caught(call::start_receive(self, buf, MPI_ANY_TAG))?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }

    /// [`immediate_receive_with_tag`](Source::immediate_receive_with_tag) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_receive_with_tag<Msg>(&self, tag: Tag) -> Result<ReceiveFuture<Msg>, Error>
    where
        Msg: Equivalence,
    {
        caught(call::receive_future(self, tag))
    }

    /// [`immediate_receive`](Source::immediate_receive) with its error as a value.
    ///
    /// # Errors
    /// `Tag`; what goes wrong later is the request's.
    #[track_caller]
    fn try_immediate_receive<Msg>(&self) -> Result<ReceiveFuture<Msg>, Error>
    where
        Msg: Equivalence,
    {
        caught(call::receive_future(self, MPI_ANY_TAG))
    }
}

impl<S: Source + ?Sized> TrySource for S {}
