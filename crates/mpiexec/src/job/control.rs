//! The launcher's end of one rank's control channel: frames in, frames out, never blocking.

use mpi_wire::startup::{Frames, ToLauncher, ToRank};
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
    pub messages: Vec<ToLauncher>,
    /// It will say no more.
    pub ended: bool,
    /// It said what makes no sense.
    pub broken: Option<String>,
}

/// What a rank says, frame by frame.
#[derive(Debug, Default)]
pub struct Inbox {
    frames: Frames,
}

impl Inbox {
    /// Adds bytes; gives the messages that are complete with them.
    pub fn take(&mut self, bytes: &[u8]) -> Incoming {
        let mut incoming = Incoming::default();
        self.frames.push(bytes);
        loop {
            let message = match self.frames.pop() {
                Ok(None) => break,
                Ok(Some(body)) => ToLauncher::decode(body),
                Err(e) => Err(e),
            };
            match message {
                Ok(message) => incoming.messages.push(message),
                Err(e) => {
                    incoming.broken = Some(e.to_string());
                    break;
                }
            }
        }
        incoming
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
        Incoming { ended, ..self.inbox.take(buffer.get(..length).unwrap_or_default()) }
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

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.flush();
    }

    /// Sends a message, or keeps it until the rank takes it.
    pub fn send(&mut self, message: &ToRank) {
        message.encode(&mut self.out);
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
