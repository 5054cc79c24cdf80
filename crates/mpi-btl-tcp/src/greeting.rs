//! A part of the greeting on its way out: the socket may take it in pieces, or not now.

use crate::sys::{self, Piece};
use mpi_wire::hello::{HELLO_LEN, HELLO_REPLY_LEN, PROOF_LEN};
use std::io;
use std::os::fd::BorrowedFd;

/// Length of the longest part.
const MAX: usize = {
    let longer = if HELLO_LEN > HELLO_REPLY_LEN { HELLO_LEN } else { HELLO_REPLY_LEN };
    if longer > PROOF_LEN { longer } else { PROOF_LEN }
};

/// What of it has not left yet.
pub(crate) struct Outgoing {
    bytes: [u8; MAX],
    from: usize,
    to: usize,
}

impl Outgoing {
    pub const NOTHING: Outgoing = Outgoing { bytes: [0; MAX], from: 0, to: 0 };

    pub fn new(part: &[u8]) -> Outgoing {
        let mut all = Outgoing::NOTHING;
        all.bytes[..part.len()].copy_from_slice(part);
        all.to = part.len();
        all
    }

    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Sends on. True when all has left.
    pub fn push(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        while !self.is_empty() {
            match sys::send(socket, &[Piece::out(&self.bytes[self.from..self.to])]) {
                Ok(n) => self.from += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}
