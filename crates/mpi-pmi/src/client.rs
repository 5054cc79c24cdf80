//! What a rank may ask of its launcher, whatever protocol the launcher speaks.

use crate::PmiError;
use mpi_wire::spawn::{NameOutcome, NameRequest, SpawnOutcome, SpawnRequest};
use mpi_wire::waits::Wait;
use std::os::fd::RawFd;
use std::sync::Arc;

/// The protocol by which this process was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The project's own launcher.
    Native,
    /// PMI-1, by descriptor or port.
    Pmi1,
    /// PMI-2.
    Pmi2,
    /// No launcher: rank 0 of 1.
    Singleton,
}

/// All that a process knows of its world when start-up is over.
pub struct Bootstrap {
    /// Id of the job.
    pub job: String,
    /// The job's secret.
    pub secret: [u8; 32],
    /// Rank in the world.
    pub rank: u32,
    /// Processes in the world.
    pub size: u32,
    /// Name of this host, for people; never resolved.
    pub host: String,
    /// Slot in the node segment, when there is one.
    pub node_slot: Option<u32>,
    /// Ranks of the world on this node (1 where that is not known).
    pub node_size: u32,
    /// Processors that the ranks on this node may use together, at least 1. With `node_size` it
    /// tells whether a rank that waits may spin; a rank bound to one processor of its own may,
    /// although its affinity mask alone does not show it.
    pub processors: u32,
    /// Descriptor of the node segment, inherited from the launcher and owned by this process.
    pub segment: Option<RawFd>,
    /// Several hosts are in the job.
    pub multihost: bool,
    /// Number of the program in an MPMD job.
    pub appnum: Option<i32>,
    /// Processes that the launcher believes could run.
    pub universe_size: Option<u32>,
    /// Port of the parent, in a spawned world.
    pub parent: Option<String>,
    /// The way back to the launcher.
    pub client: Arc<dyn Client>,
    /// The protocol that was spoken.
    pub kind: Kind,
}

/// Calls to the launcher. Every call may be made from any thread and is bounded by a timeout
/// (named in [`limits`](crate::limits)).
pub trait Client: Send + Sync {
    /// Publishes a value under this rank and `key` (≤ 256 bytes). Others see it after this rank's
    /// [`started`](Client::started) or a [`fence`](Client::fence). Does not wait for an answer
    /// under the native protocol.
    ///
    /// # Errors
    /// [`PmiError`].
    fn put(&self, key: &str, value: &[u8]) -> Result<(), PmiError>;

    /// Waits until every rank of the world has called it as often; what was put before is
    /// visible after it. Not needed on one node under the native protocol.
    ///
    /// # Errors
    /// [`PmiError`].
    fn fence(&self) -> Result<(), PmiError>;

    /// What `rank` put under `key`; `None` when it has put nothing there. Under the native
    /// protocol this waits until that rank has started or fenced (or is gone), so that no fence
    /// is needed before it; under PMI a fence must lie between.
    ///
    /// # Errors
    /// [`PmiError`]; after a timeout the call may be repeated.
    fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, PmiError>;

    /// Tells the launcher that this rank has initialised MPI: from now on an exit with 0 before
    /// [`finalized`](Client::finalized) is a failure, and what it put is visible.
    ///
    /// # Errors
    /// [`PmiError`].
    fn started(&self) -> Result<(), PmiError>;

    /// Tells the launcher that this rank has entered the finalisation.
    ///
    /// # Errors
    /// [`PmiError`].
    fn finalizing(&self) -> Result<(), PmiError>;

    /// Tells the launcher that this rank has finalised: an exit with 0 is good from now on.
    ///
    /// # Errors
    /// [`PmiError`].
    fn finalized(&self) -> Result<(), PmiError>;

    /// Starts another world. Waits until all of its processes have initialised MPI, or none is left.
    /// A process without a launcher starts one for them.
    ///
    /// # Errors
    /// [`PmiError`], when the launcher could not even be asked, or cannot do it.
    fn spawn(&self, request: SpawnRequest) -> Result<SpawnOutcome, PmiError>;

    /// Publishes, takes back or looks up a name.
    ///
    /// # Errors
    /// [`PmiError`], when the launcher could not even be asked, or cannot do it.
    fn name(&self, request: NameRequest) -> Result<NameOutcome, PmiError>;

    /// Tells the launcher that this rank has, or no longer has, a communicator with processes of
    /// another job: jobs that are linked end together when one of their processes fails.
    ///
    /// # Errors
    /// [`PmiError`].
    fn linked(&self, job: &str, linked: bool) -> Result<(), PmiError>;

    /// Asks the launcher to end the job. Returns once the request is on its way; the caller then
    /// exits with [`exit_status`](crate::exit_status) of `code`. Never fails: without a
    /// launcher there is nothing to tell.
    fn abort(&self, code: i32, message: &str);

    /// Tells the launcher, in one line for people, what this rank waits for (or that it runs):
    /// the answer to [`Event::ReportWanted`]. May also be sent unasked by a rank that has been
    /// blocked for long.
    ///
    /// # Errors
    /// [`PmiError`].
    fn report(&self, text: &str, waits: &[Wait]) -> Result<(), PmiError>;

    /// The launcher's own messages, for one thread that does nothing else. `None` after the first
    /// call, and where the protocol has no such messages (PMI, singleton).
    fn events(&self) -> Option<Events>;
}

/// What a launcher tells a rank unasked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The job ends: leave within a second. The launcher has printed the reason; a rank prints
    /// nothing of its own.
    Abort {
        /// Status that the job ends with.
        code: i32,
        /// Why.
        message: String,
    },
    /// Say what you wait for, with [`Client::report`], within half a second.
    ReportWanted,
    /// The connection to the launcher has ended without an abort: nobody is left to watch this
    /// rank, so it ends too. Repeated by every later call.
    LauncherGone,
    /// Another process is gone and the job goes on without it.
    PeerDied {
        /// The world that it was of; empty for the own one.
        job: String,
        /// Its rank there.
        rank: u32,
        /// How, for people.
        how: String,
    },
}

/// The launcher's messages, in order.
pub struct Events {
    source: Box<dyn Source>,
}

/// Where events come from.
pub(crate) trait Source: Send {
    fn next(&mut self) -> Event;
}

impl Events {
    pub(crate) fn new(source: Box<dyn Source>) -> Events {
        Events { source }
    }

    /// Sleeps until the next event. Costs no processor time meanwhile.
    pub fn wait(&mut self) -> Event {
        self.source.next()
    }
}

impl Iterator for Events {
    type Item = Event;

    /// As [`wait`](Events::wait); never `None`.
    fn next(&mut self) -> Option<Event> {
        Some(self.wait())
    }
}
