//! What daemons say, and what becomes of hosts that say nothing.

use super::{FarHost, Running, Token, ping};
use crate::error::LaunchError;
use crate::job::end::End;
use crate::job::turn::watch_once;
use crate::job::world::{self, Phase};
use crate::limits;
use crate::link::Link;
use crate::plan::ranges;
use mpi_wire::daemon::{FromDaemon, ToDaemon, host_of, parent};
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::signal::Signal;
use nix::unistd::read;
use std::time::{Duration, Instant};

impl Running<'_> {
    /// Sends what waits to be sent to the hosts.
    pub(in crate::job) fn flush_links(&mut self) -> Result<(), LaunchError> {
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
                watch_once(&self.epoll, link.output(), EpollFlags::EPOLLOUT, token)?;
            }
        }
        stuck.into_iter().for_each(|number| self.lose(number, "it does not read what it is sent"));
        Ok(())
    }

    pub(in crate::job) fn hear_link(&mut self, number: u32) -> Result<(), LaunchError> {
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
    pub(in crate::job) fn hear_link_errors(&mut self, number: u32) {
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
        let of_it = |slot: u32, ranks: &[crate::job::Rank]| {
            let far = ranks.get(slot as usize).and_then(|r| r.far.as_ref());
            far.is_some_and(|far| far.daemon == number).then_some(slot as usize)
        };
        match message {
            FromDaemon::Ready { .. } => {
                host.ready = true;
                self.fleet.send(number, &ping());
                self.host_is_ready(number)?;
            }
            FromDaemon::Prepared { world, processors, own, .. } => {
                host.prepared |= world == 0;
                let (world, index) = (world as usize, host.index);
                self.fleet.send(number, &ping());
                self.complete_welcomes(world, index, processors, &own);
                self.host_is_prepared(world, number);
            }
            FromDaemon::Refused { world: 0, status, reason } => {
                self.fleet.error.get_or_insert(LaunchError::Host { status, reason });
            }
            FromDaemon::Refused { world, reason, .. } => self.spawn_failed(world as usize, None, &reason),
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
                    let incoming = crate::job::control::take(&mut far.inbox, &bytes);
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

    /// Its daemon has answered: it gets what is to run there, and starts the daemons below it.
    fn host_is_ready(&mut self, number: u32) -> Result<(), LaunchError> {
        let index = self.fleet.hosts.get(number as usize).map(|host| host.index);
        if index.is_some_and(|index| index < self.plan.used) && !self.all_started {
            self.prepare(0, number);
        }
        for world in self.awaiting(|hosts| hosts.contains(&number)) {
            self.prepare(world, number);
        }
        for below in 0..self.fleet.hosts.len() as u32 {
            let is_new = self.fleet.hosts.get(below as usize).is_some_and(|host| host.launched.is_none());
            if is_new && parent(below, self.fleet.fan_out) == Some(number) {
                self.launch(below)?;
            }
        }
        Ok(())
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
        // Worlds that wait for such a host come to nothing; that is no matter of the others.
        for world in self.awaiting(|hosts| lost.iter().any(|host| hosts.contains(host))) {
            self.spawn_failed(world, None, &format!("host {name}: {reason}"));
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
    pub(in crate::job) fn see_to_hosts(&mut self) {
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
    pub(in crate::job) fn dismiss_hosts(&mut self) {
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
