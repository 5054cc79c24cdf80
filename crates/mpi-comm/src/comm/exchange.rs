//! What the members of a communicator tell each other while they make another one: small blocking
//! exchanges on the management plane.

use super::Comm;
use crate::agreement::{Action, Agreement, Peer, Side, Tree};
use crate::dynamic::Stream;
use crate::limits::GROUP_BLOB_MAX_BYTES;
use crate::pending::Link;
use crate::words;
use mpi_datatype::{RecvBuf, SendBuf};
use mpi_p2p::{Context, Error, ErrorClass, SendMode, Source, Tag};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Members of a communicator that do something together: all of it, or those of a group.
pub(crate) struct Team<'a> {
    pub(crate) comm: &'a Comm,
    context: Arc<Context>,
    /// Rank in the communicator of each member; `None` when all are members in rank order.
    ranks: Option<Vec<u32>>,
    /// Position of this process among the members.
    pub(crate) index: u32,
    pub(crate) size: u32,
    tag: i32,
    /// The way to the other team's root, for the root of a team that agrees with another.
    pub(crate) bridge: Option<Bridge>,
}

/// A way between the roots of two teams.
pub(crate) enum Bridge {
    /// In a communicator that has both.
    Context { context: Arc<Context>, rank: u32, tag: i32 },
    /// A connection of its own.
    Stream(Stream),
}

impl<'a> Team<'a> {
    /// All members of a communicator's local group. Collective: takes the next operation's tag.
    pub(crate) fn all(comm: &'a Comm) -> Result<Team<'a>, Error> {
        let tag = comm.next_operation();
        Ok(Team {
            comm,
            context: comm.management_context()?.clone(),
            ranks: None,
            index: comm.rank(),
            size: comm.size(),
            tag,
            bridge: None,
        })
    }

    /// All members, with `root` at index 0. Collective as [`Team::all`].
    pub(crate) fn rooted(comm: &'a Comm, root: u32) -> Result<Team<'a>, Error> {
        let team = Team::all(comm)?;
        let size = team.size;
        let ranks = (0..size).map(|index| (index + root) % size).collect();
        Ok(Team { ranks: Some(ranks), index: (team.index + size - root) % size, ..team })
    }

    /// Some members, this process being the one at `index`, under a tag of the user's.
    pub(crate) fn some(comm: &'a Comm, ranks: Vec<u32>, index: u32, tag: i32) -> Result<Team<'a>, Error> {
        Ok(Team {
            comm,
            context: comm.management_context()?.clone(),
            size: ranks.len() as u32,
            ranks: Some(ranks),
            index,
            // Apart from the operations of the whole communicator.
            tag: 0x4000_0000 | tag & 0x3FFF_FFFF,
            bridge: None,
        })
    }

    pub(crate) fn tag(&self) -> i32 {
        self.tag
    }

    fn way(&self, peer: Peer) -> Result<(&Arc<Context>, u32, i32), Error> {
        match (peer, &self.bridge, &self.ranks) {
            (Peer::Member(index), _, None) => Ok((&self.context, index, self.tag)),
            (Peer::Member(index), _, Some(ranks)) => match ranks.get(index as usize) {
                Some(rank) => Ok((&self.context, *rank, self.tag)),
                None => Err(broken("a member that is none")),
            },
            (Peer::Bridge, Some(Bridge::Context { context, rank, tag }), _) => Ok((context, *rank, *tag)),
            (Peer::Bridge, _, _) => Err(broken("no way to the other group")),
        }
    }

    pub(crate) fn send(&self, to: Peer, words: &[u64]) -> Result<(), Error> {
        let bytes = words::to_bytes(words);
        if let (Peer::Bridge, Some(Bridge::Stream(stream))) = (to, &self.bridge) {
            return stream.send(&bytes);
        }
        let (context, rank, tag) = self.way(to)?;
        self.comm.engine().send(context, rank, tag, SendBuf::packed(&bytes), SendMode::Standard)
    }

    /// Receives at most `words` words.
    pub(crate) fn receive(&self, from: Peer, words: usize) -> Result<Vec<u64>, Error> {
        if let (Peer::Bridge, Some(Bridge::Stream(stream))) = (from, &self.bridge) {
            let beyond = self.comm.core().beyond.as_ref().ok_or_else(|| broken("no other worlds here"))?;
            return Ok(words::from_bytes(&stream.receive(beyond)?));
        }
        let (context, rank, tag) = self.way(from)?;
        let mut bytes = vec![0; words * 8];
        let buf = RecvBuf::packed(&mut bytes);
        let status = self.comm.engine().recv(context, Source::Rank(rank), Tag::Is(tag), buf)?;
        bytes.truncate(status.bytes as usize);
        Ok(words::from_bytes(&bytes))
    }

    /// The ways to all that this process has a link with in a tree.
    pub(crate) fn links(&self, tree: &Tree) -> Result<Vec<Link>, Error> {
        let link = |peer: &Peer| {
            let (context, rank, tag) = self.way(*peer)?;
            Ok(Link { peer: *peer, context: context.clone(), rank, tag })
        };
        tree.parent().iter().chain(tree.children()).map(link).collect()
    }

    /// Agrees on a context id, which is reserved when this returns.
    pub(crate) fn agree(&self, tree: Tree) -> Result<u32, Error> {
        let mut agreement = Agreement::new(self.comm.core().ids.clone(), tree);
        loop {
            match agreement.next() {
                Action::Send(to, words) => {
                    // The ids offered are free here; nothing may be left of those who had them.
                    self.comm.engine().forget_dropped();
                    self.send(to, &words)?;
                }
                Action::Receive(from, words) => agreement.received(&self.receive(from, words)?),
                Action::Done(id) => return Ok(id),
                Action::Exhausted => return Err(self.comm.attach(exhausted())),
            }
        }
    }

    /// The words of all members, in their order; everyone gives the same number. Up a binomial
    /// tree, in which the members below index `i` are those right after it, and down again.
    pub(crate) fn gather_to_all(&self, mine: &[u64]) -> Result<Vec<u64>, Error> {
        let each = mine.len();
        let mut all = mine.to_vec();
        let mut bit = 1;
        let mut parent = None;
        let mut children = Vec::new();
        while bit < self.size {
            if self.index & bit != 0 {
                parent = Some(Peer::Member(self.index & !bit));
                break;
            }
            let child = self.index | bit;
            if child < self.size {
                let below = bit.min(self.size - child) as usize;
                let words = self.receive(Peer::Member(child), below * each)?;
                if words.len() != below * each {
                    return Err(broken("an exchange came short"));
                }
                all.extend(words);
                children.push(Peer::Member(child));
            }
            bit <<= 1;
        }
        if let Some(parent) = parent {
            self.send(parent, &all)?;
            all = self.receive(parent, self.size as usize * each)?;
            if all.len() != self.size as usize * each {
                return Err(broken("an exchange came short"));
            }
        }
        for child in children.into_iter().rev() {
            self.send(child, &all)?;
        }
        Ok(all)
    }

    /// What the member at index 0 says; others give how many words that are at most.
    pub(crate) fn tell_from_root(&self, words: Vec<u64>, most: usize) -> Result<Vec<u64>, Error> {
        let tree = Tree::new(self.index, self.size, Side::Alone);
        let words = match tree.parent() {
            Some(parent) => self.receive(parent, most)?,
            None => words,
        };
        for child in tree.children().iter().rev() {
            self.send(*child, &words)?;
        }
        Ok(words)
    }

    /// What the other group's members say together, for what this group's say: the roots exchange
    /// the words over the bridge, the upper one first, and each tells its own group.
    pub(crate) fn swap(&self, upper: bool, words: &[u64]) -> Result<Vec<u64>, Error> {
        let (mut count, mut theirs) = (Vec::new(), Vec::new());
        if self.index == 0 {
            let length = [words.len() as u64];
            if upper {
                self.send(Peer::Bridge, &length)?;
                self.send(Peer::Bridge, words)?;
            }
            count = self.receive(Peer::Bridge, 1)?;
            let announced = count.first().copied().unwrap_or(0);
            if announced > GROUP_BLOB_MAX_BYTES / 8 {
                return Err(broken("the other group says too much"));
            }
            theirs = self.receive(Peer::Bridge, announced as usize)?;
            if !upper {
                self.send(Peer::Bridge, &length)?;
                self.send(Peer::Bridge, words)?;
            }
        }
        let count = self.tell_from_root(count, 1)?.first().copied().unwrap_or(0) as usize;
        self.tell_from_root(theirs, count)
    }
}

pub(crate) fn exhausted() -> Error {
    let most = crate::limits::MAX_COMMUNICATORS;
    Error::new(
        ErrorClass::Other,
        "communicator creation",
        format!("no context id is free on all processes; a process has at most {most} communicators"),
    )
}

pub(crate) fn broken(detail: &str) -> Error {
    Error::new(ErrorClass::Intern, "communicator creation", detail)
}

/// The rank that a barrier waits for at the moment.
#[derive(Default)]
pub(crate) struct WaitsFor(AtomicU32);

impl WaitsFor {
    pub(crate) fn get(&self) -> Option<u32> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    fn set(&self, peer: Option<u32>) {
        self.0.store(peer.map_or(0, |peer| peer + 1), Ordering::Relaxed);
    }
}

impl Comm {
    /// Waits until all members are here: up a tree and down again. Collective. Members that are gone,
    /// or never came, are not waited for, and neither is what is behind them in the tree.
    pub(crate) fn barrier_of_tree(&self, waits_for: &WaitsFor) -> Result<(), Error> {
        mpi_p2p::within("finalize");
        let team = Team::all(self)?;
        let tree = Tree::new(team.index, team.size, Side::Alone);
        let hear = |peer: &Peer| {
            if let Peer::Member(rank) = peer {
                waits_for.set(Some(*rank));
            }
            if_there(team.receive(*peer, 0).map(drop))
        };
        tree.children().iter().try_for_each(hear)?;
        if let Some(parent) = tree.parent() {
            if_there(team.send(parent, &[]))?;
            hear(&parent)?;
        }
        waits_for.set(None);
        tree.children().iter().try_for_each(|child| if_there(team.send(*child, &[])))
    }
}

/// A peer that is gone is no error to those who only wanted to wait for it.
fn if_there(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(error) if matches!(error.class, ErrorClass::ProcFailed | ErrorClass::Revoked) => Ok(()),
        other => other,
    }
}
