//! Terminals: one that a rank gets for its own (`--pty`), and the launcher's, which then passes every key on.

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{InputFlags, LocalFlags, OutputFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, Stdio};

/// Size where the launcher has no terminal itself: that of old.
const USUAL_SIZE: (u16, u16) = (24, 80);

/// The two sides of a new terminal.
pub struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
}

/// A new terminal of so many rows and columns.
///
/// # Errors
/// The errno: there may be no more of them.
pub fn open((rows, columns): (u16, u16)) -> io::Result<Terminal> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let sides = openpty(Some(&size), None)?;
    let mut settings = tcgetattr(&sides.slave)?;
    // A newline stays one byte; where the output ends in a terminal, that one does the rest.
    settings.output_flags.remove(OutputFlags::ONLCR);
    tcsetattr(&sides.slave, SetArg::TCSANOW, &settings)?;
    for side in [&sides.master, &sides.slave] {
        fcntl(side.as_fd(), FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok(Terminal { ours: sides.master, theirs: sides.slave })
}

impl Terminal {
    /// Makes it the command's input, output and errors; gives our side.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn given_to(self, command: &mut Command) -> io::Result<OwnedFd> {
        command.stdin(Stdio::from(self.theirs.try_clone()?));
        command.stdout(Stdio::from(self.theirs.try_clone()?));
        command.stderr(Stdio::from(self.theirs));
        Ok(self.ours)
    }
}

/// The size that a rank's terminal should have.
pub fn size() -> (u16, u16) {
    let sizes =
        [mpi_node::terminal::size(io::stdin().as_fd()), mpi_node::terminal::size(io::stdout().as_fd())];
    sizes.into_iter().flatten().next().unwrap_or(USUAL_SIZE)
}

/// The launcher's terminal while it passes every key on; as before when this is dropped.
pub struct Raw {
    terminal: BorrowedFd<'static>,
    before: Termios,
}

impl Raw {
    /// Where the launcher's input is a terminal.
    pub fn begin(terminal: BorrowedFd<'static>) -> Option<Raw> {
        let before = tcgetattr(terminal).ok()?;
        let mut keys = before.clone();
        keys.local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG | LocalFlags::IEXTEN);
        keys.input_flags.remove(InputFlags::IXON | InputFlags::ICRNL | InputFlags::INLCR);
        tcsetattr(terminal, SetArg::TCSADRAIN, &keys).ok()?;
        Some(Raw { terminal, before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs no settings.
        let _ = tcsetattr(self.terminal, SetArg::TCSADRAIN, &self.before);
    }
}
