//! All that the ranks wrote down, brought together.

use mpi_record::{Block, Far, Reader};
use std::collections::BTreeMap;

/// The records of a world's ranks.
pub struct World {
    /// Number of its first process among all of the job.
    pub first: usize,
    /// Where they are.
    pub reader: Reader,
    /// What daemons have told of ranks on other hosts.
    pub far: BTreeMap<usize, FarRank>,
    /// When ranks of this machine ended, by the ticks of the records' clock.
    pub ended: BTreeMap<usize, u64>,
}

/// Records of a rank on another host.
#[derive(Default)]
pub struct FarRank {
    /// As far as they have come.
    pub records: Far,
    /// Nanoseconds by which the clock of its host is ahead of this machine's.
    pub ahead: i64,
}

impl World {
    /// What a rank has written down. What cannot be read is missing, as is what a rank never wrote.
    pub fn block(&self, rank: usize) -> Block {
        match self.far.get(&rank) {
            Some(far) => far.records.block(self.reader.start_nanos(), far.ahead),
            None => match self.ended.get(&rank) {
                Some(ended) => self.reader.block_until(rank, *ended).unwrap_or_default(),
                None => self.reader.block(rank).unwrap_or_default(),
            },
        }
    }

    /// A rank's process has ended, however: its time stands still.
    pub fn has_ended(&mut self, rank: usize) {
        match self.far.get_mut(&rank) {
            Some(far) => far.records.has_ended(),
            None => _ = self.ended.entry(rank).or_insert_with(mpi_record::clock::ticks),
        }
    }
}

/// How a process of the job ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fate {
    /// What it is called.
    pub name: String,
    /// Why its records may lack something; `None` after a good end.
    pub trouble: Option<String>,
}

/// What is known of all ranks.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Gathered {
    /// Every process that recorded, by its number among all of the job.
    pub ranks: Vec<Rank>,
    /// Why the whole is partial, if it is.
    pub partial: Option<String>,
}

/// What is known of one process.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Rank {
    /// Its number among all of the job.
    pub number: usize,
    /// What it is called.
    pub name: String,
    /// What it wrote down.
    pub block: Block,
    /// Messages and bytes to others, by their numbers; `None`: processes of other jobs, or not told apart.
    /// What others got out of this one's memory is among them, as what it put into theirs.
    pub traffic: BTreeMap<Option<usize>, (u64, u64)>,
    /// Of that: bytes that others got out of its memory.
    pub got_by_others: u64,
    /// Bytes that others put into its memory.
    pub put_by_others: u64,
}

impl Rank {
    /// Time in MPI that is neither waiting nor copying: matching and all the rest.
    pub fn matching(&self) -> u64 {
        self.block.inside.saturating_sub(self.block.waiting).saturating_sub(self.block.copying)
    }

    /// Bytes that left its memory: sent, put, and got by others.
    pub fn bytes_out(&self) -> u64 {
        self.block.sent.1 + self.block.direct.0 + self.got_by_others
    }

    /// Bytes that came into its memory: received, got, and put by others.
    pub fn bytes_in(&self) -> u64 {
        self.block.received.1 + self.block.direct.1 + self.put_by_others
    }

    /// Time outside of MPI.
    pub fn computing(&self) -> u64 {
        self.block.elapsed.saturating_sub(self.block.inside)
    }
}

impl Gathered {
    /// Reads everything; `fates` are the processes by number, `ended_by` is what ended the job before
    /// its time.
    pub fn new(worlds: &[World], fates: &[Fate], ended_by: Option<String>) -> Gathered {
        let mut ranks = Vec::new();
        for world in worlds {
            let before = ranks.len();
            for rank in 0..world.reader.ranks() {
                let number = world.first + rank;
                let block = world.block(rank);
                let name = fates.get(number).map_or_else(|| format!("rank {rank}"), |fate| fate.name.clone());
                let traffic = traffic(world, &block);
                ranks.push(Rank { number, name, block, traffic, ..Rank::default() });
            }
            by_others(&mut ranks[before..]);
        }
        let trouble =
            || fates.iter().find_map(|fate| Some(format!("{} {}", fate.name, fate.trouble.as_ref()?)));
        Gathered { ranks, partial: ended_by.or_else(trouble) }
    }

    /// Those that have initialised MPI.
    pub fn recorded(&self) -> impl Iterator<Item = &Rank> {
        self.ranks.iter().filter(|rank| rank.block.pid != 0)
    }

    /// The longest time that a rank was in the job, in nanoseconds.
    pub fn elapsed(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.block.elapsed).max().unwrap_or(0)
    }
}

/// What ranks of a world did to each other's memory shows at both ends. `ranks` are those of the world.
fn by_others(ranks: &mut [Rank]) {
    for at in 0..ranks.len() {
        let (number, block) = (ranks[at].number, std::mem::take(&mut ranks[at].block));
        for got in &block.got {
            if let Some(from) = ranks.get_mut(got.peer as usize) {
                let sum = from.traffic.entry(Some(number)).or_default();
                *sum = (sum.0 + got.messages, sum.1 + got.bytes);
                from.got_by_others += got.bytes;
            }
        }
        for put in &block.put {
            if let Some(to) = ranks.get_mut(put.peer as usize) {
                to.put_by_others += put.bytes;
            }
        }
        ranks[at].block = block;
    }
}

fn traffic(world: &World, block: &Block) -> BTreeMap<Option<usize>, (u64, u64)> {
    let mut traffic: BTreeMap<Option<usize>, (u64, u64)> = BTreeMap::new();
    let mut add = |to: Option<usize>, messages: u64, bytes: u64| {
        let sum = traffic.entry(to).or_default();
        *sum = (sum.0 + messages, sum.1 + bytes);
    };
    for peer in block.peers.iter().chain(&block.put) {
        let own = (peer.peer as usize) < world.reader.ranks();
        add(own.then_some(world.first + peer.peer as usize), peer.messages, peer.bytes);
    }
    if block.others.0 > 0 {
        add(None, block.others.0, block.others.1);
    }
    traffic
}
