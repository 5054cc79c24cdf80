//! Sleeping on what the backends offer. One of the files with `unsafe`: it issues the system calls.

use mpi_btl::{Armed, BtlRx, WakeBy};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Wakes a thread of this process that sleeps on descriptors.
#[derive(Debug)]
pub(crate) struct Doorbell(Option<OwnedFd>);

impl Doorbell {
    pub fn new() -> Doorbell {
        // SAFETY: a plain system call; the descriptor is owned from here on.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        // SAFETY: just made, and nobody else has it.
        Doorbell((fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Wakes the sleeper, now or when it next goes to sleep.
    pub fn ring(&self) {
        if let Some(fd) = &self.0 {
            let one = 1u64;
            // SAFETY: writes eight bytes from a local value.
            unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }

    fn clear(&self) {
        if let Some(fd) = &self.0 {
            let mut count = 0u64;
            // SAFETY: reads eight bytes into a local value.
            unsafe { libc::read(fd.as_raw_fd(), (&raw mut count).cast(), 8) };
        }
    }
}

/// What to sleep on.
#[derive(Debug)]
pub(crate) enum Bed {
    /// While the word holds the value. The backend's: it lives as long as the engine.
    Word(*const AtomicU32, u32),
    /// Until one of these is readable.
    Descriptors(Vec<RawFd>),
}

/// Arms every backend. `None`: something is there already, do not sleep.
pub(crate) fn arm(rx: &mut [Box<dyn BtlRx>], descriptors_only: bool) -> Option<Bed> {
    let (mut word, mut fds) = (None, Vec::new());
    let mut words = 0;
    for half in rx.iter_mut() {
        match half.arm(if descriptors_only { WakeBy::Descriptor } else { WakeBy::Futex }) {
            Armed::Ready => {
                disarm(rx);
                return None;
            }
            Armed::Word { word: w, expected } => {
                word = Some(Bed::Word(w, expected));
                words += 1;
            }
            Armed::Descriptor(fd) => fds.push(fd),
            Armed::Nothing => {}
        }
    }
    match word {
        Some(word) if words == 1 && fds.is_empty() => Some(word),
        Some(_) if !descriptors_only => {
            disarm(rx);
            arm(rx, true)
        }
        _ => Some(Bed::Descriptors(fds)),
    }
}

/// Awake again.
pub(crate) fn disarm(rx: &mut [Box<dyn BtlRx>]) {
    for half in rx {
        half.disarm();
    }
}

/// Sleeps, at most for `slice`.
pub(crate) fn sleep(bed: &Bed, doorbell: &Doorbell, slice: Duration) {
    match bed {
        Bed::Word(word, expected) => {
            let timeout = timespec(slice);
            // SAFETY: the word is the armed backend's, which lives as long as the engine that the
            // caller borrows; the time is a local value.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    *word,
                    libc::FUTEX_WAIT,
                    *expected,
                    &raw const timeout,
                    0usize,
                    0u32,
                );
            }
        }
        Bed::Descriptors(fds) => {
            wait_readable(fds, doorbell.0.as_ref().map(AsRawFd::as_raw_fd), slice);
            doorbell.clear();
        }
    }
}

/// Waits until a descriptor is readable, at most for `slice`.
pub(crate) fn wait_readable(fds: &[RawFd], also: Option<RawFd>, slice: Duration) {
    let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut set: Vec<libc::pollfd> = fds.iter().copied().chain(also).map(entry).collect();
    let timeout = timespec(slice);
    // SAFETY: the set and the time are local values of the lengths given.
    unsafe { libc::ppoll(set.as_mut_ptr(), set.len() as libc::nfds_t, &raw const timeout, std::ptr::null()) };
}

fn timespec(t: Duration) -> libc::timespec {
    libc::timespec { tv_sec: t.as_secs() as libc::time_t, tv_nsec: t.subsec_nanos() as _ }
}

/// Wakes whoever sleeps on a backend's word, without changing it.
pub(crate) fn nudge(word: *const AtomicU32) {
    // SAFETY: waking touches no memory; the address only names a queue in the kernel.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX, 0usize, 0usize, 0u32) };
}
