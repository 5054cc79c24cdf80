//! The worlds of a job: the one that it began with, and those that were spawned. Which of them are
//! linked, and so end together.

use super::end::Failure;
use super::start::{Common, Rank};
use crate::plan::{Place, Ready, Wanted};
use mpi_pmi::server::Server;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Instant;

/// How far a world has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// All is well.
    Running,
    /// A rank has failed; others that fail at the same time are waited for.
    Settling { until: Instant },
    /// Ranks were told to end; the kill signal, or giving up, comes next.
    Ending { next: Instant, killed: bool },
}

/// One world.
pub struct World {
    /// Its start-up.
    pub server: Server,
    /// What its ranks have in common.
    pub common: Common,
    /// Its ranks among all processes of the job.
    pub slots: Range<usize>,
    /// What it is made of, where it was spawned; the first one is what the plan says.
    pub spawned: Option<Spawned>,
    /// How far it has come.
    pub phase: Phase,
    /// Failures that are not decided yet.
    pub failures: Vec<Failure>,
    /// Who waits for it to have started.
    pub awaited: Option<Awaited>,
}

/// What a spawned world is made of.
pub struct Spawned {
    /// Its programs; of one that no rank of this machine runs, the path is only its name.
    pub programs: Vec<Ready>,
    /// The same for other hosts.
    pub wanted: Vec<Wanted>,
    /// Where its ranks go.
    pub places: Vec<Place>,
    /// Daemons that do not have what they need for it.
    pub unprepared: BTreeSet<u32>,
}

/// A request to spawn that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// Who asks.
    pub by: usize,
    /// Name for the answer.
    pub id: u64,
}

impl World {
    /// A world that is about to start.
    pub fn new(server: Server, common: Common, slots: Range<usize>) -> World {
        let (spawned, phase, failures, awaited) = (None, Phase::Running, Vec::new(), None);
        World { server, common, slots, spawned, phase, failures, awaited }
    }
}

/// What a rank is called: by its rank alone in the first world.
pub fn name(world: usize, rank: u32) -> String {
    match world {
        0 => format!("rank {rank}"),
        world => format!("rank {rank} of spawned world {world}"),
    }
}

/// As [`name`], for the start of a line.
pub fn tag(world: usize, rank: u32) -> String {
    match world {
        0 => rank.to_string(),
        world => format!("{world}:{rank}"),
    }
}

/// Which worlds end together.
///
/// Each process says with which worlds it has communicators. A side of a pair is linked while one of
/// its processes says so; the pair is while both sides are. Between the request to spawn and the
/// first word of a side that side counts as linked.
#[derive(Debug, Default)]
pub struct Links {
    /// World, and the one that it is about to be linked with.
    forming: BTreeSet<(usize, usize)>,
}

impl Links {
    /// `parent` is about to have a child.
    pub fn form(&mut self, parent: usize, child: usize) {
        self.forming.extend([(parent, child), (child, parent)]);
    }

    /// `from` has told of its first link with `to`.
    pub fn formed(&mut self, from: usize, to: usize) {
        self.forming.remove(&(from, to));
    }

    /// The world `world` comes to nothing.
    pub fn forget(&mut self, world: usize) {
        self.forming.retain(|(from, to)| *from != world && *to != world);
    }

    /// All worlds that end with `world`, itself among them, in order.
    pub fn with(&self, world: usize, worlds: &[World], ranks: &[Rank]) -> Vec<usize> {
        let side = |from: usize, to: usize| {
            let said = |slot: usize| ranks.get(slot).is_some_and(|r| r.links.contains(&to));
            self.forming.contains(&(from, to))
                || worlds.get(from).is_some_and(|world| world.slots.clone().any(said))
        };
        let mut found = BTreeSet::from([world]);
        let mut open = vec![world];
        while let Some(from) = open.pop() {
            for to in 0..worlds.len() {
                if !found.contains(&to) && side(from, to) && side(to, from) {
                    found.insert(to);
                    open.push(to);
                }
            }
        }
        found.into_iter().collect()
    }
}
