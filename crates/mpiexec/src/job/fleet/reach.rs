//! Starting the daemons of hosts, and telling them what runs there.

use super::{FarHost, Running, Token};
use crate::error::LaunchError;
use crate::job::input;
use crate::job::world::Phase;
use crate::limits;
use crate::link::Link;
use crate::plan::{Wanted, oversubscription};
use crate::settings::Oversubscribe;
use mpi_wire::daemon::{Prepare, Program, RankHere, Setup, ToDaemon, parent};
use nix::sys::epoll::EpollFlags;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Instant;

impl Running<'_> {
    /// Starts all daemons and waits until each has what its ranks need.
    pub(in crate::job) fn reach_hosts(&mut self) -> Result<(), LaunchError> {
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

    pub(super) fn launch(&mut self, number: u32) -> Result<(), LaunchError> {
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

    /// Sees to it that a host gets what a spawned world runs there: at once, or when its daemon is up.
    ///
    /// # Errors
    /// Why its daemon cannot be started.
    pub(in crate::job) fn reach_for(&mut self, world: usize, number: u32) -> Result<(), LaunchError> {
        self.fleet.ping_at.get_or_insert_with(Instant::now);
        let Some(host) = self.fleet.hosts.get_mut(number as usize) else { return Ok(()) };
        if host.ready && !host.lost {
            self.prepare(world, number);
            return Ok(());
        }
        if host.lost {
            // It did not answer the last time; perhaps now.
            *host = FarHost::new(host.index, &host.name);
        }
        let (name, is_launched) = (host.name.clone(), host.launched.is_some());
        let above = parent(number, self.fleet.fan_out).and_then(|above| self.fleet.hosts.get(above as usize));
        match above {
            Some(above) if above.lost => {
                let reason = format!("host {name}: it is reached through {}, which is lost", above.name);
                Err(LaunchError::Host { status: 3, reason })
            }
            // It starts those below it when it answers.
            Some(above) if !above.ready => Ok(()),
            _ if is_launched => Ok(()),
            _ => self.launch(number),
        }
    }

    /// Tells a daemon what a world runs there.
    pub(super) fn prepare(&mut self, world: usize, number: u32) {
        let Some(index) = self.fleet.hosts.get(number as usize).map(|host| host.index) else { return };
        let order = Box::new(self.order_for(world, index));
        self.fleet.send(number, &ToDaemon::Prepare(order));
    }

    /// What a world runs on a host.
    fn order_for(&self, number: usize, index: usize) -> Prepare {
        let world = &self.worlds[number];
        let common = &world.common;
        let first = world.slots.start;
        let places = self.places_of(number).iter().enumerate().filter(|(_, place)| place.host == index);
        let ranks = places.map(|(rank, place)| RankHere {
            slot: (first + rank) as u32,
            rank: rank as u32,
            program: place.program as u32,
            reads: number == 0 && input::reads(self.job.stdin, rank),
        });
        let program = |wanted: &Wanted| Program {
            name: wanted.name.as_bytes().to_vec(),
            path: wanted.path.clone(),
            wdir: wanted.wdir.as_ref().map(|wdir| wdir.as_os_str().as_bytes().to_vec()),
            arguments: wanted.arguments.iter().map(|a| a.as_bytes().to_vec()).collect(),
            environment: common.env.iter().chain(&wanted.env).cloned().collect(),
        };
        let variables = std::env::vars_os().filter(|(name, _)| !common.scrub.contains(name));
        let (directory, wanted) = match &world.spawned {
            None => (std::env::current_dir().unwrap_or(PathBuf::from("/")), &self.plan.wanted),
            // What is spawned is seen from the process that asks, and says so with whole paths.
            Some(spawned) => (PathBuf::from("/"), &spawned.wanted),
        };
        let before = self.ranks.iter().take(first).filter(|rank| rank.host == index).count();
        Prepare {
            world: number as u32,
            id: common.id.clone(),
            size: common.size as u32,
            several: common.several,
            spawned: common.spawned,
            directory: directory.into_os_string().into_vec(),
            environment: variables.map(|(name, value)| (name.into_vec(), value.into_vec())).collect(),
            errhandler: common.errhandler.clone(),
            map_by: self.job.map_by.number(),
            bind_to: self.job.bind_to.number(),
            records: self.reports.wanted_elsewhere(),
            before: before as u32,
            terminal: self.terminal,
            programs: wanted.iter().map(program).collect(),
            ranks: ranks.collect(),
        }
    }

    /// The ranks of a host will be told what its daemon found there.
    pub(super) fn complete_welcomes(&mut self, world: usize, index: usize, processors: u32, own: &[u32]) {
        let here = self.places_of(world).iter().enumerate().filter(|(_, place)| place.host == index);
        let ranks: Vec<usize> = here.map(|(rank, _)| rank).collect();
        let Some(server) = self.worlds.get_mut(world).map(|world| &mut world.server) else { return };
        for (rank, own) in ranks.iter().zip(own) {
            if let Some(welcome) = server.welcome_mut(*rank as u32) {
                welcome.node_processors = processors;
                welcome.own_processors = *own;
            }
        }
        let remark = self.job.oversubscribe == Oversubscribe::Remark && !self.job.quiet && world == 0;
        if remark && ranks.len() > processors as usize {
            let line = oversubscription(ranks.len(), processors as usize, self.plan.host_name(index));
            self.streams.message(&format!("mpiexec: {line}"));
        }
    }
}
