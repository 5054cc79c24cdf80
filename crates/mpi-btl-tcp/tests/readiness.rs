//! A connection that is read again and again leaves the set that a sleeper waits on, and is back in time.

mod common;

use common::{WAIT, open, until};
use mpi_btl::{Am, Armed, Body, Ep, WakeBy};
use mpi_btl_sim::conformance::{End, Recorder};
use mpi_btl_tcp::limits::ASIDE_AFTER_READS;
use mpi_wire::Header;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{BorrowedFd, RawFd};

fn send(end: &mut End, to: u32, tag: i32) {
    let am = Am { header: Header { tag, ..Header::default() }, body: Body::Bytes(&[]), more: false };
    end.tx.send(Ep(to), am).expect("taken");
}

fn rings(descriptor: RawFd, wait: PollTimeout) -> bool {
    // SAFETY: the receiving half keeps its descriptor open, and lives.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], wait).expect("poll") > 0
}

/// Two that have read so much from each other that nobody watches the connection any more.
fn hot_pair() -> (End, End, Recorder, Recorder) {
    let (mut a, mut b) = (open(0), open(1));
    let (mut log_a, mut log_b) = (Recorder::new(0), Recorder::new(1));
    a.tx.connect(&b.info).expect("known");
    b.tx.connect(&a.info).expect("known");
    for tag in 0..2 * ASIDE_AFTER_READS as i32 {
        send(&mut a, 1, tag);
        until("a message", &mut [(&mut a, &mut log_a), (&mut b, &mut log_b)], |w| {
            w[1].1.tags(Ep(0)).last() == Some(&tag)
        });
    }
    (a, b, log_a, log_b)
}

fn bounded() -> PollTimeout {
    PollTimeout::try_from(WAIT).expect("it fits")
}

#[test]
fn a_sleeper_is_woken_by_what_it_read_without_asking() {
    let (mut a, mut b, _log_a, mut log_b) = hot_pair();
    let service = b.rx.service_descriptor().expect("an epoll set");
    // It is out of the set: this shows that the rest of the test tests something.
    send(&mut a, 1, -1);
    assert!(!rings(service, PollTimeout::from(50_u8)), "the connection is watched while it is hot");
    for (tag, armed_first) in [(-1, false), (-2, true), (-3, true)] {
        // What came before the sleep wakes, and what comes after.
        assert!(matches!(b.rx.arm(WakeBy::Descriptor), Armed::Descriptor(_)));
        if armed_first {
            send(&mut a, 1, tag);
        }
        assert!(rings(service, bounded()), "message {tag} did not wake");
        b.rx.disarm();
        while log_b.tags(Ep(0)).last() != Some(&tag) {
            b.rx.poll(16, &mut log_b);
        }
    }
}

#[test]
fn a_helper_is_woken_too() {
    let (mut a, mut b, _log_a, mut log_b) = hot_pair();
    let service = b.rx.service_descriptor().expect("an epoll set");
    b.rx.before_service();
    assert!(!rings(service, PollTimeout::ZERO));
    send(&mut a, 1, -1);
    assert!(rings(service, bounded()), "nobody is told");
    while log_b.tags(Ep(0)).last() != Some(&-1) {
        b.rx.poll(16, &mut log_b);
    }
}

/// The end of a connection that nobody watches is found by reading, and by whoever goes to sleep.
#[test]
fn the_end_is_seen() {
    for sleeps in [false, true] {
        let (a, mut b, _log_a, mut log_b) = hot_pair();
        drop(a);
        let service = b.rx.service_descriptor().expect("an epoll set");
        if sleeps {
            assert!(matches!(b.rx.arm(WakeBy::Descriptor), Armed::Descriptor(_)));
            assert!(rings(service, bounded()), "the end does not wake");
            b.rx.disarm();
        }
        until("the end", &mut [(&mut b, &mut log_b)], |w| !w[0].1.downs(Ep(0)).is_empty());
    }
}

/// A third connection makes readiness matter again.
#[test]
fn with_more_connections_all_are_watched() {
    let (mut a, mut b, mut log_a, mut log_b) = hot_pair();
    let mut others: Vec<End> = (2..4).map(open).collect();
    let mut logs: Vec<Recorder> = (2..4).map(Recorder::new).collect();
    for (i, other) in others.iter_mut().enumerate() {
        b.tx.connect(&other.info).expect("known");
        other.tx.connect(&b.info).expect("known");
        send(other, 1, 100 + i as i32);
    }
    let [one, two] = &mut others[..] else { unreachable!() };
    let [log_one, log_two] = &mut logs[..] else { unreachable!() };
    until(
        "their messages",
        &mut [(&mut b, &mut log_b), (&mut a, &mut log_a), (one, log_one), (two, log_two)],
        |w| w[0].1.tags(Ep(2)) == [100] && w[0].1.tags(Ep(3)) == [101],
    );
    send(&mut a, 1, -1);
    assert!(rings(b.rx.service_descriptor().expect("an epoll set"), bounded()));
    until("a message", &mut [(&mut b, &mut log_b)], |w| w[0].1.tags(Ep(0)).last() == Some(&-1));
}
