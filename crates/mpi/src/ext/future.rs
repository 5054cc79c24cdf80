//! Requests as futures.
//!
//! `.await` on a request of any kind gives its result; no runtime is needed, and any will do. While a task waits, the
//! library's helper thread makes progress, and wakes the task: the executor may sleep.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Error;
use super::error::caught;
use crate::datatype::traits::*;
use crate::engine;
use crate::point_to_point::{ReceiveFuture, Status};
use crate::raw::traits::*;
use crate::request::{Request, Scope};

/// A request that is awaited: [`Request`] turns into it by `.await`.
///
/// # Panics
/// As the request: dropping it while the operation runs panics, for its buffer is borrowed. A future that may be
/// dropped early must own its buffer: see [`OwnedDestination`](super::OwnedDestination) and
/// [`OwnedSource`](super::OwnedSource).
#[must_use = "a future does nothing unless it is awaited"]
pub struct RequestFuture<'a, D: ?Sized, S: Scope<'a>>(Option<Request<'a, D, S>>);

impl<'a, D: ?Sized, S: Scope<'a> + Unpin> Future for RequestFuture<'a, D, S> {
    type Output = Result<Status, Error>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let request = self.0.take().expect("a future is not polled after it has given its result");
        match engine::poll(request.as_raw(), cx.waker()) {
            Poll::Pending => {
                self.0 = Some(request);
                Poll::Pending
            }
            Poll::Ready(result) => {
                // SAFETY: the operation has completed, with or without an error.
                unsafe { request.into_raw() };
                Poll::Ready(caught(result))
            }
        }
    }
}

impl<'a, D: ?Sized, S: Scope<'a> + Unpin> IntoFuture for Request<'a, D, S> {
    type Output = Result<Status, Error>;
    type IntoFuture = RequestFuture<'a, D, S>;

    fn into_future(self) -> RequestFuture<'a, D, S> {
        RequestFuture(Some(self))
    }
}

impl<'a, D: ?Sized, S: Scope<'a>> fmt::Debug for RequestFuture<'a, D, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestFuture").field(&self.0.as_ref().map(|request| request.as_raw())).finish()
    }
}

/// A value that is awaited: [`ReceiveFuture`] turns into it by `.await`.
///
/// # Panics
/// As that: dropping it before the value has arrived panics.
#[must_use = "a future does nothing unless it is awaited"]
pub struct ValueFuture<T>(Option<ReceiveFuture<T>>);

impl<T: Equivalence> Future for ValueFuture<T> {
    type Output = Result<(T, Status), Error>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut value = self.0.take().expect("a future is not polled after it has given its result");
        let request = value.request();
        match engine::poll(request.as_raw(), cx.waker()) {
            Poll::Pending => {
                value.give_back(request);
                self.0 = Some(value);
                Poll::Pending
            }
            Poll::Ready(result) => {
                // SAFETY: the operation has completed, with or without an error.
                unsafe { request.into_raw() };
                Poll::Ready(caught(result.and_then(|status| value.take(status).flatten())))
            }
        }
    }
}

// The value is not pinned: it arrives elsewhere.
impl<T> Unpin for ValueFuture<T> {}

impl<T: Equivalence> IntoFuture for ReceiveFuture<T> {
    type Output = Result<(T, Status), Error>;
    type IntoFuture = ValueFuture<T>;

    fn into_future(self) -> ValueFuture<T> {
        ValueFuture(Some(self))
    }
}

impl<T> fmt::Debug for ValueFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueFuture").finish_non_exhaustive()
    }
}
