//! The shared-memory backend passes what every transport must pass, with and without
//! cross-process copy.

use mpi_btl::{Btl, Ep, OpenEnv, PeerInfo};
use mpi_btl_shm::{CROSS_COPY_SETTING, Shm};
use mpi_btl_sim::conformance::{self, End, Harness};
use std::os::fd::{AsRawFd, OwnedFd};

const JOB: &str = "conformance";

struct Node {
    settings: fn(&str) -> Option<String>,
    segment: Option<OwnedFd>,
}

impl Harness for Node {
    fn make(&mut self, n: usize) -> Vec<End> {
        let segment = mpi_node::segment::create(n as u32).expect("a node segment");
        let end = |rank: usize| {
            let env = OpenEnv {
                job: JOB.to_owned(),
                secret: [0; 32],
                world_rank: rank as u32,
                world_size: n as u32,
                node_slot: Some(rank as u32),
                segment: Some(segment.as_raw_fd()),
                multihost: false,
                settings: self.settings,
            };
            let opened = Shm.open(&env).expect("the segment is there");
            let info = PeerInfo {
                ep: Ep(rank as u32),
                job: JOB.to_owned(),
                world_rank: rank as u32,
                node_slot: Some(rank as u32),
                host: "here".to_owned(),
                addresses: opened.address.map(|a| ("shm".to_owned(), a)).into_iter().collect(),
            };
            End { tx: opened.tx, rx: opened.rx, info }
        };
        let ends = (0..n).map(end).collect();
        self.segment = Some(segment);
        ends
    }

    fn idle(&mut self) {
        std::thread::yield_now();
    }

    /// Memory does not notice a death: the launcher tells the ranks of a node.
    fn kill(&mut self, _index: usize, _end: End) -> bool {
        false
    }

    /// There is no wire to put nonsense on.
    fn garbage(&mut self, _from: usize, _to: usize) -> bool {
        false
    }
}

#[test]
fn with_cross_process_copy() {
    conformance::run_all(&mut Node { settings: |_| None, segment: None });
}

#[test]
fn without_cross_process_copy() {
    let settings = |name: &str| (name == CROSS_COPY_SETTING).then(|| "0".to_owned());
    conformance::run_all(&mut Node { settings, segment: None });
}
