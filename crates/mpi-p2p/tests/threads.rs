//! Blocking calls, sleeping and waking, and several threads of one rank at once.

mod common;

use common::{World, recv_of, send_of};
use mpi_btl_sim::SimConfig;
use mpi_p2p::{Context, Engine, Limits, SendMode, Source, Tag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

/// Moves the simulated clock while the ranks run.
struct Clock {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Clock {
    fn start(world: &World) -> Clock {
        let (net, stop) = (world.net.clone(), Arc::new(AtomicBool::new(false)));
        let seen = stop.clone();
        let run = move || {
            while !seen.load(Ordering::Relaxed) {
                if !net.advance() {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        };
        Clock { stop, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// When a thread panics, nobody waits for it: the test fails instead of hanging.
struct EndAll<'a>(&'a World);

impl Drop for EndAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for e in &self.0.engines {
                (0..self.0.engines.len() as u32)
                    .for_each(|ep| e.peer_died(mpi_btl::Ep(ep), "the test failed".into()));
            }
        }
    }
}

fn ranks(world: &World, body: impl Fn(&Engine, &Context, u32) + Sync) {
    let contexts = world.contexts(0);
    std::thread::scope(|scope| {
        for (rank, (engine, cx)) in world.engines.iter().zip(&contexts).enumerate() {
            let body = &body;
            scope.spawn(move || {
                let _end = EndAll(world);
                body(engine, cx, rank as u32);
            });
        }
    });
}

#[test]
fn blocking_calls_pass_a_token_of_every_size() {
    token(&World::queues(3, Limits::default()), 200);
}

/// The simulated network wakes nobody: a sleeper looks around by itself now and then.
#[test]
fn blocking_calls_work_on_a_rough_network() {
    let w = World::new(11, SimConfig::rough(3), Limits::default());
    let _clock = Clock::start(&w);
    token(&w, 8);
}

fn token(w: &World, rounds: usize) {
    ranks(w, |e, cx, rank| {
        let (next, last) = ((rank + 1) % 3, (rank + 2) % 3);
        for round in 0..rounds {
            let len = [1, 700, 3000, 40_000][round % 4];
            let mut token = vec![0u8; len];
            let mode = if round % 5 == 0 { SendMode::Synchronous } else { SendMode::Standard };
            if rank == 0 {
                token.fill(round as u8);
                e.send(cx, next, 3, send_of(&token), mode).unwrap();
                token.fill(0xFF);
                e.recv(cx, Source::Rank(last), Tag::Is(3), recv_of(&mut token)).unwrap();
                assert!(token.iter().all(|b| *b == round as u8 + 2));
            } else {
                let s = if round % 3 == 0 {
                    let s = e.probe(cx, Source::Any, Tag::Any).unwrap();
                    assert_eq!(s.bytes, len as u64);
                    e.recv(cx, Source::Any, Tag::Any, recv_of(&mut token)).unwrap()
                } else {
                    e.recv(cx, Source::Rank(last), Tag::Is(3), recv_of(&mut token)).unwrap()
                };
                assert_eq!((s.bytes, s.source), (len as u64, last as i32));
                token.iter_mut().for_each(|b| *b += 1);
                e.send(cx, next, 3, send_of(&token), mode).unwrap();
            }
        }
    });
}

#[test]
fn a_sleeping_receive_is_woken_by_its_message() {
    let w = World::queues(2, Limits::default());
    ranks(&w, |e, cx, rank| {
        let mut room = [0u8; 8];
        if rank == 0 {
            // Long enough for the other side to have parked; a wake that gets lost costs a whole slice.
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(30));
                let sent = Instant::now();
                e.send(cx, 1, 0, send_of(&[7; 8]), SendMode::Standard).unwrap();
                e.recv(cx, Source::Rank(1), Tag::Any, recv_of(&mut room)).unwrap();
                // Far above any scheduling delay, below the slice after which a sleeper looks around.
                assert!(sent.elapsed() < Duration::from_millis(950), "{:?}", sent.elapsed());
            }
        } else {
            for _ in 0..5 {
                e.recv(cx, Source::Rank(0), Tag::Any, recv_of(&mut room)).unwrap();
                e.send(cx, 0, 0, send_of(&room), SendMode::Standard).unwrap();
            }
        }
    });
}

#[test]
fn a_blocked_receive_is_reported_with_all_that_is_known() {
    let limits = Limits { blocked_report: Duration::from_millis(20), ..Limits::default() };
    let w = World::queues(2, limits);
    ranks(&w, |e, cx, rank| {
        let mut room = [0u8; 8];
        if rank == 0 {
            e.send(cx, 1, 5, send_of(&[1; 3]), SendMode::Standard).unwrap();
            // Seen from another thread, as the launcher's picture of a deadlock is.
            let until = Instant::now() + Duration::from_secs(20);
            loop {
                let report = w.engines[1].report();
                if let Some(b) = report.blocked.first() {
                    assert_eq!((b.op, b.peer, b.tag, b.my_rank), ("receive", Some(0), Some(9), Some(1)));
                    if b.unexpected == 1 && !w.blocked.lock().unwrap().is_empty() {
                        break;
                    }
                }
                assert!(Instant::now() < until, "no report: {report:?}");
                std::thread::sleep(Duration::from_millis(5));
            }
            e.send(cx, 1, 9, send_of(&[1; 3]), SendMode::Standard).unwrap();
        } else {
            e.recv(cx, Source::Rank(0), Tag::Is(9), recv_of(&mut room)).unwrap();
            assert!(e.report().blocked.is_empty());
        }
    });
    let text = w.blocked.lock().unwrap()[0].to_string();
    assert!(text.starts_with("receive has been blocked for "), "{text}");
    let rest = "on \"world\" (context 0) from rank 0, tag 9; 1 unexpected message is here, and none matches: \
                [from rank 0 tag 5 (3 bytes)]";
    assert!(text.ends_with(rest), "{text}");
}

#[test]
fn a_blocked_send_is_reported_as_one() {
    let limits = Limits { blocked_report: Duration::from_millis(20), ..Limits::default() };
    let w = World::queues(2, limits);
    ranks(&w, |e, cx, rank| {
        let mut room = [0u8; 8];
        if rank == 0 {
            e.send(cx, 1, 6, send_of(&[1; 3]), SendMode::Standard).unwrap();
            let until = Instant::now() + Duration::from_secs(20);
            while w.blocked.lock().unwrap().is_empty() {
                assert!(Instant::now() < until, "no report");
                std::thread::sleep(Duration::from_millis(5));
            }
            e.recv(cx, Source::Rank(1), Tag::Is(5), recv_of(&mut room)).unwrap();
        } else {
            e.probe(cx, Source::Rank(0), Tag::Any).unwrap();
            let id = e.isend(cx, 0, 5, send_of(&[7; 8]), SendMode::Synchronous).unwrap();
            e.wait(id).unwrap();
        }
    });
    let text = w.blocked.lock().unwrap()[0].to_string();
    assert!(text.starts_with("wait has been blocked for "), "{text}");
    let rest = "on \"world\" (context 0) to rank 0, tag 5; 1 unexpected message is here: \
                [from rank 0 tag 6 (3 bytes)]";
    assert!(text.ends_with(rest), "{text}");
}

#[test]
fn awaited_operations_are_reported() {
    let limits = Limits { blocked_report: Duration::from_millis(20), ..Limits::default() };
    let w = World::queues(2, limits);
    let cx = w.contexts(0);
    let (e, mut rooms) = (&w.engines[1], [[0u8; 8]; 2]);
    let [first, second] = &mut rooms;
    let first = e.irecv(&cx[1], Source::Rank(0), Tag::Is(5), recv_of(first)).unwrap();
    let second = e.irecv(&cx[1], Source::Rank(0), Tag::Is(6), recv_of(second)).unwrap();
    assert!(e.report().blocked.is_empty(), "nobody awaits them");
    assert!(e.poll_wait(first, Waker::noop()).is_pending());
    std::thread::sleep(Duration::from_millis(1));
    assert!(e.poll_wait(second, Waker::noop()).is_pending());
    let report = e.report();
    let [b] = &report.blocked[..] else { panic!("{report:?}") };
    assert_eq!((b.op, b.peer, b.tag, b.others, b.any), ("awaited receive", Some(0), Some(5), 1, true));
    assert_eq!(b.waits_for, [mpi_btl::Ep(0)]);
    // No thread waits: the helper tells of it, of each once.
    let until = Instant::now() + Duration::from_secs(20);
    while w.blocked.lock().unwrap().is_empty() {
        assert!(Instant::now() < until, "no report");
        std::thread::sleep(Duration::from_millis(5));
    }
    let text = w.blocked.lock().unwrap()[0].to_string();
    assert!(text.starts_with("awaited receive has been blocked for "), "{text}");
    assert!(text.contains("from rank 0, tag 5, and 1 further operation; "), "{text}");
    // One is complete, the other given up.
    w.engines[0].send(&cx[0], 1, 5, send_of(&[1; 8]), SendMode::Standard).unwrap();
    while e.poll_wait(first, Waker::noop()).is_pending() {
        assert!(Instant::now() < until, "the message never comes");
    }
    assert_eq!(e.report().blocked[0].tag, Some(6));
    e.abandon(second, Box::new(()), true).unwrap();
    assert!(e.report().blocked.is_empty());
}

/// Threads of two ranks in pairs, all at once; every thread checks each byte it gets.
fn pairs(w: &World, threads: usize, messages: usize) {
    for e in &w.engines {
        e.set_threads_multiple();
    }
    let contexts = w.contexts(0);
    std::thread::scope(|scope| {
        for (rank, (e, cx)) in w.engines.iter().zip(&contexts).enumerate() {
            for t in 0..threads {
                scope.spawn(move || {
                    let _end = EndAll(w);
                    let mut room = [0u8; 8];
                    let peer = 1 - rank as u32;
                    for m in 0..messages as u64 {
                        let data = (m << 8 | t as u64).to_le_bytes();
                        if (rank == 0) == (m % 2 == 0) {
                            e.send(cx, peer, t as i32, send_of(&data), SendMode::Standard).unwrap();
                        } else {
                            e.recv(cx, Source::Rank(peer), Tag::Is(t as i32), recv_of(&mut room)).unwrap();
                            assert_eq!(room, data);
                        }
                    }
                });
            }
        }
    });
    for e in &w.engines {
        let report = e.report();
        assert_eq!((report.posted_total, report.unexpected_total, report.blocked.len()), (0, 0, 0));
    }
}

#[test]
fn sixteen_threads_exchange_exactly() {
    pairs(&World::queues(2, Limits::default()), 16, 2000);
}

#[test]
fn four_threads_on_a_rough_network() {
    let mut config = SimConfig::rough(2);
    config.stall_ns = 10_000;
    let w = World::new(14, config, Limits::default());
    let _clock = Clock::start(&w);
    pairs(&w, 4, 50);
}

#[test]
fn threads_complete_each_others_requests() {
    let w = World::queues(1, Limits::default());
    w.engines[0].set_threads_multiple();
    let contexts = w.contexts(0);
    let (e, cx) = (&w.engines[0], &contexts[0]);
    std::thread::scope(|scope| {
        // To oneself: the sender completes what another thread sleeps for.
        for t in 0..4 {
            scope.spawn(move || {
                let mut room = [0u8; 4];
                for m in 0..200u32 {
                    e.recv(cx, Source::Rank(0), Tag::Is(t), recv_of(&mut room)).unwrap();
                    assert_eq!(room, m.to_le_bytes());
                }
            });
            scope.spawn(move || {
                for m in 0..200u32 {
                    e.send(cx, 0, t, send_of(&m.to_le_bytes()), SendMode::Synchronous).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_large_send_leaves_while_its_rank_computes() {
    let w = World::queues(2, Limits::default());
    ranks(&w, |e, cx, rank| {
        let mut data = vec![3u8; 1 << 20];
        if rank == 0 {
            let id = e.isend(cx, 1, 0, send_of(&data), SendMode::Standard).unwrap();
            // No call of the engine here: the other side says over a channel of its own that it has all.
            let until = Instant::now() + Duration::from_secs(30);
            while !ARRIVED.load(Ordering::Acquire) {
                assert!(Instant::now() < until, "the data waits for a call");
                std::thread::sleep(Duration::from_millis(1));
            }
            e.wait(id).unwrap();
        } else {
            e.recv(cx, Source::Rank(0), Tag::Any, recv_of(&mut data)).unwrap();
            ARRIVED.store(true, Ordering::Release);
        }
    });
}

static ARRIVED: AtomicBool = AtomicBool::new(false);

static SECOND: AtomicBool = AtomicBool::new(false);

#[test]
fn a_small_send_that_waits_inside_leaves_while_its_rank_computes() {
    let mut queues = common::queue::Queues::new(2);
    queues.holding = true;
    let w = World::over_queues(queues, 2, Limits::default());
    ranks(&w, |e, cx, rank| {
        let mut room = [0u8; 8];
        if rank == 0 {
            e.send(cx, 1, 0, send_of(&[1; 8]), SendMode::Standard).unwrap();
            // Time for the helper to have gone to sleep again; without it the test proves less.
            std::thread::sleep(Duration::from_millis(100));
            e.send(cx, 1, 0, send_of(&[2; 8]), SendMode::Standard).unwrap();
            let until = Instant::now() + Duration::from_secs(30);
            while !SECOND.load(Ordering::Acquire) {
                assert!(Instant::now() < until, "the message waits for a call");
                std::thread::sleep(Duration::from_millis(1));
            }
        } else {
            for round in 1..3 {
                e.recv(cx, Source::Rank(0), Tag::Any, recv_of(&mut room)).unwrap();
                assert_eq!(room, [round; 8]);
            }
            SECOND.store(true, Ordering::Release);
        }
    });
}

/// Its buffer is in a frame that is gone: the next message is for whoever asks next.
#[test]
fn a_receive_whose_wait_panics_is_taken_back() {
    let queues = common::queue::Queues::new(2);
    let trap = queues.trap.clone();
    let w = World::over_queues(queues, 2, Limits::default());
    let (sender, receiver) = (w.context(0, 0), w.context(1, 0));
    let e = &w.engines[1];
    trap.store(true, Ordering::Relaxed);
    let wait = std::panic::AssertUnwindSafe(|| {
        let mut gone = vec![0u8; 8];
        e.recv(&receiver, Source::Rank(0), Tag::Is(1), recv_of(&mut gone)).map(drop)
    });
    assert!(std::panic::catch_unwind(wait).is_err());
    w.engines[0].send(&sender, 1, 1, send_of(&[7; 8]), SendMode::Standard).unwrap();
    e.progress();
    let found = e.iprobe(&receiver, Source::Rank(0), Tag::Is(1)).unwrap();
    assert_eq!(found.map(|status| status.bytes), Some(8), "nobody has taken the message");
    let mut room = [0u8; 8];
    e.recv(&receiver, Source::Rank(0), Tag::Is(1), recv_of(&mut room)).unwrap();
    assert_eq!(room, [7; 8]);
}
