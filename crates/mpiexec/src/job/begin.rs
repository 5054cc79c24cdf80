//! The beginning of a job: what ranks are told, what they share, and their start.

use super::end::End;
use super::input::{self, Feeder};
use super::start::{self, Rank};
use super::streams::{self, Streams};
use super::terminal::Raw;
use super::world::{self, Phase};
use super::{Running, turn};
use crate::error::LaunchError;
use crate::limits;
use crate::plan::Plan;
use crate::settings::{Job, ShowMap};
use mpi_node::faults;
use mpi_wire::startup::{STARTUP_VERSION, Welcome};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::os::fd::OwnedFd;
use std::time::Duration;

impl Running<'_> {
    /// Starts all ranks of the first world, serving those that run already.
    pub(super) fn start_ranks(&mut self) -> Result<(), LaunchError> {
        if !self.fleet.is_empty() {
            self.reach_hosts()?;
            if self.worlds[0].phase != Phase::Running {
                return Ok(());
            }
        }
        let mut pipes: Vec<OwnedFd> = Vec::new();
        for (rank, place) in self.plan.ranks.iter().enumerate() {
            let Some(program) = self.plan.programs.get(place.program) else { continue };
            if let Some(daemon) = self.fleet.daemon_of(place.host) {
                self.take_in(Rank::planned(0, rank, place, Some(daemon)))?;
                if input::reads(self.job.stdin, rank) {
                    pipes.push(self.open_inlet(rank)?);
                }
                continue;
            }
            let source = input::source(self.job.stdin, self.terminal, rank);
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
        self.start_far_ranks()?;
        self.all_started = true;
        match self.job.show_map {
            ShowMap::No => {}
            ShowMap::Lines => self.print_map(),
            ShowMap::Json => self.print_map_as_json(),
        }
        if !pipes.is_empty() {
            let stdin = streams::standard_input();
            self.raw = self.terminal.and_then(|_| Raw::begin(stdin));
            self.feeder = Some(Feeder::new(stdin, pipes));
            self.pump()?;
        }
        Ok(())
    }

    /// Lets the daemons start their ranks.
    pub(super) fn start_far_ranks(&mut self) -> Result<(), LaunchError> {
        if self.worlds[0].phase == Phase::Running {
            self.fleet.start(0);
        } else {
            // The job has failed meanwhile: they will never be there.
            let never: Vec<usize> =
                (0..self.ranks.len()).filter(|slot| self.ranks[*slot].far.is_some()).collect();
            never.into_iter().for_each(|slot| self.note_gone(slot, End::Gone));
        }
        let unknown = |r: &Rank| r.far.is_some() && r.pid == 0 && r.end.is_none();
        while self.worlds[0].phase == Phase::Running && self.ranks.iter().any(unknown) {
            self.turn(None)?;
        }
        Ok(())
    }

    /// A rank has been started: it is one of the job from now on.
    pub(super) fn take_in(&mut self, rank: Rank) -> Result<(), LaunchError> {
        let slot = self.ranks.len();
        self.alive += 1;
        self.ranks.push(rank);
        self.note_started(slot)
    }

    /// A rank that was only planned runs.
    pub(super) fn note_started(&mut self, slot: usize) -> Result<(), LaunchError> {
        let Some(rank) = self.ranks.get(slot) else { return Ok(()) };
        let is_child = !rank.foreign && rank.far.is_none();
        if let Some(guard) = self.guard.as_mut().filter(|_| is_child) {
            guard.add(rank.pid);
        }
        if self.job.verbose && rank.far.is_none() {
            let name = world::name(rank.world, rank.rank);
            self.streams.message(&format!("mpiexec: {name} is pid {} on {}", rank.pid, self.plan.host));
        }
        if is_child {
            self.by_pid.insert(rank.pid, slot);
        }
        self.watch_rank(slot)
    }
}

/// What each rank of the first world is told when it says hello.
pub fn world(job: &Job, plan: &Plan, id: &str, size: usize) -> Result<Vec<Welcome>, LaunchError> {
    let secret = mpi_pmi::random_bytes().map_err(random_failed)?;
    let several = job.programs.len() > 1;
    let node_processors = plan.processors_used() as u32;
    let universe = universe_size(plan, size);
    let welcome = |rank: usize| {
        let place = plan.ranks.get(rank);
        let processors = place.and_then(|place| place.processors.as_ref()).unwrap_or(&plan.processors);
        let host = place.map_or(0, |place| place.host);
        Welcome {
            version: STARTUP_VERSION,
            job: id.to_owned(),
            secret,
            rank: rank as u32,
            size: size as u32,
            host: plan.host_name(host).to_owned(),
            node_slot: place.map(|place| place.node_slot as u32),
            node_size: plan.ranks_of(host).count().clamp(1, size.max(1)) as u32,
            // What only a host's daemon knows, it will say.
            node_processors,
            own_processors: processors.len() as u32,
            multihost: plan.used > 1,
            appnum: place.filter(|_| several).map(|place| place.program as i32),
            universe_size: Some(universe),
            parent: None,
        }
    };
    Ok((0..size).map(welcome).collect())
}

/// The processes that the job is meant to have at most, spawned ones included.
pub fn universe_size(plan: &Plan, size: usize) -> u32 {
    let slots = |host: &crate::hosts::Host| if host.here { plan.processors.len() } else { host.room.slots };
    let universe = match plan.hosts.is_empty() {
        true => plan.processors.len(),
        false => plan.hosts.iter().map(slots).sum(),
    };
    size.max(universe) as u32
}

/// Lets faults happen here, too, where the user wants them (`MPI_FAULTS`): the launcher makes the memory that ranks share.
pub fn faults(env: &[(String, String)]) {
    let given = env.iter().rev().find(|(name, _)| name == faults::VARIABLE).map(|(_, value)| value.clone());
    let setting = given.or_else(|| std::env::var(faults::VARIABLE).ok());
    // One that cannot be was refused with the other settings.
    let _ = faults::install(setting.as_deref(), LOTS_OF_THE_LAUNCHER);
}

/// Sets the lots of the launcher apart from those of ranks.
const LOTS_OF_THE_LAUNCHER: u64 = u64::MAX >> 16;

/// The node segment, where a second rank can use it.
pub fn segment(size: usize, streams: &mut Streams) -> Option<OwnedFd> {
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

/// Makes room for the descriptors of `size` ranks of this machine and of streams to `hosts` others; gives
/// the soft limit that ranks should have.
pub fn raise_open_files(size: usize, hosts: usize) -> Result<Option<u64>, LaunchError> {
    let need = limits::OPEN_FILES_OWN
        + limits::OPEN_FILES_PER_RANK * size as u64
        + limits::OPEN_FILES_PER_HOST * hosts as u64;
    let (soft, hard) =
        getrlimit(Resource::RLIMIT_NOFILE).map_err(LaunchError::system("limit of open files"))?;
    if soft >= need {
        return Ok(None);
    }
    if hard < need {
        let message = format!(
            "{size} ranks and {hosts} other hosts need {need} open files, the limit is {hard} (ulimit -Hn)"
        );
        return Err(crate::cli::UsageError::new(message).into());
    }
    setrlimit(Resource::RLIMIT_NOFILE, need, hard).map_err(LaunchError::system("limit of open files"))?;
    Ok(Some(soft))
}

/// Signals come as events from now on. Ranks get an empty mask again.
pub fn take_signals() -> Result<SignalFd, LaunchError> {
    let mut set = SigSet::empty();
    for signal in turn::SIGNALS {
        set.add(*signal);
    }
    let mut blocked = set;
    // A limit of the size of files is an error of the write, then.
    blocked.add(Signal::SIGXFSZ);
    blocked.thread_block().map_err(LaunchError::system("signals"))?;
    // Reading a terminal that belongs to another job is an error then, not a stop.
    set.remove(Signal::SIGTTIN);
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(LaunchError::system("signals"))
}

pub fn random_failed(error: mpi_pmi::PmiError) -> LaunchError {
    LaunchError::System {
        what: String::from("random bytes"),
        error: std::io::Error::other(error.to_string()),
    }
}
