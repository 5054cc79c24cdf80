//! The launcher's end of one rank's control channel: frames in, frames out, never blocking.

use mpi_pmi::server::{Inbox, Said};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// One rank's channel.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    inbox: Inbox,
    out: Vec<u8>,
}

/// What a read found.
#[derive(Debug, Default)]
pub struct Incoming {
    /// What the rank said.
    pub messages: Vec<Said>,
    /// It will say no more.
    pub ended: bool,
    /// It said what makes no sense.
    pub broken: Option<String>,
}

/// Adds bytes to what a rank says; gives the messages that are complete with them.
pub fn take(inbox: &mut Inbox, bytes: &[u8]) -> Incoming {
    let mut incoming = Incoming::default();
    inbox.push(bytes);
    loop {
        match inbox.pop() {
            Ok(None) => return incoming,
            Ok(Some(message)) => incoming.messages.push(message),
            Err(e) => {
                incoming.broken = Some(e.to_string());
                return incoming;
            }
        }
    }
}

impl Control {
    /// On a socket that does not block.
    pub fn new(socket: UnixStream) -> Control {
        Control { socket, inbox: Inbox::default(), out: Vec::new() }
    }

    /// Reads what is there, at most a buffer's length.
    pub fn read(&mut self, buffer: &mut [u8]) -> Incoming {
        let (length, ended) = self.read_bytes(buffer);
        Incoming { ended, ..take(&mut self.inbox, buffer.get(..length).unwrap_or_default()) }
    }

    /// Reads bytes as they are: how many, and whether they are the last.
    pub fn read_bytes(&mut self, buffer: &mut [u8]) -> (usize, bool) {
        match (&self.socket).read(buffer) {
            Ok(0) => (0, true),
            Ok(n) => (n, false),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => (0, false),
            Err(_) => (0, true),
        }
    }

    /// Sends bytes, or keeps them until the rank takes them.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.flush();
    }

    /// Bytes that the rank has not taken yet.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Sends what waits. False: the rank takes nothing any more.
    pub fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            match (&self.socket).write(&self.out) {
                Ok(n) => {
                    self.out.drain(..n);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => {
                    self.out.clear();
                    return false;
                }
            }
        }
        true
    }

    /// Something waits to be sent.
    pub fn wants_write(&self) -> bool {
        !self.out.is_empty()
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
