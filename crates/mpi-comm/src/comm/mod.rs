//! The communicator: who is in it, what hangs on it. What it can do is in the files beside.

mod collectives;
mod create;
mod exchange;
mod inter;
mod one_sided;
mod p2p;
mod raw;
mod requests;
mod topologies;

pub use create::{PendingComm, SplitKind};
pub(crate) use exchange::{Bridge, Team, WaitsFor, broken, exhausted};
pub use p2p::{Dest, Matched, NULL_STATUS, Source};
pub(crate) use raw::exit_at_once;
pub use topologies::Neighbours;

use crate::attributes::Attributes;
use crate::context_ids::ContextIds;
use crate::core::Core;
use crate::dynamic::Link;
use crate::errhandler::ErrorHandler;
use crate::ft::Agreements;
use crate::group::{Group, Relation};
use crate::limits::MAX_OBJECT_NAME_BYTES;
use crate::topology::Topology;
use mpi_btl::Ep;
use mpi_coll::Team as CollectiveTeam;
use mpi_p2p::{Context, ContextSpec, Engine, Error, ErrorClass};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

/// A communicator. A clone is another handle to the same one; it is freed when the last is dropped,
/// which is local and waits for nobody.
pub struct Comm(Arc<Inner>);

/// What a context of a communicator carries; the low two bits of its number in message headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plane {
    /// What users send and receive.
    PointToPoint = 0,
    /// Collectives, over the remote group of an inter-communicator.
    Collective = 1,
    /// Collectives inside the local group of an inter-communicator. Elsewhere 2 is the plane of one-sided
    /// communication, which inter-communicators have not.
    Near = 2,
    /// What this crate itself sends, inside the local group.
    Management = 3,
}

/// Communicators whose error handler is not the default, by id: requests remember no more than that.
static OWN_HANDLERS: Mutex<Vec<(u32, Weak<Inner>)>> = Mutex::new(Vec::new());

fn own_handlers() -> MutexGuard<'static, Vec<(u32, Weak<Inner>)>> {
    OWN_HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Inner {
    engine: Arc<Engine>,
    /// Ranks that a message can be sent to: the size of the remote group, of the only one in an
    /// intra-communicator.
    targets: u32,
    p2p: Arc<Context>,
    team: CollectiveTeam,
    /// Made when first needed: many communicators never are a parent.
    management: OnceLock<Arc<Context>>,
    core: Arc<Core>,
    group: Group,
    remote: Option<Remote>,
    topology: Topology,
    attributes: Attributes,
    handler: RwLock<ErrorHandler>,
    /// Tags of management operations, in the order in which all members start them.
    operations: AtomicU32,
    /// Counts for the worlds of the members that are not this one's.
    _link: Option<Link>,
    /// Agreements among the members, once there was one.
    agreements: OnceLock<Agreements>,
    /// The context of one-sided communication, once there was a window.
    one_sided: OnceLock<one_sided::OneSided>,
    /// Handles; the attributes go with the last of them.
    handles: AtomicUsize,
    /// One of them is the process's own, which nobody looks through.
    kept: AtomicBool,
    /// Given back when everything above is gone.
    id: Id,
}

/// The other side of an inter-communicator.
#[derive(Clone)]
pub(crate) struct Remote {
    pub(crate) group: Group,
    /// This side's root is the root of agreements.
    pub(crate) upper: bool,
}

/// A context id that this process holds.
pub(crate) struct Id {
    id: u32,
    ids: Arc<ContextIds>,
    /// It is never used again.
    spent: AtomicBool,
}

impl Id {
    /// Takes over an id that is reserved in `ids`.
    pub(crate) fn held(id: u32, ids: Arc<ContextIds>) -> Id {
        Id { id, ids, spent: AtomicBool::new(false) }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        if !self.spent.load(Ordering::Relaxed) {
            self.ids.release(self.id);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Words of its revocation may be on their way, and must never concern another communicator.
        if self.p2p.is_stopped() {
            self.id.spent.store(true, Ordering::Relaxed);
        }
    }
}

/// What a new communicator is made from.
pub(crate) struct Parts {
    pub(crate) id: Id,
    pub(crate) group: Group,
    pub(crate) remote: Option<Remote>,
    pub(crate) topology: Topology,
    pub(crate) attributes: Attributes,
    pub(crate) handler: ErrorHandler,
    pub(crate) name: String,
}

impl Comm {
    pub(crate) fn new(core: &Arc<Core>, parts: Parts) -> Result<Comm, Error> {
        let targets = parts.remote.as_ref().map_or(&parts.group, |remote| &remote.group);
        let peers: Arc<[Ep]> = targets.members().collect();
        let context = |plane: Plane, peers: &Arc<[Ep]>| {
            core.engine.add_context(ContextSpec {
                id: parts.id.id << 2 | plane as u32,
                rank: parts.group.rank().unwrap_or(0),
                name: parts.name.clone(),
                peers: peers.clone(),
            })
        };
        let (collective, settings) = (context(Plane::Collective, &peers)?, core.collective_settings.clone());
        let team = match &parts.remote {
            None => {
                let team = CollectiveTeam::new(collective, settings);
                match core.is_on_one_node(&parts.group) {
                    true => team,
                    false => team.across_nodes(),
                }
            }
            Some(_) => {
                let near = context(Plane::Near, &parts.group.members().collect())?;
                CollectiveTeam::between(near, collective, settings)
            }
        };
        let groups = [Some(&parts.group), parts.remote.as_ref().map(|remote| &remote.group)];
        let link = core.beyond.as_ref().and_then(|beyond| beyond.link(groups.into_iter().flatten()));
        let default = matches!(parts.handler, ErrorHandler::Fatal);
        let comm = Comm(Arc::new(Inner {
            engine: core.engine.clone(),
            targets: targets.size(),
            p2p: context(Plane::PointToPoint, &peers)?,
            team,
            management: OnceLock::new(),
            core: core.clone(),
            group: parts.group,
            remote: parts.remote,
            topology: parts.topology,
            attributes: parts.attributes,
            handler: RwLock::new(parts.handler),
            operations: AtomicU32::new(0),
            _link: link,
            agreements: OnceLock::new(),
            one_sided: OnceLock::new(),
            handles: AtomicUsize::new(1),
            kept: AtomicBool::new(false),
            id: parts.id,
        }));
        if !default {
            comm.set_error_handler(comm.error_handler());
        }
        Ok(comm)
    }

    /// Rank of the calling process in its own group.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.0.p2p.rank()
    }

    /// Size of the calling process's own group.
    #[inline]
    pub fn size(&self) -> u32 {
        self.0.group.size()
    }

    /// Size of the remote group of an inter-communicator; 0 for an intra-communicator.
    pub fn remote_size(&self) -> u32 {
        self.0.remote.as_ref().map_or(0, |remote| remote.group.size())
    }

    /// Number of ranks that messages can be sent to: the remote group's in an inter-communicator.
    #[inline]
    pub fn target_size(&self) -> u32 {
        self.0.targets
    }

    /// True for an inter-communicator.
    pub fn is_inter(&self) -> bool {
        self.0.remote.is_some()
    }

    /// The calling process's own group.
    pub fn group(&self) -> Group {
        self.0.group.clone()
    }

    /// The remote group of an inter-communicator.
    pub fn remote_group(&self) -> Option<Group> {
        self.0.remote.as_ref().map(|remote| remote.group.clone())
    }

    /// The agreed id; the same on every member, used again after the communicator is freed.
    pub fn context_id(&self) -> u32 {
        self.0.id.id
    }

    /// The name; empty when none was given.
    pub fn name(&self) -> String {
        self.0.p2p.name()
    }

    /// Gives a name, which errors and reports show. Longer ones are cut at
    /// [`MAX_OBJECT_NAME_BYTES`].
    pub fn set_name(&self, name: &str) {
        let mut end = name.len().min(MAX_OBJECT_NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let team = &self.0.team;
        for context in [Some(&self.0.p2p), Some(team.context()), team.far(), self.0.management.get()] {
            context.into_iter().for_each(|context| context.set_name(&name[..end]));
        }
    }

    /// True for the communicator of the world.
    pub fn is_world(&self) -> bool {
        self.context_id() == crate::core::WORLD_ID
    }

    /// How two communicators relate: the same one, congruent, similar, unequal.
    pub fn compare(&self, other: &Comm) -> Relation {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Relation::Identical;
        }
        let remote = match (&self.0.remote, &other.0.remote) {
            (None, None) => Relation::Identical,
            (Some(a), Some(b)) => a.group.compare(&b.group),
            _ => return Relation::Unequal,
        };
        match (self.0.group.compare(&other.0.group), remote) {
            (Relation::Identical, Relation::Identical) => Relation::Congruent,
            (Relation::Unequal, _) | (_, Relation::Unequal) => Relation::Unequal,
            _ => Relation::Similar,
        }
    }

    /// The topology that the communicator carries.
    pub fn topology(&self) -> &Topology {
        &self.0.topology
    }

    /// The error handler.
    pub fn error_handler(&self) -> ErrorHandler {
        self.0.handler.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the error handler.
    pub fn set_error_handler(&self, handler: ErrorHandler) {
        let default = matches!(handler, ErrorHandler::Fatal);
        *self.0.handler.write().unwrap_or_else(PoisonError::into_inner) = handler;
        let mut own = own_handlers();
        own.retain(|(_, comm)| comm.strong_count() > 0 && !comm.ptr_eq(&Arc::downgrade(&self.0)));
        if !default {
            own.push((self.context_id(), Arc::downgrade(&self.0)));
        }
    }

    /// The communicator of a context, if its error handler is another than the default.
    pub(crate) fn with_own_handler(context: u32) -> Option<Comm> {
        let own = own_handlers();
        // Ids are used again, so that the latest entry counts.
        let found = own.iter().rev().find(|(id, _)| *id == context >> 2)?;
        let inner = found.1.upgrade()?;
        // One that is being freed is not brought back.
        let one_more = |handles| (handles > 0).then_some(handles + 1);
        inner.handles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Comm(inner))
    }

    /// Frees the communicator when this is its last handle. Local: waits for nobody.
    ///
    /// # Errors
    /// `Other` when an attribute's delete callback fails; the rest is freed all the same.
    pub fn free(self) -> Result<(), Error> {
        match self.0.handles.load(Ordering::Acquire) {
            1 => self.0.attributes.clear(&self),
            _ => Ok(()),
        }
    }

    /// Says whether one of the handles is the process's own.
    pub(crate) fn keep(&self, kept: bool) {
        self.0.kept.store(kept, Ordering::Release);
    }

    /// Whether nobody has another handle, apart from the process. May be false where it is true.
    pub(crate) fn is_only_handle(&self) -> bool {
        self.0.handles.load(Ordering::Acquire) <= 1 + usize::from(self.0.kept.load(Ordering::Acquire))
    }

    /// The engine that carries this communicator's messages.
    #[inline]
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// The context of point-to-point messages.
    #[inline]
    pub fn context(&self) -> &Arc<Context> {
        &self.0.p2p
    }

    /// The context of collectives; over the remote group of an inter-communicator.
    #[inline]
    pub fn collective_context(&self) -> &Arc<Context> {
        self.0.team.far().unwrap_or(self.0.team.context())
    }

    /// The ranks of collectives.
    #[inline]
    pub fn team(&self) -> &CollectiveTeam {
        &self.0.team
    }

    /// The context of this crate's own messages, inside the local group.
    pub(crate) fn management_context(&self) -> Result<&Arc<Context>, Error> {
        if let Some(context) = self.0.management.get() {
            return Ok(context);
        }
        // Two threads may get here at once with operations of different tags. The engine refuses a
        // context that is there already, so only one may ask.
        let _one = self.0.core.making_context.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0.management.get().is_none() {
            let context = self.0.engine.add_context(ContextSpec {
                id: self.0.id.id << 2 | Plane::Management as u32,
                rank: self.rank(),
                name: self.name(),
                peers: self.0.group.members().collect(),
            })?;
            let _ = self.0.management.set(context);
        }
        Ok(self.0.management.get().unwrap_or(self.0.team.context()))
    }

    /// The agreements among the members. What is left of them outlives the communicator.
    pub(crate) fn agreements(&self) -> Result<&Agreements, Error> {
        if let Some(agreements) = self.0.agreements.get() {
            return Ok(agreements);
        }
        let context = self.management_context()?;
        let _one = self.0.core.making_context.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(self.0.agreements.get_or_init(|| {
            self.0.id.spent.store(true, Ordering::Relaxed);
            self.0.core.kept.lock().unwrap_or_else(PoisonError::into_inner).push(context.clone());
            Agreements::among(&self.0.engine, context)
        }))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.core
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.0.attributes
    }

    pub(crate) fn remote(&self) -> Option<&Remote> {
        self.0.remote.as_ref()
    }

    /// The tag of the next management operation. Every member starts them in the same order.
    pub(crate) fn next_operation(&self) -> i32 {
        (self.0.operations.fetch_add(1, Ordering::Relaxed) & 0x3FFF_FFFF) as i32
    }

    /// Refuses an operation after finalisation.
    ///
    /// # Errors
    /// `Other`.
    #[inline]
    pub fn alive(&self, op: &'static str) -> Result<(), Error> {
        // What follows may be an exchange of messages, which a report is to call by this name.
        mpi_p2p::within(op);
        if self.0.engine.is_closed() { Err(self.over(op)) } else { Ok(()) }
    }

    #[cold]
    fn over(&self, op: &'static str) -> Error {
        self.attach(Error::new(ErrorClass::Other, op, mpi_p2p::FINALISED))
    }

    /// An error under this communicator's name.
    #[cold]
    pub(crate) fn attach(&self, mut error: Error) -> Error {
        if error.comm.is_none() {
            error.comm = Some((self.name(), self.0.p2p.id()));
        }
        error
    }
}

impl Clone for Comm {
    fn clone(&self) -> Comm {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Comm(self.0.clone())
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // A callback that clones this handle and drops the clone comes here again, and finds
            // the attributes that are left. An error has nobody to go to: `free` reports it.
            let _ = self.0.attributes.clear(self);
            let _ = self.0.attributes.bury(self);
        }
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Comm")
            .field("name", &self.name())
            .field("id", &self.context_id())
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
