//! The launcher's own standard output and error: written without ever blocking on a slow reader.

use crate::limits::PIPE_WRITE_BYTES;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::write;
use std::os::fd::{AsFd, BorrowedFd};

/// One of the two.
#[derive(Debug)]
pub struct Sink {
    fd: BorrowedFd<'static>,
    regular: bool,
    /// What stands under its number now is not what was closed.
    closed: bool,
    /// What is written is thrown away.
    broken: bool,
    /// Nobody reads any more.
    left_alone: bool,
    /// It cannot be written to, for another reason than that nobody reads.
    failure: Option<Errno>,
}

impl Sink {
    /// A sink on a standard stream.
    pub fn new(fd: BorrowedFd<'static>) -> Sink {
        let regular = fstat(fd).is_ok_and(|s| SFlag::from_bits_truncate(s.st_mode).contains(SFlag::S_IFREG));
        Sink { fd, regular, closed: false, broken: false, left_alone: false, failure: None }
    }

    /// A sink on a stream that was closed before this process began.
    pub fn closed(fd: BorrowedFd<'static>) -> Sink {
        Sink { closed: true, ..Sink::new(fd) }
    }

    /// True when both streams lead to the same place.
    pub fn same_place(&self, other: &Sink) -> bool {
        match (fstat(self.fd), fstat(other.fd)) {
            _ if self.closed || other.closed => false,
            (Ok(a), Ok(b)) => (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev),
            _ => false,
        }
    }

    /// Nobody reads any more: what is written is thrown away.
    pub fn is_left_alone(&self) -> bool {
        self.left_alone
    }

    /// Why it cannot be written to, told once.
    pub fn take_failure(&mut self) -> Option<Errno> {
        self.failure.take()
    }

    /// Writes what can be written without blocking, and takes it off `bytes`.
    pub fn write(&mut self, bytes: &mut Vec<u8>) {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            if self.closed && !self.broken {
                (self.broken, self.failure) = (true, Some(Errno::EBADF));
            }
            if self.broken {
                done = bytes.len();
                break;
            }
            let piece = if self.regular { rest } else { rest.get(..PIPE_WRITE_BYTES).unwrap_or(rest) };
            if !self.regular && !self.writable() {
                break;
            }
            match write(self.fd, piece) {
                Ok(n) => done += n,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                // No later byte could be in the place of one that is lost.
                Err(e) => {
                    self.broken = true;
                    self.left_alone = e == Errno::EPIPE;
                    self.failure = Some(e).filter(|e| *e != Errno::EPIPE);
                }
            }
        }
        bytes.drain(..done);
    }

    /// True when a piece can be written now; an error counts, so that the write finds it.
    fn writable(&self) -> bool {
        let mut fds = [PollFd::new(self.fd, PollFlags::POLLOUT)];
        matches!(poll(&mut fds, PollTimeout::ZERO), Ok(n) if n > 0)
    }
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd
    }
}
