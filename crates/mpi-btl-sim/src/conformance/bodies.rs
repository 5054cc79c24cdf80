//! Where bodies come from and where they go.

use super::{Harness, Policy, World, pattern, span};
use mpi_btl::{Body, Ep, OpId, Sent};

/// A long body within the frame limit.
fn long(world: &mut World<'_>) -> usize {
    (2 << 20).min(world.end(0).tx.caps(Ep(1)).frame_limit)
}

/// Lent memory is given back exactly once, and only after the receiver can no longer be harmed by a
/// change of it.
pub fn lent_bodies_complete_once(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "lent_bodies_complete_once", 2);
    if !world.end(0).tx.caps(Ep(1)).lend {
        return;
    }
    let len = long(&mut world);
    for tag in 0..12 {
        let mut bytes = pattern(0, tag, len);
        let op = OpId(100 + tag as u64);
        let sent = world.send(0, 1, tag, Body::Lent(span(&mut bytes), op), false);
        if sent == Sent::Pending {
            world.until("completion", |w| !w.logs[0].completions(op).is_empty());
        }
        // Ours again: whoever still read it would see this.
        bytes.fill(0xDD);
        world.until("the message", |w| w.logs[1].arrivals.len() == tag as usize + 1);
        assert!(world.logs[1].arrivals[tag as usize].body == pattern(0, tag, len), "body {tag} is damaged");
        world.settle();
        let told = world.logs[0].completions(op).len();
        assert_eq!(told, usize::from(sent == Sent::Pending), "completions of body {tag}, which was {sent:?}");
    }
}

/// Each way of taking a body, with a small message right behind it.
pub fn direct_chunks_and_discarded_bodies(harness: &mut dyn Harness) {
    for policy in [Policy::Direct, Policy::Chunks, Policy::Discard, Policy::Mixed] {
        let mut world = World::new(&mut *harness, "direct_chunks_and_discarded_bodies", 2);
        world.logs[1].policy = policy;
        let limit = long(&mut world);
        for (tag, len) in [0, 1, 100, 20_000, 200_000, 2 << 20].into_iter().enumerate() {
            let len = len.min(limit);
            world.send(0, 1, 2 * tag as i32, Body::Bytes(&pattern(0, 2 * tag as i32, len)), false);
            world.send(0, 1, 2 * tag as i32 + 1, Body::Bytes(b"behind"), false);
        }
        world.until("every message", |w| w.logs[1].arrivals.len() == 12);
        assert_eq!(world.logs[1].tags(Ep(0)), (0..12).collect::<Vec<_>>(), "{policy:?}");
        for a in &world.logs[1].arrivals {
            let full = if a.header.tag % 2 == 1 {
                b"behind".to_vec()
            } else {
                pattern(0, a.header.tag, a.header.length as usize)
            };
            if policy == Policy::Discard {
                assert!(full.starts_with(&a.body), "{policy:?}: body {} is damaged", a.header.tag);
            } else {
                assert!(full == a.body, "{policy:?}: body {} is damaged", a.header.tag);
            }
        }
    }
}

/// After `revoke` the memory is not written any more, and the messages behind still come.
pub fn revoked_bodies_are_left_alone(harness: &mut dyn Harness) {
    for policy in [Policy::Direct, Policy::Chunks] {
        let mut world = World::new(&mut *harness, "revoked_bodies_are_left_alone", 2);
        world.logs[1].policy = policy;
        let len = long(&mut world);
        world.send(0, 1, 0, Body::Bytes(&pattern(0, 0, len)), false);
        world.send(0, 1, 1, Body::Bytes(b"behind"), false);
        let deadline = std::time::Instant::now() + super::WAIT;
        while world.logs[1].tags(Ep(0)).is_empty() {
            assert!(std::time::Instant::now() < deadline, "the message did not begin");
            let moved = world.poll(0, 1) | world.poll(1, 1);
            if !moved {
                world.harness.idle();
            }
        }
        let mut kept = None;
        if let [bulk] = world.logs[1].open_bodies()[..] {
            world.end(1).rx.revoke(bulk);
            let mut body = world.logs[1].reclaim(bulk).unwrap_or_default();
            body.fill(0x55);
            kept = Some(body);
        }
        let complete = 1 + usize::from(kept.is_none());
        world.until("the message behind", |w| w.logs[1].arrivals.len() == complete);
        world.settle();
        assert_eq!(world.logs[1].tags(Ep(0)), [0, 1]);
        if let Some(body) = kept {
            assert!(body.iter().all(|b| *b == 0x55), "{policy:?}: revoked memory was written");
        }
    }
}
