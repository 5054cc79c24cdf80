//! Sleeping: whoever armed is woken by everything that comes.
#![allow(unsafe_code)]

use super::{Harness, World, pattern};
use mpi_btl::{Am, Armed, Body, Ep, Polled, SendError, WakeBy};
use mpi_wire::Header;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The receiver polls only when its alarm says so, and every message arrives.
pub fn arming_misses_nothing(harness: &mut dyn Harness) {
    for by in [WakeBy::Futex, WakeBy::Descriptor] {
        let mut world = World::new(&mut *harness, "arming_misses_nothing", 2);
        for tag in 0..50 {
            let len = if tag % 5 == 0 { 100_000 } else { 8 };
            let len = len.min(world.end(0).tx.caps(Ep(1)).frame_limit);
            // In every third round the message is on its way before the receiver arms.
            let mut sent = false;
            if tag % 3 == 0 {
                world.send(0, 1, tag, Body::Bytes(&pattern(0, tag, len)), false);
                sent = true;
            }
            let deadline = Instant::now() + super::WAIT;
            while world.logs[1].arrivals.len() <= tag as usize {
                assert!(Instant::now() < deadline, "{by:?}: message {tag} never arrived");
                sleep_once(&mut world, by, tag, len, &mut sent, deadline);
            }
        }
    }
}

/// The receiver arms, sleeps until its alarm, and polls once; meanwhile the sender sends and polls.
fn sleep_once(world: &mut World<'_>, by: WakeBy, tag: i32, len: usize, sent: &mut bool, deadline: Instant) {
    let World { harness, ends, logs, .. } = world;
    let [sender, receiver] = &mut logs[..] else { unreachable!("two endpoints") };
    let [Some(from), Some(to)] = &mut ends[..] else { unreachable!("two endpoints") };
    let armed = to.rx.arm(by);
    while !rings(&armed) {
        assert!(Instant::now() < deadline, "{by:?}: message {tag} came and woke nobody");
        let mut moved = false;
        if !*sent {
            let body = pattern(0, tag, len);
            let header = Header { tag, length: len as u64, ..Header::default() };
            match from.tx.send(Ep(1), Am { header, body: Body::Bytes(&body), more: false }) {
                Ok(_) => *sent = true,
                Err(SendError::Full) => {}
                Err(e) => panic!("arming_misses_nothing: {e}"),
            }
        }
        moved |= from.rx.poll(4, sender) == Polled::Progress;
        if !moved {
            harness.idle();
        }
    }
    to.rx.disarm();
    to.rx.poll(4, receiver);
}

/// The alarm has gone off.
fn rings(armed: &Armed<'_>) -> bool {
    match armed {
        Armed::Ready => true,
        Armed::Nothing => panic!("arming_misses_nothing: a known peer, and nothing that can wake"),
        Armed::Word { word, expected } => word.load(Ordering::Acquire) != *expected,
        Armed::Descriptor(fd) => {
            // SAFETY: the receiving half keeps its descriptor open while it is armed.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
            matches!(poll(&mut fds, PollTimeout::ZERO), Ok(n) if n > 0)
        }
    }
}
