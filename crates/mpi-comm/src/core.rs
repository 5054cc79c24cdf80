//! What the communicators of a process share.

use crate::comm::{Comm, Id, Parts};
use crate::context_ids::ContextIds;
use crate::dynamic::Beyond;
use crate::errhandler::ErrorHandler;
use crate::group::Group;
use crate::topology::Topology;
use mpi_btl::Ep;
use mpi_coll::Settings;
use mpi_p2p::{Context, Engine, Error};
use std::sync::{Arc, Mutex};

/// Context ids that are never agreed.
pub(crate) const WORLD_ID: u32 = 0;
const SELF_ID: u32 = 1;

/// What the communicators of a process share.
pub(crate) struct Core {
    pub(crate) engine: Arc<Engine>,
    pub(crate) ids: Arc<ContextIds>,
    pub(crate) me: Ep,
    pub(crate) node: Node,
    /// Choices of algorithms that the user forces.
    pub(crate) collective_settings: Arc<Settings>,
    /// Held while a context is added that several threads may want at once.
    pub(crate) making_context: Mutex<()>,
    /// The way to other worlds; none in a simulated one.
    pub(crate) beyond: Option<Arc<Beyond>>,
    /// Contexts beside which agreements were made: others may ask what came of them when the communicator is freed here.
    pub(crate) kept: Mutex<Vec<Arc<Context>>>,
}

impl Core {
    /// All members are on this node for sure, and nobody needs to be asked.
    pub(crate) fn is_on_one_node(&self, group: &Group) -> bool {
        let is_foreign = |ep| self.beyond.as_ref().is_some_and(|beyond| beyond.foreign.is_foreign(ep));
        group.size() == 1 || (self.node.all_here && !group.reaches(is_foreign))
    }

    /// An order of processes that is the same in all of them.
    pub(crate) fn precedes(&self, a: Ep, b: Ep) -> bool {
        match &self.beyond {
            Some(beyond) => {
                let (a, b) = (beyond.identity(a), beyond.identity(b));
                (a.job, a.rank) < (b.job, b.rank)
            }
            None => a < b,
        }
    }
}

/// What a process knows of the machine it runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// Stands for the node: the same on all processes that can share memory.
    pub number: u64,
    /// Every process of the world runs here.
    pub all_here: bool,
}

/// The two communicators that every process starts with.
#[derive(Clone, Debug)]
pub struct Predefined {
    /// All processes of the world.
    pub world: Comm,
    /// The calling process alone.
    pub self_comm: Comm,
}

impl Predefined {
    /// The predefined communicators of process `me` of a world of `size`, over an engine whose
    /// processes are numbered by their rank in the world. [`init`](crate::init) does this for a real
    /// process; tests do it for simulated ones.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn assemble(
        engine: Arc<Engine>,
        me: Ep,
        size: u32,
        node: Node,
        collective_settings: Settings,
    ) -> Result<Predefined, Error> {
        Predefined::with_others(engine, me, size, node, collective_settings, None)
    }

    /// As [`Predefined::assemble`], with a way to other worlds.
    pub(crate) fn with_others(
        engine: Arc<Engine>,
        me: Ep,
        size: u32,
        node: Node,
        collective_settings: Settings,
        beyond: Option<Arc<Beyond>>,
    ) -> Result<Predefined, Error> {
        let collective_settings = Arc::new(collective_settings);
        let ids = Arc::new(ContextIds::new(&[WORLD_ID, SELF_ID]));
        let making_context = Mutex::new(());
        let kept = Mutex::default();
        let core =
            Arc::new(Core { engine, ids, me, node, collective_settings, making_context, beyond, kept });
        let comm = |id, group, name: &str| {
            Comm::new(
                &core,
                Parts {
                    id: Id::held(id, core.ids.clone()),
                    group,
                    remote: None,
                    topology: Topology::Undefined,
                    attributes: Default::default(),
                    handler: ErrorHandler::Fatal,
                    name: name.to_owned(),
                },
            )
        };
        Ok(Predefined {
            world: comm(WORLD_ID, Group::run(Ep(0), size, me), "MPI_COMM_WORLD")?,
            self_comm: comm(SELF_ID, Group::run(me, 1, me), "MPI_COMM_SELF")?,
        })
    }
}
