//! Measures the TCP backend alone, through the `Btl` boundary: two processes over loopback.
//!
//! `cargo run --release -p mpi-btl-tcp --example pingpong [CASE]`: latency (half a round trip; cases
//! `l8`, `l1024`, ...) and 64 messages in flight (`b8`, `b4096`, ...), the minimum, the tenth
//! percentile and the median of many short runs.

use mpi_btl::{
    Am, Body, Btl, BtlRx, BtlTx, BulkId, Down, Ep, OpId, OpenEnv, PeerInfo, Place, SendError, Sent, Sink,
    Span,
};
use mpi_btl_tcp::TcpBtl;
use mpi_wire::Header;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

const PEER: Ep = Ep(1);
const WINDOW: usize = 64;
/// Short runs, so that some of them are disturbed by nobody.
const SECONDS: f64 = 2.0;
const ECHO: i32 = 0;
const COUNT: i32 = 1;

struct Posted {
    memory: Vec<u8>,
    complete: usize,
    tag: i32,
    length: usize,
    window: usize,
    lent: usize,
    writable: usize,
}

impl Sink for Posted {
    fn message(&mut self, _: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        let total = total as usize;
        (self.tag, self.length, self.window) = (header.tag, total, header.count as usize);
        self.memory[..have.len()].copy_from_slice(have);
        if have.len() == total {
            self.complete += 1;
            return Place::Done;
        }
        let rest = &mut self.memory[have.len()..total];
        Place::Direct { bulk: BulkId(0), into: Span::new(rest.as_mut_ptr(), rest.len()) }
    }
    fn chunk(&mut self, _: Ep, _: BulkId, _: &[u8], _: bool) {}
    fn arrived(&mut self, _: Ep, _: BulkId) {
        self.complete += 1;
    }
    fn completed(&mut self, _: Ep, _: OpId, result: Result<(), String>) {
        assert_eq!(result, Ok(()));
        self.lent -= 1;
    }
    fn writable(&mut self, _: Ep) {
        self.writable += 1;
    }
    fn down(&mut self, _: Ep, why: Down) {
        assert_eq!(why, Down::Goodbye);
        std::process::exit(0);
    }
}

struct Side {
    tx: Box<dyn BtlTx>,
    rx: Box<dyn BtlRx>,
    sink: Posted,
    source: Vec<u8>,
    /// Messages in flight.
    window: usize,
}

impl Side {
    fn send(&mut self, len: usize, tag: i32, more: bool) {
        let header = Header { tag, count: self.window as u64, length: len as u64, ..Header::default() };
        // Above the eager limit the engine lends; below, the body is free on return.
        let body = if len > 64 << 10 {
            Body::Lent(Span::new(self.source.as_mut_ptr(), len), OpId(1))
        } else {
            Body::Bytes(&self.source[..len])
        };
        loop {
            let before = self.sink.writable;
            match self.tx.send(PEER, Am { header, body, more }) {
                Ok(Sent::Pending) => {
                    self.sink.lent += 1;
                    return;
                }
                Ok(_) => return,
                Err(SendError::Full) => {
                    while self.sink.writable == before {
                        self.rx.poll(64, &mut self.sink);
                    }
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn wait(&mut self, count: usize) {
        while count == 1 && self.sink.complete < 1 {
            self.rx.poll_from(PEER, &mut self.sink);
        }
        while self.sink.complete < count || self.sink.lent > 0 {
            self.rx.poll(64, &mut self.sink);
        }
        self.sink.complete -= count;
    }

    /// Seconds per message one way.
    fn ping(&mut self, len: usize, rounds: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..rounds {
            self.send(len, ECHO, false);
            self.wait(1);
        }
        start.elapsed().as_secs_f64() / (2 * rounds) as f64
    }

    /// Seconds per message, `window` in flight, then a short answer.
    fn stream(&mut self, len: usize, rounds: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..rounds {
            for _ in 0..self.window {
                self.send(len, COUNT, true);
            }
            self.tx.flush();
            self.wait(1);
        }
        start.elapsed().as_secs_f64() / (self.window * rounds) as f64
    }

    /// The other side: answers until the goodbye, which ends the process.
    fn serve(&mut self) {
        loop {
            self.wait(1);
            if self.sink.tag == ECHO {
                self.send(self.sink.length, ECHO, false);
            } else {
                self.wait(self.sink.window - 1);
                self.send(4, ECHO, false);
            }
        }
    }
}

/// Short runs, so that some are disturbed by nobody, for a bounded time: minimum, a low quantile, median.
fn samples(mut run: impl FnMut() -> f64) -> [f64; 3] {
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed().as_secs_f64() < SECONDS {
        times.push(run());
    }
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 10], times[times.len() / 2]]
}

fn open(rank: u32) -> (Side, Vec<u8>) {
    let env = OpenEnv {
        job: "pingpong".to_owned(),
        secret: [1; 32],
        world_rank: rank,
        world_size: 2,
        node_slot: None,
        segment: None,
        multihost: false,
        settings: |name| std::env::var(name).ok(),
    };
    let opened = TcpBtl.open(&env).expect("tcp opens");
    let sink =
        Posted { memory: vec![0; 8 << 20], complete: 0, tag: 0, length: 0, window: 0, lent: 0, writable: 0 };
    let side = Side { tx: opened.tx, rx: opened.rx, sink, source: vec![7; 8 << 20], window: WINDOW };
    (side, opened.address.expect("an address"))
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `pingpong [CASE]` starts the other side as `pingpong CASE ADDRESS`.
    let case = args.get(1).cloned().unwrap_or_else(|| "all".to_owned());
    let first = args.len() < 3;
    let (mut side, address) = open(u32::from(!first));
    let mut child = None;
    let peer_address = if first {
        let own: Vec<String> = address.iter().map(u8::to_string).collect();
        let mut process = Command::new(&args[0])
            .args([case.clone(), own.join(",")])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs again");
        let mut line = String::new();
        let out = process.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("the other side's address");
        child = Some(process);
        line
    } else {
        let own: Vec<String> = address.iter().map(u8::to_string).collect();
        println!("{}", own.join(","));
        std::io::stdout().flush().expect("stdout");
        args[2].clone()
    };
    let peer_address: Vec<u8> = peer_address.trim().split(',').map(|b| b.parse().expect("a byte")).collect();
    let info = PeerInfo {
        ep: PEER,
        job: "pingpong".to_owned(),
        world_rank: u32::from(first),
        node_slot: None,
        host: "localhost".to_owned(),
        addresses: [("tcp".to_owned(), peer_address)].into(),
        guest_secret: None,
    };
    side.tx.connect(&info).expect("the other side is there");
    if !first {
        side.serve();
    }
    side.ping(8, 100);
    for (len, rounds) in [(8, 50), (1024, 50), (65_536, 10), (1 << 20, 2), (4 << 20, 1)] {
        if case == "all" || case == format!("l{len}") {
            let times = samples(|| side.ping(len, rounds)).map(|t| format!("{:8.2}", t * 1e6));
            println!("one way {len:>8} B: {} us", times.join(" "));
        }
    }
    // The last by eights too: 64 of them take longer than a busy machine leaves two processes alone.
    for (len, rounds, window) in
        [(8, 5, 64), (4096, 3, 64), (65_536, 1, 64), (1 << 20, 1, 64), (1 << 20, 1, 8)]
    {
        let name = if window == WINDOW { format!("b{len}") } else { format!("b{len}x{window}") };
        if case == "all" || case == name {
            side.window = window;
            let times = samples(|| side.stream(len, rounds));
            let rate = times.map(|t| format!("{:6.3}", 1e-6 / t)).join(" ");
            let bytes = times.map(|t| format!("{:6.0}", len as f64 / t / 1e6)).join(" ");
            println!("{window:2} in flight {len:>8} B: {rate} M messages/s, {bytes} MB/s");
        }
    }
    side.tx.close(PEER);
    while !side.tx.quiet() {
        side.rx.poll(1, &mut side.sink);
    }
    if let Some(mut child) = child {
        child.wait().expect("the other side ends");
    }
}
