//! Scopes: how long the buffers of running operations stay borrowed.

use std::cell::Cell;
use std::marker::PhantomData;

use super::RequestCollection;
use crate::error;

/// How long a request may run.
///
/// # Safety
/// The scope must outlast `'a` or see to it that no registered request runs when it ends.
pub unsafe trait Scope<'a> {
    /// One more request runs in this scope.
    fn register(&self);

    /// One request less runs in this scope.
    ///
    /// # Safety
    /// It was registered, has completed or moved to another guard, and is not taken off twice.
    unsafe fn unregister(&self);
}

/// The scope of requests whose buffers live for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct StaticScope;

// SAFETY: nothing ends before `'static` does.
unsafe impl Scope<'static> for StaticScope {
    #[inline(always)]
    fn register(&self) {}
    #[inline(always)]
    unsafe fn unregister(&self) {}
}

/// The scope that [`scope`] and [`multiple_scope`] make.
///
/// Where it ends while a request of it runs, the job ends: the borrow that made the request's memory safe is over.
#[derive(Debug)]
pub struct LocalScope<'a> {
    num_requests: Cell<usize>,
    phantom: PhantomData<Cell<&'a ()>>, // the cell makes 'a invariant: a scope can be neither longer nor shorter
}

impl LocalScope<'_> {
    fn new() -> Self {
        LocalScope { num_requests: Cell::new(0), phantom: PhantomData }
    }
}

impl Drop for LocalScope<'_> {
    fn drop(&mut self) {
        if self.num_requests.get() != 0 {
            error::abort_scope(self.num_requests.get());
        }
    }
}

// SAFETY: the drop above ends the process while a request runs.
unsafe impl<'a> Scope<'a> for &LocalScope<'a> {
    #[inline(always)]
    fn register(&self) {
        self.num_requests.set(self.num_requests.get() + 1);
    }

    #[inline(always)]
    unsafe fn unregister(&self) {
        let left = self.num_requests.get().checked_sub(1);
        self.num_requests.set(left.expect("a request left a scope that it never entered"));
    }
}

/// Runs `f` with a scope for requests; all of them must have completed when `f` returns.
pub fn scope<'a, F, R>(f: F) -> R
where
    F: FnOnce(&LocalScope<'a>) -> R,
{
    f(&LocalScope::new())
}

/// Runs `f` with a scope for requests and a collection of them, with room for `reserve` at first.
///
/// ```no_run
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let values = [1, 2, 3];
/// mpi::request::multiple_scope(values.len(), |scope, requests| {
///     for value in &values {
///         requests.add(world.process_at_rank(0).immediate_send(scope, value));
///     }
///     let mut done = Vec::new();
///     requests.wait_all(&mut done);
/// });
/// ```
pub fn multiple_scope<'a, F, R, D>(reserve: usize, f: F) -> R
where
    D: 'a + ?Sized,
    F: FnOnce(&LocalScope<'a>, &mut RequestCollection<'a, D>) -> R,
{
    f(&LocalScope::new(), &mut RequestCollection::new(reserve))
}
