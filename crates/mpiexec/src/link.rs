//! A stream of frames to a daemon, or to the one that started this daemon: two pipes, never blocking.
//!
//! The pipes lead into the command that reaches the host (ssh, say) and out of it: no port is opened
//! and no address is looked up for them, and who may speak on them is who may log in there.

use crate::limits::PREAMBLE_MAX_BYTES;
use mpi_node::spawn::Inheritance;
use mpi_wire::daemon::{DAEMON_VERSION, Frames, FromDaemon, GREETING, ToDaemon, greeting, pass_on};
use mpi_wire::limits::DAEMON_FRAME_MAX_BYTES;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, read, write};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command whose stream has ended may take to be gone, so that its status can be told.
const STATUS_WAIT: Duration = Duration::from_millis(300);

/// The stream.
#[derive(Debug)]
pub struct Link {
    input: OwnedFd,
    output: OwnedFd,
    /// Standard error of the command, while it is open.
    pub errors: Option<OwnedFd>,
    frames: Frames,
    out: Vec<u8>,
    sent: usize,
    /// What came before the greeting; `None` behind it.
    preamble: Option<Vec<u8>>,
    command: Option<Reached>,
}

/// The command that leads to the daemon.
#[derive(Debug)]
struct Reached {
    name: String,
    pid: u32,
    ended: Option<WaitStatus>,
}

/// What a read found.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Bodies of frames.
    pub frames: Vec<Vec<u8>>,
    /// Nothing more will come.
    pub ended: bool,
    /// What came makes no sense.
    pub broken: Option<String>,
}

impl Link {
    /// Starts the command that leads to a daemon; the file `copy` goes in front of everything.
    ///
    /// # Errors
    /// The command cannot be started, the file cannot be read.
    pub fn start(words: &[Vec<u8>], copy: Option<&[u8]>) -> io::Result<Link> {
        let mut words = words.iter().map(|word| OsStr::from_bytes(word));
        let program = words.next().unwrap_or_default();
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let inheritance = Inheritance { own_group: true, die_with_parent: true, ..Inheritance::default() };
        inheritance.apply(&mut command)?;
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let name = program.to_string_lossy().rsplit('/').next().unwrap_or_default().to_owned();
        let mut link = Link::new(
            child.stdout.take().ok_or_else(missing)?.into(),
            child.stdin.take().ok_or_else(missing)?.into(),
        )?;
        let errors: OwnedFd = child.stderr.take().ok_or_else(missing)?.into();
        nonblocking(&errors)?;
        link.errors = Some(errors);
        link.preamble = Some(Vec::new());
        link.command = Some(Reached { name, pid: child.id(), ended: None });
        link.out.extend_from_slice(copy.unwrap_or_default());
        Ok(link)
    }

    /// The stream to the one that started this daemon; begins with the greeting.
    ///
    /// # Errors
    /// The errno of fcntl.
    pub fn upwards(input: OwnedFd, output: OwnedFd) -> io::Result<Link> {
        let mut link = Link::new(input, output)?;
        link.out = greeting();
        Ok(link)
    }

    fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Link> {
        nonblocking(&input)?;
        nonblocking(&output)?;
        let frames = Frames::up_to(DAEMON_FRAME_MAX_BYTES);
        Ok(Link {
            input,
            output,
            errors: None,
            frames,
            out: Vec::new(),
            sent: 0,
            preamble: None,
            command: None,
        })
    }

    /// Where frames come from.
    pub fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Where frames go.
    pub fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Reads what is there, at most a buffer's length.
    pub fn read(&mut self, buffer: &mut [u8]) -> Incoming {
        let mut incoming = Incoming::default();
        match read(&self.input, buffer) {
            Ok(0) => incoming.ended = true,
            Ok(n) => {
                if let Err(reason) = self.take(buffer.get(..n).unwrap_or_default()) {
                    incoming.broken = Some(reason);
                    return incoming;
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => incoming.ended = true,
        }
        loop {
            match self.frames.pop() {
                Ok(None) => return incoming,
                Ok(Some(body)) => incoming.frames.push(body.to_vec()),
                Err(e) => {
                    incoming.broken = Some(e.to_string());
                    return incoming;
                }
            }
        }
    }

    /// Skips what stands before the greeting, and checks that.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        let Some(before) = &mut self.preamble else {
            self.frames.push(bytes);
            return Ok(());
        };
        before.extend_from_slice(bytes);
        let Some(at) = before.windows(GREETING.len()).position(|window| window == GREETING) else {
            return match before.len() {
                0..=PREAMBLE_MAX_BYTES => Ok(()),
                _ => Err(format!("no daemon answers; what comes instead begins {:?}", self.noise())),
            };
        };
        let rest = before.split_off(at);
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            // The version is still on its way; a greeting is short.
            before.extend_from_slice(&rest);
            return Ok(());
        };
        let (head, tail) = rest.split_at(end);
        let version = String::from_utf8_lossy(head.get(GREETING.len()..).unwrap_or_default()).into_owned();
        if version != DAEMON_VERSION.to_string() {
            return Err(format!(
                "its mpiexec speaks version {version} of the daemons' protocol, this one {DAEMON_VERSION}; \
                 both must come from the same release (--copy-self brings this one there)"
            ));
        }
        self.frames.push(tail.get(1..).unwrap_or_default());
        self.preamble = None;
        Ok(())
    }

    /// The beginning of what came instead of a greeting.
    pub fn noise(&self) -> String {
        let before = self.preamble.as_deref().unwrap_or_default();
        String::from_utf8_lossy(before.get(..200).unwrap_or(before)).trim().to_owned()
    }

    /// Sends a frame down, or keeps it until it can be sent.
    pub fn send_down(&mut self, host: u32, message: &ToDaemon) {
        message.encode(host, &mut self.out);
    }

    /// Sends a frame up.
    pub fn send_up(&mut self, host: u32, message: &FromDaemon) {
        message.encode(host, &mut self.out);
    }

    /// Sends a frame that was read elsewhere.
    pub fn pass_on(&mut self, body: &[u8]) {
        pass_on(body, &mut self.out);
    }

    /// Writes what waits. False: nobody takes it any more.
    pub fn flush(&mut self) -> bool {
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match write(&self.output, rest) {
                Ok(n) => self.sent += n,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    if self.sent > self.out.len() / 2 {
                        self.out.drain(..self.sent);
                        self.sent = 0;
                    }
                    return true;
                }
                Err(_) => {
                    self.out.clear();
                    self.sent = 0;
                    return false;
                }
            }
        }
        self.out.clear();
        self.sent = 0;
        true
    }

    /// Bytes that wait to be sent.
    pub fn waiting(&self) -> usize {
        self.out.len() - self.sent
    }

    /// The process of the command.
    pub fn pid(&self) -> Option<u32> {
        self.command.as_ref().map(|c| c.pid)
    }

    /// The process of the command has ended so.
    pub fn note_end(&mut self, status: WaitStatus) {
        if let Some(command) = &mut self.command {
            command.ended = Some(status);
        }
    }

    /// How the stream came to its end, once it has.
    pub fn how_it_ended(&mut self) -> String {
        let noise = self.noise();
        let greeted = self.preamble.is_none();
        let Some(command) = &mut self.command else { return String::from("the stream has ended") };
        let until = Instant::now() + STATUS_WAIT;
        while command.ended.is_none() && Instant::now() < until {
            match waitpid(Pid::from_raw(command.pid as i32), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(5)),
                Ok(status) => command.ended = Some(status),
                Err(_) => break,
            }
        }
        let how = match command.ended {
            Some(WaitStatus::Exited(_, code)) => format!("{} ended with status {code}", command.name),
            Some(WaitStatus::Signaled(_, signal, _)) => format!("{} was killed by {signal}", command.name),
            _ => format!("{} has closed the stream", command.name),
        };
        match (greeted, noise.is_empty()) {
            (true, _) => how,
            (false, true) => format!("no daemon answered: {how}"),
            (false, false) => format!("no daemon answered: {how}; it printed {noise:?}"),
        }
    }

    /// Ends the command, if it is still there.
    pub fn kill(&self) {
        if let Some(command) = self.command.as_ref().filter(|c| c.ended.is_none()) {
            let _ = killpg(Pid::from_raw(command.pid as i32), Signal::SIGKILL);
        }
    }
}

fn nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(script: &str) -> Link {
        Link::start(&[b"sh".to_vec(), b"-c".to_vec(), script.as_bytes().to_vec()], None).unwrap()
    }

    /// Reads until frames, the end or nonsense come.
    fn hear(link: &mut Link) -> Incoming {
        let mut buffer = vec![0; 1 << 17];
        loop {
            let incoming = link.read(&mut buffer);
            if incoming.ended || incoming.broken.is_some() || !incoming.frames.is_empty() {
                return incoming;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_a_shell_prints_before_the_greeting_is_skipped() {
        let version = DAEMON_VERSION;
        let script = format!(
            "echo welcome; printf '\\000mpiexec daemon, version {version}\\n\\005\\000\\000\\000\\007\\000\\000\\000\\113'"
        );
        let incoming = hear(&mut link(&script));
        assert_eq!(incoming.frames, [vec![7, 0, 0, 0, 75]], "{incoming:?}");
    }

    #[test]
    fn whoever_is_no_daemon_is_found_out() {
        let other = hear(&mut link("printf '\\000mpiexec daemon, version 999\\n'"));
        assert!(other.broken.is_some_and(|reason| reason.contains("version 999")));
        let mut silent = link("echo 'This account is disabled.'; exit 7");
        assert!(hear(&mut silent).ended);
        let how = silent.how_it_ended();
        assert!(how.contains("sh ended with status 7") && how.contains("disabled"), "{how}");
        let flood = hear(&mut link("yes"));
        assert!(flood.broken.is_some_and(|reason| reason.contains("no daemon answers")));
    }
}
