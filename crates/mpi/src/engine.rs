//! Completing requests: the calls of the layer below, typed.

use std::task::{Poll, Waker};

use mpi_p2p::{Error, RequestId};

use crate::error::ok_world;
use crate::ffi::MPI_Request;
use crate::point_to_point::Status;

/// What a guarded request names. Guards hold no null request.
#[inline(always)]
fn id(request: MPI_Request) -> RequestId {
    request.0.expect("a guarded request is never null")
}

#[inline]
pub(crate) fn wait(request: MPI_Request) -> Result<Status, Error> {
    mpi_comm::wait(id(request)).map(Status::from_core)
}

#[inline]
pub(crate) fn test(request: MPI_Request) -> Result<Option<Status>, Error> {
    Ok(mpi_comm::test(id(request))?.map(Status::from_core))
}

/// The result if the operation has completed; the waker is called when it has.
pub(crate) fn poll(request: MPI_Request, waker: &Waker) -> Poll<Result<Status, Error>> {
    match mpi_comm::engine() {
        Ok(engine) => engine.poll_wait(id(request), waker).map_ok(Status::from_core),
        Err(error) => Poll::Ready(Err(error)),
    }
}

/// What the request is, for people.
#[cold]
pub(crate) fn describe(request: MPI_Request) -> String {
    let line = mpi_comm::engine().ok().and_then(|engine| engine.describe(id(request)));
    line.unwrap_or_else(|| String::from("an operation that was complete when it began"))
}

/// Whether the request has completed; it stays to be completed.
pub(crate) fn is_complete(request: MPI_Request) -> bool {
    matches!(mpi_comm::request_status(id(request)), Ok(Some(_)))
}

#[track_caller]
pub(crate) fn cancel(request: MPI_Request) {
    ok_world(mpi_comm::cancel(id(request)));
}

#[track_caller]
pub(crate) fn wait_any(requests: &mut [Option<RequestId>]) -> Option<(usize, Status)> {
    ok_world(mpi_comm::wait_any(requests)).map(indexed)
}

#[track_caller]
pub(crate) fn test_any(requests: &mut [Option<RequestId>]) -> Option<(usize, Status)> {
    ok_world(mpi_comm::test_any(requests)).map(indexed)
}

#[track_caller]
pub(crate) fn wait_some(requests: &mut [Option<RequestId>]) -> Vec<(usize, Status)> {
    ok_world(mpi_comm::wait_some(requests)).into_iter().map(indexed).collect()
}

#[track_caller]
pub(crate) fn test_some(requests: &mut [Option<RequestId>]) -> Vec<(usize, Status)> {
    ok_world(mpi_comm::test_some(requests)).into_iter().map(indexed).collect()
}

#[track_caller]
pub(crate) fn wait_all(requests: &mut [Option<RequestId>], statuses: &mut Vec<mpi_p2p::Status>) {
    ok_world(mpi_comm::wait_all_into(requests, statuses));
}

#[track_caller]
pub(crate) fn test_all(requests: &mut [Option<RequestId>]) -> Option<Vec<(usize, Status)>> {
    let statuses = ok_world(mpi_comm::test_all(requests))?;
    Some(statuses.into_iter().map(Status::from_core).enumerate().collect())
}

fn indexed((index, status): (usize, mpi_p2p::Status)) -> (usize, Status) {
    (index, Status::from_core(status))
}
