//! The other hosts of a job, seen from the launcher: reached, asked, listened to, missed.

use super::end::End;
use super::world::Phase;
use super::{Running, Token, world};
use crate::error::LaunchError;
use crate::hosts::Host;
use crate::limits;
use crate::link::Link;
use crate::plan::{oversubscription, ranges};
use crate::report::far::Ahead;
use crate::settings::Oversubscribe;
use mpi_wire::daemon::{FromDaemon, Prepare, Program, RankHere, Setup, ToDaemon, host_of, next_hop, parent};
use mpi_wire::limits::DAEMON_PIECE_MAX_BYTES;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::epoll::EpollFlags;
use nix::sys::signal::Signal;
use nix::unistd::{pipe2, read};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The daemons.
pub struct Fleet {
    /// Streams to those that the launcher reaches itself.
    links: BTreeMap<u32, Link>,
    /// All of them, by number.
    hosts: Vec<FarHost>,
    fan_out: u32,
    silence: Duration,
    ping_at: Option<Instant>,
    /// Why the job cannot start.
    error: Option<LaunchError>,
    /// Standard input on its way to ranks.
    inlets: BTreeMap<usize, Inlet>,
}

/// One host.
struct FarHost {
    /// Its index in the plan.
    index: usize,
    name: String,
    launched: Option<Instant>,
    ready: bool,
    prepared: bool,
    lost: bool,
    heard: Instant,
    /// Bytes of output that have come and are not acknowledged.
    uncredited: u64,
    /// How far its clock is ahead.
    ahead: Ahead,
    /// What the command that leads there said, up to the end of the line.
    said: Vec<u8>,
}

/// Standard input of a rank elsewhere.
struct Inlet {
    pipe: OwnedFd,
    /// Bytes that may be sent.
    window: u64,
}

impl Fleet {
    /// Of all hosts that need a daemon.
    pub fn new(hosts: &[Host], fan_out: u32, silence: Duration) -> Fleet {
        let far = |(index, host): (usize, &Host)| FarHost {
            index,
            name: host.name.clone(),
            launched: None,
            ready: false,
            prepared: false,
            lost: false,
            heard: Instant::now(),
            uncredited: 0,
            ahead: Ahead::default(),
            said: Vec::new(),
        };
        let hosts = hosts.iter().enumerate().filter(|(_, host)| !host.here).map(far).collect();
        let (links, inlets) = (BTreeMap::new(), BTreeMap::new());
        Fleet { links, hosts, fan_out, silence, ping_at: None, error: None, inlets }
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The daemon of a host of the plan.
    pub fn daemon_of(&self, index: usize) -> Option<u32> {
        self.hosts.iter().position(|host| host.index == index).map(|at| at as u32)
    }

    /// The next moment at which something is to be done.
    pub fn deadline(&self) -> Option<Instant> {
        let starting = self.hosts.iter().filter(|host| !host.ready && !host.lost);
        let late = starting.filter_map(|host| Some(host.launched? + limits::DAEMON_START)).min();
        [self.ping_at, late].into_iter().flatten().min()
    }

    fn all_prepared(&self) -> bool {
        self.hosts.iter().all(|host| host.prepared)
    }

    fn send(&mut self, to: u32, message: &ToDaemon) {
        let next = next_hop(None, to, self.fan_out);
        if let Some(link) = next.and_then(|next| self.links.get_mut(&next)) {
            link.send_down(to, message);
        }
    }

    /// Sends to all that have answered and are there.
    fn send_all(&mut self, message: &ToDaemon) {
        for number in 0..self.hosts.len() {
            if self.hosts[number].ready && !self.hosts[number].lost {
                self.send(number as u32, message);
            }
        }
    }

    /// A signal for the ranks of some worlds.
    pub fn signal(&mut self, worlds: &[usize], signal: Signal) {
        let worlds = worlds.iter().map(|world| *world as u32).collect();
        self.send_all(&ToDaemon::Signal { worlds, signal: signal as i32 });
    }

    /// Bytes for the control channel of a rank.
    pub fn control(&mut self, daemon: u32, slot: usize, bytes: &[u8]) {
        for piece in bytes.chunks(DAEMON_PIECE_MAX_BYTES) {
            self.send(daemon, &ToDaemon::Control { slot: slot as u32, bytes: piece.to_vec() });
        }
    }

    /// Starts the ranks of a world that is prepared.
    pub fn start(&mut self, world: usize) {
        self.send_all(&ToDaemon::Start { world: world as u32 });
    }

    /// Why the job cannot go on, once.
    pub fn take_error(&mut self) -> Option<LaunchError> {
        self.error.take()
    }

    /// A child of the launcher has ended.
    pub fn note_end(&mut self, status: nix::sys::wait::WaitStatus) {
        let pid = status.pid().map(|pid| pid.as_raw() as u32);
        if let Some(link) = self.links.values_mut().find(|link| link.pid() == pid) {
            link.note_end(status);
        }
    }

    /// After the launcher was stopped for a while, nobody is blamed for having been silent.
    pub fn forgive(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.heard = Instant::now());
    }

    /// `number` stands below `above`, or is it.
    fn is_below(&self, number: u32, above: u32) -> bool {
        let mut at = Some(number);
        while let Some(host) = at {
            if host == above {
                return true;
            }
            at = parent(host, self.fan_out);
        }
        false
    }
}

/// Asks a daemon whether it is there, and what time it is.
fn ping() -> ToDaemon {
    ToDaemon::Ping { nanos: mpi_record::clock::nanos() }
}

impl Running<'_> {
    /// Starts all daemons and waits until each has what its ranks need.
    pub(super) fn reach_hosts(&mut self) -> Result<(), LaunchError> {
        self.fleet.ping_at = Some(Instant::now());
        for number in 0..self.fleet.hosts.len() as u32 {
            if parent(number, self.fleet.fan_out).is_none() {
                self.launch(number)?;
            }
        }
        while !self.fleet.all_prepared() && self.worlds[0].phase == Phase::Running {
            self.turn(None)?;
        }
        Ok(())
    }

    fn launch(&mut self, number: u32) -> Result<(), LaunchError> {
        let Some(far) = self.fleet.hosts.get_mut(number as usize) else { return Ok(()) };
        let Some(host) = self.plan.hosts.get(far.index) else { return Ok(()) };
        far.launched = Some(Instant::now());
        let program = std::env::current_exe().map_err(LaunchError::system("the launcher's own path"))?;
        let copy = match self.job.copy_self {
            true => Some(
                std::fs::read("/proc/self/exe").map_err(LaunchError::system("the launcher's own program"))?,
            ),
            false => None,
        };
        let words = self.job.launcher.command(host, &program, copy.as_ref().map(|c| c.len() as u64));
        if self.job.verbose {
            let shown: Vec<String> =
                words.iter().map(|w| crate::hosts::launcher::shown(std::ffi::OsStr::from_bytes(w))).collect();
            self.streams.message(&format!("mpiexec: host {}: {}", host.name, shown.join(" ")));
        }
        match parent(number, self.fleet.fan_out) {
            Some(above) => {
                let (name, copy_self) = (host.name.clone(), copy.is_some());
                self.fleet.send(above, &ToDaemon::Launch { host: number, name, words, copy_self });
            }
            None => {
                let link = Link::start(&words, copy.as_deref()).map_err(|e| {
                    let command = words.first().map(|w| String::from_utf8_lossy(w).into_owned());
                    let command = command.unwrap_or_default();
                    LaunchError::Host { status: 3, reason: format!("host {}: {command}: {e}", host.name) }
                })?;
                self.watch(link.input(), EpollFlags::EPOLLIN, Token::LinkIn(number))?;
                if let Some(errors) = &link.errors {
                    self.watch(errors, EpollFlags::EPOLLIN, Token::LinkErrors(number))?;
                }
                self.fleet.links.insert(number, link);
            }
        }
        let setup = Setup {
            job: self.id.clone(),
            name: host.name.clone(),
            fan_out: self.fleet.fan_out,
            silence_ms: self.fleet.silence.as_millis() as u64,
            window_bytes: limits::HOST_WINDOW_BYTES,
        };
        self.fleet.send(number, &ToDaemon::Setup(setup));
        Ok(())
    }

    /// What the first world runs on a host.
    fn order_for(&self, index: usize) -> Prepare {
        let common = &self.worlds[0].common;
        let ranks = self.plan.ranks_of(index).map(|(rank, place)| RankHere {
            slot: rank as u32,
            rank: rank as u32,
            program: place.program as u32,
            reads: super::input::reads(self.job.stdin, rank),
        });
        let program = |wanted: &crate::plan::Wanted| Program {
            name: wanted.name.as_bytes().to_vec(),
            path: wanted.path.clone(),
            wdir: wanted.wdir.as_ref().map(|wdir| wdir.as_os_str().as_bytes().to_vec()),
            arguments: wanted.arguments.iter().map(|a| a.as_bytes().to_vec()).collect(),
            environment: common.env.iter().chain(&wanted.env).cloned().collect(),
        };
        let variables = std::env::vars_os().filter(|(name, _)| !common.scrub.contains(name));
        Prepare {
            world: 0,
            id: common.id.clone(),
            size: common.size as u32,
            several: common.several,
            spawned: false,
            directory: std::env::current_dir().unwrap_or(PathBuf::from("/")).into_os_string().into_vec(),
            environment: variables.map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
            errhandler: common.errhandler.clone(),
            map_by: self.job.map_by.number(),
            bind_to: self.job.bind_to.number(),
            records: self.reports.wanted_elsewhere(),
            programs: self.plan.wanted.iter().map(program).collect(),
            ranks: ranks.collect(),
        }
    }

    /// A pipe from the feeder to a rank elsewhere; gives the feeder's end.
    pub(super) fn open_inlet(&mut self, slot: usize) -> Result<OwnedFd, LaunchError> {
        let (pipe, feeder) =
            pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(LaunchError::system("pipe"))?;
        super::turn::watch_once(&self.epoll, &pipe, EpollFlags::EPOLLIN, Token::Inlet(slot))?;
        self.fleet.inlets.insert(slot, Inlet { pipe, window: limits::INPUT_WINDOW_BYTES });
        Ok(feeder)
    }

    /// Input for a rank elsewhere is there.
    pub(super) fn pass_input(&mut self, slot: usize) -> Result<(), LaunchError> {
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

    fn watch_inlet(&self, slot: usize) -> Result<(), LaunchError> {
        match self.fleet.inlets.get(&slot) {
            Some(inlet) if inlet.window > 0 => {
                super::turn::watch_once(&self.epoll, &inlet.pipe, EpollFlags::EPOLLIN, Token::Inlet(slot))
            }
            _ => Ok(()),
        }
    }

    /// Sends what waits to be sent to the hosts.
    pub(super) fn flush_links(&mut self) -> Result<(), LaunchError> {
        if self.streams.keeps_up() {
            for number in 0..self.fleet.hosts.len() {
                let bytes = std::mem::take(&mut self.fleet.hosts[number].uncredited);
                if bytes > 0 {
                    self.fleet.send(number as u32, &ToDaemon::Credit { bytes });
                }
            }
        }
        let mut stuck = Vec::new();
        for (number, link) in &mut self.fleet.links {
            // A stream that takes nothing has ended, which its other half tells.
            link.flush();
            if link.waiting() > limits::LINK_WAITING_MAX_BYTES {
                stuck.push(*number);
            } else if link.waiting() > 0 {
                let token = Token::LinkOut(*number);
                super::turn::watch_once(&self.epoll, link.output(), EpollFlags::EPOLLOUT, token)?;
            }
        }
        stuck.into_iter().for_each(|number| self.lose(number, "it does not read what it is sent"));
        Ok(())
    }

    pub(super) fn hear_link(&mut self, number: u32) -> Result<(), LaunchError> {
        let Some(link) = self.fleet.links.get_mut(&number) else { return Ok(()) };
        let incoming = link.read(&mut self.buffer);
        let mut ended = Vec::new();
        let mut broken = incoming.broken;
        for frame in incoming.frames {
            let message = host_of(&frame).and_then(|(host, body)| Ok((host, FromDaemon::decode(body)?)));
            match message {
                Ok((host, message)) if self.fleet.is_below(host, number) => {
                    self.heed(host, message, &mut ended)?;
                }
                Ok((host, _)) => {
                    broken = Some(format!("it speaks for host number {host}, which is elsewhere"))
                }
                Err(e) => broken = Some(format!("it broke the daemons' protocol ({e})")),
            }
        }
        self.judge(ended);
        if incoming.ended || broken.is_some() {
            self.hear_link_errors(number);
            let link = self.fleet.links.get_mut(&number);
            let reason = broken.or_else(|| link.map(Link::how_it_ended)).unwrap_or_default();
            self.lose(number, &reason);
        }
        Ok(())
    }

    /// The command that leads to a host complains.
    pub(super) fn hear_link_errors(&mut self, number: u32) {
        let Some(link) = self.fleet.links.get_mut(&number) else { return };
        let Some(fd) = &link.errors else { return };
        match read(fd, &mut self.buffer) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Ok(0) | Err(_) => link.errors = None,
            Ok(n) => {
                let bytes = self.buffer.get(..n).unwrap_or_default().to_vec();
                self.show_said(number, &bytes);
            }
        }
    }

    /// Shows, under its host's name, what the command that leads there says.
    fn show_said(&mut self, number: u32, bytes: &[u8]) {
        let Some(host) = self.fleet.hosts.get_mut(number as usize) else { return };
        host.said.extend_from_slice(bytes);
        while let Some(end) = host.said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = host.said.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.streams.message(&format!("mpiexec: {}: {}", host.name, line.trim_end()));
        }
        if host.said.len() > limits::READ_BYTES {
            host.said.clear();
        }
    }

    /// Does what a daemon's message means.
    fn heed(
        &mut self,
        number: u32,
        message: FromDaemon,
        ended: &mut Vec<(usize, End)>,
    ) -> Result<(), LaunchError> {
        let Some(host) = self.fleet.hosts.get_mut(number as usize) else { return Ok(()) };
        host.heard = Instant::now();
        let of_it = |slot: u32, ranks: &[super::Rank]| {
            let far = ranks.get(slot as usize).and_then(|r| r.far.as_ref());
            far.is_some_and(|far| far.daemon == number).then_some(slot as usize)
        };
        match message {
            FromDaemon::Ready { .. } => {
                host.ready = true;
                let index = host.index;
                self.fleet.send(number, &ping());
                let order = Box::new(self.order_for(index));
                self.fleet.send(number, &ToDaemon::Prepare(order));
                for below in 0..self.fleet.hosts.len() as u32 {
                    if parent(below, self.fleet.fan_out) == Some(number) {
                        self.launch(below)?;
                    }
                }
            }
            FromDaemon::Prepared { processors, own, .. } => {
                host.prepared = true;
                let (index, name) = (host.index, host.name.clone());
                self.fleet.send(number, &ping());
                self.complete_welcomes(index, &name, processors, &own);
            }
            FromDaemon::Refused { status, reason } => {
                self.fleet.error.get_or_insert(LaunchError::Host { status, reason });
            }
            FromDaemon::Started { slot, pid, processors } => {
                let Some(slot) = of_it(slot, &self.ranks) else { return Ok(()) };
                let rank = &mut self.ranks[slot];
                rank.pid = pid;
                if let Some(far) = &mut rank.far {
                    far.processors = processors.iter().map(|cpu| *cpu as usize).collect();
                }
                if self.job.verbose {
                    let name = world::name(rank.world, rank.rank);
                    let host = self.plan.host_name(rank.host);
                    self.streams.message(&format!("mpiexec: {name} is pid {pid} on {host}"));
                }
            }
            FromDaemon::Control { slot, bytes } => {
                let Some(slot) = of_it(slot, &self.ranks) else { return Ok(()) };
                if let Some(far) = &mut self.ranks[slot].far {
                    let incoming = super::control::take(&mut far.inbox, &bytes);
                    self.hear(slot, incoming.messages, incoming.broken);
                }
            }
            FromDaemon::Output { slot, stream, bytes } => {
                host.uncredited += bytes.len() as u64;
                let (Some(slot), now) = (of_it(slot, &self.ranks), Instant::now()) else { return Ok(()) };
                match bytes.is_empty() {
                    true => self.streams.close(slot, stream.into(), now),
                    false => self.streams.push(slot, stream.into(), &bytes, now),
                }
                if self.streams.broken(slot, stream.into()) {
                    self.fleet.send(number, &ToDaemon::Deaf { slot: slot as u32, stream });
                }
            }
            FromDaemon::Ended { slot, signal, code } => {
                let Some(slot) = of_it(slot, &self.ranks) else { return Ok(()) };
                let end = match signal.map(Signal::try_from) {
                    Some(Ok(signal)) => End::Signal(signal),
                    Some(Err(_)) => End::Gone,
                    None => End::Exit(code),
                };
                if self.ranks[slot].end.is_none() {
                    self.note_gone(slot, end);
                    ended.push((slot, end));
                }
            }
            FromDaemon::Taken { slot, bytes } => {
                let Some(slot) = of_it(slot, &self.ranks) else { return Ok(()) };
                match (bytes, self.fleet.inlets.get_mut(&slot)) {
                    (0, _) => {
                        self.fleet.inlets.remove(&slot);
                    }
                    (_, Some(inlet)) => inlet.window += bytes,
                    _ => {}
                }
                self.watch_inlet(slot)?;
            }
            FromDaemon::Pong { asked, nanos } => {
                host.ahead.answered(asked, nanos, mpi_record::clock::nanos())
            }
            FromDaemon::Records { slot, bytes } => {
                let (ahead, name) = (host.ahead, host.name.clone());
                let Some(slot) = of_it(slot, &self.ranks) else { return Ok(()) };
                if let Err(e) = self.reports.far(slot, &bytes, ahead) {
                    let line = format!("mpiexec: records of {} from {}: {e}", self.called(slot), name);
                    self.streams.message(&line);
                }
            }
            FromDaemon::Says { host, bytes } if self.fleet.is_below(host, number) => {
                self.show_said(host, &bytes);
            }
            FromDaemon::Lost { host, reason } if self.fleet.is_below(host, number) => {
                let reason = match self.all_started {
                    true => reason,
                    // Keys and names may be known here and not there.
                    false => {
                        let above =
                            self.fleet.hosts.get(number as usize).map_or("", |host| host.name.as_str());
                        format!(
                            "{reason} (it is reached from {above}; a larger --fan-out reaches it from here)"
                        )
                    }
                };
                self.lose(host, &reason);
            }
            FromDaemon::Says { .. } | FromDaemon::Lost { .. } => {}
        }
        Ok(())
    }

    /// The ranks of a host will be told what its daemon found there.
    fn complete_welcomes(&mut self, index: usize, name: &str, processors: u32, own: &[u32]) {
        let ranks: Vec<usize> = self.plan.ranks_of(index).map(|(rank, _)| rank).collect();
        for (rank, own) in ranks.iter().zip(own) {
            if let Some(welcome) = self.worlds[0].server.welcome_mut(*rank as u32) {
                welcome.node_processors = processors;
                welcome.own_processors = *own;
            }
        }
        let remark = self.job.oversubscribe == Oversubscribe::Remark && !self.job.quiet;
        if remark && ranks.len() > processors as usize {
            let line = oversubscription(ranks.len(), processors as usize, name);
            self.streams.message(&format!("mpiexec: {line}"));
        }
    }

    /// A host, and all that stand below it, are lost.
    fn lose(&mut self, number: u32, reason: &str) {
        let lost: Vec<u32> = (0..self.fleet.hosts.len() as u32)
            .filter(|host| self.fleet.is_below(*host, number) && !self.fleet.hosts[*host as usize].lost)
            .collect();
        if let Some(link) = self.fleet.links.remove(&number) {
            link.kill();
        }
        let Some(host) = self.fleet.hosts.get(number as usize) else { return };
        let name = host.name.clone();
        if lost.is_empty() {
            return;
        }
        if !host.said.is_empty() {
            self.show_said(number, b"\n");
        }
        let indices: Vec<usize> = lost.iter().map(|host| self.fleet.hosts[*host as usize].index).collect();
        lost.iter().for_each(|host| self.fleet.hosts[*host as usize].lost = true);
        if !self.all_started {
            let reason = format!("host {name}: {reason}");
            self.fleet.error.get_or_insert(LaunchError::Host { status: 3, reason });
            return;
        }
        let gone: Vec<usize> = (0..self.ranks.len())
            .filter(|slot| self.ranks[*slot].end.is_none() && self.ranks[*slot].far.is_some())
            .filter(|slot| indices.contains(&self.ranks[*slot].host))
            .collect();
        if gone.is_empty() {
            return;
        }
        gone.iter().for_each(|slot| self.note_gone(*slot, End::Gone));
        let line = format!(
            "host {name} is lost, and with it rank{} {} (after {}): {reason}",
            if gone.len() == 1 { "" } else { "s" },
            ranges(&gone),
            self.elapsed()
        );
        if self.job.recovery && self.worlds.iter().all(|world| world.phase == Phase::Running) {
            self.streams.message(&format!("mpiexec: {line}"));
            self.judge(gone.into_iter().map(|slot| (slot, End::Gone)).collect());
        } else if self.worlds.iter().any(|world| !matches!(world.phase, Phase::Ending { .. })) {
            self.streams.flush_before_report();
            self.streams.message(&format!("mpiexec: {line}"));
            self.end_all(3, Some(&line), limits::KILL_AFTER_FAILURE);
        }
    }

    /// Words of life, and hosts that give none.
    pub(super) fn see_to_hosts(&mut self) {
        let now = Instant::now();
        let late = |host: &FarHost| {
            !host.ready && !host.lost && host.launched.is_some_and(|at| now >= at + limits::DAEMON_START)
        };
        if let Some(number) = self.fleet.hosts.iter().position(late) {
            let seconds = limits::DAEMON_START.as_secs();
            self.lose(number as u32, &format!("no daemon has answered for {seconds} s"));
        }
        if self.fleet.ping_at.is_none_or(|at| now < at) {
            return;
        }
        self.fleet.ping_at = Some(now + self.fleet.silence / limits::PINGS_PER_SILENCE);
        let silence = self.fleet.silence;
        let silent =
            |host: &FarHost| host.ready && !host.lost && now.saturating_duration_since(host.heard) > silence;
        while let Some(number) = self.fleet.hosts.iter().position(silent) {
            let seconds = self.fleet.hosts[number].heard.elapsed().as_secs_f64();
            self.lose(number as u32, &format!("nothing was heard from it for {seconds:.1} s"));
        }
        self.fleet.send_all(&ping());
    }

    /// The job is over: daemons end what is left, and themselves.
    pub(super) fn dismiss_hosts(&mut self) {
        self.fleet.hosts.iter_mut().for_each(|host| host.lost = true);
        self.fleet.inlets.clear();
        let numbers: Vec<u32> = self.fleet.links.keys().copied().collect();
        for number in &numbers {
            if let Some(link) = self.fleet.links.get_mut(number) {
                link.send_down(*number, &ToDaemon::Quit);
            }
        }
        let until = Instant::now() + limits::DAEMON_END;
        while !self.fleet.links.is_empty() && Instant::now() < until {
            let _ = self.flush_links();
            for number in &numbers {
                // The rest of the output; whatever else comes is too late.
                let _ = self.hear_link(*number);
            }
            self.streams.flush();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.fleet.links.values().for_each(Link::kill);
    }
}
