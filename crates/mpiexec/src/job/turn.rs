//! One turn of the loop: sleep until something happens, then see to everything that did.

use super::end::{self, End, Failure};
use super::input::WaitsFor;
use super::picture::Then;
use super::world::Phase;
use super::{RankPhase, Running};
use crate::error::LaunchError;
use crate::limits;
use mpi_pmi::server::Said;
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{Signal, killpg, raise};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, read};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Signals that come as events.
pub const SIGNALS: &[Signal] = &[
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGTTIN,
    Signal::SIGWINCH,
];

/// What an event belongs to, packed into the word that epoll keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Signals,
    Input,
    InputPipe,
    Sink,
    Control(usize),
    Stream(usize, usize),
    /// The stream from a daemon, the one to it, and the complaints of the command in between.
    LinkIn(u32),
    LinkOut(u32),
    LinkErrors(u32),
    /// Standard input for a rank on another host.
    Inlet(usize),
}

impl Token {
    fn pack(self) -> u64 {
        let (kind, rank) = match self {
            Token::Signals => (0, 0),
            Token::Input => (1, 0),
            Token::InputPipe => (2, 0),
            Token::Sink => (3, 0),
            Token::Control(rank) => (4, rank),
            Token::Stream(rank, stream) => (5 + stream as u64, rank),
            Token::LinkIn(host) => (7, host as usize),
            Token::LinkOut(host) => (8, host as usize),
            Token::LinkErrors(host) => (9, host as usize),
            Token::Inlet(rank) => (10, rank),
        };
        kind << 32 | rank as u64
    }

    fn unpack(word: u64) -> Token {
        let rank = (word & u64::from(u32::MAX)) as usize;
        match word >> 32 {
            0 => Token::Signals,
            1 => Token::Input,
            2 => Token::InputPipe,
            3 => Token::Sink,
            4 => Token::Control(rank),
            5 => Token::Stream(rank, 0),
            6 => Token::Stream(rank, 1),
            7 => Token::LinkIn(rank as u32),
            8 => Token::LinkOut(rank as u32),
            9 => Token::LinkErrors(rank as u32),
            _ => Token::Inlet(rank),
        }
    }
}

impl Running<'_> {
    /// Sleeps until something happens (at most `limit`) and sees to it.
    pub fn turn(&mut self, limit: Option<Duration>) -> Result<(), LaunchError> {
        if self.streams.flush() {
            self.watch_sinks()?;
        }
        if let Some(loss) = self.streams.take_loss() {
            self.streams.message(&format!("mpiexec: {loss}"));
        }
        if let Some(failure) = self.streams.take_failure() {
            self.streams.message(&format!("mpiexec: {failure}"));
            self.end_all(3, Some(&failure), limits::KILL_AFTER_FAILURE);
        }
        self.resume_streams()?;
        self.flush_links()?;
        let mut events = [EpollEvent::empty(); 64];
        let count = match self.epoll.wait(&mut events, self.time_to_sleep(limit)) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(e) => return Err(LaunchError::system("epoll")(e)),
        };
        let mut signals = false;
        for event in events.iter().take(count) {
            match Token::unpack(event.data()) {
                // Last, so that what a rank said and wrote before it died is seen before its death.
                Token::Signals => signals = true,
                Token::Input | Token::InputPipe => self.pump()?,
                Token::Sink => {}
                Token::Control(rank) => self.read_control(rank),
                Token::Stream(rank, stream) => self.read_stream(rank, stream)?,
                Token::LinkIn(host) => self.hear_link(host)?,
                Token::LinkOut(_) => {}
                Token::LinkErrors(host) => self.hear_link_errors(host),
                Token::Inlet(rank) => self.pass_input(rank)?,
            }
        }
        if signals {
            self.see_to_signals();
        }
        self.see_to_timers()?;
        // Where the job is ending anyway, what was the matter is told already.
        match self.fleet.take_error().filter(|_| self.worlds[0].phase == Phase::Running) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Time until the next timer, for epoll.
    fn time_to_sleep(&self, limit: Option<Duration>) -> EpollTimeout {
        let now = Instant::now();
        let live = |number: usize| self.ranks.iter().any(|r| r.world == number && r.end.is_none());
        let phases = self.worlds.iter().enumerate().filter_map(|(number, world)| match world.phase {
            Phase::Running => None,
            Phase::Settling { until } => Some(until),
            Phase::Ending { next, .. } => Some(next).filter(|_| live(number)),
        });
        let phase = phases.min();
        let timeout = self.timeout_at.filter(|_| self.may_time_out());
        let input = match self.feeder_waits {
            WaitsFor::Foreground => Some(now + limits::BACKGROUND_INPUT),
            WaitsFor::Again => Some(now),
            _ => None,
        };
        let picture = self.picture.as_ref().map(|p| if p.complete(now) { now } else { p.until });
        let (lines, hosts) = (self.streams.deadline(), self.fleet.deadline());
        let shown = self.reports.deadline();
        let timers = [phase, timeout, input, picture, lines, hosts, shown, limit.map(|l| now + l)];
        match timers.into_iter().flatten().min() {
            None => EpollTimeout::NONE,
            Some(at) => {
                let left = at.saturating_duration_since(now);
                // Rounded up, so that the last part of a millisecond is slept and not spun.
                let millis = if left.is_zero() { 0 } else { left.as_millis() + 1 };
                EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::MAX)
            }
        }
    }

    fn see_to_timers(&mut self) -> Result<(), LaunchError> {
        let now = Instant::now();
        self.streams.tick(now);
        self.show(now);
        self.see_to_hosts();
        if matches!(self.feeder_waits, WaitsFor::Foreground | WaitsFor::Again) {
            self.pump()?;
        }
        if let Some(picture) = self.picture.take_if(|picture| picture.complete(now)) {
            self.print_picture(&picture);
        }
        for number in 0..self.worlds.len() {
            match self.worlds[number].phase {
                Phase::Settling { until } if now >= until => self.decide(number),
                Phase::Ending { next, killed: false } if now >= next => self.kill_now(&[number]),
                _ => {}
            }
        }
        if self.may_time_out() && self.timeout_at.is_some_and(|at| now >= at) {
            let seconds = self.job.timeout.unwrap_or_default().as_secs_f64();
            let title = format!("the job has run for {seconds} s (--timeout); what the ranks wait for:");
            self.take_picture(title, BTreeMap::new(), Then::End(124));
        }
        Ok(())
    }

    /// Something runs that the time limit would end.
    fn may_time_out(&self) -> bool {
        self.picture.is_none() && self.worlds.iter().any(|world| world.phase == Phase::Running)
    }

    pub(super) fn watch_signals(&self) -> Result<(), LaunchError> {
        self.watch(&self.signals, EpollFlags::EPOLLIN, Token::Signals)
    }

    pub(super) fn watch_rank(&self, rank: usize) -> Result<(), LaunchError> {
        let Some(r) = self.ranks.get(rank) else { return Ok(()) };
        if let Some(control) = &r.control {
            self.watch(control, EpollFlags::EPOLLIN, Token::Control(rank))?;
        }
        for (stream, fd) in r.streams.iter().enumerate() {
            if let Some(fd) = fd {
                self.watch(fd, EpollFlags::EPOLLIN, Token::Stream(rank, stream))?;
            }
        }
        Ok(())
    }

    /// Watches a control channel for writing while something waits to be sent on it.
    pub(super) fn watch_control(&mut self, rank: usize) {
        let Some(r) = self.ranks.get_mut(rank) else { return };
        let Some(control) = &r.control else { return };
        if r.control_writes != control.wants_write() {
            r.control_writes = control.wants_write();
            let mut flags = EpollFlags::EPOLLIN;
            flags.set(EpollFlags::EPOLLOUT, r.control_writes);
            let mut event = EpollEvent::new(flags, Token::Control(rank).pack());
            // A channel that cannot be watched is one that has ended, which its rank's end tells.
            let _ = self.epoll.modify(control, &mut event);
        }
    }

    fn watch_sinks(&mut self) -> Result<(), LaunchError> {
        for fd in self.streams.blocked() {
            watch_once(&self.epoll, fd, EpollFlags::EPOLLOUT, Token::Sink)?;
        }
        Ok(())
    }

    pub(super) fn watch(&self, fd: impl AsFd, flags: EpollFlags, token: Token) -> Result<(), LaunchError> {
        self.epoll.add(fd, EpollEvent::new(flags, token.pack())).map_err(LaunchError::system("epoll"))
    }

    /// Moves standard input on.
    pub(super) fn pump(&mut self) -> Result<(), LaunchError> {
        let Some(feeder) = &mut self.feeder else { return Ok(()) };
        self.feeder_waits = feeder.pump();
        match self.feeder_waits {
            WaitsFor::Input => watch_once(&self.epoll, feeder.stdin(), EpollFlags::EPOLLIN, Token::Input)?,
            WaitsFor::Ranks => {
                if let Some(pipe) = feeder.blocked() {
                    watch_once(&self.epoll, pipe, EpollFlags::EPOLLOUT, Token::InputPipe)?;
                }
            }
            WaitsFor::Foreground | WaitsFor::Again => {}
            WaitsFor::Nothing => self.feeder = None,
        }
        Ok(())
    }

    fn read_control(&mut self, rank: usize) {
        let Some(control) = self.ranks.get_mut(rank).and_then(|r| r.control.as_mut()) else { return };
        let flushed = control.flush();
        let incoming = control.read(&mut self.buffer);
        self.hear(rank, incoming.messages, incoming.broken);
        self.watch_control(rank);
        if incoming.ended || !flushed {
            let Some(r) = self.ranks.get_mut(rank) else { return };
            if let Some(control) = r.control.take() {
                // Closing is not enough where the descriptor came from a process that started this launcher: it is
                // open twice, and an ended channel would be reported for ever.
                let _ = self.epoll.delete(&control);
            }
            if r.foreign && r.end.is_none() {
                self.foreign_gone(rank);
            }
        }
    }

    /// Does what a rank's messages mean.
    pub(super) fn hear(&mut self, rank: usize, messages: Vec<Said>, broken: Option<String>) {
        let Some((number, own)) = self.ranks.get(rank).map(|r| (r.world, r.rank)) else { return };
        for message in messages {
            let actions = self.worlds[number].server.hear(own, message);
            self.act(number, actions);
        }
        self.look_if_started(number);
        if let Some(reason) = broken {
            self.broken(rank, &reason);
        }
    }

    /// The process that started this launcher closed its socket, which it does only by ending.
    fn foreign_gone(&mut self, rank: usize) {
        self.note_end(rank, End::Gone);
        if let Some(failure) = end::failure(rank, End::Gone, self.phase(rank), 0) {
            self.take(failure);
        }
    }

    /// A rank has ended as none should.
    fn take(&mut self, failure: Failure) {
        match self.may_lose(failure.rank) {
            true => self.go_on_without(&failure),
            false => self.fail(failure),
        }
    }

    fn read_stream(&mut self, rank: usize, stream: usize) -> Result<(), LaunchError> {
        if !self.streams.takes(rank, stream) {
            self.paused.push((rank, stream));
            if let Some(fd) = self.ranks.get(rank).and_then(|r| r.streams.get(stream)?.as_ref()) {
                self.epoll.delete(fd).map_err(LaunchError::system("epoll"))?;
            }
            return Ok(());
        }
        self.read_once(rank, stream);
        Ok(())
    }

    /// Reads a piece; false when there is nothing to be read now.
    fn read_once(&mut self, rank: usize, stream: usize) -> bool {
        let Some(slot) = self.ranks.get_mut(rank).and_then(|r| r.streams.get_mut(stream)) else {
            return false;
        };
        let Some(fd) = slot else { return false };
        let now = Instant::now();
        match read(&*fd, &mut self.buffer) {
            Err(Errno::EAGAIN) => false,
            Err(Errno::EINTR) => true,
            Ok(0) | Err(_) => {
                *slot = None;
                self.streams.close(rank, stream, now);
                false
            }
            Ok(n) => {
                self.streams.push(rank, stream, self.buffer.get(..n).unwrap_or_default(), now);
                if self.streams.broken(rank, stream) {
                    // Nobody reads any more: the rank is told so by its own next write.
                    *slot = None;
                }
                true
            }
        }
    }

    /// Watches again what was left alone while the reader was slow.
    fn resume_streams(&mut self) -> Result<(), LaunchError> {
        if self.paused.is_empty() {
            return Ok(());
        }
        let ready =
            |streams: &mut super::Streams, &(rank, stream): &(usize, usize)| streams.takes(rank, stream);
        let paused = std::mem::take(&mut self.paused);
        let (again, still): (Vec<_>, Vec<_>) =
            paused.into_iter().partition(|at| ready(&mut self.streams, at));
        self.paused = still;
        for (rank, stream) in again {
            if let Some(fd) = self.ranks.get(rank).and_then(|r| r.streams.get(stream)?.as_ref()) {
                self.watch(fd, EpollFlags::EPOLLIN, Token::Stream(rank, stream))?;
            }
        }
        Ok(())
    }

    /// Everything that a rank has written so far, a bounded amount.
    pub(super) fn drain_rank(&mut self, rank: usize) {
        for stream in 0..2 {
            let mut pieces = limits::OUTPUT_WAITING_MAX_BYTES / limits::READ_BYTES;
            while pieces > 0 && self.read_once(rank, stream) {
                pieces -= 1;
            }
        }
    }

    fn see_to_signals(&mut self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            match Signal::try_from(info.ssi_signo as i32) {
                Ok(Signal::SIGCHLD) => self.reap(),
                Ok(signal @ (Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP)) => self.stop(signal),
                Ok(Signal::SIGQUIT) if self.picture.is_none() => {
                    let title = String::from("SIGQUIT; what the ranks wait for:");
                    self.take_picture(title, BTreeMap::new(), Then::GoOn);
                }
                Ok(signal @ (Signal::SIGUSR1 | Signal::SIGUSR2 | Signal::SIGCONT)) => {
                    self.kill_groups(signal)
                }
                Ok(Signal::SIGWINCH) => self.resize_terminals(),
                Ok(Signal::SIGTSTP) => {
                    self.kill_groups(Signal::SIGTSTP);
                    let _ = self.flush_links();
                    // It cannot fail, and the launcher sleeps here until it is continued.
                    let _ = raise(Signal::SIGSTOP);
                    self.fleet.forgive();
                }
                _ => {}
            }
        }
    }

    /// The launcher's terminal has another size: so have those of this machine's ranks.
    fn resize_terminals(&mut self) {
        if self.terminal.is_none() {
            return;
        }
        let size = super::terminal::size();
        self.terminal = Some(size);
        let readers = self.ranks.iter().enumerate().filter(|(slot, rank)| {
            rank.world == 0 && rank.far.is_none() && super::input::reads(self.job.stdin, *slot)
        });
        for fd in readers.filter_map(|(_, rank)| rank.streams[0].as_ref()) {
            mpi_node::terminal::set_size(fd.as_fd(), size);
        }
    }

    /// The user wants the job to end; asked twice, at once.
    fn stop(&mut self, signal: Signal) {
        let all: Vec<usize> = (0..self.worlds.len()).collect();
        if self.worlds.iter().all(|world| matches!(world.phase, Phase::Ending { .. })) {
            self.kill_now(&all);
            return;
        }
        self.picture = None;
        self.ended_by.get_or_insert_with(|| format!("the launcher got {signal}"));
        let seconds = limits::KILL_AFTER_SIGNAL.as_secs();
        self.streams.message(&format!(
            "mpiexec: {signal}: ending the job; what is left after {seconds} s is killed (once more: at once)"
        ));
        self.end_all(128 + signal as i32, None, limits::KILL_AFTER_SIGNAL);
    }

    /// Collects the ranks that have ended. All of them are noted before any is judged: ranks that
    /// exit together do not "go on".
    fn reap(&mut self) {
        let mut ended: Vec<(usize, End)> = Vec::new();
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            let Some(pid) = status.pid() else { break };
            let (Some(end), Some(&rank)) = (End::of(status), self.by_pid.get(&(pid.as_raw() as u32))) else {
                self.fleet.note_end(status);
                continue;
            };
            self.by_pid.remove(&(pid.as_raw() as u32));
            self.note_end(rank, end);
            ended.push((rank, end));
        }
        self.judge(ended);
    }

    /// Ranks have ended, and all that have are noted: whose end is a failure?
    pub(super) fn judge(&mut self, ended: Vec<(usize, End)>) {
        for (rank, end) in ended {
            let Some(number) = self.ranks.get(rank).map(|r| r.world) else { continue };
            let others = self.others_of(number);
            let failure = end::failure(rank, end, self.phase(rank), others);
            if let Some(failure) = failure {
                self.take(failure);
            } else if self.worlds[number].awaited.is_some() && self.phase(rank) < RankPhase::Started {
                // Perhaps no MPI program at all.
                self.fail(Failure { rank, how: end.to_string(), status: 1 });
            }
            if self.job.verbose {
                let line = format!("mpiexec: {} {end} after {}", self.name(rank), self.elapsed());
                self.streams.message(&line);
            }
        }
    }

    /// Ranks that still run in a world and in those that are linked with it.
    fn others_of(&self, number: usize) -> usize {
        let worlds = self.links.with(number, &self.worlds, &self.ranks);
        let run = self.ranks.iter().filter(|r| r.end.is_none() && worlds.contains(&r.world)).count();
        // Those of the first world that are not started yet will run.
        let missing =
            if worlds.contains(&0) { self.worlds[0].slots.len().saturating_sub(self.ranks.len()) } else { 0 };
        run + missing
    }

    fn note_end(&mut self, rank: usize, end: End) {
        // What it said and wrote last, before its end is told to anybody.
        while self.ranks.get(rank).is_some_and(|r| r.control.is_some()) {
            let before = self.phase(rank);
            self.read_control(rank);
            if self.ranks.get(rank).is_some_and(|r| r.control.is_some()) && before == self.phase(rank) {
                break;
            }
        }
        self.drain_rank(rank);
        self.note_gone(rank, end);
        let Some(r) = self.ranks.get_mut(rank) else { return };
        if r.foreign {
            return;
        }
        r.group_left = killpg(Pid::from_raw(r.pid as i32), None).is_ok();
        if let (false, Some(guard)) = (r.group_left, &mut self.guard) {
            guard.remove(r.pid);
        }
    }

    /// A rank is gone, and everything that it said has been heard.
    pub(super) fn note_gone(&mut self, rank: usize, end: End) {
        let Some((number, own)) = self.ranks.get(rank).map(|r| (r.world, r.rank)) else { return };
        let actions = self.worlds[number].server.gone(own);
        self.act(number, actions);
        self.names.forget(rank);
        if let Some(picture) = &mut self.picture {
            picture.asked.retain(|asked| *asked != rank);
        }
        let was_told = matches!(self.worlds[number].phase, Phase::Ending { .. });
        let Some(r) = self.ranks.get_mut(rank) else { return };
        r.was_told = was_told;
        r.end = Some(end);
        self.alive -= 1;
        self.reports.has_ended(rank);
    }
}

/// Watches for one event, also again.
pub(super) fn watch_once(
    epoll: &nix::sys::epoll::Epoll,
    fd: impl AsFd,
    flags: EpollFlags,
    token: Token,
) -> Result<(), LaunchError> {
    let mut event = EpollEvent::new(flags | EpollFlags::EPOLLONESHOT, token.pack());
    match epoll.modify(&fd, &mut event) {
        Err(Errno::ENOENT) => match epoll.add(&fd, event) {
            // A file, which is always ready.
            Ok(()) | Err(Errno::EPERM) => Ok(()),
            Err(e) => Err(LaunchError::system("epoll")(e)),
        },
        Ok(()) | Err(Errno::EPERM) => Ok(()),
        Err(e) => Err(LaunchError::system("epoll")(e)),
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Signals,
            Token::Input,
            Token::InputPipe,
            Token::Sink,
            Token::Control(4095),
            Token::Stream(7, 0),
            Token::Stream(4095, 1),
            Token::LinkIn(1),
            Token::LinkOut(2),
            Token::LinkErrors(u32::MAX),
            Token::Inlet(9),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
