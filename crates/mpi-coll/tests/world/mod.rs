//! Many engines in one process over the simulated network, and collectives on them.
#![allow(dead_code, reason = "each test file uses its part")]

use mpi_btl::{Btl, Ep, OpenEnv, PeerInfo};
use mpi_btl_sim::{Net, Rng, SimConfig};
use mpi_coll::{Settings, Team};
use mpi_datatype::{Datatype, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{ContextSpec, Directory, Engine, EngineConfig, Error, Hooks, Limits, RequestId, SpinPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Knows the network, and the node of each rank.
struct Peers(Net, Vec<u64>);

impl Directory for Peers {
    fn lookup(&self, ep: Ep) -> Result<PeerInfo, String> {
        Ok(self.0.peer_info(ep.0 as usize))
    }
    fn identify(&self, _job: &str, world_rank: u32) -> Option<Ep> {
        Some(Ep(world_rank))
    }
    fn node(&self, ep: Ep) -> Result<u64, String> {
        self.1.get(ep.0 as usize).copied().ok_or_else(|| format!("nobody is {}", ep.0))
    }
}

/// Where ranks are.
#[derive(Clone, Copy, Debug)]
pub enum Placement {
    /// All on one node.
    Together,
    /// As many on each of so many nodes as can be.
    Split(usize),
    /// One after the other on so many nodes.
    RoundRobin(usize),
    /// Each on its own.
    Apart,
}

impl Placement {
    pub fn draw(rng: &mut Rng) -> Placement {
        let nodes = 2 + rng.below(3) as usize;
        [Placement::Together, Placement::Split(nodes), Placement::RoundRobin(nodes), Placement::Apart]
            [rng.below(4) as usize]
    }

    pub fn nodes(self, size: usize) -> Vec<u64> {
        let of = |rank: usize| match self {
            Placement::Together => 0,
            Placement::Split(nodes) => rank * nodes / size,
            Placement::RoundRobin(nodes) => rank % nodes,
            Placement::Apart => rank,
        };
        (0..size).map(|rank| of(rank) as u64).collect()
    }

    /// Ranks follow each other on every node, so that leaders keep the order of operands.
    pub fn in_order(self, size: usize) -> bool {
        self.nodes(size).is_sorted()
    }
}

/// One engine per rank, and a team of all.
pub struct World {
    pub net: Net,
    pub engines: Vec<Arc<Engine>>,
    pub teams: Vec<Team>,
}

pub const U32: &Datatype = &Datatype::predefined(Primitive::U32);
pub const F64: &Datatype = &Datatype::predefined(Primitive::F64);

impl World {
    pub fn new(size: usize, seed: u64, config: SimConfig, settings: &Settings) -> World {
        World::placed(size, seed, config, settings, Placement::Together)
    }

    pub fn placed(
        size: usize,
        seed: u64,
        config: SimConfig,
        settings: &Settings,
        placement: Placement,
    ) -> World {
        let nodes = placement.nodes(size);
        let net = Net::new(seed, config);
        let env = OpenEnv {
            job: "test".to_owned(),
            secret: [0; 32],
            world_rank: 0,
            world_size: size as u32,
            node_slot: None,
            segment: None,
            multihost: false,
            settings: |_| None,
        };
        let (mut engines, mut teams) = (Vec::new(), Vec::new());
        let peers: Arc<[Ep]> = (0..size as u32).map(Ep).collect();
        for rank in 0..size {
            let engine = Engine::new(EngineConfig {
                me: Ep(rank as u32),
                backends: vec![("sim", net.backend(rank).open(&env).unwrap())],
                directory: Arc::new(Peers(net.clone(), nodes.clone())),
                // Nobody wakes a sleeper here: the clock is moved by the test.
                spin: SpinPolicy { yielding: std::time::Duration::from_secs(3600), ..SpinPolicy::new(1, 2) },
                limits: Limits::default(),
                hooks: Hooks::default(),
            });
            let spec =
                ContextSpec { id: 1, rank: rank as u32, name: "world".to_owned(), peers: peers.clone() };
            let context = engine.add_context(spec).unwrap();
            let team = Team::new(context, Arc::new(settings.clone()));
            teams.push(match placement {
                Placement::Together => team,
                _ => team.across_nodes(),
            });
            engines.push(engine);
        }
        World { net, engines, teams }
    }

    pub fn size(&self) -> usize {
        self.engines.len()
    }

    /// Runs `body` as every rank, each on a thread of its own, while the network's clock is moved.
    ///
    /// # Panics
    /// With `what` when a rank panics; ends the process when nothing moves any more.
    pub fn threads(&self, what: &str, body: impl Fn(&Engine, &Team, usize) + Sync) {
        const MAX_IDLE_TURNS: usize = 20_000_000;
        let failed = AtomicBool::new(false);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for r in 0..self.size() {
                let (body, done, failed) = (&body, &done, &failed);
                scope.spawn(move || {
                    let run = || {
                        body(&self.engines[r], &self.teams[r], r);
                        // The last message to others may still be on its way out.
                        self.engines[r].progress();
                    };
                    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                    failed.fetch_or(result.is_err(), Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
            let mut idle = 0;
            while done.load(Ordering::SeqCst) < self.size() {
                idle = if self.net.advance() { 0 } else { idle + 1 };
                if failed.load(Ordering::SeqCst) || idle == MAX_IDLE_TURNS {
                    // The others wait for the one that failed, for ever.
                    eprintln!("{}: {what}", if idle == MAX_IDLE_TURNS { "stuck" } else { "a rank failed" });
                    std::process::abort();
                }
                std::thread::yield_now();
            }
        });
    }

    /// Starts something on every rank, in the order of `ranks`, and runs until all of it is complete.
    pub fn all(
        &self,
        mut start: impl FnMut(&Engine, &Team, usize) -> Result<RequestId, Error>,
    ) -> Vec<Result<(), Error>> {
        let ids = (0..self.size()).map(|r| start(&self.engines[r], &self.teams[r], r)).collect();
        self.finish(ids)
    }

    /// Runs until all requests are complete.
    ///
    /// # Panics
    /// When nothing moves any more and some are not.
    pub fn finish(&self, ids: Vec<Result<RequestId, Error>>) -> Vec<Result<(), Error>> {
        let mut results: Vec<Option<Result<(), Error>>> =
            ids.iter().map(|id| id.as_ref().err().map(|e| Err(e.clone()))).collect();
        let mut idle = 0;
        while results.iter().any(Option::is_none) {
            for (rank, id) in ids.iter().enumerate() {
                self.engines[rank].progress();
                if let (None, Ok(id)) = (&results[rank], id) {
                    results[rank] = self.engines[rank]
                        .test(*id)
                        .map(|s| s.map(|_| ()))
                        .transpose()
                        .map(|r| r.map(|_| ()));
                }
            }
            idle = if self.net.advance() { 0 } else { idle + 1 };
            assert!(idle < 100, "stuck: {results:?}");
        }
        results.into_iter().flatten().collect()
    }
}

/// `values` to send.
pub fn send(values: &[u32]) -> SendBuf<'_> {
    // SAFETY: a slice of `u32`, outlived by the operation in these tests.
    unsafe { SendBuf::new(values.as_ptr().cast(), values.len(), U32) }
}

/// Room in `values`.
pub fn recv(values: &mut [u32]) -> RecvBuf<'_> {
    // SAFETY: as for `send`; nobody looks at it meanwhile.
    unsafe { RecvBuf::new(values.as_mut_ptr().cast(), values.len(), U32) }
}

/// Distinct values of rank `r`.
pub fn values(r: usize, count: usize) -> Vec<u32> {
    (0..count).map(|i| (r * 7919 + i * 31 + 3) as u32).collect()
}
