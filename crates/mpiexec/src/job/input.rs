//! Standard input for ranks: exact to the byte, never read faster than the slowest rank takes it.
//!
//! One rank that reads from a file or pipe simply inherits it ([`source`] says so), and nothing is
//! read that the rank does not ask for. A terminal, and input for all ranks, goes through the
//! [`Feeder`].

use crate::limits::READ_BYTES;
use crate::settings::StdinTo;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{getpgrp, isatty, read, tcgetpgrp, write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Pieces of input that are passed on before others have their turn.
const PIECES: usize = 16;

/// How a rank comes by its standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// An empty one.
    Null,
    /// The launcher's own.
    Inherit,
    /// A pipe from the feeder.
    Pipe,
    /// A terminal of its own, of so many rows and columns, for its output too.
    Terminal((u16, u16)),
}

/// Tells who reads at the other end that nothing more comes. Closing does, but for a terminal: there it is what
/// one types (twice, for a line that has begun).
pub fn end_of_input(pipe: &OwnedFd) {
    const TYPED: &[u8] = &[4, 4];
    if isatty(pipe).unwrap_or(false) {
        // Who does not read finds out otherwise.
        let _ = write(pipe, TYPED);
    }
}

/// How `rank` comes by its standard input; `terminal` is the size of the one that it is to have, if it is.
pub fn source(to: StdinTo, terminal: Option<(u16, u16)>, rank: usize) -> Source {
    match to {
        _ if !reads(to, rank) => Source::Null,
        _ if terminal.is_some() => Source::Terminal(terminal.unwrap_or_default()),
        StdinTo::Rank(r) if r == rank => {
            // A rank leads a process group of its own, which a terminal stops when it reads.
            if isatty(std::io::stdin()).unwrap_or(false) { Source::Pipe } else { Source::Inherit }
        }
        StdinTo::All => Source::Pipe,
        StdinTo::Rank(_) | StdinTo::None => Source::Null,
    }
}

/// `rank` reads standard input.
pub fn reads(to: StdinTo, rank: usize) -> bool {
    match to {
        StdinTo::Rank(r) => r == rank,
        StdinTo::All => true,
        StdinTo::None => false,
    }
}

/// Copies standard input to the pipes of ranks.
pub struct Feeder {
    stdin: BorrowedFd<'static>,
    terminal: bool,
    chunk: Vec<u8>,
    ended: bool,
    targets: Vec<Target>,
}

struct Target {
    pipe: OwnedFd,
    sent: usize,
}

/// What the feeder waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitsFor {
    /// Input.
    Input,
    /// Some rank to take what is there.
    Ranks,
    /// The terminal to belong to this job again.
    Foreground,
    /// Nothing: there is more to do at once, after others had their turn.
    Again,
    /// Nothing any more.
    Nothing,
}

impl Feeder {
    /// A feeder of these pipes, which do not block.
    pub fn new(stdin: BorrowedFd<'static>, pipes: Vec<OwnedFd>) -> Feeder {
        Feeder {
            terminal: isatty(stdin).unwrap_or(false),
            stdin,
            chunk: Vec::new(),
            ended: false,
            targets: pipes.into_iter().map(|pipe| Target { pipe, sent: 0 }).collect(),
        }
    }

    /// Standard input.
    pub fn stdin(&self) -> BorrowedFd<'static> {
        self.stdin
    }

    /// The pipe that stands in the way, when it waits for ranks.
    pub fn blocked(&self) -> Option<BorrowedFd<'_>> {
        self.targets.iter().find(|t| t.sent < self.chunk.len()).map(|t| t.pipe.as_fd())
    }

    /// Moves on, a bounded number of pieces at a time.
    pub fn pump(&mut self) -> WaitsFor {
        for _ in 0..PIECES {
            self.feed();
            if self.targets.is_empty() {
                return WaitsFor::Nothing;
            }
            if self.blocked().is_some() {
                return WaitsFor::Ranks;
            }
            if self.ended {
                // Closing the pipes is the end of file.
                self.targets.iter().for_each(|target| end_of_input(&target.pipe));
                self.targets.clear();
                return WaitsFor::Nothing;
            }
            if self.terminal && tcgetpgrp(self.stdin).is_ok_and(|group| group != getpgrp()) {
                return WaitsFor::Foreground;
            }
            let mut fds = [PollFd::new(self.stdin, PollFlags::POLLIN)];
            if !matches!(poll(&mut fds, PollTimeout::ZERO), Ok(n) if n > 0) {
                return WaitsFor::Input;
            }
            self.fill();
        }
        WaitsFor::Again
    }

    fn fill(&mut self) {
        self.chunk.resize(READ_BYTES, 0);
        let length = match read(self.stdin, &mut self.chunk) {
            Ok(0) => {
                self.ended = true;
                0
            }
            Ok(n) => n,
            // EIO: the terminal went to another job in between.
            Err(Errno::EINTR | Errno::EAGAIN | Errno::EIO) => 0,
            Err(_) => {
                self.ended = true;
                0
            }
        };
        self.chunk.truncate(length);
        self.targets.iter_mut().for_each(|t| t.sent = 0);
    }

    /// Writes what there is to whoever takes it; a rank that takes no more is forgotten.
    fn feed(&mut self) {
        let chunk = &self.chunk;
        self.targets.retain_mut(|target| {
            loop {
                let rest = chunk.get(target.sent..).unwrap_or_default();
                if rest.is_empty() {
                    return true;
                }
                match write(&target.pipe, rest) {
                    Ok(n) => target.sent += n,
                    Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => return true,
                    Err(_) => return false,
                }
            }
        });
    }
}
