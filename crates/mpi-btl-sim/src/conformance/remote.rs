//! Memory offered to a peer, where the backend can do that.
#![allow(unsafe_code)]

use super::{Harness, World, pattern, span};
use mpi_btl::{Ep, OpId, RegionKey, RemoteError, Sent, Span};

/// `expose`, `get` in parts, the owner told once after the last; `withdraw`; a malformed key.
pub fn exposed_memory(harness: &mut dyn Harness) {
    let mut world = World::new(harness, "exposed_memory", 2);
    // Both sides know each other before memory is touched.
    for (from, to) in [(0, 1), (1, 0)] {
        world.send(from, to, 0, mpi_btl::Body::Bytes(b"hello"), false);
    }
    world.until("the greetings", |w| w.logs.iter().all(|l| l.arrivals.len() == 1));
    if !world.end(1).tx.caps(Ep(0)).get {
        let mut bytes = [0; 8];
        assert!(world.end(0).tx.expose(Ep(1), span(&mut bytes), OpId(1)).is_none(), "expose without get");
        return;
    }
    let len = 300_000;
    let mut source = pattern(0, 9, len);
    let Some(key) = world.end(0).tx.expose(Ep(1), span(&mut source), OpId(1)) else {
        panic!("exposed_memory: caps say get, and expose refuses")
    };
    let mut target = vec![0; len];
    let parts = [(0, 1), (1, 4096), (4097, 200_000), (204_097, len - 204_097)];
    for (i, (at, n)) in parts.into_iter().enumerate() {
        let into = span(&mut target[at..at + n]);
        get(&mut world, &key, at, into, OpId(10 + i as u64), i == 3);
    }
    world.until("the owner's completion", |w| !w.logs[0].completions(OpId(1)).is_empty());
    world.settle();
    assert_eq!(world.logs[0].completions(OpId(1)), [Ok(())]);
    assert!(target == pattern(0, 9, len), "what was got is damaged");

    assert!(world.end(0).tx.expose(Ep(1), span(&mut source), OpId(2)).is_some());
    assert!(world.end(0).tx.withdraw(Ep(1), OpId(2)), "an offer that nobody took can be withdrawn");
    world.settle();
    assert!(world.logs[0].completions(OpId(2)).is_empty(), "a withdrawn offer was completed");

    let malformed = RegionKey { bytes: [0xFF; RegionKey::LEN] };
    let into = span(&mut target[..8]);
    // SAFETY: `target` outlives the call, and a refused operation never completes later.
    let refused = unsafe { world.end(1).tx.get(Ep(0), &malformed, 0, into, OpId(30), true) };
    assert!(
        matches!(refused, Err(RemoteError::Key | RemoteError::Refused(_) | RemoteError::Busy)),
        "a malformed key: {refused:?}"
    );
}

/// Gets a part, however often the backend is busy, and waits for it.
fn get(world: &mut World<'_>, key: &RegionKey, at: usize, into: Span, op: OpId, last: bool) {
    let deadline = std::time::Instant::now() + super::WAIT;
    loop {
        // SAFETY: the caller's buffer stays alive and untouched until the completion awaited below.
        match unsafe { world.end(1).tx.get(Ep(0), key, at as u64, into, op, last) } {
            Ok(Sent::Pending) => {
                world.until("the end of a get", |w| !w.logs[1].completions(op).is_empty());
                assert_eq!(world.logs[1].completions(op), [Ok(())]);
                return;
            }
            Ok(_) => return,
            Err(RemoteError::Busy) => world.step(),
            Err(e) => panic!("exposed_memory: get of {} bytes at {at}: {e}", into.len()),
        }
        assert!(std::time::Instant::now() < deadline, "exposed_memory: busy for ever");
    }
}
