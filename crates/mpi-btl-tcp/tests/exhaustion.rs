//! A process without descriptors left: it neither spins nor loses the peer that wants to connect.

mod common;

use common::{open, until};
use mpi_btl::{Am, Armed, Body, Ep, WakeBy};
use mpi_btl_sim::conformance::Recorder;
use mpi_wire::Header;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::os::fd::BorrowedFd;

#[test]
fn accepting_rests_while_there_is_no_descriptor() {
    let (mut a, mut b) = (open(0), open(1));
    let (mut log_a, mut log_b) = (Recorder::new(0), Recorder::new(1));
    a.tx.connect(&b.info).expect("known");
    b.tx.connect(&a.info).expect("known");
    let am = Am { header: Header { tag: 1, ..Header::default() }, body: Body::Bytes(&[]), more: false };
    a.tx.send(Ep(1), am).expect("taken");
    // Now nothing more can be opened, and the connection waits at b's door.
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
    setrlimit(Resource::RLIMIT_NOFILE, 64.min(soft), hard).expect("a lower limit");
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let start = std::time::Instant::now();
    let mut rings = 0;
    for _ in 0..20 {
        if let Armed::Descriptor(fd) = b.rx.arm(WakeBy::Descriptor) {
            // SAFETY: the receiving half keeps its descriptor open while it is armed.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
            rings += poll(&mut fds, PollTimeout::from(10_u8)).expect("poll");
        }
        b.rx.disarm();
        b.rx.poll(1, &mut log_b);
    }
    // The listener rings once per pause, plus once at the start, however slow this machine is.
    let pauses = start.elapsed().as_millis() / mpi_btl_tcp::limits::ACCEPT_PAUSE.as_millis();
    assert!(rings as u128 <= 2 + 2 * pauses, "woken {rings} times in {pauses} pauses");
    drop(taken);
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("the old limit");
    until("the message", &mut [(&mut a, &mut log_a), (&mut b, &mut log_b)], |w| w[1].1.tags(Ep(0)) == [1]);
}
