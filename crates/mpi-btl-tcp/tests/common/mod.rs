//! Endpoints over loopback, a sink that writes everything down, and strangers with plain sockets.
#![allow(dead_code)]

use mpi_btl::{Btl, Ep, OpenEnv, OpenError, PeerInfo, Polled};
use mpi_btl_sim::conformance::{End, Recorder};
use mpi_btl_tcp::{TcpBtl, address};
use mpi_wire::hello::{Dialer, HELLO_REPLY_LEN, Identity, JobTag};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub const JOB: &str = "strangers";
pub const SECRET: [u8; 32] = [9; 32];
/// How long anything that must come may take.
pub const WAIT: Duration = Duration::from_secs(30);

pub fn env(rank: u32) -> OpenEnv {
    OpenEnv {
        job: JOB.to_owned(),
        secret: SECRET,
        world_rank: rank,
        world_size: 2,
        node_slot: None,
        segment: None,
        multihost: false,
        settings: |_| None,
    }
}

pub fn open_with(env: &OpenEnv) -> Result<End, OpenError> {
    let opened = TcpBtl.open(env)?;
    let address = opened.address.expect("tcp publishes an address");
    let info = PeerInfo {
        ep: Ep(env.world_rank),
        job: env.job.clone(),
        world_rank: env.world_rank,
        node_slot: None,
        host: "somewhere".to_owned(),
        addresses: [("tcp".to_owned(), address)].into(),
        guest_secret: None,
    };
    Ok(End { tx: opened.tx, rx: opened.rx, info })
}

pub fn open(rank: u32) -> End {
    open_with(&env(rank)).expect("loopback is there")
}

pub fn addresses(end: &End) -> Vec<SocketAddr> {
    address::decode(&end.info.addresses["tcp"]).expect("our own list")
}

/// A blocking connection with its own proper handshake, as rank `from`. The other side has to be
/// polled meanwhile.
pub fn dial(target: SocketAddr, from: u32, to: u32) -> TcpStream {
    let identity = |rank| Identity { job: JobTag::of(JOB), rank };
    let dialer = Dialer::new(SECRET, identity(from), identity(to), [3; 32]);
    let mut stream = TcpStream::connect(target).expect("the listener is there");
    stream.set_read_timeout(Some(WAIT)).expect("a timeout");
    stream.write_all(&dialer.hello()).expect("hello");
    let mut reply = [0; HELLO_REPLY_LEN];
    stream.read_exact(&mut reply).expect("reply");
    stream.write_all(&dialer.reply(&reply).expect("a proper reply")).expect("proof");
    stream
}

/// Polls all until `done`.
pub fn until(
    what: &str,
    ends: &mut [(&mut End, &mut Recorder)],
    mut done: impl FnMut(&[(&mut End, &mut Recorder)]) -> bool,
) {
    let deadline = Instant::now() + WAIT;
    while !done(ends) {
        assert!(Instant::now() < deadline, "{what} did not come within {WAIT:?}");
        let mut moved = false;
        for (end, log) in ends.iter_mut() {
            moved |= end.rx.poll(16, *log) == Polled::Progress;
        }
        if !moved {
            std::thread::yield_now();
        }
    }
}
