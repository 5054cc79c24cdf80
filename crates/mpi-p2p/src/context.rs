//! A communicator as the engine sees it: a number, my rank, and who the ranks are.

use mpi_btl::Ep;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What a context is made from.
#[derive(Clone, Debug)]
pub struct ContextSpec {
    /// The number in message headers: communicator id times four plus plane.
    pub id: u32,
    /// This process's rank in its local group.
    pub rank: u32,
    /// Name of the communicator, for people.
    pub name: String,
    /// Rank to process, of the remote group (an intra-communicator's only group).
    pub peers: Arc<[Ep]>,
}

/// A communicator's plane, known to the engine until dropped. Operations that still run when it is
/// dropped finish in good order.
#[derive(Debug)]
pub struct Context {
    pub(crate) face: Arc<Face>,
    pub(crate) dropped: Arc<Dropped>,
}

/// The part that running operations share.
#[derive(Debug)]
pub(crate) struct Face {
    pub id: u32,
    pub rank: u32,
    pub peers: Arc<[Ep]>,
    pub name: RwLock<String>,
    /// Nothing more is sent: see [`Fate`](crate::failure::Fate). Changed and read with the engine's lock held.
    pub stopped: AtomicBool,
}

/// Contexts that were dropped and are still to be forgotten: a drop may happen while the engine's
/// lock is held, so it only leaves a note.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    pub any: AtomicBool,
    pub ids: Mutex<Vec<u32>>,
}

impl Dropped {
    pub fn take(&self) -> Vec<u32> {
        if !self.any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Face {
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub fn name(&self) -> String {
        self.name.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Context {
    /// The number in message headers.
    pub fn id(&self) -> u32 {
        self.face.id
    }
    /// This process's rank in its local group.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.face.rank
    }
    /// Ranks of the remote group (an intra-communicator's only group).
    #[inline]
    pub fn size(&self) -> u32 {
        self.face.peers.len() as u32
    }
    /// Rank to process.
    #[inline]
    pub fn peers(&self) -> &Arc<[Ep]> {
        &self.face.peers
    }
    /// True once it is known here that the communicator is revoked, or, of a plane of collectives, that a rank has
    /// failed where that ends them.
    pub fn is_stopped(&self) -> bool {
        self.face.is_stopped()
    }
    /// The name, for people.
    pub fn name(&self) -> String {
        self.face.name()
    }
    /// Changes the name.
    pub fn set_name(&self, name: &str) {
        name.clone_into(&mut self.face.name.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.dropped.ids.lock().unwrap_or_else(PoisonError::into_inner).push(self.face.id);
        self.dropped.any.store(true, Ordering::Release);
    }
}
