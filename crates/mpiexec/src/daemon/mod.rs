//! The daemon of one host: starts ranks there for the launcher, and passes on what they say.
//!
//! It decides nothing: what a rank's end means, what is shown and when the job ends is the
//! launcher's to say. The stream to the launcher is standard input and output; daemons of further
//! hosts stand below this one, and their frames pass through unread. When the stream ends, or is
//! silent for too long, everything here ends.

mod ranks;
mod records;

use crate::guard::{self, Guard};
use crate::hosts::launcher::REMOVE;
use crate::limits;
use crate::link::{Incoming, Link};
use mpi_wire::daemon::{FromDaemon, Setup, ToDaemon, host_of, next_hop};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use ranks::{Here, World};
use records::Records;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What an event belongs to, packed into the word that epoll keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    Signals,
    UpIn,
    UpOut,
    LinkIn(u32),
    LinkOut(u32),
    LinkErrors(u32),
    Control(u32),
    Output(u32),
    Errors(u32),
    Input(u32),
}

impl Token {
    fn pack(self) -> u64 {
        let (kind, number) = match self {
            Token::Signals => (0, 0),
            Token::UpIn => (1, 0),
            Token::UpOut => (2, 0),
            Token::LinkIn(host) => (3, host),
            Token::LinkOut(host) => (4, host),
            Token::LinkErrors(host) => (5, host),
            Token::Control(slot) => (6, slot),
            Token::Output(slot) => (7, slot),
            Token::Errors(slot) => (8, slot),
            Token::Input(slot) => (9, slot),
        };
        kind << 32 | u64::from(number)
    }

    fn unpack(word: u64) -> Token {
        let number = (word & u64::from(u32::MAX)) as u32;
        match word >> 32 {
            0 => Token::Signals,
            1 => Token::UpIn,
            2 => Token::UpOut,
            3 => Token::LinkIn(number),
            4 => Token::LinkOut(number),
            5 => Token::LinkErrors(number),
            6 => Token::Control(number),
            7 => Token::Output(number),
            8 => Token::Errors(number),
            _ => Token::Input(number),
        }
    }
}

/// Runs the daemon to its end; gives its exit status.
pub fn run(words: &[OsString]) -> u8 {
    if words.first().is_some_and(|word| word == REMOVE) {
        if let Ok(own) = std::env::current_exe() {
            let _ = std::fs::remove_file(own);
        }
    }
    match Daemon::new().and_then(|mut daemon| daemon.serve()) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("mpiexec: daemon: {e}");
            3
        }
    }
}

/// How the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Go {
    On,
    /// The launcher says that the job is over.
    Quit,
    /// Nobody is there to work for.
    Orphaned,
}

struct Daemon {
    epoll: Epoll,
    signals: SignalFd,
    up: Link,
    /// This host's number, once it is told.
    own: u32,
    setup: Setup,
    links: BTreeMap<u32, Link>,
    guard: Option<Guard>,
    mark: String,
    worlds: BTreeMap<u32, World>,
    ranks: BTreeMap<u32, Here>,
    by_pid: BTreeMap<u32, u32>,
    records: Records,
    /// The soft limit of open files that ranks are to have, where this daemon has raised its own.
    open_files: Option<u64>,
    /// Bytes of output that may be sent.
    credit: u64,
    /// Streams that wait for credit.
    paused: Vec<Token>,
    heard: Instant,
    /// The job is stopped, and so is the launcher.
    stopped: bool,
    buffer: Vec<u8>,
}

impl Daemon {
    fn new() -> io::Result<Daemon> {
        let mut set = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        let mut blocked = set;
        // A limit of the size of files is an error of the write, then.
        blocked.add(Signal::SIGXFSZ);
        blocked.thread_block()?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let up = Link::upwards(
            io::stdin().as_fd().try_clone_to_owned()?,
            io::stdout().as_fd().try_clone_to_owned()?,
        )?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let daemon = Daemon {
            epoll,
            signals,
            up,
            own: u32::MAX,
            setup: Setup::default(),
            links: BTreeMap::new(),
            guard: None,
            mark: String::new(),
            worlds: BTreeMap::new(),
            ranks: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            records: Records::default(),
            open_files: None,
            credit: 0,
            paused: Vec::new(),
            heard: Instant::now(),
            stopped: false,
            buffer: vec![0; limits::READ_BYTES],
        };
        daemon.watch(&daemon.signals, EpollFlags::EPOLLIN, Token::Signals)?;
        daemon.watch(daemon.up.input(), EpollFlags::EPOLLIN, Token::UpIn)?;
        Ok(daemon)
    }

    fn serve(&mut self) -> io::Result<()> {
        let go = loop {
            match self.turn()? {
                Go::On => {}
                other => break other,
            }
        };
        self.end(go)
    }

    fn turn(&mut self) -> io::Result<Go> {
        if !self.up.flush() {
            return Ok(Go::Orphaned);
        }
        if self.up.waiting() > 0 {
            self.watch_once(self.up.output(), EpollFlags::EPOLLOUT, Token::UpOut)?;
        }
        for (host, link) in &mut self.links {
            // A stream that takes nothing has ended, which its other half tells.
            link.flush();
            if link.waiting() > 0 {
                watch_once(&self.epoll, link.output(), EpollFlags::EPOLLOUT, Token::LinkOut(*host))?;
            }
        }
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, self.time_to_sleep()) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(e) => return Err(e.into()),
        };
        let (mut go, mut signals) = (Go::On, false);
        for event in events.iter().take(count) {
            match Token::unpack(event.data()) {
                // Last, so that what a rank said before it died is seen before its death.
                Token::Signals => signals = true,
                Token::UpIn => go = self.hear_launcher()?,
                Token::UpOut | Token::LinkOut(_) => {}
                Token::LinkIn(host) => self.hear_below(host),
                Token::LinkErrors(host) => self.hear_errors(host),
                Token::Control(slot) => self.read_control(slot),
                Token::Output(slot) => self.read_output(slot, 0)?,
                Token::Errors(slot) => self.read_output(slot, 1)?,
                Token::Input(slot) => self.feed(slot)?,
            }
            if go != Go::On {
                return Ok(go);
            }
        }
        if signals && self.see_to_signals()? {
            return Ok(Go::Orphaned);
        }
        self.see_to_records();
        let silence = Duration::from_millis(self.setup.silence_ms);
        let is_silent = !self.stopped && !silence.is_zero() && self.heard.elapsed() > silence;
        Ok(if is_silent { Go::Orphaned } else { Go::On })
    }

    fn time_to_sleep(&self) -> EpollTimeout {
        let silence =
            Some(self.setup.silence_ms).filter(|silence| *silence > 0).map(|silence| silence / 4 + 1);
        let left = |at: Instant| at.saturating_duration_since(Instant::now()).as_millis() as u64 + 1;
        match [silence, self.records_due().map(left)].into_iter().flatten().min() {
            None => EpollTimeout::NONE,
            Some(millis) => EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::MAX),
        }
    }

    fn hear_launcher(&mut self) -> io::Result<Go> {
        let incoming = self.up.read(&mut self.buffer);
        self.heard = Instant::now();
        for frame in incoming.frames {
            let (host, message) = host_of(&frame).map_err(io::Error::other)?;
            if self.own == u32::MAX {
                self.own = host;
            }
            if host != self.own {
                let below = next_hop(Some(self.own), host, self.setup.fan_out);
                if let Some(link) = below.and_then(|next| self.links.get_mut(&next)) {
                    link.pass_on(&frame);
                }
                continue;
            }
            let message = ToDaemon::decode(message).map_err(io::Error::other)?;
            if message == ToDaemon::Quit {
                return Ok(Go::Quit);
            }
            self.obey(message)?;
        }
        match incoming.broken {
            Some(reason) => Err(io::Error::other(reason)),
            None if incoming.ended => Ok(Go::Orphaned),
            None => Ok(Go::On),
        }
    }

    fn obey(&mut self, message: ToDaemon) -> io::Result<()> {
        match message {
            ToDaemon::Setup(setup) => self.set_up(setup),
            ToDaemon::Launch { host, name, words, copy_self } => {
                self.launch(host, &name, &words, copy_self)?
            }
            ToDaemon::Prepare(prepare) => self.prepare(*prepare),
            ToDaemon::Start { world } => self.start(world)?,
            ToDaemon::Control { slot, bytes } => self.tell(slot, &bytes)?,
            ToDaemon::Signal { worlds, signal } => self.signal(&worlds, signal),
            ToDaemon::Input { slot, bytes } => self.input(slot, &bytes)?,
            ToDaemon::Deaf { slot, stream } => self.deaf(slot, stream),
            ToDaemon::Credit { bytes } => {
                self.credit = self.credit.saturating_add(bytes);
                for token in std::mem::take(&mut self.paused) {
                    self.watch_output(token)?;
                }
            }
            ToDaemon::Ping { nanos: asked } => {
                self.say(&FromDaemon::Pong { asked, nanos: mpi_record::clock::nanos() });
            }
            ToDaemon::Quit => {}
        }
        Ok(())
    }

    fn set_up(&mut self, setup: Setup) {
        self.mark = format!("{}={}/{}", guard::DAEMON_VARIABLE, setup.job, self.own);
        self.guard = Guard::start(&self.mark).ok();
        self.credit = setup.window_bytes;
        self.setup = setup;
        self.say(&FromDaemon::Ready { name: mpi_pmi::host_name(), pid: std::process::id() });
    }

    /// Starts the daemon of another host.
    fn launch(&mut self, host: u32, name: &str, words: &[Vec<u8>], copy_self: bool) -> io::Result<()> {
        let started = match copy_self {
            true => std::fs::read("/proc/self/exe").and_then(|own| Link::start(words, Some(&own))),
            false => Link::start(words, None),
        };
        match started {
            Err(e) => {
                let command = words.first().map(|w| String::from_utf8_lossy(w).into_owned());
                let reason = format!("{} for {name}: {e}", command.unwrap_or_default());
                self.say(&FromDaemon::Lost { host, reason });
            }
            Ok(link) => {
                self.watch(link.input(), EpollFlags::EPOLLIN, Token::LinkIn(host))?;
                if let Some(errors) = &link.errors {
                    self.watch(errors, EpollFlags::EPOLLIN, Token::LinkErrors(host))?;
                }
                self.links.insert(host, link);
            }
        }
        Ok(())
    }

    /// What comes from below goes up.
    fn hear_below(&mut self, host: u32) {
        let Some(link) = self.links.get_mut(&host) else { return };
        let Incoming { frames, ended, broken } = link.read(&mut self.buffer);
        frames.iter().for_each(|frame| self.up.pass_on(frame));
        if ended || broken.is_some() {
            let reason = broken.unwrap_or_else(|| link.how_it_ended());
            link.kill();
            self.hear_errors(host);
            self.links.remove(&host);
            self.say(&FromDaemon::Lost { host, reason });
        }
    }

    fn hear_errors(&mut self, host: u32) {
        let Some(link) = self.links.get_mut(&host) else { return };
        let Some(fd) = &link.errors else { return };
        match nix::unistd::read(fd, &mut self.buffer) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Ok(0) | Err(_) => link.errors = None,
            Ok(n) => {
                let bytes = self.buffer.get(..n).unwrap_or_default().to_vec();
                self.say(&FromDaemon::Says { host, bytes });
            }
        }
    }

    /// True when the daemon was told to end.
    fn see_to_signals(&mut self) -> io::Result<bool> {
        let mut end = false;
        while let Ok(Some(info)) = self.signals.read_signal() {
            match Signal::try_from(info.ssi_signo as i32) {
                Ok(Signal::SIGCHLD) => self.reap()?,
                Ok(_) => end = true,
                Err(_) => {}
            }
        }
        Ok(end)
    }

    fn reap(&mut self) -> io::Result<()> {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some(pid) = status.pid() else { break };
            let pid = pid.as_raw() as u32;
            if let Some(slot) = self.by_pid.remove(&pid) {
                self.note_end(slot, status);
            } else if let Some(link) = self.links.values_mut().find(|link| link.pid() == Some(pid)) {
                if !matches!(status, WaitStatus::StillAlive) {
                    link.note_end(status);
                }
            }
        }
        Ok(())
    }

    /// Ends everything here, and those below.
    fn end(&mut self, go: Go) -> io::Result<()> {
        self.kill_everything();
        if go == Go::Quit {
            self.drain_everything();
            self.pass_all_records();
            for (host, link) in &mut self.links {
                link.send_down(*host, &ToDaemon::Quit);
            }
            let until = Instant::now() + limits::DAEMON_END;
            while Instant::now() < until && !(self.links.is_empty() && self.up.waiting() == 0) {
                self.up.flush();
                self.links.retain(|_, link| {
                    link.flush();
                    let incoming = link.read(&mut self.buffer);
                    incoming.frames.iter().for_each(|frame| self.up.pass_on(frame));
                    !incoming.ended && incoming.broken.is_none()
                });
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.links.values().for_each(Link::kill);
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        match go {
            Go::Orphaned => Err(io::Error::other("the stream to mpiexec has ended")),
            _ => Ok(()),
        }
    }

    fn say(&mut self, message: &FromDaemon) {
        self.up.send_up(self.own, message);
    }

    fn watch(&self, fd: impl AsFd, flags: EpollFlags, token: Token) -> io::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(flags, token.pack()))?)
    }

    fn watch_once(&self, fd: impl AsFd, flags: EpollFlags, token: Token) -> io::Result<()> {
        watch_once(&self.epoll, fd, flags, token)
    }
}

/// Watches for one event, also again.
fn watch_once(epoll: &Epoll, fd: impl AsFd, flags: EpollFlags, token: Token) -> io::Result<()> {
    let mut event = EpollEvent::new(flags | EpollFlags::EPOLLONESHOT, token.pack());
    match epoll.modify(&fd, &mut event) {
        Err(Errno::ENOENT) => Ok(epoll.add(&fd, event)?),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Signals,
            Token::UpIn,
            Token::UpOut,
            Token::LinkIn(1),
            Token::LinkOut(u32::MAX),
            Token::LinkErrors(3),
            Token::Control(4),
            Token::Output(5),
            Token::Errors(6),
            Token::Input(7),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
