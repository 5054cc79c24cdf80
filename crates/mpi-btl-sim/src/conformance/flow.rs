//! Bounds: of what a backend takes, and of what it delivers at once.

use super::{Harness, World, pattern};
use mpi_btl::{Body, Ep, SendError};

/// More than any backend may take for a peer that reads nothing, in bytes.
const TOO_MUCH_BYTES: usize = 256 << 20;

/// A peer that does not receive makes the sender hear `Full` in the end; when it receives again,
/// `writable` comes and nothing was lost.
pub fn full_then_writable(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "full_then_writable", 2);
    let len = 4000.min(world.end(0).tx.caps(Ep(1)).frame_limit);
    // The connection stands before the flood.
    world.send(0, 1, 0, Body::Bytes(&pattern(0, 0, len)), false);
    world.until("the first message", |w| w.logs[1].arrivals.len() == 1);
    let mut tag = 1;
    let body = pattern(0, 1, len);
    while world.offer(0, 1, tag, Body::Bytes(&body), false) != Err(SendError::Full) {
        tag += 1;
        assert!(
            (tag as usize) * len < TOO_MUCH_BYTES,
            "full_then_writable: {tag} messages taken, never Full"
        );
    }
    let seen = world.logs[0].writable(Ep(1));
    world.until("writable", |w| w.logs[0].writable(Ep(1)) > seen);
    world.send(0, 1, tag, Body::Bytes(&body), false);
    world.until("every message", |w| w.logs[1].tags(Ep(0)).len() == tag as usize + 1);
    assert!(world.logs[1].tags(Ep(0)).into_iter().eq(0..=tag), "full_then_writable: lost or overtaken");
}

/// `poll` delivers at most what it is allowed.
pub fn budget_is_respected(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "budget_is_respected", 3);
    for from in [0, 2] {
        for tag in 0..40 {
            world.send(from, 1, tag, Body::Bytes(&pattern(from, tag, 30)), true);
        }
        world.end(from).tx.flush();
    }
    let count = |w: &World<'_>| w.logs[1].tags(Ep(0)).len() + w.logs[1].tags(Ep(2)).len();
    let deadline = std::time::Instant::now() + super::WAIT;
    while count(&world) < 80 {
        assert!(std::time::Instant::now() < deadline, "budget_is_respected: messages are missing");
        let before = count(&world);
        let mut moved = world.poll(1, 3);
        let after = count(&world);
        assert!(after <= before + 3, "poll(3) delivered {} messages", after - before);
        moved |= world.poll(0, 3) | world.poll(2, 3);
        if !moved {
            world.harness.idle();
        }
    }
}
