//! Completing requests, and receiving matched messages, with errors as values.

use crate::datatype::traits::*;
use crate::ext::Error;
use crate::ext::error::caught;
use crate::point_to_point::{Message, ReceiveFuture, Status};
use crate::request::{Request, Scope};

/// Completes an operation, with its error as a value. The operation is over in either case.
pub trait TryRequest: Sized {
    /// What the operation gives.
    type Output;

    /// Waits until the operation completes.
    ///
    /// # Errors
    /// The operation's.
    fn try_wait(self) -> Result<Self::Output, Error>;

    /// Asks whether the operation has completed; if not, gives the request back.
    ///
    /// # Errors
    /// The request itself, still running.
    fn try_test(self) -> Result<Result<Self::Output, Error>, Self>;
}

impl<'a, D: ?Sized, S: Scope<'a>> TryRequest for Request<'a, D, S> {
    type Output = Status;

    #[track_caller]
    fn try_wait(self) -> Result<Status, Error> {
        caught(self.wait_for_result())
    }

    #[track_caller]
    fn try_test(self) -> Result<Result<Status, Error>, Self> {
        match self.test_for_result() {
            Ok(result) => Ok(caught(result)),
            Err(running) => Err(running),
        }
    }
}

impl<T: Equivalence> TryRequest for ReceiveFuture<T> {
    type Output = (T, Status);

    #[track_caller]
    fn try_wait(mut self) -> Result<(T, Status), Error> {
        let status = caught(self.request().wait_for_result())?;
        caught(self.take(status).flatten())
    }

    #[track_caller]
    fn try_test(mut self) -> Result<Result<(T, Status), Error>, Self> {
        match self.request().test_for_result() {
            Ok(Ok(status)) => Ok(caught(self.take(status).flatten())),
            Ok(Err(error)) => Ok(Err(error.into())),
            Err(request) => {
                self.give_back(request);
                Err(self)
            }
        }
    }
}

/// Receives a matched message, with its error as a value. The message is gone in either case.
pub trait TryMessage: Sized {
    /// [`matched_receive`](Message::matched_receive) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`, `Count`; `ProcFailed` where the peer is gone.
    fn try_matched_receive<Msg: Equivalence>(self) -> Result<(Msg, Status), Error>;

    /// [`matched_receive_into`](Message::matched_receive_into) with its error as a value.
    ///
    /// # Errors
    /// `Truncate`, `Type`; `ProcFailed` where the peer is gone.
    fn try_matched_receive_into<Buf: ?Sized + BufferMut>(self, buf: &mut Buf) -> Result<Status, Error>;

    /// [`immediate_matched_receive_into`](Message::immediate_matched_receive_into) with its error as a value.
    ///
    /// # Errors
    /// `Type`; what goes wrong later is the request's.
    fn try_immediate_matched_receive_into<'a, Sc, Buf>(
        self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + BufferMut,
        Sc: Scope<'a>;
}

impl TryMessage for Message {
    #[track_caller]
    fn try_matched_receive<Msg: Equivalence>(self) -> Result<(Msg, Status), Error> {
        caught(self.receive_value().1.and_then(|received| received.flatten()))
    }

    #[track_caller]
    fn try_matched_receive_into<Buf: ?Sized + BufferMut>(self, buf: &mut Buf) -> Result<Status, Error> {
        caught(self.receive_into(buf).1)
    }

    #[track_caller]
    fn try_immediate_matched_receive_into<'a, Sc, Buf>(
        self,
        scope: Sc,
        buf: &'a mut Buf,
    ) -> Result<Request<'a, Buf, Sc>, Error>
    where
        Buf: ?Sized + BufferMut,
        Sc: Scope<'a>,
    {
        let request = caught(self.start_receive(buf).1)?;
        // SAFETY: the operation uses `buf` alone, which the request keeps borrowed.
        Ok(unsafe { Request::from_raw(request, buf, scope) })
    }
}
