//! The ranks that take part, and what they agree on.

use crate::Settings;
use mpi_p2p::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A communicator's collective plane. Collectives on one team are started in the same order on all ranks and, as
/// the standard demands, not from two threads at once.
#[derive(Debug)]
pub struct Team {
    context: Arc<Context>,
    settings: Arc<Settings>,
    /// Number of the next collective: its tag, so that several in flight do not mix.
    next: AtomicU32,
}

impl Team {
    /// The team of a context in the collective plane.
    pub fn new(context: Arc<Context>, settings: Arc<Settings>) -> Team {
        Team { context, settings, next: AtomicU32::new(0) }
    }

    /// The context.
    #[inline]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// This process's rank.
    #[inline]
    pub fn rank(&self) -> usize {
        self.context.rank() as usize
    }

    /// Number of ranks.
    #[inline]
    pub fn size(&self) -> usize {
        self.context.size() as usize
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tag of the next collective. A plain load and store: there is one caller at a time.
    #[inline]
    pub(crate) fn next_tag(&self) -> i32 {
        let tag = self.next.load(Ordering::Relaxed);
        self.next.store((tag + 1) & i32::MAX as u32, Ordering::Relaxed);
        tag as i32
    }
}

/// A buffer, or `MPI_IN_PLACE`: the data is in the other buffer already.
#[derive(Clone, Copy, Debug)]
pub enum InPlaceOr<T> {
    /// The data is in the other buffer.
    InPlace,
    /// It is here.
    Buf(T),
}
