//! Processes of other worlds: numbers for them, and what is known of where they are.
//!
//! The processes of the own world are numbered by their ranks; those of others come behind, in the
//! order in which this process hears of them. A number stays with its process for good, so memory
//! grows by the processes ever met, about a hundred bytes each.

use crate::directory::{Card, node_number};
use mpi_btl::{Ep, PeerInfo};
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// A process: its job (world), and its rank there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Identity {
    pub(crate) job: String,
    pub(crate) rank: u32,
}

/// All processes of other worlds that this one has heard of.
#[derive(Debug)]
pub(crate) struct Foreign {
    /// Size of the own world: the first number that is free.
    first: u32,
    table: RwLock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    jobs: Vec<Job>,
    peers: Vec<Peer>,
    /// By job, as an index, and rank.
    numbers: HashMap<(usize, u32), u32>,
}

#[derive(Debug)]
struct Job {
    id: String,
    /// What it lets this job in with.
    secret: [u8; 32],
}

#[derive(Debug)]
struct Peer {
    job: usize,
    rank: u32,
    card: Card,
}

impl Foreign {
    pub(crate) fn new(own_size: u32) -> Foreign {
        Foreign { first: own_size, table: RwLock::default() }
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process is one of another world.
    pub(crate) fn is_foreign(&self, ep: Ep) -> bool {
        ep.0 >= self.first
    }

    /// The number of a process; a new one for one that is new.
    pub(crate) fn admit(&self, who: &Identity, secret: [u8; 32], card: Card) -> Ep {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let table = &mut *table;
        let job = table.jobs.iter().position(|job| job.id == who.job).unwrap_or_else(|| {
            table.jobs.push(Job { id: who.job.clone(), secret });
            table.jobs.len() - 1
        });
        let number = *table.numbers.entry((job, who.rank)).or_insert_with(|| {
            table.peers.push(Peer { job, rank: who.rank, card });
            table.peers.len() as u32 - 1
        });
        Ep(self.first + number)
    }

    /// Who has a number.
    pub(crate) fn identity(&self, ep: Ep) -> Option<Identity> {
        let table = self.table();
        let peer = table.peers.get(ep.0.checked_sub(self.first)? as usize)?;
        Some(Identity { job: table.jobs.get(peer.job)?.id.clone(), rank: peer.rank })
    }

    /// As the directory of the engine.
    pub(crate) fn lookup(&self, ep: Ep) -> Result<PeerInfo, String> {
        let table = self.table();
        let peer = ep.0.checked_sub(self.first).and_then(|number| table.peers.get(number as usize));
        let Some((peer, job)) = peer.and_then(|peer| Some((peer, table.jobs.get(peer.job)?))) else {
            return Err(format!("process {} is in no world that is known here", ep.0));
        };
        Ok(PeerInfo {
            ep,
            job: job.id.clone(),
            world_rank: peer.rank,
            // Its segment, if it has one, is another.
            node_slot: None,
            host: peer.card.host.clone(),
            addresses: peer.card.addresses.clone(),
            guest_secret: Some(job.secret),
        })
    }

    /// As the directory of the engine.
    pub(crate) fn node(&self, ep: Ep) -> Result<u64, String> {
        let table = self.table();
        let peer = ep.0.checked_sub(self.first).and_then(|number| table.peers.get(number as usize));
        let peer = peer.ok_or_else(|| format!("process {} is in no world that is known here", ep.0))?;
        Ok(node_number(&peer.card.host, peer.card.segment))
    }

    /// As the directory of the engine.
    pub(crate) fn identify(&self, job: &str, rank: u32) -> Option<Ep> {
        let table = self.table();
        let job = table.jobs.iter().position(|known| known.id == job)?;
        table.numbers.get(&(job, rank)).map(|number| Ep(self.first + number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_btl::Addresses;

    fn card(host: &str) -> Card {
        Card { host: host.to_owned(), node_slot: Some(3), segment: 9, addresses: Addresses::new() }
    }

    #[test]
    fn numbers_come_behind_the_own_world_and_stay() {
        let foreign = Foreign::new(4);
        let who = |job: &str, rank| Identity { job: job.to_owned(), rank };
        let a = foreign.admit(&who("a", 0), [1; 32], card("h"));
        let b = foreign.admit(&who("b", 0), [2; 32], card("h"));
        assert_eq!((a, b), (Ep(4), Ep(5)));
        assert_eq!(foreign.admit(&who("a", 0), [1; 32], card("h")), a, "known already");
        assert_eq!(foreign.identity(b), Some(who("b", 0)));
        assert_eq!(foreign.identity(Ep(3)), None);
        assert_eq!(foreign.identify("a", 0), Some(a));
        assert_eq!(foreign.identify("a", 1), None);
        let info = foreign.lookup(b).unwrap();
        assert_eq!((info.world_rank, info.guest_secret, info.node_slot), (0, Some([2; 32]), None));
        assert!(foreign.lookup(Ep(6)).is_err() && foreign.lookup(Ep(0)).is_err());
        assert_eq!(foreign.node(a), foreign.node(b));
        assert!(foreign.node(Ep(6)).is_err());
        assert!(foreign.is_foreign(a) && !foreign.is_foreign(Ep(3)));
    }
}
