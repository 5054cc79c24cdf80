//! One-sided communication: memory of every rank that all of them read and write (MPI-4.1 §12).
//!
//! A [`Window`] is made by all ranks of a communicator. What may be done with it depends on the epoch: between two
//! fences ([`Window::fence`]), among groups that say so ([`Window::expose`], [`Window::access`]), or behind a lock
//! of which the target knows nothing ([`Window::lock_all`], [`Window::lock`]). An epoch is the run of a closure. Buffers
//! handed to its operations stay borrowed until it is over, or the [`batch`](Passive::batch) in it that they belong to.
//!
//! ```no_run
//! use mpi::traits::*;
//! use mpi::window::Window;
//!
//! let universe = mpi::initialize().unwrap();
//! let world = universe.world();
//! let mut window = Window::<u64>::allocate(&world, 4);
//! window.lock_all(|epoch| {
//!     let ticket = epoch.fetch_and_op(0, 0, 1, SystemOperation::sum());
//!     println!("rank {} drew {ticket}", world.rank());
//! });
//! # use mpi::collective::SystemOperation;
//! window.free();
//! ```
//!
//! Memory of the window itself is reached inside of an epoch only, value by value ([`Epoch::local`]), since others may
//! change it at any time, or as a slice while this rank has it for itself ([`Window::own`]).
//!
//! # What does not compile
//! A buffer that is read while it may still be written to:
//! ```compile_fail,E0502
//! # use mpi::traits::*;
//! # use mpi::window::Window;
//! # let universe = mpi::initialize().unwrap();
//! # let world = universe.world();
//! let mut window = Window::<u64>::allocate(&world, 4);
//! let mut room = [0; 4];
//! window.lock_all(|epoch| {
//!     epoch.get(&mut room, 0, 0);
//!     println!("{}", room[0]);
//! });
//! ```
//! A buffer that goes before the epoch is over:
//! ```compile_fail,E0597
//! # use mpi::traits::*;
//! # use mpi::window::Window;
//! # let universe = mpi::initialize().unwrap();
//! # let world = universe.world();
//! let mut window = Window::<u64>::allocate(&world, 4);
//! window.fence(|epoch| {
//!     let mut room = vec![0; 4];
//!     epoch.get(&mut room, 0, 0);
//! });
//! ```
//! The window's memory outside of an epoch:
//! ```compile_fail
//! # use mpi::traits::*;
//! # use mpi::window::Window;
//! # let universe = mpi::initialize().unwrap();
//! # let world = universe.world();
//! let mut window = Window::<u64>::allocate(&world, 4);
//! let kept = window.lock_all(|epoch| epoch.local());
//! kept.set(0, 1);
//! ```
//! Another epoch while this rank has its memory for itself:
//! ```compile_fail,E0499
//! # use mpi::traits::*;
//! # use mpi::window::Window;
//! # let universe = mpi::initialize().unwrap();
//! # let world = universe.world();
//! let mut window = Window::<u64>::allocate(&world, 4);
//! window.own(|mine| {
//!     window.fence(|_| mine[0] = 1);
//! });
//! ```
//!
//! # Errors
//! Plain operations pass an error to the window's error handler, whose default ends the job. Their `try_` twins return
//! a [`WindowError`], which names window, target, displacement and sizes.

mod element;
mod epoch;
mod error;
mod local;
mod object;
mod shared;

use std::marker::PhantomData;

use mpi_rma::{Assert, LockKind, Options};

use crate::Rank;
use crate::topology::Communicator;

pub use element::{AtomicElement, Element};
pub use epoch::{Batch, Epoch, Passive};
pub use error::WindowError;
pub use local::Local;
pub use object::ErrorHandler;
pub use shared::SharedWindow;

use epoch::Open;

/// Memory of every rank of a communicator: on each a number of elements that all ranks may reach.
///
/// Freeing is collective: [`free`](Window::free), or dropping on all ranks in the same order, waits until all ranks are
/// there.
#[derive(Debug)]
pub struct Window<T: Element> {
    pub(crate) core: mpi_rma::Window,
    /// The memory, where the window does not have its own.
    memory: Option<Box<[T]>>,
    len: usize,
    attributes: object::Attributes,
    elements: PhantomData<T>,
}

impl<T: Element> Window<T> {
    fn of(core: mpi_rma::Window, memory: Option<Box<[T]>>, len: usize) -> Window<T> {
        Window { core, memory, len, attributes: object::Attributes::default(), elements: PhantomData }
    }

    /// A window of `len` elements on this rank, all zero. Ranks may give different numbers. Collective.
    #[track_caller]
    pub fn allocate<C: Communicator>(comm: &C, len: usize) -> Window<T> {
        error::ok_on(comm, Self::try_allocate(comm, len))
    }

    /// As [`allocate`](Window::allocate).
    ///
    /// # Errors
    /// Where some rank has no memory left; the communicator has two groups.
    pub fn try_allocate<C: Communicator>(comm: &C, len: usize) -> Result<Window<T>, WindowError> {
        let core = error::core(comm);
        let options =
            options::<T>(len).map_err(|e| refuse(e, |none| mpi_rma::Window::allocate(&core, none)))?;
        let core = mpi_rma::Window::allocate(&core, &options)?;
        Ok(Window::of(core, None, len))
    }

    /// A window on memory that is there already; [`free`](Window::free) gives it back. Collective.
    ///
    /// Memory that the window [allocates](Window::allocate) is reached faster by the ranks of the same machine.
    #[track_caller]
    pub fn over<C: Communicator>(comm: &C, memory: Vec<T>) -> Window<T> {
        error::ok_on(comm, Self::try_over(comm, memory))
    }

    /// As [`over`](Window::over).
    ///
    /// # Errors
    /// As [`try_allocate`](Window::try_allocate).
    pub fn try_over<C: Communicator>(comm: &C, memory: Vec<T>) -> Result<Window<T>, WindowError> {
        let mut memory = memory.into_boxed_slice();
        let (len, start) = (memory.len(), memory.as_mut_ptr());
        let options = options::<T>(len)?;
        // SAFETY: the window owns the memory until it is freed, and nobody looks at it but through the window.
        let core = unsafe { mpi_rma::Window::create(&error::core(comm), start.cast(), &options) }?;
        Ok(Window::of(core, Some(memory), len))
    }

    /// Elements of this rank's part.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when this rank brought no memory in.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives the window a name, for errors and reports.
    pub fn set_name(&self, name: &str) {
        self.core.set_name(name);
    }

    /// Its name; empty when none was given.
    pub fn name(&self) -> String {
        self.core.name()
    }

    /// True when the memory of all ranks is reached by plain loads and stores of this process.
    pub fn is_direct(&self) -> bool {
        self.core.is_direct()
    }

    /// The layer below, for what this type does not offer.
    ///
    /// # Safety
    /// Nothing done through it, or through a clone of it, reaches this rank's part of the window while
    /// [`own`](Window::own) has lent it out, or opens, ends or frees what an epoch of this type still uses.
    ///
    /// Hence not:
    /// ```compile_fail,E0133
    /// # use mpi::window::Window;
    /// fn behind_the_back(window: &Window<u64>) {
    ///     let _ = window.core().lock_all(Default::default());
    /// }
    /// ```
    pub unsafe fn core(&self) -> &mpi_rma::Window {
        &self.core
    }

    // ---- epochs

    /// An epoch between two fences, in which every rank may reach every other's memory. Collective: what the
    /// operations in `f` do is done on all ranks when this returns.
    #[track_caller]
    pub fn fence<'b, R>(&mut self, f: impl FnOnce(&Epoch<'_, 'b, T>) -> R) -> R {
        error::ok_in(&self.core.clone(), self.try_fence(f))
    }

    /// As [`fence`](Window::fence).
    ///
    /// # Errors
    /// What an operation left behind; a rank died.
    pub fn try_fence<'b, R>(&mut self, f: impl FnOnce(&Epoch<'_, 'b, T>) -> R) -> Result<R, WindowError> {
        self.core.fence(Assert { no_precede: true, ..Assert::default() })?;
        let result = Open::run(self, |epoch| f(epoch.epoch()));
        self.core.fence(Assert { no_succeed: true, ..Assert::default() })?;
        Ok(result)
    }

    /// Lets the ranks of `origins` reach this rank's memory while `f` runs and until they are done, which each of
    /// them says with [`access`](Window::access).
    #[track_caller]
    pub fn expose<R>(&mut self, origins: &[Rank], f: impl FnOnce(&Local<'_, T>) -> R) -> R {
        error::ok_in(&self.core.clone(), self.try_expose(origins, f))
    }

    /// As [`expose`](Window::expose).
    ///
    /// # Errors
    /// A rank that is none of the communicator's; a rank died.
    pub fn try_expose<R>(
        &mut self,
        origins: &[Rank],
        f: impl FnOnce(&Local<'_, T>) -> R,
    ) -> Result<R, WindowError> {
        self.core.post(&ranks(origins), Assert::default())?;
        let result = Open::run(self, |epoch| f(&epoch.epoch().local()));
        self.core.wait()?;
        Ok(result)
    }

    /// An epoch on the memory of the ranks of `targets`, all of which [`expose`](Window::expose) theirs.
    #[track_caller]
    pub fn access<'b, R>(&mut self, targets: &[Rank], f: impl FnOnce(&Epoch<'_, 'b, T>) -> R) -> R {
        error::ok_in(&self.core.clone(), self.try_access(targets, f))
    }

    /// As [`access`](Window::access).
    ///
    /// # Errors
    /// As [`try_expose`](Window::try_expose); what an operation left behind.
    pub fn try_access<'b, R>(
        &mut self,
        targets: &[Rank],
        f: impl FnOnce(&Epoch<'_, 'b, T>) -> R,
    ) -> Result<R, WindowError> {
        self.core.start(&ranks(targets), Assert::default())?;
        let result = Open::run(self, |epoch| f(epoch.epoch()));
        self.core.complete()?;
        Ok(result)
    }

    /// [`access`](Window::access) and [`expose`](Window::expose) at once.
    #[track_caller]
    pub fn exchange<'b, R>(
        &mut self,
        targets: &[Rank],
        origins: &[Rank],
        f: impl FnOnce(&Epoch<'_, 'b, T>) -> R,
    ) -> R {
        error::ok_in(&self.core.clone(), self.try_exchange(targets, origins, f))
    }

    /// As [`exchange`](Window::exchange).
    ///
    /// # Errors
    /// As [`try_access`](Window::try_access).
    pub fn try_exchange<'b, R>(
        &mut self,
        targets: &[Rank],
        origins: &[Rank],
        f: impl FnOnce(&Epoch<'_, 'b, T>) -> R,
    ) -> Result<R, WindowError> {
        self.core.post(&ranks(origins), Assert::default())?;
        let result = self.try_access(targets, f)?;
        self.core.wait()?;
        Ok(result)
    }

    /// An epoch in which this rank reaches the memory of all ranks, which need not call anything.
    #[track_caller]
    pub fn lock_all<'b, R>(&mut self, f: impl FnOnce(&Passive<'_, 'b, T>) -> R) -> R {
        error::ok_in(&self.core.clone(), self.try_lock_all(f))
    }

    /// As [`lock_all`](Window::lock_all).
    ///
    /// # Errors
    /// What an operation left behind; a rank died with a lock.
    pub fn try_lock_all<'b, R>(
        &mut self,
        f: impl FnOnce(&Passive<'_, 'b, T>) -> R,
    ) -> Result<R, WindowError> {
        self.core.lock_all(Assert::default())?;
        let result = Open::run(self, f);
        self.core.unlock_all()?;
        Ok(result)
    }

    /// An epoch on the memory of one rank, together with others that lock it so.
    #[track_caller]
    pub fn lock<'b, R>(&mut self, target: Rank, f: impl FnOnce(&Passive<'_, 'b, T>) -> R) -> R {
        error::ok_in(&self.core.clone(), self.try_lock(target, f))
    }

    /// As [`lock`](Window::lock).
    ///
    /// # Errors
    /// As [`try_lock_all`](Window::try_lock_all); a rank that is none of the communicator's.
    pub fn try_lock<'b, R>(
        &mut self,
        target: Rank,
        f: impl FnOnce(&Passive<'_, 'b, T>) -> R,
    ) -> Result<R, WindowError> {
        self.locked(LockKind::Shared, target, f)
    }

    /// An epoch on the memory of one rank, while nobody else has it locked.
    #[track_caller]
    pub fn lock_exclusive<'b, R>(&mut self, target: Rank, f: impl FnOnce(&Passive<'_, 'b, T>) -> R) -> R {
        error::ok_in(&self.core.clone(), self.try_lock_exclusive(target, f))
    }

    /// As [`lock_exclusive`](Window::lock_exclusive).
    ///
    /// # Errors
    /// As [`try_lock`](Window::try_lock).
    pub fn try_lock_exclusive<'b, R>(
        &mut self,
        target: Rank,
        f: impl FnOnce(&Passive<'_, 'b, T>) -> R,
    ) -> Result<R, WindowError> {
        self.locked(LockKind::Exclusive, target, f)
    }

    fn locked<'b, R>(
        &mut self,
        kind: LockKind,
        target: Rank,
        f: impl FnOnce(&Passive<'_, 'b, T>) -> R,
    ) -> Result<R, WindowError> {
        self.core.lock(kind, rank(target), Assert::default())?;
        let result = Open::run(self, f);
        self.core.unlock(rank(target))?;
        Ok(result)
    }

    /// This rank's own memory as a slice, while nobody else has it locked.
    #[track_caller]
    pub fn own<R>(&mut self, f: impl FnOnce(&mut [T]) -> R) -> R {
        error::ok_in(&self.core.clone(), self.try_own(f))
    }

    /// As [`own`](Window::own).
    ///
    /// # Errors
    /// A rank died with the lock.
    pub fn try_own<R>(&mut self, f: impl FnOnce(&mut [T]) -> R) -> Result<R, WindowError> {
        let me = self.core.comm().rank() as Rank;
        let (base, len) = (self.core.base().cast::<T>(), self.len);
        self.locked(LockKind::Exclusive, me, |_| {
            if len == 0 {
                return f(&mut []);
            }
            // SAFETY: the part has `len` elements, for which any bytes are values. Nobody else reaches it while this
            // rank holds the lock: every epoch of this type that could is behind the lock, or needs this rank to be
            // in the same kind of epoch, which the exclusive borrow of the window rules out.
            f(unsafe { std::slice::from_raw_parts_mut(base, len) })
        })
    }

    /// Frees the window; gives back memory that was brought in. Collective.
    #[track_caller]
    pub fn free(mut self) -> Vec<T> {
        let core = self.core.clone();
        error::ok_in(&core, core.free().map_err(WindowError::from));
        self.memory.take().map(Vec::from).unwrap_or_default()
    }
}

impl<T: Element> Drop for Window<T> {
    fn drop(&mut self) {
        if self.core.is_freed() {
            return;
        }
        // While unwinding, nobody is waited for; after the end, there is nobody.
        let freed = !std::thread::panicking()
            && mpi_comm::is_initialized()
            && !mpi_comm::is_finalized()
            && self.core.free().is_ok();
        if !freed {
            // Others may still write to it.
            std::mem::forget(self.memory.take());
        }
    }
}

/// What this rank was given makes no window. The others wait for it, and get an error of their own.
pub(crate) fn refuse(
    error: WindowError,
    make: impl FnOnce(&Options) -> Result<mpi_rma::Window, mpi_p2p::Error>,
) -> WindowError {
    let _ = make(&Options::new(0, 0));
    error
}

fn options<T: Element>(len: usize) -> Result<Options, WindowError> {
    match len.checked_mul(size_of::<T>()) {
        Some(size) => Ok(Options::new(size, size_of::<T>().max(1))),
        None => Err(WindowError::too_large(len, size_of::<T>())),
    }
}

/// A rank for the layer below, which refuses those that are none.
pub(crate) fn rank(rank: Rank) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

fn ranks(list: &[Rank]) -> Vec<u32> {
    list.iter().map(|r| rank(*r)).collect()
}
