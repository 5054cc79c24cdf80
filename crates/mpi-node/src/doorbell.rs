//! A descriptor that other processes of the node make readable.
//!
//! A datagram socket under an abstract name of 128 random bits, which only those who share the
//! segment know; nothing of it is in the file system.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, bind, recv, sendto, socket};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

fn open() -> nix::Result<OwnedFd> {
    if crate::faults::descriptor().is_err() {
        return Err(nix::errno::Errno::EMFILE);
    }
    socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)
}

fn address(name: [u64; 2]) -> nix::Result<UnixAddr> {
    UnixAddr::new_abstract(format!("mpi-{:016x}{:016x}", name[0], name[1]).as_bytes())
}

/// The bell of this process.
#[derive(Debug)]
pub struct Doorbell {
    socket: OwnedFd,
}

impl Doorbell {
    /// Hangs up the bell called `name`.
    ///
    /// # Errors
    /// No descriptor left, or the name is taken.
    pub fn hang_up(name: [u64; 2]) -> std::io::Result<Doorbell> {
        let socket = open()?;
        bind(socket.as_raw_fd(), &address(name)?)?;
        Ok(Doorbell { socket })
    }

    /// Readable when rung.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Forgets all rings so far.
    pub fn silence(&self) {
        let mut byte = [0; 8];
        while recv(self.socket.as_raw_fd(), &mut byte, MsgFlags::MSG_DONTWAIT).is_ok() {}
    }
}

/// Rings other processes' bells.
#[derive(Debug, Default)]
pub struct Ringer {
    socket: Option<OwnedFd>,
}

impl Ringer {
    /// Rings the bell called `name`. A bell that is full rings already; one that is gone needs none.
    pub fn ring(&mut self, name: [u64; 2]) {
        if self.socket.is_none() {
            self.socket = open().ok();
        }
        if let (Some(socket), Ok(to)) = (&self.socket, address(name)) {
            let _ = sendto(socket.as_raw_fd(), &[1], &to, MsgFlags::MSG_DONTWAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    #[test]
    fn rings_and_falls_silent() {
        let name = crate::cross_copy::random_words();
        let bell = Doorbell::hang_up(name).expect("bell");
        let readable = || {
            let mut fds = [PollFd::new(bell.socket.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::ZERO).expect("poll") == 1
        };
        assert!(!readable());
        let mut ringer = Ringer::default();
        for _ in 0..1000 {
            ringer.ring(name);
        }
        assert!(readable());
        bell.silence();
        assert!(!readable());
        ringer.ring([name[0], !name[1]]);
        assert!(!readable());
    }
}
