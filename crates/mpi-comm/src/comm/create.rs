//! New communicators out of old ones (MPI 4.1 section 7.4).

use super::exchange::{Team, exhausted};
use super::{Comm, Id, Parts};
use crate::agreement::{Agreement, Side, Tree};
use crate::attributes::Attributes;
use crate::group::Group;
use crate::pending::{Agreed, AgreementActivity};
use crate::topology::Topology;
use mpi_p2p::{Error, ErrorClass, RequestId};

/// What the members of a part of [`Comm::split_type`] have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SplitKind {
    /// They can share memory (`MPI_COMM_TYPE_SHARED`).
    Shared,
}

impl Comm {
    /// A communicator of the same processes with its own context, and with the attributes that
    /// their copy callbacks pass on, the topology and the error handler. Collective.
    ///
    /// # Errors
    /// `Other` when a copy callback fails, or no context id is left.
    pub fn dup(&self) -> Result<Comm, Error> {
        self.alive("duplicate")?;
        let attributes = self.attributes().copied(self)?;
        let id = self.agree_with_all()?;
        self.like(id, attributes)
    }

    /// Starts a [`Comm::dup`]. Collective, but waits for nobody.
    ///
    /// # Errors
    /// `Other` when a copy callback fails.
    pub fn idup(&self) -> Result<PendingComm, Error> {
        self.alive("duplicate")?;
        let attributes = self.attributes().copied(self)?;
        let mut team = Team::all(self)?;
        team.bridge = self.bridge(&team);
        let tree = Tree::new(team.index, team.size, self.side());
        let (links, ids) = (team.links(&tree)?, &self.core().ids);
        let agreement = Agreement::new(ids.clone(), tree);
        let (activity, agreed) = AgreementActivity::new(agreement, ids.clone(), links);
        let request = self.engine().start(Box::new(activity));
        Ok(PendingComm { request, agreed, parts: Some((self.clone(), attributes)) })
    }

    /// Communicators of those that give the same color, ranked by key, then by rank here; none for
    /// those without a color. Collective.
    ///
    /// # Errors
    /// `Arg` for a negative color; those of a new communicator.
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Comm>, Error> {
        self.alive("split")?;
        if let Some(color) = color.filter(|color| *color < 0) {
            let detail = format!("color {color} is negative");
            return Err(self.attach(Error::new(ErrorClass::Arg, "split", detail)));
        }
        if self.is_inter() {
            return self.split_inter(color, key);
        }
        let mine = color.map_or(u64::MAX, |color| color as u64);
        let ranks = self.ranks_like(mine, key)?;
        let id = self.agree_with_all()?;
        match color {
            Some(_) => self.subset(id, &ranks, Topology::Undefined).map(Some),
            None => Ok(None),
        }
    }

    /// Communicators of those that have something in common, ranked by key. Collective.
    ///
    /// # Errors
    /// Those of a new communicator.
    pub fn split_type(&self, kind: SplitKind, key: i32) -> Result<Comm, Error> {
        self.alive("split by shared memory")?;
        let SplitKind::Shared = kind;
        // One number where all are here: their nodes need not be told apart.
        let node = self.core().node;
        let color = match self.core().beyond.as_ref() {
            // Each world of a node has its own segment.
            Some(beyond) if self.group().reaches(|ep| beyond.foreign.is_foreign(ep)) => {
                beyond.memory_number()
            }
            _ if node.all_here => 0,
            _ => node.number,
        };
        let ranks = self.ranks_like(color, key)?;
        let id = self.agree_with_all()?;
        self.subset(id, &ranks, Topology::Undefined)
    }

    /// Communicators of the processes of groups; none for those whose group they are not in.
    /// Collective over the parent; groups given by different processes are equal or disjoint.
    ///
    /// # Errors
    /// `Group` when the group is none of this communicator's; those of a new communicator.
    pub fn create(&self, group: &Group) -> Result<Option<Comm>, Error> {
        self.alive("create")?;
        if self.is_inter() {
            return self.create_inter(group);
        }
        self.ranks_of(group, "create")?;
        let id = self.agree_with_all()?;
        match group.rank() {
            Some(_) => self.with_group(id, group.clone(), Topology::Undefined).map(Some),
            None => Ok(None),
        }
    }

    /// A communicator of the processes of a group. Collective over the group only: a process that
    /// is no member gets none at once. Groups with a member in common that are made at the same
    /// time need different tags.
    ///
    /// # Errors
    /// `Group` when the group is none of this communicator's, `Tag` for a negative tag; those of a
    /// new communicator.
    pub fn create_group(&self, group: &Group, tag: i32) -> Result<Option<Comm>, Error> {
        self.alive("create group")?;
        if tag < 0 {
            let detail = format!("tag {tag} is negative");
            return Err(self.attach(Error::new(ErrorClass::Tag, "create group", detail)));
        }
        let Some(index) = group.rank() else { return Ok(None) };
        let ranks = self.ranks_of(group, "create group")?;
        let team = Team::some(self, ranks, index, tag)?;
        let id = self.hold(team.agree(Tree::new(team.index, team.size, Side::Alone))?);
        self.with_group(id, group.clone(), Topology::Undefined).map(Some)
    }

    /// Agrees on an id with all members, and with the remote group where there is one.
    pub(crate) fn agree_with_all(&self) -> Result<Id, Error> {
        let mut team = Team::all(self)?;
        team.bridge = self.bridge(&team);
        let id = team.agree(Tree::new(team.index, team.size, self.side()))?;
        Ok(self.hold(id))
    }

    pub(crate) fn hold(&self, id: u32) -> Id {
        Id::held(id, self.core().ids.clone())
    }

    /// The same communicator in another context.
    fn like(&self, id: Id, attributes: Attributes) -> Result<Comm, Error> {
        let parts = Parts {
            id,
            group: self.group(),
            remote: self.remote().cloned(),
            topology: self.topology().clone(),
            attributes,
            handler: self.error_handler(),
            name: String::new(),
        };
        Comm::new(self.core(), parts)
    }

    /// The ranks of those that give the same color, by key, then rank. Collective.
    pub(crate) fn ranks_like(&self, color: u64, key: i32) -> Result<Vec<i32>, Error> {
        let team = Team::all(self)?;
        let all = team.gather_to_all(&[color, u64::from(key as u32)])?;
        let mut same: Vec<(i32, i32)> = all
            .chunks_exact(2)
            .zip(0..)
            .filter(|(words, _)| words[0] == color)
            .map(|(words, rank)| (words[1] as u32 as i32, rank))
            .collect();
        same.sort_unstable();
        Ok(same.into_iter().map(|(_, rank)| rank).collect())
    }

    /// A communicator of some ranks of this one.
    pub(crate) fn subset(&self, id: Id, ranks: &[i32], topology: Topology) -> Result<Comm, Error> {
        let group = self.group().include(ranks)?;
        self.with_group(id, group, topology)
    }

    /// A communicator of a group, with this one's error handler.
    pub(crate) fn with_group(&self, id: Id, group: Group, topology: Topology) -> Result<Comm, Error> {
        let (remote, attributes) = (None, Attributes::default());
        let (handler, name) = (self.error_handler(), String::new());
        Comm::new(self.core(), Parts { id, group, remote, topology, attributes, handler, name })
    }

    /// The ranks here of a group's members.
    pub(super) fn ranks_of(&self, group: &Group, op: &'static str) -> Result<Vec<u32>, Error> {
        let all: Vec<i32> = (0..group.size() as i32).collect();
        let ranks = group.translate_all(&all, &self.group())?;
        ranks
            .into_iter()
            .zip(0..)
            .map(|(rank, at): (_, u32)| {
                rank.ok_or_else(|| {
                    let detail = format!("the process at rank {at} of the group is not in the communicator");
                    self.attach(Error::new(ErrorClass::Group, op, detail))
                })
            })
            .collect()
    }
}

/// A communicator in the making: [`Comm::idup`].
///
/// Dropped before it is complete it still takes part until the agreement is over, and then the
/// communicator is freed.
#[must_use = "the communicator is had from `wait`"]
pub struct PendingComm {
    request: RequestId,
    agreed: Agreed,
    parts: Option<(Comm, Attributes)>,
}

impl PendingComm {
    /// The request that completes when the communicator can be had. Whoever waits for it elsewhere
    /// calls [`PendingComm::finish`] afterwards.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Waits for the communicator.
    ///
    /// # Errors
    /// Those of a new communicator.
    pub fn wait(mut self) -> Result<Comm, Error> {
        if let Some((comm, _)) = &self.parts {
            comm.engine().wait(self.request)?;
        }
        self.take()
    }

    /// The communicator if it is there already, or itself again.
    ///
    /// # Errors
    /// Those of a new communicator.
    pub fn test(mut self) -> Result<Result<Comm, PendingComm>, Error> {
        let complete = match &self.parts {
            Some((comm, _)) => comm.engine().test(self.request)?.is_some(),
            None => true,
        };
        match complete {
            true => self.take().map(Ok),
            false => Ok(Err(self)),
        }
    }

    /// The communicator, after [`PendingComm::request`] has completed.
    ///
    /// # Errors
    /// `Request` when it has not; those of a new communicator.
    pub fn finish(mut self) -> Result<Comm, Error> {
        self.take()
    }

    fn take(&mut self) -> Result<Comm, Error> {
        let not_yet = || Error::new(ErrorClass::Request, "duplicate", "the request is not complete");
        match (self.agreed.take(), self.parts.take()) {
            (Some(Some(id)), Some((comm, attributes))) => comm.like(id, attributes),
            (Some(None), Some((comm, _))) => Err(comm.attach(exhausted())),
            _ => Err(not_yet()),
        }
    }
}

impl Drop for PendingComm {
    fn drop(&mut self) {
        if let Some((comm, attributes)) = self.parts.take() {
            let _ = attributes.clear(&comm);
            let _ = comm.engine().free(self.request);
        }
    }
}

impl std::fmt::Debug for PendingComm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingComm").field("request", &self.request).finish_non_exhaustive()
    }
}
