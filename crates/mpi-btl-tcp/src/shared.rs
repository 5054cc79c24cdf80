//! The lock around what both halves share.

use crate::core::Core;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The core, and whether it has anything to do beside reading: an idle poll sees that in one load.
pub(crate) struct Shared {
    core: Mutex<Core>,
    busy: AtomicBool,
}

/// The core while it is ours.
pub(crate) struct Locked<'a> {
    core: MutexGuard<'a, Core>,
    busy: &'a AtomicBool,
}

impl Shared {
    pub fn new(core: Core) -> Shared {
        Shared { core: Mutex::new(core), busy: AtomicBool::new(true) }
    }

    #[inline]
    pub fn lock(&self) -> Locked<'_> {
        Locked { core: self.core.lock().unwrap_or_else(PoisonError::into_inner), busy: &self.busy }
    }

    /// Somebody left something to be told, sent or waited for. A hint: whoever is about to sleep
    /// looks with the lock.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // Still under the lock, so that the last to hold it has the last word.
        self.busy.store(self.core.is_busy(), Ordering::Relaxed);
    }
}

impl Deref for Locked<'_> {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}
