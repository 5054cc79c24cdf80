//! The ranks of this host: prepared, started, fed, listened to.

use super::{Daemon, Token};
use crate::error::LaunchError;
use crate::find;
use crate::guard;
use crate::job::input::{Source, end_of_input};
use crate::job::start::{self, Common, OF_THE_HOST, Rank};
use crate::limits;
use crate::plan::{Place, Ready, Wanted};
use crate::topology::{BindTo, MapBy, Topology};
use mpi_wire::daemon::{FromDaemon, Prepare, RankHere};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, read, write};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A world whose ranks can be started.
pub struct World {
    number: u32,
    common: Common,
    programs: Vec<Ready>,
    ranks: Vec<(RankHere, Place)>,
    /// Rows and columns of the terminal of those that read.
    terminal: Option<(u16, u16)>,
}

/// A rank that was started here.
pub struct Here {
    rank: Rank,
    world: u32,
    input: Option<Input>,
}

/// Standard input of a rank.
struct Input {
    pipe: OwnedFd,
    waiting: Vec<u8>,
    ends: bool,
}

impl Here {
    pub(super) fn world_and_rank(&self) -> (u32, u32) {
        (self.world, self.rank.rank)
    }
}

impl Daemon {
    /// Looks for everything that the world needs.
    pub(super) fn prepare(&mut self, prepare: Prepare) {
        let number = prepare.world;
        match self.try_prepare(prepare) {
            Ok((world, processors)) => {
                let own = world
                    .ranks
                    .iter()
                    .map(|(_, place)| place.processors.as_ref().map_or(processors, |own| own.len() as u32));
                let own: Vec<u32> = own.collect();
                let segment = world.common.segment.is_some();
                self.worlds.insert(number, world);
                self.say(&FromDaemon::Prepared { world: number, processors, own, segment });
            }
            Err(e) => self.refuse(number, &e),
        }
    }

    fn refuse(&mut self, world: u32, e: &LaunchError) {
        let reason = match e {
            LaunchError::System { .. } | LaunchError::Usage(_) => format!("{}: {e}", self.setup.name),
            named => named.to_string(),
        };
        self.say(&FromDaemon::Refused { world, status: e.status(), reason });
    }

    fn try_prepare(&mut self, prepare: Prepare) -> Result<(World, u32), LaunchError> {
        let host = self.setup.name.clone();
        let directory = PathBuf::from(OsString::from_vec(prepare.directory));
        find::directory(&directory, &host)?;
        std::env::set_current_dir(&directory).map_err(|e| LaunchError::Directory {
            path: directory.clone(),
            host: host.clone(),
            detail: e.to_string(),
        })?;
        let environment = environment(prepare.environment, &self.mark);
        let search = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let programs = prepare
            .programs
            .into_iter()
            .map(|program| wanted(program, &directory).ready(search.as_deref(), &host))
            .collect::<Result<Vec<_>, _>>()?;
        let processors = match mpi_node::cpuset::allowed() {
            all if all.is_empty() => (0..mpi_node::cpuset::allowed_count()).collect(),
            some => some,
        };
        let map_by = MapBy::numbered(prepare.map_by).unwrap_or_default();
        let bind_to = BindTo::numbered(prepare.bind_to).unwrap_or_default();
        let node_size = prepare.ranks.len();
        let before = (prepare.before as usize).min(limits::RANKS_MAX);
        let layout = Topology::read(&processors).layout(before + node_size, map_by, bind_to);
        let place = |(node_slot, (rank, processors)): (usize, (RankHere, Option<Vec<usize>>))| {
            (rank, Place { program: rank.program as usize, host: 0, node_slot, processors })
        };
        let ranks: Vec<(RankHere, Place)> =
            prepare.ranks.into_iter().zip(layout.into_iter().skip(before)).enumerate().map(place).collect();
        let used: std::collections::BTreeSet<usize> =
            ranks.iter().filter_map(|(_, place)| place.processors.clone()).flatten().collect();
        let together = if used.is_empty() { processors.len() } else { used.len() } as u32;
        let here: Vec<u32> = ranks.iter().map(|(rank, _)| rank.rank).collect();
        let records = self.make_records(prepare.world, prepare.records, prepare.size, &here);
        let raised = crate::job::raise_open_files(
            self.ranks.len() + node_size,
            self.setup.fan_out.min(limits::FAN_OUT) as usize,
        )?;
        // What it was before it was raised for the first time.
        self.open_files = self.open_files.or(raised);
        let segment = match node_size {
            0 | 1 => None,
            size => mpi_node::segment::create(size as u32).ok(),
        };
        let common = Common {
            records,
            id: prepare.id,
            size: prepare.size as usize,
            node_size,
            several: prepare.several,
            environment: Some(environment),
            segment,
            env: Vec::new(),
            errhandler: prepare.errhandler,
            scrub: Vec::new(),
            open_files: self.open_files,
            spawned: prepare.spawned,
        };
        let terminal = prepare.terminal;
        Ok((World { number: prepare.world, common, programs, ranks, terminal }, together))
    }

    /// Starts the ranks of a world.
    pub(super) fn start(&mut self, number: u32) -> io::Result<()> {
        let Some(mut world) = self.worlds.remove(&number) else { return Ok(()) };
        for (rank, place) in std::mem::take(&mut world.ranks) {
            let Some(program) = world.programs.get(place.program) else { continue };
            let source = match (rank.reads, world.terminal) {
                (false, _) => Source::Null,
                (true, None) => Source::Pipe,
                (true, Some(size)) => Source::Terminal(size),
            };
            let (of, host) = (rank.rank as usize, &self.setup.name);
            match start::start(&world.common, 0, of, &place, program, source, host) {
                Ok((started, pipe)) => self.take_in(world.number, rank, started, pipe)?,
                Err(e) => {
                    self.refuse(number, &e);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn take_in(&mut self, world: u32, here: RankHere, rank: Rank, pipe: Option<OwnedFd>) -> io::Result<()> {
        let (slot, pid) = (here.slot, rank.pid);
        if let Some(guard) = &mut self.guard {
            guard.add(pid);
        }
        if let Some(control) = &rank.control {
            self.watch(control, EpollFlags::EPOLLIN, Token::Control(slot))?;
        }
        self.by_pid.insert(pid, slot);
        let input = pipe.map(|pipe| Input { pipe, waiting: Vec::new(), ends: false });
        self.ranks.insert(slot, Here { rank, world, input });
        self.watch_output(Token::Output(slot))?;
        self.watch_output(Token::Errors(slot))?;
        let processors = sched_getaffinity(Pid::from_raw(pid as i32)).map_or(Vec::new(), |set| {
            (0..CpuSet::count())
                .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
                .map(|cpu| cpu as u32)
                .collect()
        });
        self.say(&FromDaemon::Started { slot, pid, processors });
        Ok(())
    }

    /// Watches a stream of a rank, once, when there is credit.
    pub(super) fn watch_output(&mut self, token: Token) -> io::Result<()> {
        let (slot, stream) = match token {
            Token::Output(slot) => (slot, 0),
            Token::Errors(slot) => (slot, 1),
            _ => return Ok(()),
        };
        if self.credit == 0 {
            self.paused.push(token);
            return Ok(());
        }
        match self.ranks.get(&slot).and_then(|here| here.rank.streams[stream].as_ref()) {
            Some(fd) => self.watch_once(fd, EpollFlags::EPOLLIN, token),
            None => Ok(()),
        }
    }

    pub(super) fn read_output(&mut self, slot: u32, stream: usize) -> io::Result<()> {
        self.pass_output(slot, stream);
        self.watch_output(if stream == 0 { Token::Output(slot) } else { Token::Errors(slot) })
    }

    /// Passes a piece of a rank's output on; false when there is nothing to be read now.
    fn pass_output(&mut self, slot: u32, stream: usize) -> bool {
        let Some(here) = self.ranks.get_mut(&slot) else { return false };
        let Some(fd) = &here.rank.streams[stream] else { return false };
        let bytes = match read(fd, &mut self.buffer) {
            Err(Errno::EAGAIN) => return false,
            Err(Errno::EINTR) => return true,
            Ok(0) | Err(_) => {
                here.rank.streams[stream] = None;
                Vec::new()
            }
            Ok(n) => self.buffer.get(..n).unwrap_or_default().to_vec(),
        };
        let goes_on = !bytes.is_empty();
        self.credit = self.credit.saturating_sub(bytes.len() as u64);
        self.say(&FromDaemon::Output { slot, stream: stream as u8, bytes });
        goes_on
    }

    /// The rank is told by its own next write that nobody reads.
    pub(super) fn deaf(&mut self, slot: u32, stream: u8) {
        if let Some(here) = self.ranks.get_mut(&slot) {
            if let Some(fd) = here.rank.streams.get_mut(usize::from(stream)) {
                *fd = None;
            }
        }
    }

    pub(super) fn read_control(&mut self, slot: u32) {
        while self.pass_control(slot) {}
    }

    /// Passes a piece of what a rank says on; false when there is nothing to be read now.
    fn pass_control(&mut self, slot: u32) -> bool {
        let Some(here) = self.ranks.get_mut(&slot) else { return false };
        let Some(control) = &mut here.rank.control else { return false };
        control.flush();
        let (length, ended) = control.read_bytes(&mut self.buffer);
        if ended {
            here.rank.control = None;
        }
        if ended || length > 0 {
            let bytes = self.buffer.get(..length).unwrap_or_default().to_vec();
            self.say(&FromDaemon::Control { slot, bytes });
        }
        if let Some(here) = self.ranks.get_mut(&slot) {
            watch_control(&self.epoll, here, slot);
        }
        length > 0
    }

    /// Bytes for a rank's control channel.
    pub(super) fn tell(&mut self, slot: u32, bytes: &[u8]) -> io::Result<()> {
        let Some(here) = self.ranks.get_mut(&slot) else { return Ok(()) };
        let Some(control) = &mut here.rank.control else { return Ok(()) };
        control.send_bytes(bytes);
        if control.waiting() > limits::CONTROL_WAITING_MAX_BYTES {
            // It asks and does not read: the launcher hears that it says no more.
            here.rank.control = None;
            self.say(&FromDaemon::Control { slot, bytes: Vec::new() });
            return Ok(());
        }
        watch_control(&self.epoll, here, slot);
        Ok(())
    }

    /// Standard input of a rank; nothing: its end.
    pub(super) fn input(&mut self, slot: u32, bytes: &[u8]) -> io::Result<()> {
        let Some(input) = self.ranks.get_mut(&slot).and_then(|here| here.input.as_mut()) else {
            return Ok(());
        };
        input.waiting.extend_from_slice(bytes);
        input.ends |= bytes.is_empty();
        self.feed(slot)
    }

    /// Writes what a rank takes.
    pub(super) fn feed(&mut self, slot: u32) -> io::Result<()> {
        let Some(here) = self.ranks.get_mut(&slot) else { return Ok(()) };
        let Some(input) = &mut here.input else { return Ok(()) };
        let mut taken = 0;
        let mut broken = false;
        while let Some(rest) = input.waiting.get(taken..).filter(|rest| !rest.is_empty()) {
            match write(&input.pipe, rest) {
                Ok(n) => taken += n,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        input.waiting.drain(..taken);
        let left = !input.waiting.is_empty();
        if left && !broken {
            super::watch_once(&self.epoll, &input.pipe, EpollFlags::EPOLLOUT, Token::Input(slot))?;
        }
        if broken || (input.ends && !left) {
            if !broken {
                end_of_input(&input.pipe);
            }
            here.input = None;
        }
        if taken > 0 {
            self.say(&FromDaemon::Taken { slot, bytes: taken as u64 });
        }
        if broken {
            self.say(&FromDaemon::Taken { slot, bytes: 0 });
        }
        Ok(())
    }

    /// Sends a signal to the ranks of some worlds and their children.
    pub(super) fn signal(&mut self, worlds: &[u32], signal: i32) {
        let Ok(signal) = Signal::try_from(signal) else { return };
        match signal {
            Signal::SIGTSTP => self.stopped = true,
            Signal::SIGCONT => self.stopped = false,
            _ => {}
        }
        let those = self.ranks.values().filter(|h| h.rank.group_left && worlds.contains(&h.world));
        for here in those {
            let _ = killpg(Pid::from_raw(here.rank.pid as i32), signal);
        }
    }

    /// A rank has ended: what it said and wrote last goes first.
    pub(super) fn note_end(&mut self, slot: u32, status: WaitStatus) {
        self.read_control(slot);
        self.drain(slot);
        self.pass_records(slot);
        let Some(here) = self.ranks.get_mut(&slot) else { return };
        let pid = here.rank.pid;
        here.rank.group_left = killpg(Pid::from_raw(pid as i32), None).is_ok();
        if let (false, Some(guard)) = (here.rank.group_left, &mut self.guard) {
            guard.remove(pid);
        }
        let (signal, code) = match status {
            WaitStatus::Signaled(_, signal, _) => (Some(signal as i32), 0),
            WaitStatus::Exited(_, code) => (None, code),
            _ => (None, 1),
        };
        self.say(&FromDaemon::Ended { slot, signal, code });
    }

    /// Everything that a rank has written so far, a bounded amount.
    fn drain(&mut self, slot: u32) {
        for stream in 0..2 {
            let mut pieces = limits::OUTPUT_WAITING_MAX_BYTES / limits::READ_BYTES;
            while pieces > 0 && self.pass_output(slot, stream) {
                pieces -= 1;
            }
        }
    }

    pub(super) fn drain_everything(&mut self) {
        let slots: Vec<u32> = self.ranks.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.drain(slot));
    }

    pub(super) fn kill_everything(&mut self) {
        for here in self.ranks.values().filter(|here| here.rank.group_left) {
            let _ = killpg(Pid::from_raw(here.rank.pid as i32), Signal::SIGKILL);
        }
        if !self.mark.is_empty() {
            guard::sweep(&self.mark);
        }
    }
}

/// Watches a control channel for writing while something waits to be sent on it.
fn watch_control(epoll: &nix::sys::epoll::Epoll, here: &mut Here, slot: u32) {
    let Some(control) = &here.rank.control else { return };
    if here.rank.control_writes != control.wants_write() {
        here.rank.control_writes = control.wants_write();
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, here.rank.control_writes);
        // A channel that cannot be watched is one that has ended, which its rank's end tells.
        let _ = epoll.modify(control, &mut EpollEvent::new(flags, Token::Control(slot).pack()));
    }
}

/// The launcher's environment, with what belongs to this host.
fn environment(launcher: Vec<(Vec<u8>, Vec<u8>)>, mark: &str) -> Vec<(OsString, OsString)> {
    let of_the_host = |name: &OsStr| OF_THE_HOST.iter().any(|known| *known == name);
    let others = launcher.into_iter().map(|(n, v)| (OsString::from_vec(n), OsString::from_vec(v)));
    let own = std::env::vars_os().filter(|(name, _)| of_the_host(name));
    let mark = mark.split_once('=').map(|(name, value)| (OsString::from(name), OsString::from(value)));
    others.filter(|(name, _)| !of_the_host(name)).chain(own).chain(mark).collect()
}

/// A program, seen from the launcher's directory.
fn wanted(program: mpi_wire::daemon::Program, directory: &Path) -> Wanted {
    Wanted {
        name: OsString::from_vec(program.name),
        path: program.path,
        arguments: program.arguments.into_iter().map(OsString::from_vec).collect(),
        // Where nothing is said it is the launcher's own, never another one.
        wdir: Some(program.wdir.map_or_else(
            || directory.to_path_buf(),
            |wdir| directory.join(PathBuf::from(OsString::from_vec(wdir))),
        )),
        env: program.environment,
    }
}
