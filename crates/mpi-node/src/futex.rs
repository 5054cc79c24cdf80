//! The futex system call. The only file that issues it.
#![cfg(not(loom))]

use crate::faults::{self, Fault};
use core::sync::atomic::AtomicU32;
use std::time::Duration;

/// Who shares a futex word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// Threads of this process.
    Process,
    /// Any process that maps the word.
    Machine,
}

fn operation(op: libc::c_int, scope: Scope) -> libc::c_int {
    match scope {
        Scope::Process => op | libc::FUTEX_PRIVATE_FLAG,
        Scope::Machine => op,
    }
}

/// Sleeps while the word holds `expected`, at most for `timeout`. May wake without a cause.
pub(crate) fn wait(word: &AtomicU32, expected: u32, scope: Scope, timeout: Option<Duration>) {
    if faults::on() && faults::strikes(Fault::Interrupted) {
        return;
    }
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: t.subsec_nanos() as _,
    });
    let spec_ptr = spec.as_ref().map_or(core::ptr::null(), |s| s as *const libc::timespec);
    // SAFETY: the word is alive for the call; the timespec is null or a valid local value.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation(libc::FUTEX_WAIT, scope),
            expected,
            spec_ptr,
            core::ptr::null::<u32>(),
            0,
        );
    }
}

/// Wakes at most `count` sleepers.
pub(crate) fn wake(word: &AtomicU32, count: u32, scope: Scope) {
    // SAFETY: the word is alive for the call; waking touches no memory.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation(libc::FUTEX_WAKE, scope),
            i32::try_from(count).unwrap_or(i32::MAX),
        );
    }
}
