//! A lock that costs its owner nothing: two plain stores and two plain loads.
//!
//! One thread, the owner, enters by writing `inside` and reading `gate`; a thread that is not the
//! owner closes the gate, runs a membarrier, and waits until `inside` is clear. This is Dekker's
//! handshake with the fence moved entirely to the rare side (Dice, Huang and Yang,
//! "Asymmetric Dekker synchronization", 2001). Where the kernel has no membarrier, and after
//! [`BiasedLock::set_unbiased`], it is a plain futex lock.

use crate::limits::{LOCK_SPIN_TURNS, YIELD_TURNS};
use crate::primitive::{
    AtomicU32, AtomicUsize, Ordering, Scope, UnsafeCell, fence, futex_wait, futex_wake, light_fence,
    spin_loop, yield_now,
};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// Nobody is the owner, or the owner must not enter by the fast path now.
const CLOSED: usize = 0;

/// Mutual exclusion biased towards one thread.
///
/// Sound from any thread. Not reentrant: a thread that enters twice panics.
#[repr(align(64))]
pub struct BiasedLock<T> {
    /// Token of the owner while it may enter by the fast path, else [`CLOSED`].
    gate: AtomicUsize,
    /// 1 while the owner is inside by the fast path. Written by the owner only. Also the futex
    /// on which a revoker waits for the owner to leave.
    inside: AtomicU32,
    /// Threads that want the slow path or hold it.
    waiters: AtomicU32,
    /// Token of the owner, 0 before there is one, [`UNBIASED`] when there never will be.
    /// Changed only inside the slow path with the owner kept out.
    owner: AtomicUsize,
    /// Entries by the slow path so far; lets a yielding thread see that somebody got in.
    entries: AtomicU32,
    slow: FutexLock,
    /// Token of the thread that is inside by the slow path, else 0. Each thread looks for its own only, so it orders
    /// nothing.
    holder: core::sync::atomic::AtomicUsize,
    value: UnsafeCell<T>,
}

/// What is said of a thread that would wait for itself.
const TWICE: &str =
    "a thread entered the same lock twice: MPI was called from code that runs inside a call of it";

/// No thread is favoured any more.
const UNBIASED: usize = 1;

// SAFETY: the lock hands out the value to one thread at a time, so sharing needs only `T: Send`.
unsafe impl<T: Send> Sync for BiasedLock<T> {}
// SAFETY: moving the lock moves the value.
unsafe impl<T: Send> Send for BiasedLock<T> {}

impl<T> BiasedLock<T> {
    /// A lock without an owner yet.
    pub fn new(value: T) -> BiasedLock<T> {
        BiasedLock {
            gate: AtomicUsize::new(CLOSED),
            inside: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            owner: AtomicUsize::new(0),
            entries: AtomicU32::new(0),
            slow: FutexLock::new(),
            holder: core::sync::atomic::AtomicUsize::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Makes the calling thread the owner, if there was none. When another thread already is,
    /// nobody is from now on: ownership that wanders would need the expensive half each time.
    pub fn bias_to_current_thread(&self) {
        let me = token();
        // Asked before entering: registration can take milliseconds.
        let possible = private_barrier_works();
        let guard = self.enter();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != me {
            let next = if owner == 0 && possible { me } else { UNBIASED };
            self.owner.store(next, Ordering::Relaxed);
        }
        drop(guard);
    }

    /// From now on a plain lock: right where several threads enter often.
    pub fn set_unbiased(&self) {
        if self.owner.load(Ordering::Relaxed) == token() {
            // Through the slow path, since ownership changes only there.
            let guard = self.enter_slow();
            self.owner.store(UNBIASED, Ordering::Relaxed);
            drop(guard);
        } else {
            let guard = self.enter();
            self.owner.store(UNBIASED, Ordering::Relaxed);
            drop(guard);
        }
    }

    /// Waits until the lock is this thread's.
    #[inline]
    pub fn enter(&self) -> Guard<'_, T> {
        if self.enter_fast() { self.guard(true) } else { self.enter_slow() }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_enter(&self) -> Option<Guard<'_, T>> {
        if self.enter_fast() {
            return Some(self.guard(true));
        }
        // Closing the gate would interrupt the owner for nothing.
        if self.inside.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.waiters.fetch_add(1, Ordering::Relaxed);
        if !self.slow.try_lock() {
            self.leave_queue();
            return None;
        }
        if self.close_gate() && self.inside.load(Ordering::Acquire) != 0 {
            self.release_slow();
            return None;
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.holder.store(token(), core::sync::atomic::Ordering::Relaxed);
        Some(self.guard(false))
    }

    #[inline]
    fn guard(&self, fast: bool) -> Guard<'_, T> {
        Guard { lock: self, fast, _not_send: PhantomData }
    }

    /// The owner's way in. SYNC POINT: `inside` then `gate`, against `gate` then `inside` in
    /// [`close_gate`](Self::close_gate) and its caller.
    #[inline]
    fn enter_fast(&self) -> bool {
        let me = token();
        if self.gate.load(Ordering::Relaxed) != me {
            return false;
        }
        assert!(self.inside.load(Ordering::Relaxed) == 0, "{TWICE}");
        self.inside.store(1, Ordering::Relaxed);
        light_fence();
        // Acquire: pairs with the release that opened the gate after a slow entry.
        if self.gate.load(Ordering::Acquire) == me {
            return true;
        }
        self.leave_fast();
        false
    }

    /// The owner's way out, also when the gate closed in its face.
    #[inline]
    fn leave_fast(&self) {
        self.inside.store(0, Ordering::Release);
        light_fence();
        if self.gate.load(Ordering::Relaxed) == CLOSED {
            futex_wake(&self.inside, u32::MAX, Scope::Process);
        }
    }

    #[cold]
    fn enter_slow(&self) -> Guard<'_, T> {
        let me = token();
        // The owner is inside, and came here since the gate is closed; or this thread is, by this very way.
        let twice = self.owner.load(Ordering::Relaxed) == me && self.inside.load(Ordering::Relaxed) != 0;
        let held = self.holder.load(core::sync::atomic::Ordering::Relaxed);
        assert!(!twice && held != me, "{TWICE}");
        self.waiters.fetch_add(1, Ordering::Relaxed);
        self.slow.lock();
        if self.close_gate() {
            let mut turns = 0;
            // SYNC POINT: pairs with the release in `leave_fast`.
            while self.inside.load(Ordering::Acquire) != 0 {
                turns += 1;
                if turns < LOCK_SPIN_TURNS {
                    spin_loop();
                } else {
                    futex_wait(&self.inside, 1, Scope::Process, None);
                }
            }
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.holder.store(me, core::sync::atomic::Ordering::Relaxed);
        self.guard(false)
    }

    /// Keeps the owner out of the fast path. Called with `slow` held. True when the owner, a
    /// thread other than this one, may still be inside.
    fn close_gate(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == 0 || owner == UNBIASED {
            return false;
        }
        if owner == token() {
            // The owner itself came this way because the gate was closed or is to be: it is not inside.
            self.gate.store(CLOSED, Ordering::Relaxed);
            return false;
        }
        // The gate is closed anew even if it is closed already: another thread may have closed
        // it and not yet have seen the owner leave.
        self.gate.store(CLOSED, Ordering::Relaxed);
        heavy_fence();
        true
    }

    /// Gives the slow path back; opens the gate when nobody else waits.
    fn release_slow(&self) {
        self.holder.store(0, core::sync::atomic::Ordering::Relaxed);
        let owner = self.owner.load(Ordering::Relaxed);
        let others = self.waiters.fetch_sub(1, Ordering::Relaxed) > 1;
        if !others && owner > UNBIASED {
            // SYNC POINT: pairs with the second load in `enter_fast`.
            self.gate.store(owner, Ordering::Release);
        }
        self.slow.unlock();
    }

    fn leave_queue(&self) {
        self.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T: core::fmt::Debug> core::fmt::Debug for BiasedLock<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("BiasedLock").finish_non_exhaustive()
    }
}

/// The lock is held while this lives.
pub struct Guard<'a, T> {
    lock: &'a BiasedLock<T>,
    fast: bool,
    _not_send: PhantomData<*const ()>,
}

impl<T> Guard<'_, T> {
    /// Another thread waits for the lock.
    #[inline]
    pub fn contended(&self) -> bool {
        self.lock.waiters.load(Ordering::Relaxed) > u32::from(!self.fast)
    }

    /// Lets waiting threads in and takes the lock again; does nothing when nobody waits. The
    /// value may have changed in between.
    #[inline]
    pub fn yield_to_others(&mut self) {
        if self.contended() {
            self.yield_now();
        }
    }

    #[cold]
    fn yield_now(&mut self) {
        let lock = self.lock;
        let before = lock.entries.load(Ordering::Relaxed);
        if self.fast {
            lock.leave_fast();
        } else {
            lock.release_slow();
        }
        // Whoever waits must win over this thread, which is awake and would take the lock at once.
        for turn in 0..YIELD_TURNS {
            let served = lock.entries.load(Ordering::Relaxed) != before;
            if served || lock.waiters.load(Ordering::Relaxed) == 0 {
                break;
            }
            if turn < LOCK_SPIN_TURNS { spin_loop() } else { yield_now() }
        }
        self.fast = lock.enter_fast();
        if !self.fast {
            core::mem::forget(lock.enter_slow());
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.fast {
            self.lock.leave_fast();
        } else {
            self.lock.release_slow();
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, and the borrow ends before it lets go.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; `&mut self` makes the borrow exclusive within this thread.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

/// A futex lock of three states: free, held, held with sleepers (Drepper, "Futexes are tricky",
/// 2011, mutex 2).
struct FutexLock {
    state: AtomicU32,
}

impl FutexLock {
    fn new() -> FutexLock {
        FutexLock { state: AtomicU32::new(0) }
    }

    fn try_lock(&self) -> bool {
        self.state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn lock(&self) {
        if self.try_lock() {
            return;
        }
        for _ in 0..LOCK_SPIN_TURNS {
            spin_loop();
            if self.state.load(Ordering::Relaxed) == 0 && self.try_lock() {
                return;
            }
        }
        while self.state.swap(2, Ordering::Acquire) != 0 {
            futex_wait(&self.state, 2, Scope::Process, None);
        }
    }

    fn unlock(&self) {
        if self.state.swap(0, Ordering::Release) == 2 {
            futex_wake(&self.state, 1, Scope::Process);
        }
    }
}

/// A number that no other living thread has.
#[cfg(not(loom))]
#[inline(always)]
fn token() -> usize {
    thread_local!(static HERE: u64 = const { 0 });
    HERE.with(|here| core::ptr::from_ref(here) as usize)
}

#[cfg(loom)]
fn token() -> usize {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    loom::thread::current().id().hash(&mut hasher);
    hasher.finish() as usize | 2
}

#[cfg(not(loom))]
fn heavy_fence() {
    fence(Ordering::SeqCst);
    crate::membarrier::private();
}

#[cfg(loom)]
fn heavy_fence() {
    fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
fn private_barrier_works() -> bool {
    crate::membarrier::register().private
}

#[cfg(loom)]
fn private_barrier_works() -> bool {
    true
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn hammer(bias: bool, unbias: bool) {
        let lock = Arc::new(BiasedLock::new(0_u64));
        if bias {
            lock.bias_to_current_thread();
        }
        if unbias {
            lock.set_unbiased();
        }
        let others: Vec<_> = (0..3)
            .map(|_| {
                let lock = lock.clone();
                std::thread::spawn(move || {
                    for _ in 0..2_000 {
                        *lock.enter() += 1;
                    }
                })
            })
            .collect();
        for _ in 0..100_000 {
            let mut guard = lock.enter();
            *guard += 1;
            guard.yield_to_others();
        }
        for other in others {
            other.join().expect("no panic");
        }
        assert_eq!(*lock.enter(), 106_000);
        assert!(!lock.enter().contended());
    }

    #[test]
    fn counts_exactly_with_an_owner() {
        hammer(true, false);
    }

    #[test]
    fn counts_exactly_without_an_owner() {
        hammer(false, false);
        hammer(true, true);
    }

    #[test]
    fn two_owners_make_none() {
        let lock = Arc::new(BiasedLock::new(0));
        lock.bias_to_current_thread();
        let there = lock.clone();
        std::thread::spawn(move || there.bias_to_current_thread()).join().expect("no panic");
        assert_eq!(lock.owner.load(Ordering::Relaxed), UNBIASED);
        *lock.enter() += 1;
        assert_eq!(*lock.enter(), 1);
    }

    /// By whatever way it is inside, and with others waiting.
    #[test]
    fn a_thread_that_enters_twice_is_told() {
        let enter_twice = |lock: &BiasedLock<u32>, close: bool| {
            let _guard = lock.enter();
            if close {
                lock.gate.store(CLOSED, Ordering::Relaxed);
            }
            let twice = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(lock.enter())));
            let said = twice.expect_err("the second entry is refused");
            assert!(said.downcast_ref::<String>().is_some_and(|said| said.contains("twice")), "{said:?}");
        };
        for owned in [true, false] {
            let lock = BiasedLock::new(0);
            if owned {
                lock.bias_to_current_thread();
            }
            enter_twice(&lock, false);
            enter_twice(&lock, owned);
            std::thread::scope(|scope| {
                scope.spawn(|| enter_twice(&lock, false));
            });
            // Nothing is left of it.
            *lock.enter() += 1;
            assert!(lock.try_enter().is_some());
        }
    }

    #[test]
    fn trying_fails_while_the_owner_is_inside() {
        let lock = Arc::new(BiasedLock::new(0));
        lock.bias_to_current_thread();
        let guard = lock.enter();
        let there = lock.clone();
        std::thread::spawn(move || assert!(there.try_enter().is_none())).join().expect("no panic");
        drop(guard);
        let there = lock.clone();
        std::thread::spawn(move || assert!(there.try_enter().is_some())).join().expect("no panic");
        assert!(lock.try_enter().is_some());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::Arc;

    fn check(f: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.max_branches = 10_000;
        model.check(f);
    }

    #[test]
    fn owner_and_another_exclude_each_other() {
        check(|| {
            let lock = Arc::new(BiasedLock::new(0));
            lock.bias_to_current_thread();
            let there = lock.clone();
            let other = loom::thread::spawn(move || *there.enter() += 1);
            *lock.enter() += 1;
            *lock.enter() += 1;
            other.join().unwrap();
            assert_eq!(*lock.enter(), 3);
        });
    }

    #[test]
    fn owner_and_two_others_exclude_each_other() {
        check(|| {
            let lock = Arc::new(BiasedLock::new(0));
            lock.bias_to_current_thread();
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let there = lock.clone();
                    loom::thread::spawn(move || *there.enter() += 1)
                })
                .collect();
            *lock.enter() += 1;
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(*lock.enter(), 3);
        });
    }
}
