//! Measures the transport alone, two processes on two processors: one-way latency by size and
//! 64 messages in flight. Prints the best and the best
//! tenth of many short runs, since other work on the machine only ever adds.
//!
//! `cargo run --release -p mpi-btl-shm --example shm_floor [MILLISECONDS PER LINE] [SIZE] [EAGER]`

use mpi_btl::{
    Am, Body, Btl, BtlRx, BtlTx, BulkId, Down, Ep, OpId, OpenEnv, PeerInfo, Place, RegionKey, Sent, Sink,
    Span,
};
use mpi_btl_shm::Shm;
use mpi_wire::Header;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const ANNOUNCE: u32 = 77;
const PEER: Ep = Ep(1);

/// Longest message that is sent at once; the third argument.
fn eager() -> usize {
    static EAGER: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let given = || std::env::args().nth(3).and_then(|a| a.parse().ok());
    *EAGER.get_or_init(|| given().unwrap_or(mpi_btl_shm::limits::EAGER_BYTES))
}

/// What the engine would do: copy into the posted buffer, or note an announcement.
struct Posted {
    buffer: Vec<u8>,
    received: usize,
    last_length: usize,
    announced: Vec<(RegionKey, usize)>,
    completed: usize,
}

impl Sink for Posted {
    fn message(&mut self, _: Ep, header: &Header, have: &[u8], _: u64) -> Place {
        if header.context == ANNOUNCE {
            let mut bytes = [0; RegionKey::LEN];
            bytes.copy_from_slice(have);
            self.announced.push((RegionKey { bytes }, header.count as usize));
        } else {
            self.buffer[..have.len()].copy_from_slice(have);
            self.received += 1;
            self.last_length = have.len();
        }
        Place::Done
    }
    fn chunk(&mut self, _: Ep, _: BulkId, _: &[u8], _: bool) {}
    fn arrived(&mut self, _: Ep, _: BulkId) {}
    fn completed(&mut self, _: Ep, _: OpId, result: Result<(), String>) {
        result.expect("copied");
        self.completed += 1;
    }
    fn writable(&mut self, _: Ep) {}
    fn down(&mut self, _: Ep, why: Down) {
        panic!("the other side is gone: {why:?}");
    }
}

struct Side {
    tx: Box<dyn BtlTx>,
    rx: Box<dyn BtlRx>,
    posted: Posted,
    out: Vec<u8>,
    taken: usize,
}

/// Spins, and sleeps when the other side seems to have lost its processor to other work: a
/// spinner would only use up its own share of the machine.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    #[inline]
    fn wait(&mut self) {
        self.0 += 1;
        if self.0 == 3000 {
            self.0 = 0;
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Side {
    fn send(&mut self, len: usize) {
        if len > eager() {
            let mem = Span::new(self.out.as_mut_ptr(), len);
            let key = self.tx.expose(PEER, mem, OpId(1)).expect("a free slot");
            let header = Header { context: ANNOUNCE, count: len as u64, length: 40, ..Header::default() };
            self.offer(header, |_| (), Some(key));
        } else {
            let header = Header { context: 1, count: len as u64, length: len as u64, ..Header::default() };
            self.offer(header, |_| (), None);
        }
    }

    #[inline]
    fn offer(&mut self, header: Header, _: impl Fn(&mut Side), key: Option<RegionKey>) {
        let mut patience = Patience::default();
        loop {
            patience.wait();
            let body = match &key {
                Some(key) => &key.bytes[..],
                None => &self.out[..header.length as usize],
            };
            match self.tx.send(PEER, Am { header, body: Body::Bytes(body), more: false }) {
                Ok(_) => return,
                Err(_) => {
                    self.rx.poll(64, &mut self.posted);
                }
            }
        }
    }

    fn receive(&mut self, len: usize) {
        if len > eager() {
            let mut patience = Patience::default();
            while self.posted.announced.is_empty() {
                patience.wait();
                self.rx.poll(1, &mut self.posted);
            }
            let (key, len) = self.posted.announced.remove(0);
            let into = Span::new(self.posted.buffer.as_mut_ptr(), len);
            // SAFETY: the buffer lives on and nobody else touches it.
            if unsafe { self.tx.get(PEER, &key, 0, into, OpId(2), true) }.expect("copies") == Sent::Pending {
                let before = self.posted.completed;
                let mut patience = Patience::default();
                while self.posted.completed == before {
                    patience.wait();
                    self.rx.poll(1, &mut self.posted);
                }
                self.posted.completed -= 1;
            }
        } else {
            // One may have come while something else was awaited.
            self.taken += 1;
            let target = self.taken;
            let mut patience = Patience::default();
            while self.posted.received < target {
                patience.wait();
                self.rx.poll_from(PEER, &mut self.posted);
            }
        }
    }

    fn complete(&mut self, len: usize, count: usize) {
        if len > eager() {
            let mut patience = Patience::default();
            while self.posted.completed < count {
                patience.wait();
                self.rx.poll(1, &mut self.posted);
            }
            self.posted.completed -= count;
        }
    }
}

fn pin(cpu: usize) {
    // SAFETY: a zeroed set is an empty set; the pointer and size belong together.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

fn side(segment: i32, slot: u32) -> Side {
    let env = OpenEnv {
        job: "floor".into(),
        secret: [0; 32],
        world_rank: slot,
        world_size: 2,
        node_slot: Some(slot),
        segment: Some(segment),
        multihost: false,
        settings: |name| std::env::var(name).ok(),
    };
    let opened = Shm.open(&env).expect("opens");
    let mut tx = opened.tx;
    let peer = PeerInfo {
        ep: PEER,
        job: "floor".into(),
        world_rank: 1 - slot,
        node_slot: Some(1 - slot),
        host: "here".into(),
        addresses: Default::default(),
        guest_secret: None,
    };
    tx.connect(&peer).expect("connects");
    let buffer = vec![0; 4 << 20];
    Side {
        tx,
        rx: opened.rx,
        posted: Posted { buffer, received: 0, last_length: 0, announced: Vec::new(), completed: 0 },
        out: vec![1; 4 << 20],
        taken: 0,
    }
}

fn main() {
    let milliseconds: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(200);
    let budget = Duration::from_millis(milliseconds);
    let segment = mpi_node::segment::create(2).expect("segment");
    // SAFETY: one thread so far.
    let child = unsafe { libc::fork() };
    let slot = u32::from(child == 0);
    pin(slot as usize);
    let mut side = side(segment.as_raw_fd(), slot);
    let only: Option<usize> = std::env::args().nth(2).and_then(|a| a.parse().ok());
    eager();
    for size in [8, 40, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 1 << 20, 4 << 20] {
        if only.is_some_and(|only| only > 0 && only != size) {
            continue;
        }
        let turns = (100_000 / (size + 2000)).clamp(2, 40);
        let all = repeat(&mut side, slot, budget, |side| latency(side, slot, size, turns));
        if slot == 0 {
            println!(
                "one way {size:>8} B: {:8.3} µs, tenth {:8.3} µs ({} runs)",
                all[0],
                all[all.len() / 10],
                all.len()
            );
        }
    }
    for size in [8, 64, 1024, 4096, 16384, 65536, 1 << 20] {
        if only.is_some_and(|only| only > 0 && only != size) {
            continue;
        }
        let turns = (600_000 / (size + 2000) / 64).clamp(1, 8);
        let all = repeat(&mut side, slot, budget, |side| window(side, slot, size, turns));
        if slot == 0 {
            let show = |us: f64| format!("{:7.2} M/s {:9.0} MB/s", 1.0 / us, size as f64 / us);
            println!(
                "64 in flight {size:>8} B: {}, tenth {} ({} runs)",
                show(all[0]),
                show(all[all.len() / 10]),
                all.len()
            );
        }
    }
    if child > 0 {
        // SAFETY: our own child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}

/// Runs `f` on both sides until the budget is used; all results, best first.
fn repeat(side: &mut Side, slot: u32, budget: Duration, f: impl Fn(&mut Side) -> f64) -> Vec<f64> {
    let start = Instant::now();
    let mut all = Vec::new();
    loop {
        // Slot 0 says by the length of a message whether there is another run.
        if slot == 0 {
            let stop = start.elapsed() > budget && all.len() > 2;
            side.send(if stop { 2 } else { 1 });
            if stop {
                break;
            }
        } else {
            side.receive(1);
            if side.posted.last_length == 2 {
                break;
            }
        }
        all.push(f(side));
    }
    if all.len() > 2 {
        all.remove(0);
    }
    all.sort_by(f64::total_cmp);
    all
}

/// Microseconds one way.
fn latency(side: &mut Side, slot: u32, size: usize, turns: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..turns {
        if slot == 0 {
            side.send(size);
            side.complete(size, 1);
            side.receive(size);
        } else {
            side.receive(size);
            side.send(size);
            side.complete(size, 1);
        }
    }
    start.elapsed().as_secs_f64() * 1e6 / turns as f64 / 2.0
}

/// Microseconds per message.
fn window(side: &mut Side, slot: u32, size: usize, turns: usize) -> f64 {
    let start = Instant::now();
    for _ in 0..turns {
        if slot == 0 {
            for _ in 0..64 {
                side.send(size);
            }
            side.complete(size, 64);
            side.receive(4);
        } else {
            for _ in 0..64 {
                side.receive(size);
            }
            side.send(4);
        }
    }
    start.elapsed().as_secs_f64() * 1e6 / turns as f64 / 64.0
}
