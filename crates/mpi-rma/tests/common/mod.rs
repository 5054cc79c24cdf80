//! Worlds of simulated processes: an engine and a thread per rank, one clock for all. Nothing is shared, so that
//! everything goes by messages.
#![allow(dead_code, reason = "each test file uses its part")]

use mpi_btl::{Btl, Ep, OpenEnv, PeerInfo};
use mpi_btl_sim::{Net, SimConfig};
use mpi_comm::{Comm, ErrorHandler, Node, Predefined};
use mpi_p2p::{Directory, Engine, EngineConfig, Hooks, Limits, SpinPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Worlds of more ranks than this do without a thread per rank that serves it while it computes.
const HELPED_RANKS_MAX: u32 = 64;

/// Longest time that a test may take before it fails, far above what any needs.
const DEADLINE: Duration = Duration::from_secs(240);

struct Everyone(Net);

impl Directory for Everyone {
    fn lookup(&self, ep: Ep) -> Result<PeerInfo, String> {
        Ok(self.0.peer_info(ep.0 as usize))
    }

    fn identify(&self, _job: &str, world_rank: u32) -> Option<Ep> {
        Some(Ep(world_rank))
    }
}

/// Runs `body` as every rank of a world of `size`; all have to return. With the world each gets the network.
pub fn world_of(seed: u64, config: SimConfig, size: u32, body: impl Fn(Comm, Net) + Send + Sync + 'static) {
    let net = Net::new(seed, config);
    let over = Arc::new(AtomicBool::new(false));
    let clock = {
        let (net, over) = (net.clone(), over.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                if !net.advance() {
                    std::thread::sleep(Duration::from_micros(20));
                }
                std::thread::yield_now();
            }
        })
    };
    let body = Arc::new(body);
    let start = |rank| {
        let (net, body) = (net.clone(), body.clone());
        std::thread::spawn(move || body(predefined(&net, rank, size).world, net))
    };
    let ranks: Vec<_> = (0..size).map(start).collect();
    let begin = Instant::now();
    while !ranks.iter().all(|rank| rank.is_finished()) {
        assert!(begin.elapsed() < DEADLINE, "the ranks do not come to an end (seed {seed})");
        std::thread::sleep(Duration::from_millis(1));
    }
    over.store(true, Ordering::Relaxed);
    clock.join().unwrap();
    for (rank, result) in ranks.into_iter().enumerate() {
        result.join().unwrap_or_else(|_| panic!("rank {rank} of {size} failed (seed {seed})"));
    }
}

fn predefined(net: &Net, rank: u32, size: u32) -> Predefined {
    let env = OpenEnv {
        job: Net::JOB.to_owned(),
        secret: [0; 32],
        world_rank: rank,
        world_size: size,
        node_slot: None,
        segment: None,
        multihost: false,
        settings: |_| None,
    };
    let engine = Engine::new(EngineConfig {
        me: Ep(rank),
        backends: vec![("sim", net.backend(rank as usize).open(&env).unwrap())],
        directory: Arc::new(Everyone(net.clone())),
        // Of thousands of threads those run that have something to do.
        spin: SpinPolicy { spin: Duration::ZERO, yielding: Duration::ZERO, ..SpinPolicy::new(1, 2) },
        limits: Limits { helper: size <= HELPED_RANKS_MAX, ..Limits::default() },
        hooks: Hooks::default(),
    });
    if size <= HELPED_RANKS_MAX {
        engine.set_threads_multiple();
    }
    let node = Node { number: u64::from(rank), all_here: size == 1 };
    let predefined = Predefined::assemble(engine, Ep(rank), size, node, Default::default()).unwrap();
    predefined.world.set_error_handler(ErrorHandler::Return);
    predefined
}

/// A small generator of numbers (SplitMix64): the same on every rank from the same seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}
