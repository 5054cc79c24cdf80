//! Standard input on its way to ranks of other hosts.

use super::{Running, Token};
use crate::error::LaunchError;
use crate::job::turn::watch_once;
use crate::limits;
use mpi_wire::daemon::ToDaemon;
use mpi_wire::limits::DAEMON_PIECE_MAX_BYTES;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::epoll::EpollFlags;
use nix::unistd::{pipe2, read};
use std::os::fd::OwnedFd;

/// Standard input of a rank elsewhere.
pub(super) struct Inlet {
    pub(super) pipe: OwnedFd,
    /// Bytes that may be sent.
    pub(super) window: u64,
}

impl Running<'_> {
    /// A pipe from the feeder to a rank elsewhere; gives the feeder's end.
    pub(in crate::job) fn open_inlet(&mut self, slot: usize) -> Result<OwnedFd, LaunchError> {
        let (pipe, feeder) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(LaunchError::system("pipe"))?;
        watch_once(&self.epoll, &pipe, EpollFlags::EPOLLIN, Token::Inlet(slot))?;
        self.fleet.inlets.insert(slot, Inlet { pipe, window: limits::INPUT_WINDOW_BYTES });
        Ok(feeder)
    }

    /// Input for a rank elsewhere is there.
    pub(in crate::job) fn pass_input(&mut self, slot: usize) -> Result<(), LaunchError> {
        let Some(inlet) = self.fleet.inlets.get_mut(&slot) else { return Ok(()) };
        let room = (inlet.window as usize).min(DAEMON_PIECE_MAX_BYTES).min(self.buffer.len());
        let bytes = match read(&inlet.pipe, self.buffer.get_mut(..room).unwrap_or_default()) {
            Err(Errno::EAGAIN | Errno::EINTR) => None,
            Ok(0) if room == 0 => None,
            Ok(n) => Some(self.buffer.get(..n).unwrap_or_default().to_vec()),
            Err(_) => Some(Vec::new()),
        };
        if let Some(bytes) = bytes {
            inlet.window -= bytes.len() as u64;
            let ended = bytes.is_empty();
            if let Some(daemon) = self.ranks.get(slot).and_then(|r| r.far.as_ref()).map(|far| far.daemon) {
                self.fleet.send(daemon, &ToDaemon::Input { slot: slot as u32, bytes });
            }
            if ended {
                self.fleet.inlets.remove(&slot);
            }
        }
        self.watch_inlet(slot)
    }

    pub(super) fn watch_inlet(&self, slot: usize) -> Result<(), LaunchError> {
        match self.fleet.inlets.get(&slot) {
            Some(inlet) if inlet.window > 0 => {
                watch_once(&self.epoll, &inlet.pipe, EpollFlags::EPOLLIN, Token::Inlet(slot))
            }
            _ => Ok(()),
        }
    }
}
