//! Order per pair, content, connections.

use super::{Harness, World, pattern, span};
use crate::Rng;
use mpi_btl::{Body, Ep, OpId, Sent};

const SIZES: [usize; 16] =
    [0, 1, 7, 8, 24, 63, 64, 65, 500, 1024, 4095, 8192, 16_385, 65_536, 300_001, 3 << 20];

/// Every pair, both ways, all sizes up to the frame limit, all kinds of bodies, with and without
/// holding back: every message arrives once, in order, intact.
pub fn order_under_mixed_sizes(harness: &mut dyn Harness) {
    let n = 3;
    let mut world = World::new(harness, "order_under_mixed_sizes", n);
    let mut rng = Rng::new(1);
    let mut lent: Vec<(usize, OpId, Sent, Vec<u8>)> = Vec::new();
    let mut sent: Vec<Vec<Vec<usize>>> = vec![vec![Vec::new(); n]; n];
    for round in 0..60 {
        for (from, sent) in sent.iter_mut().enumerate() {
            for to in (0..n).filter(|t| *t != from) {
                let caps = world.end(from).tx.caps(Ep(to as u32));
                let len = SIZES[rng.below(SIZES.len() as u64) as usize].min(caps.frame_limit);
                let mut bytes = pattern(from, round, len);
                let more = rng.chance(500);
                sent[to].push(len);
                match rng.below(3) {
                    0 => drop(world.send(from, to, round, Body::Bytes(&bytes), more)),
                    1 => {
                        let (a, b) = bytes.split_at(rng.upto(len));
                        world.send(from, to, round, Body::Two(a, b), more);
                    }
                    _ if caps.lend => {
                        let op = OpId(lent.len() as u64);
                        let body = Body::Lent(span(&mut bytes), op);
                        let state = world.send(from, to, round, body, more);
                        lent.push((from, op, state, bytes));
                    }
                    _ => drop(world.send(from, to, round, Body::Bytes(&bytes), more)),
                }
            }
            // A flush now and then: bursts of what was held back, copied and lent.
            if round % 4 == 3 {
                world.end(from).tx.flush();
            }
        }
    }
    let all = 60 * (n - 1);
    world.until("every message", |w| w.logs.iter().all(|l| l.arrivals.len() == all));
    world.until("every lent body's end", |w| {
        lent.iter().all(|(i, op, s, _)| *s != Sent::Pending || !w.logs[*i].completions(*op).is_empty())
    });
    world.settle();
    for (to, log) in world.logs.iter().enumerate() {
        for from in (0..n).filter(|f| *f != to) {
            let ep = Ep(from as u32);
            assert_eq!(log.tags(ep), (0..60).collect::<Vec<_>>(), "order from {from} to {to}");
            for a in log.arrivals.iter().filter(|a| a.from == ep) {
                let expected = pattern(from, a.header.tag, sent[from][to][a.header.tag as usize]);
                assert!(a.body == expected, "body {} from {from} to {to} is damaged", a.header.tag);
            }
        }
    }
    for (from, op, state, _) in &lent {
        let told = world.logs[*from].completions(*op);
        let expected = if *state == Sent::Pending { vec![Ok(())] } else { vec![] };
        assert_eq!(told, expected, "{op:?} answered {state:?}");
    }
}

/// Both sides send first at the same time, many times over: nothing is lost or overtaken.
pub fn crossing_connections(harness: &mut dyn Harness) {
    for round in 0..15 {
        let mut world = World::new(&mut *harness, "crossing_connections", 4);
        for tag in 0..10 {
            for from in 0..4 {
                for to in (0..4).filter(|t| *t != from) {
                    let body = pattern(from, tag, 10 + tag as usize * 100);
                    world.send(from, to, tag, Body::Bytes(&body), false);
                }
                // Different interleavings of the two handshakes.
                if (round + tag as usize + from) % 3 == 0 {
                    world.poll(from, 4);
                }
            }
        }
        world.until("every message", |w| w.logs.iter().all(|l| l.arrivals.len() == 30));
        for log in &world.logs {
            for from in (0..4).filter(|f| *f != log.me) {
                assert_eq!(log.tags(Ep(from)), (0..10).collect::<Vec<_>>(), "from {from} to {}", log.me);
            }
        }
    }
}

/// `poll_from` delivers the named peer's messages, one at a time, in order.
pub fn poll_from_finds_the_named_peer(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "poll_from_finds_the_named_peer", 3);
    for tag in 0..20 {
        for from in [0, 2] {
            world.send(from, 1, tag, Body::Bytes(&pattern(from, tag, 100)), false);
        }
    }
    let deadline = std::time::Instant::now() + super::WAIT;
    while world.logs[1].tags(Ep(0)).len() < 20 {
        assert!(std::time::Instant::now() < deadline, "poll_from does not find what the peer sent");
        let before = world.logs[1].tags(Ep(0)).len() + world.logs[1].tags(Ep(2)).len();
        let World { ends, logs, .. } = &mut world;
        if let Some(end) = &mut ends[1] {
            let _ = end.rx.poll_from(Ep(0), &mut logs[1]);
        }
        let after = world.logs[1].tags(Ep(0)).len() + world.logs[1].tags(Ep(2)).len();
        assert!(after <= before + 1, "poll_from delivered {} messages at once", after - before);
        let moved = world.poll(0, 4) | world.poll(2, 4);
        if !moved && before == after {
            world.harness.idle();
        }
    }
    assert_eq!(world.logs[1].tags(Ep(0)), (0..20).collect::<Vec<_>>());
    world.until("the other peer's messages", |w| w.logs[1].tags(Ep(2)).len() == 20);
}

/// A peer that was never named reaches us: the engine is asked who it is; unnamed, it waits unread.
pub fn strangers_are_introduced(harness: &mut dyn Harness) {
    let mut world = World::unconnected(&mut *harness, "strangers_are_introduced", 2);
    world.connect(0, 1);
    let rank = world.end(0).info.world_rank;
    world.logs[1].introduce_as = Some(Ep(5));
    world.send(0, 1, 3, Body::Bytes(b"hello"), false);
    world.until("the stranger's message", |w| w.logs[1].tags(Ep(5)) == [3]);
    assert_eq!(world.logs[1].introduced, [rank]);
    // And it can be answered once it is named.
    let named = mpi_btl::PeerInfo { ep: Ep(5), ..world.end(0).info.clone() };
    world.end(1).tx.connect(&named).expect("a peer that is there already");
    let header = mpi_wire::Header { tag: 4, ..Default::default() };
    let am = mpi_btl::Am { header, body: Body::Bytes(&[]), more: false };
    let deadline = std::time::Instant::now() + super::WAIT;
    while let Err(e) = world.end(1).tx.send(Ep(5), am) {
        assert_eq!(e, mpi_btl::SendError::Full);
        assert!(std::time::Instant::now() < deadline, "Full for ever");
        world.step();
    }
    world.until("the answer", |w| w.logs[0].tags(Ep(1)) == [4]);
    drop(world);

    let mut world = World::unconnected(harness, "strangers_are_introduced", 2);
    world.connect(0, 1);
    world.send(0, 1, 3, Body::Bytes(b"hello"), false);
    world.settle();
    assert!(world.logs[1].events.is_empty(), "an unnamed peer was delivered: {:?}", world.logs[1].events);
    world.connect(1, 0);
    world.until("the named one's message", |w| w.logs[1].tags(Ep(0)) == [3]);
}
