//! Epochs: when which operation is allowed. A state machine that refuses the rest.

use crate::messages::HashMap;
use crate::window::Inner;
use mpi_node::Place;
use mpi_p2p::{Error, ErrorClass};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a target is locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockKind {
    /// Together with others.
    Shared,
    /// Alone.
    Exclusive,
}

/// What the caller promises (MPI 5.0, section 12.5.5). Promises that are kept make some calls faster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Assert {
    /// Nobody else holds or asks for a conflicting lock; the matching post has been made already.
    pub no_check: bool,
    /// No operation precedes the fence.
    pub no_precede: bool,
    /// No operation follows the fence.
    pub no_succeed: bool,
}

/// What this rank may access.
pub(crate) mod access {
    pub const NONE: u32 = 0;
    /// A fence opened it; nothing has been done yet, so that another kind of epoch may begin instead.
    pub const FENCE: u32 = 1;
    pub const FENCE_USED: u32 = 2;
    pub const START: u32 = 3;
    pub const LOCKS: u32 = 4;
    pub const LOCK_ALL: u32 = 5;
}

/// The epochs of one rank.
#[derive(Default)]
pub(crate) struct Epoch {
    access: AtomicU32,
    /// Every rank may be accessed, and all of their memory is mapped here: a hint for the shortest way.
    open: AtomicBool,
    /// All of their memory is mapped here.
    mapped: bool,
    exposed: AtomicBool,
    detail: Mutex<Detail>,
}

/// What is locked, and how.
pub(crate) struct Held {
    pub kind: LockKind,
    pub how: How,
}

/// The way in which a lock was had.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// In the node's memory.
    Here(Place),
    /// By message.
    Mail,
    /// Not at all: the caller promised that there is no need.
    Unchecked,
}

#[derive(Default)]
pub(crate) struct Detail {
    /// Targets of `start`.
    pub targets: Box<[u32]>,
    /// Origins of `post`.
    pub origins: Box<[u32]>,
    pub locks: HashMap<u32, Held>,
    /// The lock of all was not checked.
    pub unchecked: bool,
}

impl Epoch {
    /// `mapped`: memory of all ranks is mapped here.
    pub fn new(mapped: bool) -> Epoch {
        Epoch { mapped, ..Epoch::default() }
    }

    /// An operation on any rank is allowed, and is done by loads and stores.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Inside of an epoch of lock all.
    #[inline]
    pub fn is_locked_all(&self) -> bool {
        self.access() == access::LOCK_ALL
    }

    #[inline]
    pub fn access(&self) -> u32 {
        self.access.load(Ordering::Relaxed)
    }

    pub fn set_access(&self, access: u32) {
        self.access.store(access, Ordering::Relaxed);
        let open = self.mapped && matches!(access, access::LOCK_ALL | access::FENCE_USED);
        self.open.store(open, Ordering::Relaxed);
    }

    pub fn is_exposed(&self) -> bool {
        self.exposed.load(Ordering::Relaxed)
    }

    pub fn set_exposed(&self, exposed: bool) {
        self.exposed.store(exposed, Ordering::Relaxed);
    }

    pub fn detail(&self) -> MutexGuard<'_, Detail> {
        self.detail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation on a target is allowed now.
    #[inline]
    pub fn check(&self, w: &Inner, op: &'static str, target: u32) -> Result<(), Error> {
        match self.access() {
            access::LOCK_ALL | access::FENCE_USED => Ok(()),
            _ => self.check_slowly(w, op, target),
        }
    }

    fn check_slowly(&self, w: &Inner, op: &'static str, target: u32) -> Result<(), Error> {
        let refused = |why: String| Err(w.error(ErrorClass::RmaSync, op, Some(target), why));
        match self.access() {
            access::FENCE => {
                self.set_access(access::FENCE_USED);
                Ok(())
            }
            access::START if self.detail().targets.contains(&target) => Ok(()),
            access::START => refused(format!("rank {target} is not in the group of the epoch")),
            access::LOCKS if self.detail().locks.contains_key(&target) => Ok(()),
            access::LOCKS => refused(format!("rank {target} is not locked")),
            access::LOCK_ALL | access::FENCE_USED => Ok(()),
            _ => refused("outside of an epoch: fence, start, lock or lock all comes first".into()),
        }
    }

    /// Inside a passive epoch that covers the target.
    pub fn check_passive(&self, w: &Inner, op: &'static str, target: Option<u32>) -> Result<(), Error> {
        let fits = match (self.access(), target) {
            (access::LOCK_ALL, _) | (access::LOCKS, None) => true,
            (access::LOCKS, Some(target)) => self.detail().locks.contains_key(&target),
            _ => false,
        };
        if fits {
            return Ok(());
        }
        Err(w.error(ErrorClass::RmaSync, op, target, "outside of an epoch of lock or lock all"))
    }

    /// No access epoch is open, so one may be opened.
    pub fn check_idle(&self, w: &Inner, op: &'static str) -> Result<(), Error> {
        match self.access() {
            access::NONE | access::FENCE => Ok(()),
            other => Err(w.error(ErrorClass::RmaSync, op, None, format!("inside of {}", name(other)))),
        }
    }

    /// Nothing is open: the window may go.
    pub fn closed(&self, w: &Inner, op: &'static str) -> Result<(), Error> {
        if self.is_exposed() {
            return Err(w.error(ErrorClass::RmaSync, op, None, "inside of an epoch of post"));
        }
        match self.access() {
            access::START | access::LOCKS | access::LOCK_ALL => self.check_idle(w, op),
            _ => Ok(()),
        }
    }
}

fn name(access: u32) -> &'static str {
    match access {
        access::FENCE | access::FENCE_USED => "an epoch of fence",
        access::START => "an epoch of start",
        access::LOCKS => "an epoch of lock",
        access::LOCK_ALL => "an epoch of lock all",
        _ => "no epoch",
    }
}
