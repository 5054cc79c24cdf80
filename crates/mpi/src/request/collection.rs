//! Many requests completed together (MPI-4.1 §3.7.5).

use mpi_p2p::RequestId;

use super::{Request, Scope};
use crate::point_to_point::Status;
use crate::{engine, error};

/// Requests that complete in any order. Each keeps the index that [`add`](Self::add) returned.
///
/// Dropping it while one of its requests runs ends the job: its requests have left their scope, so that nothing else
/// guards their memory.
#[derive(Debug)]
pub struct RequestCollection<'a, D: ?Sized> {
    requests: Vec<Option<RequestId>>,
    data: Vec<Option<&'a D>>,
    running: usize,
}

impl<'a, D: ?Sized> RequestCollection<'a, D> {
    pub(super) fn new(reserve: usize) -> RequestCollection<'a, D> {
        RequestCollection {
            requests: Vec::with_capacity(reserve),
            data: Vec::with_capacity(reserve),
            running: 0,
        }
    }

    /// How many requests still run.
    pub fn incomplete(&self) -> usize {
        self.running
    }

    /// Takes a request in and returns its index.
    #[track_caller]
    pub fn add<S>(&mut self, req: Request<'a, D, S>) -> usize
    where
        S: Scope<'a>,
    {
        // SAFETY: the collection completes it before it can be dropped without ending the process.
        let (request, data, _) = unsafe { req.into_raw() };
        self.requests.push(request.0);
        self.data.push(Some(data));
        self.running += 1;
        self.requests.len() - 1
    }

    fn complete(&mut self, index: usize, status: Status) -> Option<(usize, Status, &'a D)> {
        let data = self.data[index].take()?;
        self.running -= 1;
        Some((index, status, data))
    }

    fn complete_each(&mut self, done: Vec<(usize, Status)>, result: &mut Vec<(usize, Status, &'a D)>) {
        result.clear();
        result.reserve(done.len());
        for (index, status) in done {
            result.extend(self.complete(index, status));
        }
    }

    /// Waits until one request completes; `None` where none runs (`MPI_Waitany`).
    #[track_caller]
    pub fn wait_any(&mut self) -> Option<(usize, Status, &'a D)> {
        let (index, status) = engine::wait_any(&mut self.requests)?;
        self.complete(index, status)
    }

    /// Waits until at least one request completes, and puts all that have into `result` (`MPI_Waitsome`).
    #[track_caller]
    pub fn wait_some(&mut self, result: &mut Vec<(usize, Status, &'a D)>) {
        let done = engine::wait_some(&mut self.requests);
        self.complete_each(done, result);
    }

    /// Waits until all requests have completed, and puts those that ran into `result` (`MPI_Waitall`).
    #[track_caller]
    pub fn wait_all(&mut self, result: &mut Vec<(usize, Status, &'a D)>) {
        let mut statuses = Vec::new();
        engine::wait_all(&mut self.requests, &mut statuses);
        result.clear();
        result.reserve(self.running);
        for (index, (data, status)) in self.data.iter_mut().zip(statuses).enumerate() {
            if let Some(data) = data.take() {
                self.running -= 1;
                result.push((index, Status::from_core(status), data));
            }
        }
    }

    /// Takes out one request that has completed; `None` where there is none (`MPI_Testany`).
    #[track_caller]
    pub fn test_any(&mut self) -> Option<(usize, Status, &'a D)> {
        let (index, status) = engine::test_any(&mut self.requests)?;
        self.complete(index, status)
    }

    /// Puts all requests that have completed into `result` (`MPI_Testsome`).
    #[track_caller]
    pub fn test_some(&mut self, result: &mut Vec<(usize, Status, &'a D)>) {
        let done = engine::test_some(&mut self.requests);
        self.complete_each(done, result);
    }

    /// Whether all requests have completed; only then are they put into `result` (`MPI_Testall`).
    #[track_caller]
    pub fn test_all(&mut self, result: &mut Vec<(usize, Status, &'a D)>) -> bool {
        match engine::test_all(&mut self.requests) {
            Some(done) => {
                self.complete_each(done, result);
                true
            }
            None => {
                result.clear();
                false
            }
        }
    }
}

impl<D: ?Sized> Drop for RequestCollection<'_, D> {
    fn drop(&mut self) {
        if self.running != 0 {
            error::abort_scope(self.running);
        }
    }
}
