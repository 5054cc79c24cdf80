//! The simulator itself: determinism, order, death.

use mpi_btl::{Am, Body, BtlRx, BtlTx, Down, Ep, OpId, Place, Polled, SendError, Sink};
use mpi_btl_sim::{Net, SimConfig};
use mpi_wire::Header;

#[derive(Default)]
struct Log {
    tags: Vec<(u32, i32)>,
    down: Vec<(Ep, Down)>,
}

impl Sink for Log {
    fn message(&mut self, from: Ep, header: &Header, _have: &[u8], _total: u64) -> Place {
        self.tags.push((from.0, header.tag));
        Place::Done
    }
    fn chunk(&mut self, _: Ep, _: mpi_btl::BulkId, _: &[u8], _: bool) {}
    fn arrived(&mut self, _: Ep, _: mpi_btl::BulkId) {}
    fn completed(&mut self, _: Ep, _: OpId, _: Result<(), String>) {}
    fn writable(&mut self, _: Ep) {}
    fn down(&mut self, ep: Ep, why: Down) {
        self.down.push((ep, why));
    }
}

type Half = (Box<dyn BtlTx>, Box<dyn BtlRx>);

fn all(net: &Net, n: usize) -> Vec<Half> {
    let mut halves: Vec<Half> = (0..n).map(|i| net.endpoint(i)).collect();
    for (i, (tx, _)) in halves.iter_mut().enumerate() {
        for j in (0..n).filter(|j| *j != i) {
            tx.connect(&net.peer_info(j)).expect("simulated peers reach each other");
        }
    }
    halves
}

fn settle(net: &Net, halves: &mut [Half], logs: &mut [Log]) {
    loop {
        let mut moved = true;
        while moved {
            moved = false;
            for ((tx, rx), log) in halves.iter_mut().zip(logs.iter_mut()) {
                tx.flush();
                moved |= rx.poll(4, log) == Polled::Progress;
            }
        }
        if !net.advance() {
            return;
        }
    }
}

fn run(seed: u64) -> (u64, Vec<Log>) {
    let net = Net::new(seed, SimConfig::rough(3));
    let mut halves = all(&net, 3);
    let mut logs: Vec<Log> = (0..3).map(|_| Log::default()).collect();
    for tag in 0..40 {
        for from in 0..3_usize {
            for to in (0..3).filter(|t| *t != from) {
                let body = vec![tag as u8; tag as usize * 50];
                let header = Header { tag, length: body.len() as u64, ..Header::default() };
                let am = Am { header, body: Body::Bytes(&body), more: tag % 2 == 0 };
                while halves[from].0.send(Ep(to as u32), am) == Err(SendError::Full) {
                    settle(&net, &mut halves, &mut logs);
                }
            }
        }
    }
    settle(&net, &mut halves, &mut logs);
    assert!(net.quiet(), "seed {seed}: {} in flight", net.in_flight());
    (net.digest(), logs)
}

#[test]
fn every_message_arrives_in_order_for_many_seeds() {
    for seed in 0..300 {
        let (_, logs) = run(seed);
        for log in &logs {
            for from in 0..3 {
                let tags: Vec<i32> = log.tags.iter().filter(|t| t.0 == from).map(|t| t.1).collect();
                assert!(tags.is_empty() || tags == (0..40).collect::<Vec<_>>(), "seed {seed}: {tags:?}");
            }
            assert_eq!(log.tags.len(), 80, "seed {seed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(11).0, run(11).0);
    assert_ne!(run(11).0, run(12).0);
}

#[test]
fn a_killed_endpoint_is_reported_once_to_those_who_spoke_with_it() {
    for seed in 0..200 {
        let net = Net::new(seed, SimConfig::rough(3));
        let mut halves = all(&net, 3);
        let mut logs: Vec<Log> = (0..3).map(|_| Log::default()).collect();
        let am = Am { header: Header::default(), body: Body::Bytes(&[]), more: false };
        while halves[0].0.send(Ep(1), am) == Err(SendError::Full) {
            settle(&net, &mut halves, &mut logs);
        }
        net.kill(1);
        settle(&net, &mut halves, &mut logs);
        assert!(matches!(logs[0].down[..], [(Ep(1), Down::Reset(_))]), "seed {seed}: {:?}", logs[0].down);
        assert!(logs[2].down.is_empty(), "seed {seed}: {:?}", logs[2].down);
        assert!(matches!(halves[0].0.send(Ep(1), am), Err(SendError::Down(_))));
        assert!(net.quiet());
    }
}
