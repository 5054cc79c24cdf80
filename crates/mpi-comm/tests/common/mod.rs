//! Worlds of simulated processes: an engine and a thread per rank, one clock for all.
#![allow(dead_code, reason = "each test file uses its part")]

use mpi_btl::{Btl, Ep, OpenEnv, PeerInfo};
use mpi_btl_sim::{Net, SimConfig};
use mpi_comm::{Comm, Dest, ErrorHandler, Node, Predefined, Source};
use mpi_datatype::{Datatype, Primitive, RecvBuf, SendBuf};
use mpi_p2p::{Directory, Engine, EngineConfig, Error, Hooks, Limits, SendMode, SpinPolicy, Status, Tag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest time that a test may take before it fails, far above what any needs.
const DEADLINE: Duration = Duration::from_secs(120);

struct Everyone(Net);

impl Directory for Everyone {
    fn lookup(&self, ep: Ep) -> Result<PeerInfo, String> {
        Ok(self.0.peer_info(ep.0 as usize))
    }

    fn identify(&self, _job: &str, world_rank: u32) -> Option<Ep> {
        Some(Ep(world_rank))
    }

    fn node(&self, ep: Ep) -> Result<u64, String> {
        Ok(node_of(ep.0))
    }
}

/// The node of a rank, where there are several: in worlds of an odd size.
fn node_of(rank: u32) -> u64 {
    u64::from(rank % 2)
}

/// Runs `body` as every rank of a world of `size` over a calm network; all have to return.
pub fn world_of(size: u32, body: impl Fn(Predefined) + Send + Sync + 'static) {
    let net = Net::new(1, SimConfig::calm(size as usize));
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
        std::thread::spawn(move || body(predefined(&net, rank, size)))
    };
    let ranks: Vec<_> = (0..size).map(start).collect();
    let begin = Instant::now();
    while !ranks.iter().all(|rank| rank.is_finished()) {
        assert!(begin.elapsed() < DEADLINE, "the ranks do not come to an end");
        std::thread::sleep(Duration::from_millis(1));
    }
    over.store(true, Ordering::Relaxed);
    clock.join().unwrap();
    for (rank, result) in ranks.into_iter().enumerate() {
        result.join().unwrap_or_else(|_| panic!("rank {rank} of {size} failed"));
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
        // The simulated network wakes nobody who sleeps: whoever waits hands over and polls.
        spin: SpinPolicy { spin: Duration::ZERO, yielding: DEADLINE, ..SpinPolicy::new(1, 2) },
        limits: Limits::default(),
        hooks: Hooks::default(),
    });
    engine.set_threads_multiple();
    let node = Node { number: node_of(rank), all_here: size % 2 == 0 };
    let predefined = Predefined::assemble(engine, Ep(rank), size, node, Default::default()).unwrap();
    predefined.world.set_error_handler(ErrorHandler::Return);
    predefined.self_comm.set_error_handler(ErrorHandler::Return);
    predefined
}

static INT: Datatype = Datatype::predefined(Primitive::I32);

/// Sends one number.
pub fn send(comm: &Comm, dest: Dest, tag: i32, value: i32) -> Result<(), Error> {
    // SAFETY: the number lives until the blocking call is over.
    comm.send(dest, tag, unsafe { SendBuf::new((&raw const value).cast(), 1, &INT) }, SendMode::Standard)
}

/// Receives one number.
pub fn receive(comm: &Comm, source: Source, tag: Tag) -> Result<(i32, Status), Error> {
    let mut value = i32::MIN;
    // SAFETY: as above, and nobody else looks at it.
    let status = comm.recv(source, tag, unsafe { RecvBuf::new((&raw mut value).cast(), 1, &INT) })?;
    Ok((value, status))
}

/// Everyone sends its rank to the next and hears that of the one before: proof that a communicator
/// has the members, ranks and context that it should.
pub fn ring(comm: &Comm) {
    let (rank, size) = (comm.rank() as i32, comm.size() as i32);
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    send(comm, Dest::Rank(next), 7, rank * 1000 + size).unwrap();
    let (value, status) = receive(comm, Source::Rank(before), Tag::Is(7)).unwrap();
    assert_eq!(value, before * 1000 + size);
    assert_eq!((status.source, status.tag, status.bytes), (before, 7, 4));
}
