//! How a peer ends: goodbye, death, nonsense.

use super::{Event, Harness, World, pattern, span};
use mpi_btl::{Body, Down, Ep, OpId, SendError, Sent};

/// A goodbye arrives behind everything sent before, is told once, and ends sending to the one who left.
pub fn goodbye_comes_after_everything(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "goodbye_comes_after_everything", 3);
    let len = 30_000.min(world.end(0).tx.caps(Ep(1)).frame_limit);
    for tag in 0..20 {
        world.send(0, 1, tag, Body::Bytes(&pattern(0, tag, len)), true);
    }
    world.end(0).tx.close(Ep(1));
    world.until("the goodbye", |w| !w.logs[1].downs(Ep(0)).is_empty());
    assert_eq!(world.logs[1].tags(Ep(0)), (0..20).collect::<Vec<_>>());
    assert_eq!(world.logs[1].arrivals.len(), 20);
    let refused = world.offer(1, 0, 0, Body::Bytes(b"late"), false);
    assert!(matches!(refused, Err(SendError::Down(_))), "after the peer's goodbye: {refused:?}");
    world.end(1).tx.close(Ep(0));
    world.until("the other goodbye", |w| !w.logs[0].downs(Ep(1)).is_empty());
    world.until("quiet", |w| w.ends.iter().flatten().all(|e| e.tx.quiet()));
    world.settle();
    assert_eq!(world.logs[1].downs(Ep(0)), [Down::Goodbye]);
    assert_eq!(world.logs[0].downs(Ep(1)), [Down::Goodbye]);
    // The third is not concerned.
    world.send(2, 1, 7, Body::Bytes(b"still here"), false);
    world.until("the third one's message", |w| w.logs[1].tags(Ep(2)) == [7]);
}

/// Death without a goodbye is a reset, told once, after the failure of every pending operation.
pub fn death_is_a_reset(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "death_is_a_reset", 3);
    for (from, to) in [(0, 1), (1, 0), (2, 1), (0, 2)] {
        world.send(from, to, 0, Body::Bytes(b"hello"), false);
    }
    world.until("the greetings", |w| w.logs[1].arrivals.len() == 2 && w.logs[0].arrivals.len() == 1);
    // Bodies lent to a peer that never takes them.
    let caps = world.end(0).tx.caps(Ep(1));
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    let mut pending = Vec::new();
    if caps.lend {
        for i in 0..8 {
            let mut bytes = pattern(0, i, (4 << 20).min(caps.frame_limit));
            let op = OpId(i as u64);
            if world.offer(0, 1, 1 + i, Body::Lent(span(&mut bytes), op), false) == Ok(Sent::Pending) {
                pending.push(op);
            }
            bodies.push(bytes);
        }
    }
    let Some(end) = world.ends[1].take() else { unreachable!("it was just there") };
    if !world.harness.kill(1, end) {
        return;
    }
    world.until("both resets", |w| [0, 2].iter().all(|i| !w.logs[*i].downs(Ep(1)).is_empty()));
    world.settle();
    for i in [0, 2] {
        let downs = world.logs[i].downs(Ep(1));
        assert!(matches!(downs[..], [Down::Reset(_)]), "death_is_a_reset: {downs:?}");
    }
    for op in pending {
        assert_eq!(world.logs[0].completions(op).len(), 1, "{op:?} lent to the dead one");
    }
    let last = world.logs[0].events.last();
    assert!(matches!(last, Some(Event::Down(Ep(1), _))), "something was told after down: {last:?}");
    let refused = world.offer(0, 1, 99, Body::Bytes(b"late"), false);
    assert!(matches!(refused, Err(SendError::Down(_))), "to a dead peer: {refused:?}");
    // Nobody else is concerned.
    world.send(2, 0, 5, Body::Bytes(b"still here"), false);
    world.until("the other peer's message", |w| w.logs[0].tags(Ep(2)) == [5]);
    drop(bodies);
}

/// Bytes that are no message end that peer, and only that one.
pub fn garbage_is_a_protocol_error(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "garbage_is_a_protocol_error", 3);
    world.send(0, 1, 0, Body::Bytes(b"hello"), false);
    world.until("the greeting", |w| w.logs[1].arrivals.len() == 1);
    if !world.harness.garbage(2, 1) {
        return;
    }
    world.until("down", |w| !w.logs[1].downs(Ep(2)).is_empty());
    world.settle();
    let downs = world.logs[1].downs(Ep(2));
    assert!(matches!(&downs[..], [Down::Protocol(fact)] if !fact.is_empty()), "garbage: {downs:?}");
    world.send(0, 1, 1, Body::Bytes(b"still here"), false);
    world.until("the other peer's message", |w| w.logs[1].tags(Ep(0)) == [0, 1]);
}
