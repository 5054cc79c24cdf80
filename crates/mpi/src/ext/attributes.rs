//! Attributes for all threads.

use crate::attribute::{self, CommAttribute};
use crate::topology::core_comm;
use crate::topology::traits::*;

/// Attributes that every thread may look at.
pub trait SharedAttributes: Communicator {
    /// As [`set_attr`](AnyCommunicator::set_attr), for all threads rather than the one that calls.
    ///
    /// ```no_run
    /// use mpi::ext::prelude::*;
    /// use mpi::traits::*;
    ///
    /// #[derive(Clone)]
    /// struct Timeout(f64);
    /// impl CommAttribute for Timeout {}
    ///
    /// let (universe, _) = mpi::initialize_with_threading(mpi::Threading::Multiple).unwrap();
    /// let mut world = universe.world();
    /// world.set_shared_attr(Timeout(1.5));
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| assert_eq!(world.get_attr::<Timeout>().map(|t| t.0), Some(1.5)));
    /// });
    /// ```
    #[track_caller]
    fn set_shared_attr<A: CommAttribute + Send + Sync>(&mut self, value: A) {
        attribute::set(core_comm(self), value, None, self.owns_handle());
    }
}

impl<C: Communicator + ?Sized> SharedAttributes for C {}
