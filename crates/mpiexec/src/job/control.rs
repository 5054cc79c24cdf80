//! The launcher's end of one rank's control channel: frames in, frames out, never blocking.

use mpi_wire::startup::{Frames, ToLauncher, ToRank};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// One rank's channel.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    frames: Frames,
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

impl Control {
    /// On a socket that does not block.
    pub fn new(socket: UnixStream) -> Control {
        Control { socket, frames: Frames::default(), out: Vec::new() }
    }

    /// Reads what is there, at most a buffer's length.
    pub fn read(&mut self, buffer: &mut [u8]) -> Incoming {
        let mut incoming = Incoming::default();
        match (&self.socket).read(buffer) {
            Ok(0) => incoming.ended = true,
            Ok(n) => self.frames.push(buffer.get(..n).unwrap_or_default()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => incoming.ended = true,
        }
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
