//! Worlds that ranks spawn: from the request to the answer.

use super::end::End;
use super::input::Source;
use super::start::Rank;
use super::world::{self, Awaited, Phase, Spawned, World};
use super::{Running, start};
use crate::error::LaunchError;
use crate::hosts::place::{Order, Room, Wanted as Places, place_beside};
use crate::hosts::{self, Host, hostfile};
use crate::limits;
use crate::plan::{Place, Ready, Wanted};
use crate::settings::Oversubscribe;
use crate::topology::{MapBy, Topology};
use mpi_pmi::server::{Phase as RankPhase, Server};
use mpi_pmi::{SpawnCommand, SpawnOutcome, SpawnRequest};
use mpi_wire::startup::{STARTUP_VERSION, ToRank, Welcome};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
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
        let size: usize = request.commands.iter().map(|c| c.count as usize).sum();
        let (first, all) = (self.ranks.len(), self.ranks.len() + size);
        if size == 0 || all > limits::RANKS_OF_A_JOB_MAX {
            let most = limits::RANKS_OF_A_JOB_MAX;
            return Err((None, format!("{size} processes beside {first}: a job has 1 to {most}")));
        }
        let places = self.places_for(request)?;
        let (wanted, programs) = self.programs_for(request, &places)?;
        let number = self.worlds.len();
        let node_size = places.iter().filter(|place| place.host == self.here).count();
        let near = self.ranks.iter().filter(|rank| rank.far.is_none()).count() + node_size;
        super::raise_open_files(near, self.plan.hosts.len()).map_err(|e| (None, e.to_string()))?;
        let secret = mpi_pmi::random_bytes().map_err(|e| (None, e.to_string()))?;
        let common = start::Common {
            id: format!("{}.{number}", self.id),
            size,
            node_size,
            segment: super::segment(node_size, &mut self.streams),
            records: self.records(first, size),
            spawned: true,
            ..self.worlds[0].common.for_another()
        };
        let welcomes = self.welcomes_for(&common.id, secret, &places, &request.port);
        let server = Server::new(welcomes).with_values(values);
        let mut far = BTreeSet::new();
        for (rank, place) in places.iter().enumerate() {
            let host = self.plan.hosts.get(place.host).filter(|host| !host.here);
            let daemon = host.map(|host| self.fleet.daemon_for(place.host, &host.name));
            far.extend(daemon);
            self.alive += 1;
            self.ranks.push(Rank::planned(number, rank, place, daemon));
            self.streams.add(world::tag(number, rank as u32));
        }
        let mut world = World::new(server, common, first..all);
        world.awaited = Some(Awaited { by, id });
        world.spawned = Some(Spawned { programs, wanted, places, unprepared: far.clone() });
        self.worlds.push(world);
        self.links.form(parent, number);
        for daemon in far {
            if let Err(error) = self.reach_for(number, daemon) {
                // The request is answered by this, and the world is never heard of again.
                self.spawn_failed(number, None, &error.to_string());
                return Ok(());
            }
        }
        self.start_when_prepared(number);
        Ok(())
    }

    /// Where the processes go: to the hosts of the job, each as far as it has room, and where there is none
    /// beyond it; or to those that a command names.
    fn places_for(&self, request: &SpawnRequest) -> Result<Vec<Place>, Refusal> {
        let all = &self.plan.hosts;
        // Who began without a launcher told nobody where it can be reached from elsewhere.
        let only_here = self.ranks.first().is_some_and(|rank| rank.foreign);
        let everywhere: Vec<usize> = match only_here {
            true => vec![self.here],
            false => (0..all.len()).collect(),
        };
        // --ppn is for those that the job begins with.
        let most = |host: &Host| if self.job.ppn.is_some() { usize::MAX } else { host.room.most };
        let rooms: Vec<Room> =
            all.iter().map(|host| Room { slots: host.room.slots.max(1), most: most(host) }).collect();
        let mut used = vec![0usize; all.len()];
        for rank in self.ranks.iter().filter(|rank| rank.end.is_none()) {
            if let Some(used) = used.get_mut(rank.host) {
                *used += 1;
            }
        }
        let order = if self.job.map_by == MapBy::Node { Order::Nodes } else { Order::Slots };
        let mut placed = Vec::new();
        for (command, at) in request.commands.iter().zip(0u32..) {
            let refused = |reason: String| (Some(at), reason);
            let count = command.count as usize;
            let found = match hint(command, "host") {
                None => {
                    let wanted = Places { count, hosts: everywhere.clone() };
                    place_beside(&rooms, used.clone(), &[wanted], order)
                }
                Some(text) => {
                    let named = named_hosts(text, all, &self.plan.host).map_err(refused)?;
                    let wanted = Places { count, hosts: named.iter().map(|(host, _)| *host).collect() };
                    if let Some(host) = wanted.hosts.iter().find(|host| !everywhere.contains(host)) {
                        let name = self.plan.host_name(*host);
                        let reason = format!("host={name}: a process without mpiexec spawns on its own host");
                        return Err((Some(at), reason));
                    }
                    // As many on each as the list says, whatever runs there.
                    let mut rooms = rooms.clone();
                    for (host, slots) in named {
                        rooms[host].slots = slots;
                        rooms[host].most = rooms[host].most.saturating_sub(used[host]);
                    }
                    place_beside(&rooms, Vec::new(), &[wanted], order)
                }
            };
            let found = found.map_err(|e| {
                refused(format!("max_slots: {} of {count} processes have room on the job's hosts", e.placed))
            })?;
            found.iter().for_each(|host| used[*host] += 1);
            placed.extend(found.into_iter().map(|host| (at as usize, host)));
        }
        for (host, used) in all.iter().zip(&used) {
            let is_full = *used > host.room.slots.max(1);
            if self.job.oversubscribe == Oversubscribe::Refuse && is_full && !placed.is_empty() {
                let has = hosts::places(host);
                let reason = format!("--no-oversubscribe: {} has {has} for {used} processes", host.name);
                return Err((None, reason));
            }
            if *used > limits::RANKS_MAX {
                let most = limits::RANKS_MAX;
                return Err((None, format!("{used} processes on {}: at most {most}", host.name)));
            }
        }
        Ok(self.laid_out(&placed))
    }

    /// The places with their numbers on each host, and this machine's with processors.
    fn laid_out(&self, placed: &[(usize, usize)]) -> Vec<Place> {
        let before = self.ranks.iter().filter(|rank| rank.host == self.here).count();
        let here = placed.iter().filter(|(_, host)| *host == self.here).count();
        let topology = Topology::read(&self.plan.processors);
        let layout = topology.layout(before + here, self.job.map_by, self.job.bind_to);
        let mut layout = layout.into_iter().skip(before);
        let mut per_host = vec![0; self.plan.hosts.len()];
        let place = |(program, host): &(usize, usize)| {
            let node_slot = per_host[*host];
            per_host[*host] += 1;
            let processors = if *host == self.here { layout.next().flatten() } else { None };
            Place { program: *program, host: *host, node_slot, processors }
        };
        placed.iter().map(place).collect()
    }

    /// The programs as they are asked for, and as found here, where processes of them are to run here.
    fn programs_for(
        &self,
        request: &SpawnRequest,
        places: &[Place],
    ) -> Result<(Vec<Wanted>, Vec<Ready>), Refusal> {
        let search = std::env::var_os("PATH");
        let (mut all, mut found) = (Vec::new(), Vec::new());
        for (command, at) in request.commands.iter().zip(0u32..) {
            let wanted = wanted(command).map_err(|reason| (Some(at), reason))?;
            let runs_here =
                places.iter().any(|place| place.program == at as usize && place.host == self.here);
            found.push(match runs_here {
                true => wanted
                    .ready(search.as_deref(), &self.plan.host)
                    .map_err(|e: LaunchError| (Some(at), e.to_string()))?,
                false => wanted.as_if_at(PathBuf::from(&wanted.name)),
            });
            all.push(wanted);
        }
        Ok((all, found))
    }

    /// What each process is told when it says hello.
    fn welcomes_for(&self, id: &str, secret: [u8; 32], places: &[Place], port: &str) -> Vec<Welcome> {
        let universe = super::universe_size(self.plan, self.plan.ranks.len());
        let hosts: BTreeSet<usize> = places.iter().map(|place| place.host).collect();
        let mut per_host = vec![0u32; self.plan.hosts.len()];
        places.iter().for_each(|place| per_host[place.host] += 1);
        let welcome = |(rank, place): (usize, &Place)| Welcome {
            version: STARTUP_VERSION,
            job: id.to_owned(),
            secret,
            rank: rank as u32,
            size: places.len() as u32,
            host: self.plan.host_name(place.host).to_owned(),
            node_slot: Some(place.node_slot as u32),
            node_size: per_host[place.host],
            // What only a host's daemon knows, it will say.
            node_processors: self.plan.processors.len() as u32,
            own_processors: place.processors.as_ref().unwrap_or(&self.plan.processors).len() as u32,
            multihost: hosts.len() > 1,
            appnum: Some(place.program as i32),
            universe_size: Some(universe),
            parent: Some(port.to_owned()),
        };
        places.iter().enumerate().map(welcome).collect()
    }

    /// Where the ranks of a world are.
    pub(super) fn places_of(&self, number: usize) -> &[Place] {
        match self.worlds.get(number).and_then(|world| world.spawned.as_ref()) {
            Some(spawned) => &spawned.places,
            None => &self.plan.ranks,
        }
    }

    /// The spawned worlds that wait for daemons of which `which` is true.
    pub(super) fn awaiting(&self, which: impl Fn(&BTreeSet<u32>) -> bool) -> Vec<usize> {
        let waits = |number: &usize| {
            self.worlds[*number].spawned.as_ref().is_some_and(|spawned| which(&spawned.unprepared))
        };
        (0..self.worlds.len()).filter(waits).collect()
    }

    /// A daemon has what it needs for a world.
    pub(super) fn host_is_prepared(&mut self, number: usize, daemon: u32) {
        let spawned = self.worlds.get_mut(number).and_then(|world| world.spawned.as_mut());
        if spawned.is_some_and(|spawned| spawned.unprepared.remove(&daemon)) {
            self.start_when_prepared(number);
        }
    }

    /// Starts all ranks of a world at once, so that all of them start or none does.
    fn start_when_prepared(&mut self, number: usize) {
        let Some(world) = self.worlds.get(number) else { return };
        let is_ready = world.spawned.as_ref().is_some_and(|spawned| spawned.unprepared.is_empty());
        if !is_ready || world.awaited.is_none() || world.phase != Phase::Running {
            return;
        }
        let first = world.slots.start;
        for rank in 0..world.slots.len() {
            let Some(place) = self.places_of(number).get(rank).cloned() else { break };
            if place.host != self.here {
                continue;
            }
            if let Err(error) = self.start_one(number, rank, first + rank, &place) {
                self.spawn_failed(number, Some(place.program as u32), &error.to_string());
                return;
            }
        }
        self.fleet.start(number);
    }

    fn start_one(
        &mut self,
        number: usize,
        rank: usize,
        slot: usize,
        place: &Place,
    ) -> Result<(), LaunchError> {
        let Some(world) = self.worlds.get(number) else { return Ok(()) };
        let Some(program) = world.spawned.as_ref().and_then(|s| s.programs.get(place.program)) else {
            return Ok(());
        };
        let started =
            start::start(&world.common, number, rank, place, program, Source::Null, &self.plan.host)?.0;
        self.ranks[slot] = started;
        self.note_started(slot)
    }

    /// The ranks of a world that do not run yet never will.
    pub(super) fn abandon(&mut self, number: usize) {
        let Some(world) = self.worlds.get_mut(number) else { return };
        let Some(spawned) = &mut world.spawned else { return };
        spawned.unprepared.clear();
        for slot in world.slots.clone() {
            if self.ranks.get(slot).is_some_and(|rank| rank.pid == 0 && rank.end.is_none()) {
                self.note_gone(slot, End::Gone);
            }
        }
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
        self.abandon(number);
        self.kill_worlds(&[number], Signal::SIGKILL);
        self.answer_spawn(awaited, SpawnOutcome::Failed { command, reason: reason.to_owned() });
    }

    /// The place in the request, and the name, of the program that a rank runs.
    pub(super) fn spawned_program(&self, slot: usize) -> (Option<u32>, String) {
        let Some(rank) = self.ranks.get(slot) else { return (None, String::new()) };
        let spawned = self.worlds.get(rank.world).and_then(|world| world.spawned.as_ref());
        let program = spawned.and_then(|spawned| spawned.programs.get(rank.program));
        let name = program.map(|p| p.executable.display().to_string()).unwrap_or_default();
        (Some(rank.program as u32), name)
    }
}

/// The value of a hint, where it says something.
fn hint<'a>(command: &'a SpawnCommand, wanted: &str) -> Option<&'a str> {
    let found = command.info.iter().rev().find(|(key, _)| key == wanted);
    found.map(|(_, value)| value.as_str()).filter(|value| !value.trim().is_empty())
}

/// The hosts that the hint `host` names, as `-host` would: each once, with how many processes it takes in turn.
fn named_hosts(text: &str, all: &[Host], own: &str) -> Result<Vec<(usize, usize)>, String> {
    let entries =
        hostfile::list(text).map_err(|e| format!("host={text:?}: character {}: {}", e.column, e.reason))?;
    let mut named: Vec<(usize, usize)> = Vec::new();
    for entry in entries {
        let is_it =
            |host: &Host| host.name == entry.host || (host.here && hosts::is_this_host(&entry.host, own));
        let Some(at) = all.iter().position(is_it) else {
            let names: Vec<&str> = all.iter().map(|host| host.name.as_str()).collect();
            return Err(format!(
                "host={}: it is none of the job's hosts, which are {}",
                entry.host,
                names.join(", ")
            ));
        };
        let slots = entry.slots.unwrap_or(1);
        match named.iter_mut().find(|(host, _)| *host == at) {
            Some((_, more)) => *more += slots,
            None => named.push((at, slots)),
        }
    }
    Ok(named)
}

/// Follows a command's hints. Every path is seen from the process that asks, and whole: other hosts and the
/// launcher are elsewhere.
fn wanted(command: &SpawnCommand) -> Result<Wanted, String> {
    // Who does not say where it is (PMI-1 has no word for it) is where the launcher is.
    let asker = match command.directory.is_empty() {
        true => std::env::current_dir().unwrap_or_default(),
        false => PathBuf::from(OsString::from_vec(command.directory.clone())),
    };
    let wdir = hint(command, "wdir").map_or_else(|| asker.clone(), |wdir| asker.join(wdir));
    let name = OsString::from_vec(command.program.clone());
    let name = match name.as_bytes().contains(&b'/') {
        true => asker.join(&name).into_os_string(),
        false => name,
    };
    let path = hint(command, "path").map(|path| absolute(path, &asker));
    let arguments: Vec<OsString> = command.arguments.iter().cloned().map(OsString::from_vec).collect();
    if arguments.iter().chain([&name]).any(|word| word.as_bytes().contains(&0)) {
        return Err(String::from("a word holds a byte of value 0"));
    }
    let env = environment(hint(command, "env").unwrap_or_default())?;
    Ok(Wanted { name, path, arguments, wdir: Some(wdir), env })
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

    fn ready(command: &SpawnCommand) -> Result<Ready, String> {
        let search = std::env::var_os("PATH");
        wanted(command)?.ready(search.as_deref(), "here").map_err(|e| e.to_string())
    }

    #[test]
    fn hints_are_followed() {
        let found = ready(&command("bin/sh", &[("env", "A=1\nB=x y")])).unwrap();
        assert_eq!(found.executable, Path::new("/bin/sh"));
        assert_eq!(found.wdir.as_deref(), Some(Path::new("/")));
        assert_eq!(found.env, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x y".to_owned())]);
        let found = ready(&command("sh", &[("wdir", "tmp"), ("path", "bin"), ("host", " ")]));
        assert_eq!(found.unwrap().wdir.as_deref(), Some(Path::new("/tmp")));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (program, key, value, expected) in [
            ("./no-such-program", "arch", "any", "no-such-program"),
            ("sh", "wdir", "/no/such/directory", "/no/such/directory"),
            ("sh", "env", "=1", "NAME=VALUE"),
            ("/etc/passwd", "arch", "any", "cannot be run"),
        ] {
            let error = ready(&command(program, &[(key, value)])).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn hosts_are_those_of_the_job() {
        let host = |name: &str, here| Host {
            name: name.to_owned(),
            user: None,
            here,
            room: Room { slots: 2, most: usize::MAX },
        };
        let all = [host("me", true), host("a1", false), host("a2", false)];
        for (text, expected) in [
            ("a2", vec![(2, 1)]),
            ("a[1-2]:3", vec![(1, 3), (2, 3)]),
            ("localhost,a1,me", vec![(0, 2), (1, 1)]),
        ] {
            assert_eq!(named_hosts(text, &all, "me"), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("b", "host=b: it is none of the job's hosts, which are me, a1, a2"),
            ("a1,,a2", "host=\"a1,,a2\": character 4: expected the name of a host"),
        ] {
            assert_eq!(named_hosts(text, &all, "me").as_ref().map_err(String::as_str), Err(expected));
        }
    }
}
