//! The ranks that take part, and what they agree on.

use crate::Settings;
use crate::board::TeamBoard;
use crate::limits::{PERSISTENT_TAGS, TAGS};
use crate::nodes::Nodes;
use mpi_p2p::{Context, Engine, Error, ErrorClass};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// A communicator's collective plane. Collectives on one team are started in the same order on all ranks and, as
/// the standard demands, not from two threads at once.
#[derive(Debug)]
pub struct Team {
    context: Arc<Context>,
    /// The way to the other group, in the team of an inter-communicator.
    far: Option<Arc<Context>>,
    settings: Arc<Settings>,
    /// One group, unchecked and untold: small collectives need no program.
    plain: bool,
    /// Where the ranks are, if that is not one node for sure: looked up by the first collective.
    nodes: Option<OnceLock<Option<Nodes>>>,
    /// Number of the next collective: its tag, so that several in flight do not mix.
    next: AtomicU32,
    /// The same of persistent ones, which keep theirs.
    next_persistent: AtomicU32,
    board: TeamBoard,
}

impl Team {
    /// The team of a context in the collective plane.
    pub fn new(context: Arc<Context>, settings: Arc<Settings>) -> Team {
        let plain = !settings.is_checked() && !settings.is_told();
        let (next, next_persistent) = (AtomicU32::new(0), AtomicU32::new(0));
        let board = TeamBoard::default();
        Team { context, far: None, settings, plain, nodes: None, next, next_persistent, board }
    }

    /// One of the two groups of an inter-communicator: `near` is among its ranks, `far` leads to those of the other
    /// group. The two contexts carry nothing else.
    pub fn between(near: Arc<Context>, far: Arc<Context>, settings: Arc<Settings>) -> Team {
        Team { far: Some(far), plain: false, ..Team::new(near, settings) }
    }

    /// A team of one group whose ranks may be on several nodes: the engine's directory knows where each is, and says
    /// the same on all ranks.
    pub fn across_nodes(self) -> Team {
        Team { nodes: Some(OnceLock::new()), ..self }
    }

    /// The nodes that the ranks share, where leaders have something to do.
    pub(crate) fn nodes(&self, e: &Engine, op: &'static str) -> Result<Option<&Nodes>, Error> {
        let Some(nodes) = &self.nodes else { return Ok(None) };
        if let Some(known) = nodes.get() {
            return Ok(known.as_ref());
        }
        let numbers = self.context.peers().iter().map(|ep| e.node(*ep));
        let numbers = numbers.collect::<Result<Vec<u64>, String>>();
        let numbers = numbers.map_err(|why| self.error(op, ErrorClass::ProcFailed, why))?;
        Ok(nodes.get_or_init(|| Nodes::new(&numbers)).as_ref())
    }

    /// The context of the calling process's own group.
    #[inline]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The context that leads to the other group of an inter-communicator.
    #[inline]
    pub fn far(&self) -> Option<&Arc<Context>> {
        self.far.as_ref()
    }

    /// This process's rank in its group.
    #[inline]
    pub fn rank(&self) -> usize {
        self.context.rank() as usize
    }

    /// Number of ranks in the calling process's group.
    #[inline]
    pub fn size(&self) -> usize {
        self.context.size() as usize
    }

    /// Number of ranks in the other group; 0 when there is none.
    #[inline]
    pub fn far_size(&self) -> usize {
        self.far.as_ref().map_or(0, |far| far.size() as usize)
    }

    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain && self.nodes.as_ref().is_none_or(|nodes| matches!(nodes.get(), Some(None)))
    }

    #[inline]
    pub(crate) fn board(&self) -> &TeamBoard {
        &self.board
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The tag of the next collective. A plain load and store: there is one caller at a time.
    #[inline]
    pub(crate) fn next_tag(&self) -> i32 {
        let tag = self.next.load(Ordering::Relaxed);
        self.next.store((tag + 1) % TAGS, Ordering::Relaxed);
        tag as i32
    }

    /// The tag of the next persistent collective, apart from those of the others.
    pub(crate) fn next_persistent_tag(&self) -> i32 {
        let tag = self.next_persistent.load(Ordering::Relaxed);
        self.next_persistent.store((tag + 1) % PERSISTENT_TAGS, Ordering::Relaxed);
        (TAGS + tag) as i32
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

/// Who the root is, as this process sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// This rank: of one's own group, in an inter-communicator of the other one.
    Rank(usize),
    /// The calling process, for the other group of an inter-communicator (`MPI_ROOT`).
    Root,
    /// Another process of one's own group, for the other group of an inter-communicator (`MPI_PROC_NULL`).
    Null,
}

impl From<usize> for Root {
    #[inline]
    fn from(rank: usize) -> Root {
        Root::Rank(rank)
    }
}
