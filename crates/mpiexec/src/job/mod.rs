//! A running job: one thread, one poll loop, from the first rank started to the last one gone.
//!
//! ```text
//! Running --failure--> Settling --20 ms--> Ending --all gone--> status
//!    |------abort, signal, --timeout--------^
//! ```

mod control;
mod end;
mod input;
mod knot;
mod mixer;
mod picture;
mod sink;
mod spawn;
mod start;
mod streams;
mod turn;
mod world;

use crate::error::LaunchError;
use crate::guard::{self, Guard};
use crate::limits;
use crate::plan::{Plan, ranges};
use crate::settings::Job;
use end::Failure;
use input::{Feeder, Source};
use mpi_pmi::names::Names;
use mpi_pmi::server::{Action, Phase as RankPhase, Server};
use mpi_wire::startup::{STARTUP_VERSION, ToRank, Welcome};
use mpi_wire::waits::{Foreign, Wait};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use picture::{Picture, Said, Then};
use start::{Common, Rank};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use streams::Streams;
use world::{Links, Phase, World};

/// The number of a process that is none of this job's, or not known to be.
const UNKNOWN_SLOT: u32 = u32::MAX;

/// Starts the job, sees it through, and gives its status.
///
/// # Errors
/// [`LaunchError`]; whatever was started is gone then.
pub fn run(job: &Job, plan: &Plan) -> Result<i32, LaunchError> {
    let random: [u8; 8] = mpi_pmi::random_bytes().map_err(random_failed)?;
    let id = format!("{}-{}-{:016x}", plan.host, std::process::id(), u64::from_le_bytes(random));
    finish(Running::new(job, plan, id, plan.ranks.len())?, Running::start_ranks)
}

/// Serves the process `pid` at the other end of `socket`, which began without a launcher as the job
/// `id`, and what it spawns.
///
/// # Errors
/// [`LaunchError`]; whatever was started is gone then.
pub fn serve(job: &Job, plan: &Plan, id: String, socket: OwnedFd, pid: u32) -> Result<i32, LaunchError> {
    finish(Running::new(job, plan, id, 1)?, |running| {
        running.take_in(start::attach(socket, pid)?)?;
        running.all_started = true;
        Ok(())
    })
}

fn finish<'a>(
    mut running: Running<'a>,
    begin: impl FnOnce(&mut Running<'a>) -> Result<(), LaunchError>,
) -> Result<i32, LaunchError> {
    let outcome = begin(&mut running).and_then(|()| running.see_through());
    if outcome.is_err() {
        running.kill_groups(Signal::SIGKILL);
    }
    running.clean_up();
    outcome.map(|()| running.status.unwrap_or(0))
}

/// The whole state of the loop.
struct Running<'a> {
    job: &'a Job,
    plan: &'a Plan,
    begun: Instant,
    epoll: Epoll,
    signals: SignalFd,
    /// Id of the job; that of its first world.
    id: String,
    guard: Option<Guard>,
    worlds: Vec<World>,
    links: Links,
    names: Names,
    /// The processes of all worlds.
    ranks: Vec<Rank>,
    by_pid: BTreeMap<u32, usize>,
    alive: usize,
    all_started: bool,
    streams: Streams,
    /// Streams that are not read while their reader is slow.
    paused: Vec<(usize, usize)>,
    feeder: Option<Feeder>,
    feeder_waits: input::WaitsFor,
    status: Option<i32>,
    timeout_at: Option<Instant>,
    picture: Option<Picture>,
    last_picture: Option<Instant>,
    pictures_apart: Duration,
    buffer: Vec<u8>,
}

impl<'a> Running<'a> {
    fn new(job: &'a Job, plan: &'a Plan, id: String, size: usize) -> Result<Running<'a>, LaunchError> {
        let open_files = raise_open_files(size)?;
        let signals = take_signals()?;
        let mut streams = Streams::new(size, mixer::Tags { rank: job.tag, time: job.timestamp });
        let guard = Guard::start(&id)
            .map_err(|e| streams.message(&format!("mpiexec: no guard against kill -9 of mpiexec: {e}")))
            .ok();
        let common = Common {
            segment: segment(size, &mut streams),
            size,
            env: job.env.clone(),
            errhandler: job.errhandler.clone(),
            scrub: start::foreign_variables(),
            open_files,
            id: id.clone(),
            spawned: false,
        };
        let server = Server::new(world(job, plan, &id, size)?);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(LaunchError::system("epoll"))?;
        let begun = Instant::now();
        let running = Running {
            job,
            plan,
            begun,
            epoll,
            signals,
            id,
            guard,
            worlds: vec![World::new(server, common, 0..size, Vec::new())],
            links: Links::default(),
            names: Names::default(),
            ranks: Vec::with_capacity(size),
            by_pid: BTreeMap::new(),
            alive: 0,
            all_started: false,
            streams,
            paused: Vec::new(),
            feeder: None,
            feeder_waits: input::WaitsFor::Nothing,
            status: None,
            timeout_at: job.timeout.map(|timeout| begun + timeout),
            picture: None,
            last_picture: None,
            pictures_apart: limits::PICTURES_APART / 2,
            buffer: vec![0; limits::READ_BYTES],
        };
        running.watch_signals()?;
        Ok(running)
    }

    /// Starts all ranks of the first world, serving those that run already.
    fn start_ranks(&mut self) -> Result<(), LaunchError> {
        let mut pipes: Vec<OwnedFd> = Vec::new();
        for (rank, place) in self.plan.ranks.iter().enumerate() {
            let Some(program) = self.plan.programs.get(place.program) else { continue };
            let source = input::source(self.job.stdin, rank);
            let common = &self.worlds[0].common;
            let (started, pipe) = start::start(common, 0, rank, place, program, source, &self.plan.host)?;
            pipes.extend(pipe);
            self.take_in(started)?;
            if rank % 8 == 7 {
                self.turn(Some(Duration::ZERO))?;
                if self.worlds[0].phase != Phase::Running {
                    break;
                }
            }
        }
        self.all_started = true;
        if self.job.show_map {
            self.print_map();
        }
        if source_is_pipe(self.job, self.ranks.len()) {
            let stdin = streams::standard_input();
            self.feeder = Some(Feeder::new(stdin, pipes));
            self.pump()?;
        }
        Ok(())
    }

    /// A rank has been started: it is one of the job from now on.
    fn take_in(&mut self, rank: Rank) -> Result<(), LaunchError> {
        let slot = self.ranks.len();
        if let Some(guard) = self.guard.as_mut().filter(|_| !rank.foreign) {
            guard.add(rank.pid);
        }
        if self.job.verbose {
            let name = world::name(rank.world, rank.rank);
            self.streams.message(&format!("mpiexec: {name} is pid {} on {}", rank.pid, self.plan.host));
        }
        if !rank.foreign {
            self.by_pid.insert(rank.pid, slot);
        }
        self.alive += 1;
        self.ranks.push(rank);
        self.watch_rank(slot)
    }

    /// Turns until every rank is gone.
    fn see_through(&mut self) -> Result<(), LaunchError> {
        loop {
            let settling = self.settling();
            if self.alive == 0 {
                match settling {
                    Some(world) => self.decide(world),
                    None => return Ok(()),
                }
                continue;
            }
            self.turn(None)?;
            if self.only_immortals_are_left() {
                self.name_the_immortal();
                return Ok(());
            }
        }
    }

    /// A world whose failures are not decided yet.
    fn settling(&self) -> Option<usize> {
        self.worlds.iter().position(|world| matches!(world.phase, Phase::Settling { .. }))
    }

    /// Everybody who lives was killed long ago.
    fn only_immortals_are_left(&self) -> bool {
        let now = Instant::now();
        let given_up =
            |world: &World| matches!(world.phase, Phase::Ending { next, killed: true } if now >= next);
        self.alive > 0
            && self.ranks.iter().filter(|r| r.end.is_none()).all(|r| given_up(&self.worlds[r.world]))
    }

    /// Takes note of a failure: it is that of every world that is linked with the rank's.
    fn fail(&mut self, failure: Failure) {
        let Some(number) = self.ranks.get(failure.rank).map(|r| r.world) else { return };
        if self.worlds[number].awaited.is_some() {
            let (command, program) = self.spawned_program(failure.rank);
            let rank = self.ranks[failure.rank].rank;
            let reason = format!("{program}: its rank {rank} {} before all had initialised MPI", failure.how);
            return self.spawn_failed(number, command, &reason);
        }
        let world = &mut self.worlds[number];
        if matches!(world.phase, Phase::Ending { .. })
            || world.failures.iter().any(|f| f.rank == failure.rank)
        {
            return;
        }
        world.failures.push(failure);
        let until = Instant::now() + limits::SIMULTANEOUS;
        for linked in self.links.with(number, &self.worlds, &self.ranks) {
            let phase = &mut self.worlds[linked].phase;
            if *phase == Phase::Running {
                *phase = Phase::Settling { until };
            }
        }
    }

    /// The failures of a world, and of those that settle with it, are in: the lowest rank's is the
    /// job's, so that it is the same in every run.
    fn decide(&mut self, number: usize) {
        let Phase::Settling { until } = self.worlds[number].phase else { return };
        let together: Vec<usize> = (0..self.worlds.len())
            .filter(|world| self.worlds[*world].phase == Phase::Settling { until })
            .collect();
        let mut failures: Vec<Failure> =
            together.iter().flat_map(|world| std::mem::take(&mut self.worlds[*world].failures)).collect();
        failures.sort_by_key(|f| f.rank);
        let Some(first) = failures.first().cloned() else {
            // Not reached: a world settles because of a failure.
            together.iter().for_each(|world| self.worlds[*world].phase = Phase::Running);
            return;
        };
        let line = format!("{} {}", self.name_and_time(first.rank), first.how);
        for failure in failures {
            self.drain_rank(failure.rank);
            if failure.rank != first.rank && self.job.verbose {
                let line = format!("mpiexec: {} {} too", self.name(failure.rank), failure.how);
                self.streams.message(&line);
            }
        }
        // Everything that the ranks wrote before stands before the line that tells of the failure.
        self.streams.flush_before_report();
        self.streams.message(&format!("mpiexec: {line}"));
        self.end(&together, first.status, Some(&line), limits::KILL_AFTER_FAILURE);
    }

    /// Tells all ranks of some worlds to end: by SIGTERM, and with a `reason` by a message too, on which
    /// a rank leaves at once. Without one the program has the whole time before the kill for itself: it
    /// may catch the signal and save what it has.
    fn end(&mut self, worlds: &[usize], status: i32, reason: Option<&str>, kill_after: Duration) {
        self.status.get_or_insert(status);
        let abort = reason.map(|reason| ToRank::Abort { code: status, message: reason.to_owned() });
        for number in worlds {
            let world = &mut self.worlds[*number];
            world.phase = Phase::Ending { next: Instant::now() + kill_after, killed: false };
            let slots = world.slots.clone();
            for slot in slots {
                match &abort {
                    Some(abort) if self.phase(slot) != RankPhase::Silent => self.send(slot, abort),
                    _ => {}
                }
            }
        }
        self.kill_worlds(worlds, Signal::SIGTERM);
        self.kill_worlds(worlds, Signal::SIGCONT);
    }

    /// Tells all ranks to end.
    fn end_all(&mut self, status: i32, reason: Option<&str>, kill_after: Duration) {
        let all: Vec<usize> = (0..self.worlds.len())
            .filter(|world| !matches!(self.worlds[*world].phase, Phase::Ending { .. }))
            .collect();
        self.end(&all, status, reason, kill_after);
    }

    fn kill_now(&mut self, worlds: &[usize]) {
        for number in worlds {
            let next = Instant::now() + limits::GONE_AFTER_KILL;
            self.worlds[*number].phase = Phase::Ending { next, killed: true };
        }
        self.kill_worlds(worlds, Signal::SIGKILL);
        for rank in self.ranks.iter().filter(|r| r.foreign && r.end.is_none() && worlds.contains(&r.world)) {
            // It was asked and did not go. Its socket is open, so the number is still its own.
            let _ = kill(Pid::from_raw(rank.pid as i32), Signal::SIGKILL);
        }
    }

    /// Sends a signal to all ranks and their children.
    fn kill_groups(&self, signal: Signal) {
        let all: Vec<usize> = (0..self.worlds.len()).collect();
        self.kill_worlds(&all, signal);
    }

    /// Sends a signal to the ranks of some worlds and their children.
    fn kill_worlds(&self, worlds: &[usize], signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| rank.group_left && worlds.contains(&rank.world)) {
            let _ = killpg(Pid::from_raw(rank.pid as i32), signal);
        }
    }

    /// How far a rank has come.
    fn phase(&self, slot: usize) -> RankPhase {
        self.ranks.get(slot).map_or(RankPhase::Silent, |r| self.worlds[r.world].server.phase(r.rank))
    }

    /// Takes a picture of what all ranks wait for.
    fn take_picture(&mut self, title: String, said: BTreeMap<usize, Said>, then: Then) {
        let now = Instant::now();
        self.last_picture = Some(now);
        let asked: Vec<usize> = (0..self.ranks.len())
            .filter(|rank| self.ranks[*rank].end.is_none() && !said.contains_key(rank))
            .filter(|rank| self.phase(*rank) != RankPhase::Silent)
            .collect();
        for rank in &asked {
            self.send(*rank, &ToRank::ReportWanted);
        }
        self.picture = Some(Picture { title, asked, said, until: now + limits::REPORTS, then });
    }

    /// Prints a complete picture.
    fn print_picture(&mut self, picture: &Picture) {
        let (size, name) = (self.ranks.len(), |slot| self.called(slot));
        for line in picture.lines(size, name, |slot| self.state(slot), |slot| self.left(slot)) {
            self.streams.message(&format!("mpiexec: {line}"));
        }
        if let Then::End(status) = picture.then {
            self.end_all(status, Some(&picture.title), limits::KILL_AFTER_FAILURE);
        }
    }

    fn state(&self, rank: usize) -> String {
        let Some(r) = self.ranks.get(rank) else { return String::from("not started") };
        match (r.end, self.phase(rank)) {
            (Some(end), _) => end.to_string(),
            (None, RankPhase::Silent) => {
                format!("has not initialised MPI (pid {}, {})", r.pid, picture::process_state(r.pid))
            }
            (None, RankPhase::Finalized) => {
                format!("has finalised MPI (pid {}, {})", r.pid, picture::process_state(r.pid))
            }
            (None, _) => format!("pid {}, {}", r.pid, picture::process_state(r.pid)),
        }
    }

    /// How a rank came to take no part in MPI any more, if it has.
    fn left(&self, rank: usize) -> Option<String> {
        match (self.ranks.get(rank)?.end, self.phase(rank)) {
            (Some(end), _) => Some(format!("has ended ({end})")),
            (None, RankPhase::Finalizing) => {
                Some(String::from("has called finalize, and sends and receives nothing more"))
            }
            (None, RankPhase::Finalized) => Some(String::from("has finalised MPI")),
            (None, _) => None,
        }
    }

    /// Carries out what the start-up server of a world wants.
    fn act(&mut self, number: usize, actions: Vec<Action>) {
        let first = self.worlds[number].slots.start;
        for action in actions {
            match action {
                Action::Send { rank, message } => self.send(first + rank as usize, &message),
                Action::Abort { rank, code, message } => {
                    let how = mpi_pmi::abort_words(code, &message);
                    let status = mpi_pmi::exit_status(code);
                    self.fail(Failure { rank: first + rank as usize, how, status });
                }
                Action::Report { rank, text, waits } => {
                    let waits = waits.into_iter().map(|wait| self.in_slots(number, wait)).collect();
                    self.report(first + rank as usize, Said { text, waits });
                }
                Action::Spawn { rank, id, request } => self.spawn(first + rank as usize, id, &request),
                Action::Name { rank, id, request } => {
                    let outcome = self.names.ask(first + rank as usize, request);
                    self.send(first + rank as usize, &ToRank::Named { id, outcome });
                }
                Action::Linked { rank, job, linked } => self.linked(first + rank as usize, &job, linked),
                Action::Broken { rank, reason } => self.broken(first + rank as usize, &reason),
            }
        }
    }

    /// A rank has, or no longer has, communicators with another world. One of another job's is
    /// another launcher's to see to.
    fn linked(&mut self, slot: usize, job: &str, linked: bool) {
        let Some(to) = self.worlds.iter().position(|world| world.common.id == job) else { return };
        let Some(rank) = self.ranks.get_mut(slot) else { return };
        match linked {
            true => {
                rank.links.insert(to);
                self.links.formed(rank.world, to);
            }
            false => {
                rank.links.remove(&to);
            }
        }
    }

    fn broken(&mut self, rank: usize, reason: &str) {
        let how = format!("broke the start-up protocol ({reason})");
        self.fail(Failure { rank, how, status: 3 });
    }

    /// A rank says what it waits for: asked, or by itself after it has waited for long.
    fn report(&mut self, rank: usize, said: Said) {
        if let Some(picture) = &mut self.picture {
            picture.answer(rank, said);
            return;
        }
        let recent = self.last_picture.is_some_and(|at| at.elapsed() < self.pictures_apart);
        let runs = self.ranks.get(rank).is_some_and(|r| self.worlds[r.world].phase == Phase::Running);
        if runs && !recent {
            // A wait that is meant to be long says so ever more rarely.
            self.pictures_apart = self.pictures_apart.saturating_mul(2);
            let title = format!("{} has been blocked for long; what the ranks wait for:", self.called(rank));
            self.take_picture(title, BTreeMap::from([(rank, said)]), Then::GoOn);
        }
    }

    fn send(&mut self, rank: usize, message: &ToRank) {
        let Some(control) = self.ranks.get_mut(rank).and_then(|r| r.control.as_mut()) else { return };
        // A rank that has gone takes nothing; its end tells so.
        control.send(message);
        if control.waiting() > limits::CONTROL_WAITING_MAX_BYTES {
            self.ranks[rank].control = None;
            self.broken(rank, "it asks and does not read the answers");
            return;
        }
        self.watch_control(rank);
    }

    /// What a rank is called.
    fn called(&self, slot: usize) -> String {
        self.ranks.get(slot).map_or_else(|| format!("rank {slot}"), |r| world::name(r.world, r.rank))
    }

    /// A wait of a rank of a world, in numbers of the job's processes.
    fn in_slots(&self, number: usize, wait: Wait) -> Wait {
        let slots = self.worlds[number].slots.clone();
        let slot = |rank: &u32| match slots.start + *rank as usize {
            slot if slot < slots.end => slot as u32,
            _ => UNKNOWN_SLOT,
        };
        let elsewhere = |peer: &Foreign| {
            let world = self.worlds.iter().find(|world| world.common.id == peer.job);
            let slot = world.map(|world| world.slots.start + peer.rank as usize);
            slot.filter(|slot| world.is_some_and(|w| w.slots.contains(slot)))
                .map_or(UNKNOWN_SLOT, |s| s as u32)
        };
        let peers = wait.peers.iter().map(slot).chain(wait.foreign.iter().map(elsewhere)).collect();
        Wait { peers, foreign: Vec::new(), any: wait.any }
    }

    fn name(&self, slot: usize) -> String {
        let Some(r) = self.ranks.get(slot) else { return format!("rank {slot}") };
        format!("{} (pid {} on {})", world::name(r.world, r.rank), r.pid, self.plan.host)
    }

    /// As `name`, with how long the job has run.
    fn name_and_time(&self, slot: usize) -> String {
        let Some(r) = self.ranks.get(slot) else { return format!("rank {slot}") };
        let (name, elapsed) = (world::name(r.world, r.rank), self.elapsed());
        format!("{name} (pid {} on {}, after {elapsed})", r.pid, self.plan.host)
    }

    fn elapsed(&self) -> String {
        format!("{:.1} s", self.begun.elapsed().as_secs_f64())
    }

    /// Rank, host, and the processors read back from the kernel.
    fn print_map(&mut self) {
        for (rank, r) in self.ranks.iter().enumerate() {
            let processors = match sched_getaffinity(Pid::from_raw(r.pid as i32)) {
                Ok(set) => {
                    let set: Vec<usize> =
                        (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect();
                    format!("processors {}", ranges(&set))
                }
                Err(e) => format!("processors unknown ({})", e.desc()),
            };
            let program = self.plan.ranks.get(rank).and_then(|place| self.plan.programs.get(place.program));
            let name = program.map(|p| p.name.to_string_lossy().into_owned()).unwrap_or_default();
            let line =
                format!("mpiexec: rank {rank}: {}, {processors}, pid {}, {name}", self.plan.host, r.pid);
            self.streams.message(&line);
        }
    }

    fn name_the_immortal(&mut self) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].end.is_none() {
                let line = format!("mpiexec: {} does not die of SIGKILL; left behind", self.name(rank));
                self.streams.message(&line);
            }
        }
    }

    /// Every rank is gone: the rest of their output, what they left behind, the last lines.
    fn clean_up(&mut self) {
        let abnormal = self.status.is_some_and(|status| status != 0);
        self.kill_groups(Signal::SIGKILL);
        if abnormal {
            guard::sweep(&self.id);
        }
        for rank in 0..self.ranks.len() {
            self.drain_rank(rank);
        }
        self.streams.finish();
        if self.job.print_all {
            let ends =
                self.ranks.iter().map(|r| r.end.map_or(String::from("left"), |e| e.status().to_string()));
            let names = self.ranks.iter().map(|r| world::name(r.world, r.rank));
            let ends: Vec<String> = names.zip(ends).map(|(name, end)| format!("{name}: {end}")).collect();
            self.streams.message(&format!("mpiexec: exit statuses: {}", ends.join(", ")));
        }
        if self.job.verbose {
            let line = format!("mpiexec: status {} after {}", self.status.unwrap_or(0), self.elapsed());
            self.streams.message(&line);
        }
        self.streams.flush_at_end();
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// What each rank of the first world is told when it says hello.
fn world(job: &Job, plan: &Plan, id: &str, size: usize) -> Result<Vec<Welcome>, LaunchError> {
    let secret = mpi_pmi::random_bytes().map_err(random_failed)?;
    let several = job.programs.len() > 1;
    let node_processors = plan.processors_used() as u32;
    let welcome = |rank: usize| {
        let place = plan.ranks.get(rank);
        let processors = place.and_then(|place| place.processors.as_ref()).unwrap_or(&plan.processors);
        Welcome {
            version: STARTUP_VERSION,
            job: id.to_owned(),
            secret,
            rank: rank as u32,
            size: size as u32,
            host: plan.host.clone(),
            node_slot: Some(rank as u32),
            node_size: size as u32,
            node_processors,
            own_processors: processors.len() as u32,
            multihost: false,
            appnum: place.filter(|_| several).map(|place| place.program as i32),
            universe_size: Some(size.max(plan.processors.len()) as u32),
            parent: None,
        }
    };
    Ok((0..size).map(welcome).collect())
}

/// The node segment, where a second rank can use it.
fn segment(size: usize, streams: &mut Streams) -> Option<OwnedFd> {
    if size < 2 {
        return None;
    }
    match mpi_node::segment::create(size as u32) {
        Ok(fd) => Some(fd),
        Err(e) => {
            streams.message(&format!("mpiexec: no shared memory ({e}); ranks use TCP"));
            None
        }
    }
}

fn source_is_pipe(job: &Job, size: usize) -> bool {
    (0..size).any(|rank| input::source(job.stdin, rank) == Source::Pipe)
}

/// Makes room for the descriptors of `size` ranks; gives the soft limit that ranks should have.
fn raise_open_files(size: usize) -> Result<Option<u64>, LaunchError> {
    let need = limits::OPEN_FILES_OWN + limits::OPEN_FILES_PER_RANK * size as u64;
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(LaunchError::system("limit of open files"))?;
    if soft >= need {
        return Ok(None);
    }
    if hard < need {
        let message = format!("{size} ranks need {need} open files, the limit is {hard} (ulimit -Hn)");
        return Err(crate::cli::UsageError::new(message).into());
    }
    setrlimit(Resource::RLIMIT_NOFILE, need, hard).map_err(LaunchError::system("limit of open files"))?;
    Ok(Some(soft))
}

/// Signals come as events from now on. Ranks get an empty mask again.
fn take_signals() -> Result<SignalFd, LaunchError> {
    let mut set = SigSet::empty();
    for signal in turn::SIGNALS {
        set.add(*signal);
    }
    set.thread_block().map_err(LaunchError::system("signals"))?;
    // Reading a terminal that belongs to another job is an error then, not a stop.
    set.remove(Signal::SIGTTIN);
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(LaunchError::system("signals"))
}

fn random_failed(error: mpi_pmi::PmiError) -> LaunchError {
    LaunchError::System {
        what: String::from("random bytes"),
        error: std::io::Error::other(error.to_string()),
    }
}
