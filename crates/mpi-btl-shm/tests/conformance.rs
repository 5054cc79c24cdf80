//! The shared-memory backend passes what every transport must pass, several endpoints in one
//! process.

use mpi_btl::{Btl, Ep, OpenEnv, PeerInfo};
use mpi_btl_shm::Shm;
use mpi_btl_sim::conformance::{self, End, Harness};
use mpi_node::segment::{self, Segment};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

const JOB: &str = "conformance";

struct Node {
    settings: fn(&str) -> Option<String>,
    /// Ranks of the segment beyond those made, so that its rings are the short ones.
    spare: u32,
    segment: Option<OwnedFd>,
}

impl Harness for Node {
    fn make(&mut self, n: usize) -> Vec<End> {
        let fd = segment::create(n as u32 + self.spare).expect("memfd");
        let end = |rank: u32| {
            let env = OpenEnv {
                job: JOB.to_owned(),
                secret: [9; 32],
                world_rank: rank,
                world_size: n as u32,
                node_slot: Some(rank),
                segment: Some(fd.as_raw_fd()),
                multihost: false,
                settings: self.settings,
            };
            let opened = Shm.open(&env).expect("a segment is there");
            let info = PeerInfo {
                ep: Ep(rank),
                job: JOB.to_owned(),
                world_rank: rank,
                node_slot: Some(rank),
                host: "localhost".to_owned(),
                addresses: Default::default(),
                guest_secret: None,
            };
            End { tx: opened.tx, rx: opened.rx, info }
        };
        let ends = (0..n as u32).map(end).collect();
        self.segment = Some(fd);
        ends
    }

    fn idle(&mut self) {
        std::thread::yield_now();
    }

    /// A record of a kind that does not exist, under the sender's name.
    fn garbage(&mut self, from: usize, to: usize) -> bool {
        let fd = self.segment.as_ref().expect("endpoints were made");
        let segment = Arc::new(Segment::attach_unseen(fd.as_fd(), from as u32).expect("attach"));
        segment.inbox_sender(to as u32).push(200, [7; 5], b"nonsense", &[]).expect("room");
        std::mem::forget(segment);
        true
    }
}

fn run(spare: u32, settings: fn(&str) -> Option<String>) {
    conformance::run_all(&mut Node { settings, spare, segment: None });
}

#[test]
fn with_cross_process_copy() {
    run(0, |_| None);
}

#[test]
fn without_cross_process_copy() {
    run(0, |name| (name == mpi_btl_shm::CROSS_COPY_SETTING).then(|| "0".to_owned()));
}

#[test]
fn on_a_large_node() {
    run(500, |_| None);
}
