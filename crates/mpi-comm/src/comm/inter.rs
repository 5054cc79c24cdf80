//! Inter-communicators: two groups, each of which speaks to the other (MPI 4.1 section 7.6).

use super::exchange::{Bridge, Team};
use super::{Comm, Parts, Remote};
use crate::agreement::Side;
use crate::attributes::Attributes;
use crate::group::Group;
use crate::topology::Topology;
use mpi_p2p::{Error, ErrorClass};

/// Set in tags of this crate on a context where others send too.
const OURS: i32 = 0x4000_0000;

impl Comm {
    /// An inter-communicator between the group of this communicator and another group. Collective
    /// over both. The leaders, given by rank in their own communicators, reach each other over
    /// `peer`, which only they give: a communicator with both in it, the rank there of the other
    /// leader, and a tag that tells concurrent calls apart.
    ///
    /// # Errors
    /// `Rank` for a leader that is not there, `Comm` where the groups have a member in common or
    /// the leader gives no peer; those of a new communicator.
    pub fn intercomm_create(&self, leader: i32, peer: Option<(&Comm, i32)>, tag: i32) -> Result<Comm, Error> {
        const OP: &str = "inter-communicator create";
        self.alive(OP)?;
        let fault = |class, detail: String| self.attach(Error::new(class, OP, detail));
        if self.is_inter() {
            return Err(fault(ErrorClass::Comm, String::from("the local side is an inter-communicator")));
        }
        let root = u32::try_from(leader).ok().filter(|rank| *rank < self.size()).ok_or_else(|| {
            fault(ErrorClass::Rank, format!("leader {leader} is not among the {} processes", self.size()))
        })?;
        let mut team = Team::rooted(self, root)?;
        let mut upper = false;
        if self.rank() == root {
            let Some((over, remote)) = peer else {
                return Err(fault(ErrorClass::Comm, String::from("the leader gives no peer communicator")));
            };
            let rank = u32::try_from(remote).ok().filter(|rank| *rank < over.target_size());
            let there = over.remote_group().unwrap_or_else(|| over.group());
            let Some((rank, other)) = rank.and_then(|rank| Some((rank, there.member(rank)?))) else {
                let detail = format!("remote leader {remote} is not among {}", over.target_size());
                return Err(fault(ErrorClass::Rank, detail));
            };
            upper = self.core().precedes(self.core().me, other);
            let context = over.collective_context().clone();
            team.bridge = Some(Bridge::Context { context, rank, tag: OURS | tag & (OURS - 1) });
        }
        let upper = team.tell_from_root(vec![u64::from(upper)], 1)?.first() == Some(&1);
        self.meet(&team, upper, OP, "")
    }

    /// One communicator of both groups of an inter-communicator, first the one that gives `high`
    /// as false. All of a group give the same; when both give the same, the order is the same
    /// everywhere but not said which. Collective over both groups.
    ///
    /// # Errors
    /// `Comm` when this is no inter-communicator; those of a new communicator.
    pub fn merge(&self, high: bool) -> Result<Comm, Error> {
        self.alive("merge")?;
        let Some(remote) = self.remote() else {
            let detail = "this is no inter-communicator";
            return Err(self.attach(Error::new(ErrorClass::Comm, "merge", detail)));
        };
        let mut team = Team::all(self)?;
        team.bridge = self.bridge(&team);
        let theirs = team.swap(remote.upper, &[u64::from(high)])?;
        let their_high = theirs.first() == Some(&1);
        let first = if high == their_high { remote.upper } else { !high };
        let group = match first {
            true => self.group().union(&remote.group),
            false => remote.group.union(&self.group()),
        };
        let id = self.agree_with_all()?;
        self.with_group(id, group, Topology::Undefined)
    }

    /// This process's side in agreements over the communicator.
    pub(crate) fn side(&self) -> Side {
        match self.remote() {
            None => Side::Alone,
            Some(remote) if remote.upper => Side::Upper,
            Some(_) => Side::Lower,
        }
    }

    /// The way to the remote group's root, for the root of the local group.
    pub(crate) fn bridge(&self, team: &Team<'_>) -> Option<Bridge> {
        let root = self.is_inter() && self.rank() == 0;
        root.then(|| Bridge::Context {
            context: self.collective_context().clone(),
            rank: 0,
            tag: OURS | team.tag() & (OURS - 1),
        })
    }

    /// [`Comm::split`] of an inter-communicator: those of both groups with the same color.
    pub(super) fn split_inter(&self, color: Option<i32>, key: i32) -> Result<Option<Comm>, Error> {
        let Some(remote) = self.remote() else { return Ok(None) };
        let mut team = Team::all(self)?;
        team.bridge = self.bridge(&team);
        let color = color.map_or(u64::MAX, |color| color as u64);
        let ours = team.gather_to_all(&[color, u64::from(key as u32)])?;
        let theirs = team.swap(remote.upper, &ours)?;
        let like = |words: &[u64]| {
            let same = words.chunks_exact(2).zip(0..).filter(|(pair, _)| pair[0] == color);
            let mut ranks: Vec<(i32, i32)> = same.map(|(pair, rank)| (pair[1] as i32, rank)).collect();
            ranks.sort_unstable();
            ranks.into_iter().map(|(_, rank)| rank).collect::<Vec<i32>>()
        };
        let (local, distant) = (like(&ours), like(&theirs));
        let present = color != u64::MAX;
        self.inter_subset(self.group().include(&local)?, remote.group.include(&distant)?, present)
    }

    /// [`Comm::create`] of an inter-communicator: of parts of both groups.
    pub(super) fn create_inter(&self, group: &Group) -> Result<Option<Comm>, Error> {
        let Some(remote) = self.remote() else { return Ok(None) };
        let mine: Vec<u64> = self.ranks_of(group, "create")?.into_iter().map(u64::from).collect();
        let mut team = Team::all(self)?;
        team.bridge = self.bridge(&team);
        let theirs = team.swap(remote.upper, &mine)?;
        let ranks: Vec<i32> = theirs.into_iter().map(|rank| rank as i32).collect();
        self.inter_subset(group.clone(), remote.group.include(&ranks)?, group.rank().is_some())
    }

    fn inter_subset(&self, group: Group, distant: Group, present: bool) -> Result<Option<Comm>, Error> {
        let id = self.agree_with_all()?;
        if !present || group.size() == 0 || distant.size() == 0 {
            return Ok(None);
        }
        let parts = Parts {
            id,
            group,
            remote: Some(Remote { group: distant, upper: self.remote().is_some_and(|r| r.upper) }),
            topology: Topology::Undefined,
            attributes: Attributes::default(),
            handler: self.error_handler(),
            name: String::new(),
        };
        Comm::new(self.core(), parts).map(Some)
    }
}
