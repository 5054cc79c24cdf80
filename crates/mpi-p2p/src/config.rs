//! What an engine is made from.

use crate::limits;
use crate::report::{Blocked, Fatal};
use mpi_btl::{Ep, Opened, PeerInfo};
use std::sync::Arc;
use std::time::Duration;

/// Tells who a peer is. Asked once per peer, on first use, with the engine's lock held: it must not call
/// the engine.
pub trait Directory: Send + Sync {
    /// Looks the peer up.
    ///
    /// # Errors
    /// The fact, for people.
    fn lookup(&self, ep: Ep) -> Result<PeerInfo, String>;

    /// The number of a process that reached this one first, by its identity. `None`: not known
    /// (yet); it is kept waiting.
    fn identify(&self, _job: &str, _world_rank: u32) -> Option<Ep> {
        None
    }

    /// A number for the node that a process is on: those with one number can share memory. The same answer in all
    /// processes. May wait for the launcher; called without the engine's lock. A directory that does not say has
    /// one node.
    ///
    /// # Errors
    /// The fact, for people.
    fn node(&self, _ep: Ep) -> Result<u64, String> {
        Ok(0)
    }
}

/// How a waiting thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpinPolicy {
    /// Processors that the ranks on this node may use together.
    pub processors: usize,
    /// Ranks of the job on this node.
    pub ranks_on_node: usize,
    /// Spinning before parking, where processors suffice.
    pub spin: Duration,
    /// Handing over before parking, where they do not.
    pub yielding: Duration,
}

impl SpinPolicy {
    /// The usual times.
    pub fn new(processors: usize, ranks_on_node: usize) -> SpinPolicy {
        SpinPolicy { processors, ranks_on_node, spin: limits::SPIN_TIME, yielding: limits::YIELD_TIME }
    }

    pub(crate) fn crowded(&self) -> bool {
        self.ranks_on_node > self.processors
    }
}

/// Limits that a user may set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Unexpected bytes above which peers are told to announce instead of sending.
    pub unexpected_mark_bytes: u64,
    /// Eager sends above this size, in bytes, that did not leave at once lend their memory where the
    /// transport takes that.
    pub lend_above_bytes: usize,
    /// The same from this size on, in bytes, for immediate sends behind others since the last flush.
    pub lend_in_burst_bytes: usize,
    /// Time after which a blocked operation is reported.
    pub blocked_report: Duration,
    /// Peers may fail while the job goes on: collectives and receives from any source that could wait for one that
    /// has failed end with an error.
    pub recovery: bool,
    /// A thread of its own makes progress while the rank computes. Without, calls alone do: for thousands of engines in
    /// one process.
    pub helper: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            unexpected_mark_bytes: limits::UNEXPECTED_MARK_BYTES,
            lend_above_bytes: limits::LEND_ABOVE_BYTES,
            lend_in_burst_bytes: limits::LEND_IN_BURST_BYTES,
            blocked_report: limits::BLOCKED_REPORT_TIME,
            recovery: false,
            helper: true,
        }
    }
}

/// Called by the engine, on whatever thread found out, without its lock held.
pub struct Hooks {
    /// An operation has been blocked for [`Limits::blocked_report`]; once per operation.
    pub on_blocked: Box<dyn Fn(&Blocked) + Send + Sync>,
    /// A peer is gone without a goodbye, or ended the job, or a backend has something to say.
    pub on_fatal: Box<dyn Fn(&Fatal) + Send + Sync>,
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks { on_blocked: Box::new(|_| {}), on_fatal: Box::new(|_| {}) }
    }
}

/// What an engine is made from.
pub struct EngineConfig {
    /// This process.
    pub me: Ep,
    /// The open backends, best first, with their names.
    pub backends: Vec<(&'static str, Opened)>,
    /// Who the peers are.
    pub directory: Arc<dyn Directory>,
    /// How to wait.
    pub spin: SpinPolicy,
    /// Limits.
    pub limits: Limits,
    /// Who is told.
    pub hooks: Hooks,
}
