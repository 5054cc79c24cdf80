//! The TCP backend passes what every transport must pass, over loopback.

use mpi_btl::{Btl, Ep, OpenEnv, PeerInfo};
use mpi_btl_sim::conformance::{self, End, Harness};
use mpi_btl_tcp::{TcpBtl, address};
use mpi_wire::hello::{Dialer, HELLO_REPLY_LEN, Identity, JobTag};
use std::io::{Read, Write};
use std::net::TcpStream;

const JOB: &str = "conformance";
const SECRET: [u8; 32] = [9; 32];

#[derive(Default)]
struct Tcp {
    published: Vec<Vec<u8>>,
}

impl Harness for Tcp {
    fn make(&mut self, n: usize) -> Vec<End> {
        self.published.clear();
        let mut end = |rank: usize| {
            let env = OpenEnv {
                job: JOB.to_owned(),
                secret: SECRET,
                world_rank: rank as u32,
                world_size: n as u32,
                node_slot: None,
                segment: None,
                multihost: false,
                settings: |_| None,
            };
            let opened = TcpBtl.open(&env).expect("loopback is there");
            let address = opened.address.expect("tcp publishes an address");
            self.published.push(address.clone());
            let info = PeerInfo {
                ep: Ep(rank as u32),
                job: JOB.to_owned(),
                world_rank: rank as u32,
                node_slot: None,
                host: "localhost".to_owned(),
                addresses: [("tcp".to_owned(), address)].into(),
                guest_secret: None,
            };
            End { tx: opened.tx, rx: opened.rx, info }
        };
        (0..n).map(&mut end).collect()
    }

    fn idle(&mut self) {
        std::thread::yield_now();
    }

    /// A connection with a proper hello, and then nonsense. The handshake's other side is polled by
    /// nobody while this blocks, so it is carried on by a thread.
    fn garbage(&mut self, from: usize, to: usize) -> bool {
        let target = address::decode(&self.published[to]).expect("our own list")[0];
        let identity = |rank: usize| Identity { job: JobTag::of(JOB), rank: rank as u32 };
        let (me, peer) = (identity(from), identity(to));
        std::thread::spawn(move || {
            let dialer = Dialer::new(SECRET, me, peer, [3; 32]);
            let mut stream = TcpStream::connect(target).expect("the listener is there");
            stream.write_all(&dialer.hello()).expect("hello");
            let mut reply = [0; HELLO_REPLY_LEN];
            stream.read_exact(&mut reply).expect("reply");
            let proof = dialer.reply(&reply).expect("a proper reply");
            stream.write_all(&proof).expect("proof");
            stream.write_all(&[b'x'; 100]).expect("nonsense");
            // Until the other side closes.
            let _ = stream.read(&mut [0; 1]);
        });
        true
    }
}

#[test]
fn conformance() {
    conformance::run_all(&mut Tcp::default());
}
