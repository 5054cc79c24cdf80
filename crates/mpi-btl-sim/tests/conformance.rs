//! The simulator passes what every transport must pass, calm and rough, for many seeds.

use mpi_btl_sim::conformance::{self, End, Harness};
use mpi_btl_sim::{Net, SimConfig};

struct Sim {
    seed: u64,
    config: SimConfig,
    net: Net,
}

impl Sim {
    fn new(seed: u64, config: SimConfig) -> Sim {
        Sim { seed, config, net: Net::new(seed, SimConfig { endpoints: 0, ..config }) }
    }
}

impl Harness for Sim {
    fn make(&mut self, n: usize) -> Vec<End> {
        self.seed += 1;
        self.net = Net::new(self.seed, SimConfig { endpoints: n, ..self.config });
        let end = |i| {
            let (tx, rx) = self.net.endpoint(i);
            End { tx, rx, info: self.net.peer_info(i) }
        };
        (0..n).map(end).collect()
    }
    fn idle(&mut self) {
        self.net.advance();
    }
    fn kill(&mut self, index: usize, end: End) -> bool {
        self.net.kill(index);
        drop(end);
        true
    }
    fn garbage(&mut self, from: usize, to: usize) -> bool {
        self.net.garbage(from, to);
        true
    }
}

#[test]
fn calm() {
    let config = SimConfig { queue_bytes: 1 << 20, ..SimConfig::calm(0) };
    conformance::run_all(&mut Sim::new(0, config));
}

#[test]
fn rough() {
    for seed in 0..15 {
        conformance::run_all(&mut Sim::new(seed * 1000, SimConfig::rough(0)));
    }
}

#[test]
fn without_remote_memory_and_with_long_frames() {
    let mut config = SimConfig::rough(0);
    config.caps.get = false;
    config.caps.frame_limit = 4 << 20;
    conformance::run_all(&mut Sim::new(77, config));
}
