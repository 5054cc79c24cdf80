//! Several engines in one process, over the simulated network.
#![allow(dead_code, reason = "each test uses a part")]

pub mod queue;

use mpi_btl::{BtlRx, BtlTx, Ep, Opened, PeerInfo};
use mpi_btl_sim::{Net, SimConfig};
use mpi_datatype::{Datatype, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{
    Blocked, Context, ContextSpec, Directory, Engine, EngineConfig, Fatal, Hooks, Limits, SpinPolicy,
};
use std::sync::{Arc, Mutex};

pub struct Names(pub Net);

impl Directory for Names {
    fn lookup(&self, ep: Ep) -> Result<PeerInfo, String> {
        Ok(self.0.peer_info(ep.0 as usize))
    }
    fn identify(&self, _job: &str, world_rank: u32) -> Option<Ep> {
        Some(Ep(world_rank))
    }
}

/// Engines that know each other, and what their hooks were told.
pub struct World {
    pub net: Net,
    pub engines: Vec<Arc<Engine>>,
    pub fatal: Arc<Mutex<Vec<(usize, Fatal)>>>,
    pub blocked: Arc<Mutex<Vec<Blocked>>>,
}

impl World {
    pub fn new(seed: u64, config: SimConfig, limits: Limits) -> World {
        let net = Net::new(seed, config);
        World::over(net.clone(), config.endpoints, limits, |i| net.endpoint(i))
    }

    /// Engines over queues that wake a sleeper at once.
    pub fn queues(n: usize, limits: Limits) -> World {
        World::over_queues(queue::Queues::new(n), n, limits)
    }

    pub fn over_queues(mut queues: queue::Queues, n: usize, limits: Limits) -> World {
        World::over(Net::new(0, SimConfig::calm(n)), n, limits, |i| queues.endpoint(i))
    }

    /// Engines at some of `n` endpoints.
    pub fn of(
        n: usize,
        at: &[usize],
        limits: Limits,
        endpoint: impl FnMut(usize) -> (Box<dyn BtlTx>, Box<dyn BtlRx>),
    ) -> World {
        World::at(Net::new(0, SimConfig::calm(n)), at, limits, endpoint)
    }

    fn over(
        net: Net,
        n: usize,
        limits: Limits,
        endpoint: impl FnMut(usize) -> (Box<dyn BtlTx>, Box<dyn BtlRx>),
    ) -> World {
        World::at(net, &(0..n).collect::<Vec<_>>(), limits, endpoint)
    }

    fn at(
        net: Net,
        at: &[usize],
        limits: Limits,
        mut endpoint: impl FnMut(usize) -> (Box<dyn BtlTx>, Box<dyn BtlRx>),
    ) -> World {
        let fatal = Arc::new(Mutex::new(Vec::new()));
        let blocked = Arc::new(Mutex::new(Vec::new()));
        let engine = |i: usize| {
            let (tx, rx) = endpoint(i);
            let (told, waits) = (fatal.clone(), blocked.clone());
            let hooks = Hooks {
                on_blocked: Box::new(move |b| waits.lock().unwrap().push(b.clone())),
                on_fatal: Box::new(move |f| told.lock().unwrap().push((i, f.clone()))),
            };
            Engine::new(EngineConfig {
                me: Ep(i as u32),
                backends: vec![("test", Opened { tx, rx, address: None })],
                directory: Arc::new(Names(net.clone())),
                spin: SpinPolicy::new(8, 1),
                limits,
                hooks,
            })
        };
        let engines = at.iter().copied().map(engine).collect();
        World { net, engines, fatal, blocked }
    }

    /// Everybody in one communicator, rank = endpoint.
    pub fn context(&self, at: usize, id: u32) -> Arc<Context> {
        let peers: Vec<Ep> = (0..self.engines.len() as u32).map(Ep).collect();
        let spec = ContextSpec { id, rank: at as u32, name: "world".into(), peers: peers.into() };
        self.engines[at].add_context(spec).unwrap()
    }

    /// The context of `n` endpoints at the engine in place `i`, which is that of rank `2 * i`.
    pub fn context_of(&self, i: usize, id: u32, n: u32) -> Arc<Context> {
        let peers: Vec<Ep> = (0..n).map(Ep).collect();
        let spec = ContextSpec { id, rank: 2 * i as u32, name: "world".into(), peers: peers.into() };
        self.engines[i].add_context(spec).unwrap()
    }

    pub fn contexts(&self, id: u32) -> Vec<Arc<Context>> {
        (0..self.engines.len()).map(|at| self.context(at, id)).collect()
    }

    /// Lets everything happen that can.
    pub fn settle(&self) {
        let mut idle = 0;
        for _ in 0..1_000_000 {
            for e in &self.engines {
                e.progress();
            }
            idle = if self.net.advance() { 0 } else { idle + 1 };
            if idle > 4 {
                return;
            }
        }
        panic!("the network never comes to rest");
    }
}

pub static U8: Datatype = Datatype::predefined(Primitive::U8);

pub fn send_of(bytes: &[u8]) -> SendBuf<'_> {
    // SAFETY: the tests keep the bytes until the operation is complete.
    unsafe { SendBuf::new(bytes.as_ptr(), bytes.len(), &U8) }
}

pub fn recv_of(bytes: &mut [u8]) -> RecvBuf<'_> {
    // SAFETY: as above.
    unsafe { RecvBuf::new(bytes.as_mut_ptr(), bytes.len(), &U8) }
}
