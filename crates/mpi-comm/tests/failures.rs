//! Agreements and revocations of real engines over the simulated network, where ranks die at any step.
//!
//! One thread runs all: everything that happens is drawn from a seed. `MPI_FT_SEEDS=n` runs so many.

use mpi_btl::{Btl, Ep, OpenEnv, PeerInfo};
use mpi_btl_sim::{Net, SimConfig};
use mpi_comm::{Agreed, Comm, Dest, ErrorHandler, Node, PendingAgreement, Predefined, Source};
use mpi_datatype::{Datatype, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{
    Directory, Engine, EngineConfig, ErrorClass, Hooks, Limits, RequestId, SendMode, SpinPolicy, Tag,
};
use std::sync::Arc;

const AGREEMENTS: usize = 3;

struct Everyone(Net);

impl Directory for Everyone {
    fn lookup(&self, ep: Ep) -> Result<PeerInfo, String> {
        Ok(self.0.peer_info(ep.0 as usize))
    }

    fn identify(&self, _job: &str, world_rank: u32) -> Option<Ep> {
        Some(Ep(world_rank))
    }
}

/// A drawn course of events.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

struct World {
    net: Net,
    ranks: Vec<Predefined>,
    living: Vec<usize>,
    /// Who has not heard of whose death.
    unaware: Vec<(usize, usize)>,
    dice: Dice,
}

impl World {
    fn new(seed: u64, size: usize) -> World {
        let net = Net::new(seed, SimConfig::rough(size));
        let rank = |rank: usize| {
            let env = OpenEnv {
                job: Net::JOB.to_owned(),
                secret: [0; 32],
                world_rank: rank as u32,
                world_size: size as u32,
                node_slot: None,
                segment: None,
                multihost: false,
                settings: |_| None,
            };
            let me = Ep(rank as u32);
            let engine = Engine::new(EngineConfig {
                me,
                backends: vec![("sim", net.backend(rank).open(&env).unwrap())],
                directory: Arc::new(Everyone(net.clone())),
                spin: SpinPolicy::new(8, 1),
                limits: Limits { recovery: true, ..Limits::default() },
                hooks: Hooks::default(),
            });
            let node = Node { number: 0, all_here: true };
            let made = Predefined::assemble(engine, me, size as u32, node, Default::default()).unwrap();
            made.world.set_error_handler(ErrorHandler::Return);
            made
        };
        let ranks = (0..size).map(rank).collect();
        World {
            net,
            ranks,
            living: (0..size).collect(),
            unaware: Vec::new(),
            dice: Dice(seed.wrapping_mul(2).wrapping_add(1)),
        }
    }

    fn world(&self, rank: usize) -> &Comm {
        &self.ranks[rank].world
    }

    /// A while goes by; perhaps somebody dies, as long as more than one lives.
    fn step(&mut self, deaths_left: &mut usize) {
        for rank in &self.living {
            self.world(*rank).engine().progress();
        }
        self.net.advance();
        if !self.unaware.is_empty() && self.dice.below(4) == 0 {
            // The launcher tells everybody, as it comes to it.
            let at = self.dice.below(self.unaware.len());
            let (rank, dead) = self.unaware.swap_remove(at);
            self.world(rank).engine().peer_died(Ep(dead as u32), String::from("killed"));
        }
        if *deaths_left > 0 && self.living.len() > 1 && self.dice.below(12) == 0 {
            *deaths_left -= 1;
            let at = self.dice.below(self.living.len());
            let rank = self.living.swap_remove(at);
            self.net.kill(rank);
            self.unaware.retain(|(who, _)| *who != rank);
            self.unaware.extend(self.living.iter().map(|living| (*living, rank)));
        }
    }
}

fn seeds() -> u64 {
    std::env::var("MPI_FT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

#[test]
fn survivors_agree_over_a_rough_network() {
    for seed in 0..seeds() {
        let size = 2 + (seed % 5) as usize;
        let mut world = World::new(seed, size);
        let mut deaths = (seed / 5 % 4) as usize;
        let mut running: Vec<Option<PendingAgreement>> = (0..size).map(|_| None).collect();
        let mut outcomes: Vec<Vec<Agreed>> = vec![Vec::new(); size];
        let mut steps = 0;
        while world.living.iter().any(|rank| outcomes[*rank].len() < AGREEMENTS) {
            steps += 1;
            assert!(steps < 200_000, "seed {seed}: {:?} wait for ever", world.living);
            world.step(&mut deaths);
            for rank in world.living.clone() {
                let pending = match running[rank].take() {
                    Some(pending) => pending,
                    None if outcomes[rank].len() == AGREEMENTS || world.dice.below(3) > 0 => continue,
                    None => world.world(rank).iagree(!(1 << rank)).unwrap(),
                };
                match pending.test().unwrap() {
                    Ok(agreed) => outcomes[rank].push(agreed),
                    Err(pending) => running[rank] = Some(pending),
                }
            }
        }
        for number in 0..AGREEMENTS {
            let mut all = outcomes.iter().filter_map(|outcomes| outcomes.get(number));
            let first = all.next().expect("somebody lives");
            assert!(all.all(|other| other == first), "seed {seed}: {outcomes:?}");
            for rank in &world.living {
                assert!(first.flags & 1 << rank == 0, "seed {seed}: rank {rank} was not heard");
                assert!(!first.failed.contains(&(*rank as u32)), "seed {seed}: rank {rank} lives");
            }
        }
        // What the dead ones started is dropped with them.
        running.into_iter().flatten().for_each(std::mem::forget);
    }
}

static BYTE: Datatype = Datatype::predefined(Primitive::U8);

/// Large and small messages both ways, and receives that nothing comes for, until somebody revokes.
#[test]
fn a_revoked_communicator_lets_nobody_wait() {
    for seed in 0..seeds() {
        let size = 2 + (seed % 4) as usize;
        let sizes = [1, 5000, 300_000];
        let data: Vec<Vec<u8>> = sizes.iter().map(|len| vec![seed as u8; *len]).collect();
        let mut rooms: Vec<Vec<u8>> = Vec::new();
        // Behind the memory, so that its engines end first: what a dead one had begun may still be under way.
        let mut world = World::new(seed, size);
        let mut deaths = (seed / 4 % 2) as usize;
        let mut open: Vec<(usize, RequestId)> = Vec::new();
        for rank in 0..size {
            let comm = world.world(rank).clone();
            for peer in (0..size).filter(|peer| *peer != rank) {
                for (tag, data) in data.iter().enumerate() {
                    // SAFETY: the data lives until the end of this round.
                    let buf = unsafe { SendBuf::new(data.as_ptr(), data.len(), &BYTE) };
                    let mode = if tag == 0 { SendMode::Synchronous } else { SendMode::Standard };
                    open.push((rank, comm.isend(Dest::Rank(peer as i32), tag as i32, buf, mode).unwrap()));
                }
                for source in [Source::Rank(peer as i32), Source::Any] {
                    rooms.push(vec![0; 300_000]);
                    let room = rooms.last_mut().expect("there is one");
                    // SAFETY: the room lives until the end of this round; moving the vector leaves it where it is.
                    let buf = unsafe { RecvBuf::new(room.as_mut_ptr(), room.len(), &BYTE) };
                    let tag = if world.dice.below(2) == 0 { 2 } else { 9 };
                    open.push((rank, comm.irecv(source, Tag::Is(tag), buf).unwrap()));
                }
            }
        }
        for _ in 0..world.dice.below(40) {
            world.step(&mut deaths);
        }
        let by = world.living[0];
        world.world(by).revoke().unwrap();
        // It may die at once, but not before anybody has its word: nobody can know of one that never left.
        let mut steps = 0;
        while world.living.len() > 1
            && !world.living.iter().any(|rank| *rank != by && world.world(*rank).is_revoked())
        {
            steps += 1;
            assert!(steps < 20_000, "seed {seed}: nobody hears of the revocation");
            world.step(&mut 0);
        }
        while !open.is_empty() {
            steps += 1;
            world.step(&mut deaths);
            let living = world.living.clone();
            open.retain(|(rank, id)| {
                let engine = world.ranks[*rank].world.engine();
                if !living.contains(rank) {
                    return false;
                }
                assert!(steps < 20_000, "seed {seed}: {:?} of rank {rank} hangs", engine.describe(*id));
                match engine.test(*id) {
                    Ok(done) => done.is_none(),
                    Err(e) => {
                        let expected =
                            [ErrorClass::Revoked, ErrorClass::ProcFailed, ErrorClass::ProcFailedPending];
                        assert!(expected.contains(&e.class), "seed {seed}: {e}");
                        false
                    }
                }
            });
        }
        for rank in &world.living {
            assert!(world.world(*rank).is_revoked(), "seed {seed}: rank {rank} has not heard of it");
        }
    }
}
