//! What several endpoints in one process cannot show: real processes that sleep, wake and die.

use mpi_btl::{
    Am, Armed, Body, Btl, BtlRx, BtlTx, BulkId, Down, Ep, OpId, OpenEnv, PeerInfo, Place, RegionKey, Sent,
    Sink, Span, WakeBy,
};
use mpi_btl_shm::Shm;
use mpi_wire::Header;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);
const PEER: Ep = Ep(1);

/// Forks one at a time: a child inherits only the thread that forked it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[derive(Default)]
struct Log {
    bodies: Vec<Vec<u8>>,
    completed: Vec<(OpId, Result<(), String>)>,
    down: Vec<Down>,
}

impl Sink for Log {
    fn message(&mut self, _: Ep, _: &Header, have: &[u8], _: u64) -> Place {
        self.bodies.push(have.to_vec());
        Place::Done
    }
    fn chunk(&mut self, _: Ep, _: BulkId, _: &[u8], _: bool) {}
    fn arrived(&mut self, _: Ep, _: BulkId) {}
    fn completed(&mut self, _: Ep, op: OpId, result: Result<(), String>) {
        self.completed.push((op, result));
    }
    fn writable(&mut self, _: Ep) {}
    fn down(&mut self, _: Ep, why: Down) {
        self.down.push(why);
    }
}

struct Rank {
    tx: Box<dyn BtlTx>,
    rx: Box<dyn BtlRx>,
    log: Log,
}

impl Rank {
    fn open(segment: &OwnedFd, slot: u32) -> Rank {
        let env = OpenEnv {
            job: "processes".into(),
            secret: [0; 32],
            world_rank: slot,
            world_size: 2,
            node_slot: Some(slot),
            segment: Some(segment.as_raw_fd()),
            multihost: false,
            settings: |_| None,
        };
        let opened = Shm.open(&env).expect("opens");
        let mut rank = Rank { tx: opened.tx, rx: opened.rx, log: Log::default() };
        let peer = PeerInfo {
            ep: PEER,
            job: "processes".into(),
            world_rank: 1 - slot,
            node_slot: Some(1 - slot),
            host: "here".into(),
            addresses: Default::default(),
            guest_secret: None,
        };
        rank.tx.connect(&peer).expect("connects");
        rank
    }

    fn send(&mut self, body: &[u8]) {
        let header = Header { length: body.len() as u64, ..Header::default() };
        let am = Am { header, body: Body::Bytes(body), more: false };
        self.until("room", |rank| rank.tx.send(PEER, am).is_ok());
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Rank) -> bool) {
        let deadline = Instant::now() + WAIT;
        while !done(self) {
            assert!(Instant::now() < deadline, "{what} did not come within {WAIT:?}");
            let Rank { rx, log, .. } = self;
            rx.poll(64, log);
            std::thread::yield_now();
        }
    }
}

/// A child that runs `f` as slot 1 and then is killed.
struct Child(libc::pid_t);

impl Child {
    fn start(segment: &OwnedFd, f: impl FnOnce(&mut Rank)) -> Child {
        // SAFETY: the child runs only what is below and never returns into the test harness.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            let ran =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&mut Rank::open(segment, 1))));
            // SAFETY: ends the child at once, as a crash does: nothing is dropped or told.
            unsafe { libc::_exit(i32::from(ran.is_err())) }
        }
        Child(pid)
    }

    fn kill(&self) {
        // SAFETY: our own child.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        // SAFETY: our own child.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn what_was_sent_before_death_arrives_and_then_the_reset() {
    let _one = ONE_AT_A_TIME.lock();
    let segment = mpi_node::segment::create(2).expect("segment");
    let mut rank = Rank::open(&segment, 0);
    let child = Child::start(&segment, |rank| {
        for i in 0..100_u8 {
            rank.send(&[i; 300]);
        }
        hang();
    });
    rank.until("the first message", |r| !r.log.bodies.is_empty());
    rank.until("all messages", |r| r.log.bodies.len() == 100);
    child.kill();
    rank.until("the reset", |r| !r.log.down.is_empty());
    assert!(
        matches!(&rank.log.down[..], [Down::Reset(fact)] if fact.contains("ended")),
        "{:?}",
        rank.log.down
    );
    assert!(rank.log.bodies.iter().enumerate().all(|(i, body)| body[..] == [i as u8; 300]));
    assert!(
        rank.tx.send(PEER, Am { header: Header::default(), body: Body::Bytes(&[]), more: false }).is_err()
    );
}

#[test]
fn memory_of_a_dead_process_is_an_error_and_no_hang() {
    let _one = ONE_AT_A_TIME.lock();
    let segment = mpi_node::segment::create(2).expect("segment");
    let mut rank = Rank::open(&segment, 0);
    let child = Child::start(&segment, |rank| {
        let mut memory = vec![7_u8; 1 << 20];
        let mem = Span::new(memory.as_mut_ptr(), memory.len());
        let key = rank.tx.expose(PEER, mem, OpId(5)).expect("cross-process copy works here");
        rank.send(&key.bytes);
        hang();
    });
    rank.until("the key", |r| !r.log.bodies.is_empty());
    let key = RegionKey { bytes: rank.log.bodies[0][..].try_into().expect("a key") };
    child.kill();
    rank.until("the reset", |r| !r.log.down.is_empty());
    let mut into = vec![0_u8; 1 << 20];
    let span = Span::new(into.as_mut_ptr(), into.len());
    // SAFETY: `into` lives to the end of the test.
    let got = unsafe { rank.tx.get(PEER, &key, 0, span, OpId(6), true) };
    assert!(got.is_err(), "{got:?}");
}

#[test]
fn memory_offered_to_a_process_that_dies_comes_back_with_an_error() {
    let _one = ONE_AT_A_TIME.lock();
    let segment = mpi_node::segment::create(2).expect("segment");
    let mut rank = Rank::open(&segment, 0);
    let child = Child::start(&segment, |rank| {
        rank.send(b"here");
        hang();
    });
    rank.until("the greeting", |r| !r.log.bodies.is_empty());
    let mut memory = vec![7_u8; 1 << 20];
    let mem = Span::new(memory.as_mut_ptr(), memory.len());
    rank.tx.expose(PEER, mem, OpId(5)).expect("cross-process copy works here");
    child.kill();
    rank.until("the reset", |r| !r.log.down.is_empty());
    assert!(matches!(&rank.log.completed[..], [(OpId(5), Err(_))]), "{:?}", rank.log.completed);
}

#[test]
fn both_processes_copy() {
    let _one = ONE_AT_A_TIME.lock();
    let segment = mpi_node::segment::create(2).expect("segment");
    let mut rank = Rank::open(&segment, 0);
    const LEN: usize = (3 << 20) + 17;
    const TIMES: usize = 20;
    let _child = Child::start(&segment, |rank| {
        for round in 0..TIMES {
            let mut memory: Vec<u8> = (0..LEN).map(|i| (i * 31 + round) as u8).collect();
            let mem = Span::new(memory.as_mut_ptr(), memory.len());
            let key = rank.tx.expose(PEER, mem, OpId(round as u64)).expect("cross-process copy works here");
            rank.send(&key.bytes);
            rank.until("the end", |r| r.log.completed.len() == round + 1);
            memory.fill(0);
        }
        hang();
    });
    let mut into = vec![0_u8; LEN];
    for round in 0..TIMES {
        rank.until("the key", |r| r.log.bodies.len() == round + 1);
        let key = RegionKey { bytes: rank.log.bodies[round][..].try_into().expect("a key") };
        let span = Span::new(into.as_mut_ptr(), LEN);
        let op = OpId(round as u64);
        // SAFETY: `into` lives on and is not touched before the end awaited here.
        if unsafe { rank.tx.get(PEER, &key, 0, span, op, true) }.expect("copies") == Sent::Pending {
            rank.until("the other's piece", |r| r.log.completed.iter().any(|(o, _)| *o == op));
        }
        assert!(
            into.iter().enumerate().all(|(i, b)| *b == (i * 31 + round) as u8),
            "round {round}: bytes differ"
        );
    }
}

#[test]
fn a_sleeping_rank_is_woken() {
    let _one = ONE_AT_A_TIME.lock();
    const TIMES: usize = 200;
    for by in [WakeBy::Futex, WakeBy::Descriptor] {
        let segment = mpi_node::segment::create(2).expect("segment");
        let mut rank = Rank::open(&segment, 0);
        let _child = Child::start(&segment, |rank| {
            for i in 0..TIMES {
                // Answers each message, sometimes at once and sometimes when the other sleeps.
                rank.until("the question", |r| r.log.bodies.len() > i);
                if i % 3 == 0 {
                    std::thread::sleep(Duration::from_micros(300));
                }
                rank.send(b"answer");
            }
            hang();
        });
        for i in 0..TIMES {
            rank.send(b"question");
            let deadline = Instant::now() + WAIT;
            while rank.log.bodies.len() <= i {
                assert!(Instant::now() < deadline, "{by:?}: slept through an answer");
                match rank.rx.arm(by) {
                    Armed::Word { word, expected } => {
                        let limit = libc::timespec { tv_sec: 31, tv_nsec: 0 };
                        // SAFETY: the word and the limit are alive.
                        unsafe {
                            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &limit)
                        };
                    }
                    Armed::Descriptor(fd) => {
                        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
                        // SAFETY: one valid entry.
                        unsafe { libc::poll(&mut poll, 1, 31_000) };
                    }
                    Armed::Ready => {}
                    Armed::Nothing => panic!("a connected backend can always be woken"),
                }
                rank.rx.disarm();
                let Rank { rx, log, .. } = &mut rank;
                rx.poll(64, log);
            }
        }
    }
}
