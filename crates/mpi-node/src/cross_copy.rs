//! Copying between the memories of two processes in one step (process_vm_readv and its twin).
//!
//! The kernel refuses where one process may not trace the other: another user, a container's
//! seccomp filter, Yama's scope 1 for siblings. [`allow_siblings`] asks for the last; [`probe`] finds out.

use crate::faults::{self, Fault};
use std::io;

/// Copies `len` bytes from `remote` in process `pid` to `local`.
///
/// # Safety
/// `local` is valid for writes of `len` bytes and nobody else touches it.
///
/// # Errors
/// What the kernel says: no such process, not permitted, no such memory.
pub unsafe fn read(pid: u32, remote: u64, local: *mut u8, len: usize) -> io::Result<()> {
    each_part(len, |done, part| {
        let here = libc::iovec { iov_base: local.wrapping_add(done).cast(), iov_len: part };
        let there = libc::iovec { iov_base: (remote as usize).wrapping_add(done) as *mut _, iov_len: part };
        // SAFETY: `here` lies inside `local`; the kernel checks `there`, which is not ours.
        unsafe { libc::process_vm_readv(pid as libc::pid_t, &here, 1, &there, 1, 0) }
    })
}

/// Copies `len` bytes from `local` to `remote` in process `pid`.
///
/// # Safety
/// `local` is valid for reads of `len` bytes and nobody writes it. The owner of `remote` expects the
/// bytes there.
///
/// # Errors
/// As [`read`].
pub unsafe fn write(pid: u32, remote: u64, local: *const u8, len: usize) -> io::Result<()> {
    each_part(len, |done, part| {
        let here = libc::iovec { iov_base: local.wrapping_add(done).cast_mut().cast(), iov_len: part };
        let there = libc::iovec { iov_base: (remote as usize).wrapping_add(done) as *mut _, iov_len: part };
        // SAFETY: `here` lies inside `local`, which is only read; the kernel checks `there`.
        unsafe { libc::process_vm_writev(pid as libc::pid_t, &here, 1, &there, 1, 0) }
    })
}

/// The kernel may copy less than asked (at most 2 GiB at once).
fn each_part(len: usize, mut copy: impl FnMut(usize, usize) -> libc::ssize_t) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let part = if faults::on() { disturbed(len - done)? } else { len - done };
        match copy(done, part) {
            n if n > 0 => done += n as usize,
            0 => return Err(io::Error::from_raw_os_error(libc::EFAULT)),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// How much of a copy of `len` bytes is made at once where faults happen.
///
/// # Errors
/// It is refused.
fn disturbed(len: usize) -> io::Result<usize> {
    if faults::strikes(Fault::CrossCopy) {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // Neither waiting for nor being told to try again is among what these calls answer.
    Ok(faults::transfer(len).unwrap_or(len))
}

/// A cookie of this process that others read to find out whether they may copy: its address and value.
pub fn cookie() -> (u64, u64) {
    static COOKIE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let cookie = COOKIE.get_or_init(|| random_words()[0]);
    (core::ptr::from_ref(cookie) as u64, *cookie)
}

/// Two random words.
pub(crate) fn random_words() -> [u64; 2] {
    let mut words = [0_u64; 2];
    // SAFETY: the buffer has the length given. Sixteen bytes are never cut short.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), size_of_val(&words), 0) };
    if got != size_of_val(&words) as isize {
        // A kernel without randomness: distinct is what matters most.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        words = [now.as_nanos() as u64, u64::from(std::process::id())];
    }
    words
}

/// Reads the cookie of process `pid`. True when copying works.
pub fn probe(pid: u32, address: u64, cookie: u64) -> bool {
    let mut found = 0_u64;
    // SAFETY: a local word.
    let result = unsafe { read(pid, address, (&raw mut found).cast(), size_of::<u64>()) };
    result.is_ok() && found == cookie
}

/// Lets the parent and its other descendants (the ranks of the job) copy from and to this
/// process where Yama would refuse siblings. Silent where there is no Yama.
pub fn allow_siblings() {
    // SAFETY: integers only.
    unsafe {
        libc::prctl(
            libc::PR_SET_PTRACER,
            libc::c_ulong::from(nix::unistd::getppid().as_raw() as u32),
            0,
            0,
            0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_within_this_process_and_refuses_what_is_not_there() {
        let (address, value) = cookie();
        let me = std::process::id();
        assert!(probe(me, address, value));
        assert!(!probe(me, address, value ^ 1));
        assert!(!probe(me, 8, value));
        let from = vec![7_u8; 100_000];
        let mut to = vec![0_u8; 100_000];
        // SAFETY: two live buffers of this length.
        unsafe { write(me, to.as_mut_ptr() as u64, from.as_ptr(), from.len()) }.expect("own memory");
        assert_eq!(from, to);
    }
}
