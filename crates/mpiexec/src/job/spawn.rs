//! Worlds that ranks spawn: from the request to the answer.

use super::input::Source;
use super::world::{self, Awaited, Phase, World};
use super::{Running, start};
use crate::error::LaunchError;
use crate::find;
use crate::limits;
use crate::plan::{Place, Ready};
use crate::settings::Oversubscribe;
use crate::topology::Topology;
use mpi_pmi::server::{Phase as RankPhase, Server};
use mpi_pmi::{SpawnCommand, SpawnOutcome, SpawnRequest};
use mpi_wire::startup::{STARTUP_VERSION, ToRank, Welcome};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Why a request comes to nothing: the program at fault, and the reason.
type Refusal = (Option<u32>, String);

impl Running<'_> {
    /// A rank wants another world.
    pub(super) fn spawn(
        &mut self,
        by: usize,
        id: u64,
        request: &SpawnRequest,
        values: Vec<(String, String)>,
    ) {
        if let Err((command, reason)) = self.try_spawn(by, id, request, values) {
            self.answer_spawn(Awaited { by, id }, SpawnOutcome::Failed { command, reason });
        }
    }

    fn answer_spawn(&mut self, awaited: Awaited, outcome: SpawnOutcome) {
        self.send(awaited.by, &ToRank::Spawned { id: awaited.id, outcome });
    }

    fn try_spawn(
        &mut self,
        by: usize,
        id: u64,
        request: &SpawnRequest,
        values: Vec<(String, String)>,
    ) -> Result<(), Refusal> {
        let Some(parent) = self.ranks.get(by).map(|r| r.world) else { return Ok(()) };
        if self.worlds.get(parent).is_none_or(|w| w.phase != Phase::Running) {
            return Err((None, String::from("the job is ending")));
        }
        if !self.fleet.is_empty() && self.here >= self.plan.hosts.len() {
            let host = &self.plan.host;
            return Err((None, format!("processes are spawned on {host}, which is none of the job's hosts")));
        }
        let whole = |error: LaunchError| (None, error.to_string());
        let size: usize = request.commands.iter().map(|c| c.count as usize).sum();
        let (first, all) = (self.ranks.len(), self.ranks.len() + size);
        if size == 0 || all > limits::RANKS_MAX {
            let most = limits::RANKS_MAX;
            return Err((None, format!("{size} processes beside {first}: a job has 1 to {most}")));
        }
        let (processors, live) = (self.plan.processors.len(), self.alive + size);
        if self.job.oversubscribe == Oversubscribe::Refuse && live > processors {
            let host = &self.plan.host;
            let reason =
                format!("--no-oversubscribe: {host} has {processors} processors for {live} processes");
            return Err((None, reason));
        }
        let mut programs = Vec::new();
        let mut places: Vec<Place> = Vec::new();
        let layout = Topology::read(&self.plan.processors).layout(all, self.job.map_by, self.job.bind_to);
        let mut layout = layout.into_iter().skip(first);
        for (command, at) in request.commands.iter().zip(0u32..) {
            programs.push(ready(command, &self.plan.host).map_err(|reason| (Some(at), reason))?);
            for _ in 0..command.count {
                let (node_slot, processors) = (places.len(), layout.next().flatten());
                places.push(Place { program: at as usize, host: self.here, node_slot, processors });
            }
        }
        super::raise_open_files(all, self.plan.hosts.len()).map_err(whole)?;
        let number = self.worlds.len();
        let common = start::Common {
            id: format!("{}.{number}", self.id),
            size,
            node_size: size,
            segment: super::segment(size, &mut self.streams),
            records: self.records(first, size),
            spawned: true,
            ..self.worlds[0].common.for_another()
        };
        let secret = mpi_pmi::random_bytes().map_err(|e| (None, e.to_string()))?;
        let universe = self.plan.processors.len().max(self.plan.ranks.len()) as u32;
        let welcome = |(rank, place): (usize, &Place)| Welcome {
            version: STARTUP_VERSION,
            job: common.id.clone(),
            secret,
            rank: rank as u32,
            size: size as u32,
            host: self.plan.host.clone(),
            node_slot: Some(rank as u32),
            node_size: size as u32,
            node_processors: self.plan.processors.len() as u32,
            own_processors: place.processors.as_ref().unwrap_or(&self.plan.processors).len() as u32,
            multihost: self.plan.hosts.len() > 1,
            appnum: Some(place.program as i32),
            universe_size: Some(universe),
            parent: Some(request.port.clone()),
        };
        let server = Server::new(places.iter().enumerate().map(welcome).collect()).with_values(values);
        let mut world = World::new(server, common, first..all, programs);
        world.awaited = Some(Awaited { by, id });
        self.worlds.push(world);
        self.links.form(parent, number);
        for rank in 0..size as u32 {
            self.streams.add(world::tag(number, rank));
        }
        for (rank, place) in places.iter().enumerate() {
            if let Err(error) = self.start_one(number, rank, place) {
                // The request is answered by this, and the world is never heard of again.
                self.spawn_failed(number, Some(place.program as u32), &error.to_string());
                break;
            }
        }
        Ok(())
    }

    fn start_one(&mut self, number: usize, rank: usize, place: &Place) -> Result<(), LaunchError> {
        let Some(world) = self.worlds.get(number) else { return Ok(()) };
        let Some(program) = world.programs.get(place.program) else { return Ok(()) };
        let started =
            start::start(&world.common, number, rank, place, program, Source::Null, &self.plan.host)?.0;
        self.take_in(started)
    }

    /// Of a world that is awaited: every rank may have initialised MPI.
    pub(super) fn look_if_started(&mut self, number: usize) {
        let Some(world) = self.worlds.get_mut(number) else { return };
        let mut ranks = 0..world.slots.len() as u32;
        if world.awaited.is_some() && ranks.all(|rank| world.server.phase(rank) >= RankPhase::Started) {
            let job = world.common.id.clone();
            if let Some(awaited) = world.awaited.take() {
                self.answer_spawn(awaited, SpawnOutcome::Started { job });
            }
        }
    }

    /// A world that is awaited comes to nothing: that is an error of who asked, not of the job.
    pub(super) fn spawn_failed(&mut self, number: usize, command: Option<u32>, reason: &str) {
        let Some(world) = self.worlds.get_mut(number) else { return };
        let Some(awaited) = world.awaited.take() else { return };
        world.phase = Phase::Ending { next: Instant::now() + limits::GONE_AFTER_KILL, killed: true };
        self.links.forget(number);
        self.kill_worlds(&[number], Signal::SIGKILL);
        self.answer_spawn(awaited, SpawnOutcome::Failed { command, reason: reason.to_owned() });
    }

    /// The place in the request, and the name, of the program that a rank runs.
    pub(super) fn spawned_program(&self, slot: usize) -> (Option<u32>, String) {
        let Some(rank) = self.ranks.get(slot) else { return (None, String::new()) };
        let program = self.worlds.get(rank.world).and_then(|world| world.programs.get(rank.program));
        let name = program.map(|p| p.executable.display().to_string()).unwrap_or_default();
        (Some(rank.program as u32), name)
    }
}

/// Follows a command's hints and finds its program.
fn ready(command: &SpawnCommand, host: &str) -> Result<Ready, String> {
    let hint = |wanted: &str| {
        let found = command.info.iter().rev().find(|(key, _)| key == wanted);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    for wanted in hint("host").unwrap_or_default().split(',').map(str::trim).filter(|h| !h.is_empty()) {
        if !crate::hosts::is_this_host(wanted, host) {
            return Err(format!("host={wanted}: this release runs jobs on one machine, which is {host}"));
        }
    }
    // Who does not say where it is (PMI-1 has no word for it) is where the launcher is.
    let asker = match command.directory.is_empty() {
        true => std::env::current_dir().unwrap_or_default(),
        false => PathBuf::from(OsString::from_vec(command.directory.clone())),
    };
    let wdir = hint("wdir").map_or_else(|| asker.clone(), |wdir| asker.join(wdir));
    let name = OsString::from_vec(command.program.clone());
    // A path starts where the process that asks is, not where the launcher is.
    let named = match name.as_bytes().contains(&b'/') {
        true => asker.join(&name).into_os_string(),
        false => name.clone(),
    };
    let path = hint("path").map(|path| absolute(path, &asker));
    let search = std::env::var_os("PATH");
    let executable = find::program(&named, path.as_deref(), search.as_deref(), Some(&wdir), host)
        .map_err(|e| e.to_string())?;
    find::directory(&wdir, host).map_err(|e| e.to_string())?;
    let arguments: Vec<OsString> = command.arguments.iter().cloned().map(OsString::from_vec).collect();
    if arguments.iter().chain([&name]).any(|word| word.as_bytes().contains(&0)) {
        return Err(String::from("a word holds a byte of value 0"));
    }
    let env = environment(hint("env").unwrap_or_default())?;
    Ok(Ready { executable, name, arguments, wdir: Some(wdir), env })
}

/// A list of directories, as in PATH, seen from `from`.
fn absolute(path: &str, from: &Path) -> String {
    let all: Vec<PathBuf> = std::env::split_paths(path).map(|dir| from.join(dir)).collect();
    // A directory whose name holds a colon cannot be in such a list anyway.
    std::env::join_paths(all).unwrap_or_default().to_string_lossy().into_owned()
}

/// The hint `env`: `NAME=VALUE`, one a line.
fn environment(text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |line: &str| match line.split_once('=') {
        Some((name, value)) if !name.is_empty() && !line.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("env: {line:?} is no NAME=VALUE")),
    };
    text.lines().filter(|line| !line.is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(program: &str, info: &[(&str, &str)]) -> SpawnCommand {
        SpawnCommand {
            program: program.into(),
            directory: b"/".to_vec(),
            count: 1,
            info: info.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..SpawnCommand::default()
        }
    }

    #[test]
    fn hints_are_followed() {
        let found = ready(&command("bin/sh", &[("env", "A=1\nB=x y")]), "here").unwrap();
        assert_eq!(found.executable, Path::new("/bin/sh"));
        assert_eq!(found.wdir.as_deref(), Some(Path::new("/")));
        assert_eq!(found.env, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x y".to_owned())]);
        let found = ready(&command("sh", &[("wdir", "tmp"), ("path", "bin"), ("host", "localhost")]), "here");
        assert_eq!(found.unwrap().wdir.as_deref(), Some(Path::new("/tmp")));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (program, key, value, expected) in [
            ("./no-such-program", "arch", "any", "no-such-program"),
            ("sh", "host", "elsewhere", "host=elsewhere"),
            ("sh", "wdir", "/no/such/directory", "/no/such/directory"),
            ("sh", "env", "=1", "NAME=VALUE"),
            ("/etc/passwd", "arch", "any", "cannot be run"),
        ] {
            let error = ready(&command(program, &[(key, value)]), "here").unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
