//! Atomics and waiting, from `core` and the kernel or from `loom`.

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    pub(crate) use crate::futex::Scope;
    pub(crate) use crate::futex::{wait as futex_wait, wake as futex_wake};
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::thread::yield_now;

    /// The cheap half of an asymmetric fence: orders this thread's store before its next load
    /// with respect to a thread that runs the expensive half (a membarrier).
    #[inline(always)]
    pub(crate) fn light_fence() {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// An `UnsafeCell` with loom's interface.
    #[repr(transparent)]
    #[derive(Debug, Default)]
    pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> UnsafeCell<T> {
            UnsafeCell(core::cell::UnsafeCell::new(value))
        }
        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::thread::yield_now;

    /// Who shares a futex word.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Scope {
        Process,
        Machine,
    }

    /// A membarrier is modelled as a sequentially consistent fence on both sides: the kernel runs
    /// a full barrier on every processor that runs the other side, which is at least as strong
    /// as one full barrier in that thread between the two accesses around its light fence.
    pub(crate) fn light_fence() {
        fence(Ordering::SeqCst);
    }

    /// Sleeping is modelled as letting the others run and looking again.
    pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, _: Scope, _: Option<std::time::Duration>) {
        if word.load(Ordering::Relaxed) == expected {
            loom::thread::yield_now();
        }
    }
    pub(crate) fn futex_wake(_: &AtomicU32, _: u32, _: Scope) {}
}
