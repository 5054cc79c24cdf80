//! Operations of the program's own that are waited for like any other (MPI-4.1 §13.2).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use mpi_p2p::{Error as Core, ErrorClass, RequestId, Status};

use super::Error;
use super::error::caught;
use crate::error::ok_world;

/// Begins an operation that the [`Completer`] completes, from any thread (`MPI_Grequest_start`).
///
/// ```no_run
/// let universe = mpi::initialize().unwrap();
/// let (sum, completer) = mpi::ext::generalized::<u64>();
/// let worker = std::thread::spawn(move || completer.complete((0..1000).sum()));
/// assert_eq!(sum.wait(), 499_500);
/// worker.join().unwrap();
/// ```
///
/// Where threads complete operations, MPI is initialised for several ([`Threading::Multiple`](crate::Threading)).
#[track_caller]
pub fn generalized<T: Send + 'static>() -> (Generalized<T>, Completer<T>) {
    let request = ok_world(mpi_comm::engine()).generalized();
    let shared = Arc::new(Shared { value: Mutex::new(None), cancelled: AtomicBool::new(false) });
    let completer = Completer { request, shared: shared.clone(), done: false };
    (Generalized { request: Some(request), shared }, completer)
}

struct Shared<T> {
    value: Mutex<Option<T>>,
    cancelled: AtomicBool,
}

/// An operation of the program's own. A future of its value.
///
/// It fails where its [`Completer`] is dropped without a value.
#[must_use = "the value comes from `wait` or `await`"]
pub struct Generalized<T: Send + 'static> {
    request: Option<RequestId>,
    shared: Arc<Shared<T>>,
}

impl<T: Send + 'static> Generalized<T> {
    /// Waits until the operation is completed (`MPI_Wait`).
    #[track_caller]
    pub fn wait(mut self) -> T {
        ok_world(self.finish())
    }

    /// [`wait`](Self::wait) with its error as a value.
    ///
    /// # Errors
    /// `Other` where it was given up.
    #[track_caller]
    pub fn try_wait(mut self) -> Result<T, Error> {
        caught(self.finish())
    }

    /// The value, if the operation has been completed; if not, gives the operation back (`MPI_Test`).
    ///
    /// # Errors
    /// The operation itself.
    #[track_caller]
    pub fn test(mut self) -> Result<Result<T, Error>, Self> {
        match mpi_comm::test(self.request()).transpose() {
            None => Err(self),
            Some(result) => Ok(caught(self.value(result))),
        }
    }

    /// Asks the completer to stop; the operation must still be completed, with a value or without
    /// (`MPI_Cancel`).
    pub fn cancel(&self) {
        self.shared.cancelled.store(true, Ordering::Release);
    }

    fn finish(&mut self) -> Result<T, Core> {
        let result = mpi_comm::wait(self.request());
        self.value(result)
    }

    fn value(&mut self, result: Result<Status, Core>) -> Result<T, Core> {
        self.request = None;
        result?;
        let value = self.shared.value.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.ok_or_else(|| {
            Core::new(ErrorClass::Other, "generalized request", "it was given up without a value")
        })
    }

    fn request(&self) -> RequestId {
        self.request.expect("the operation runs until it gives its value")
    }
}

impl<T: Send + 'static> Future for Generalized<T> {
    type Output = Result<T, Error>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match mpi_comm::engine() {
            Ok(engine) => engine.poll_wait(self.request(), cx.waker()),
            Err(error) => Poll::Ready(Err(error)),
        };
        match polled {
            Poll::Ready(result) => Poll::Ready(caught(self.value(result))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: Send + 'static> Drop for Generalized<T> {
    fn drop(&mut self) {
        if let (Some(request), Ok(engine)) = (self.request, mpi_comm::engine()) {
            self.cancel();
            // What is gone already needs no freeing.
            let _ = engine.free(request);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Generalized<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generalized").finish_non_exhaustive()
    }
}

/// Completes an operation of the program's own.
pub struct Completer<T: Send + 'static> {
    request: RequestId,
    shared: Arc<Shared<T>>,
    done: bool,
}

impl<T: Send + 'static> Completer<T> {
    /// Completes the operation with its value (`MPI_Grequest_complete`).
    pub fn complete(mut self, value: T) {
        *self.shared.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.tell();
    }

    /// Whether whoever waits has lost interest.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    fn tell(&mut self) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if let Ok(engine) = mpi_comm::engine() {
            // Nobody waits any more where the request is gone.
            let _ = engine.complete_generalized(self.request, Status::EMPTY);
        }
    }
}

impl<T: Send + 'static> Drop for Completer<T> {
    fn drop(&mut self) {
        self.tell();
    }
}

impl<T: Send + 'static> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer").field("done", &self.done).finish_non_exhaustive()
    }
}
