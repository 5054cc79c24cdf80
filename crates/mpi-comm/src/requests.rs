//! Requests and the buffer of buffered sends: the engine's calls, on the engine of the process.
//!
//! Requests belong to the process, not to a communicator. A face that keeps an [`Engine`] at hand
//! may call it directly.

use crate::process;
use mpi_p2p::{Activity, Completed, Engine, Error, RequestId, Status};
use std::sync::Arc;

/// The engine of the process.
///
/// # Errors
/// `Other` before initialisation and after finalisation.
#[inline]
pub fn engine() -> Result<&'static Arc<Engine>, Error> {
    process::engine("request")
}

/// Waits for a request, which is gone then.
///
/// # Errors
/// That of the operation; `Request` for one that is gone.
#[inline]
pub fn wait(request: RequestId) -> Result<Status, Error> {
    process::engine("wait")?.wait(request)
}

/// The status of a request if it is complete, which is gone then.
///
/// # Errors
/// As [`wait`].
#[inline]
pub fn test(request: RequestId) -> Result<Option<Status>, Error> {
    process::engine("test")?.test(request)
}

/// The status of a request if it is complete; the request stays (`MPI_Request_get_status`).
///
/// # Errors
/// As [`wait`].
pub fn request_status(request: RequestId) -> Result<Option<Status>, Error> {
    process::engine("get status")?.request_status(request)
}

/// Waits until one of the requests is complete, empties its place, and says which; none when all
/// places are empty. [`Engine::wait_any`] also says which one failed.
///
/// # Errors
/// As [`wait`].
pub fn wait_any(requests: &mut [Option<RequestId>]) -> Result<Option<(usize, Status)>, Error> {
    process::engine("wait any")?.wait_any(requests).map_err(|(_, error)| error)
}

/// As [`wait_any`], without waiting: none, too, when none is complete.
///
/// # Errors
/// As [`wait`].
pub fn test_any(requests: &mut [Option<RequestId>]) -> Result<Option<(usize, Status)>, Error> {
    process::engine("test any")?.test_any(requests).map(Option::flatten).map_err(|(_, error)| error)
}

/// Waits until at least one request is complete, empties the places of all that are, and says which.
/// [`Engine::wait_some`] gives the result of each.
///
/// # Errors
/// The first of those that failed.
pub fn wait_some(requests: &mut [Option<RequestId>]) -> Result<Vec<(usize, Status)>, Error> {
    good(process::engine("wait some")?.wait_some(requests))
}

/// As [`wait_some`], without waiting.
///
/// # Errors
/// The first of those that failed.
pub fn test_some(requests: &mut [Option<RequestId>]) -> Result<Vec<(usize, Status)>, Error> {
    good(process::engine("test some")?.test_some(requests))
}

fn good(completed: Option<Completed>) -> Result<Vec<(usize, Status)>, Error> {
    completed.into_iter().flatten().map(|(at, result)| Ok((at, result?))).collect()
}

/// Waits until all requests are complete and empties all places. A status for each place, the
/// empty one where there was no request. [`Engine::wait_all`] gives the result of each.
///
/// # Errors
/// The first of those that failed; all are complete.
pub fn wait_all(requests: &mut [Option<RequestId>]) -> Result<Vec<Status>, Error> {
    process::engine("wait all")?.wait_all(requests).into_iter().collect()
}

/// As [`wait_all`], with the statuses in place of what `statuses` held.
///
/// # Errors
/// As [`wait_all`].
pub fn wait_all_into(requests: &mut [Option<RequestId>], statuses: &mut Vec<Status>) -> Result<(), Error> {
    process::engine("wait all")?.wait_all_into(requests, statuses).map_err(|(_, error)| error)
}

/// As [`wait_all`] if all are complete; none otherwise, and all stay.
///
/// # Errors
/// The first of those that failed; all are complete.
pub fn test_all(requests: &mut [Option<RequestId>]) -> Result<Option<Vec<Status>>, Error> {
    process::engine("test all")?.test_all(requests).map(|all| all.into_iter().collect()).transpose()
}

/// Marks a request to be cancelled. It still has to be completed; the status says whether it moved
/// anything.
///
/// # Errors
/// `Request` for one that is gone.
pub fn cancel(request: RequestId) -> Result<(), Error> {
    process::engine("cancel")?.cancel(request)
}

/// Lets go of a request; the operation goes on.
///
/// # Errors
/// `Request` for one that is gone.
pub fn free(request: RequestId) -> Result<(), Error> {
    process::engine("request free")?.free(request)
}

/// Starts an inactive persistent request.
///
/// # Errors
/// `Request` for one that is gone, active or not persistent.
pub fn restart(request: RequestId) -> Result<(), Error> {
    engine()?.restart(request)
}

/// Runs an activity inside the engine.
///
/// # Errors
/// `Other` before initialisation and after finalisation.
pub fn start(activity: Box<dyn Activity>) -> Result<RequestId, Error> {
    Ok(process::engine("start")?.start(activity))
}

/// Gives room for buffered sends.
///
/// # Errors
/// `Buffer` when there is room attached already.
pub fn attach_buffer(bytes: usize) -> Result<(), Error> {
    process::engine("attach buffer")?.attach_buffer(bytes)
}

/// Takes the room for buffered sends away, once all messages have left it. The size it had.
///
/// # Errors
/// `Buffer` when there is none.
pub fn detach_buffer() -> Result<usize, Error> {
    process::engine("detach buffer")?.detach_buffer()
}
