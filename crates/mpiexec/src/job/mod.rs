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
mod start;
mod streams;
mod turn;

use crate::error::LaunchError;
use crate::guard::{self, Guard};
use crate::limits;
use crate::plan::{Plan, ranges};
use crate::settings::Job;
use end::Failure;
use input::{Feeder, Source};
use mpi_pmi::server::{Action, Phase as RankPhase, Server};
use mpi_wire::startup::{STARTUP_VERSION, ToRank, Welcome};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use picture::{Picture, Said, Then};
use start::{Common, Rank};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use streams::Streams;

/// Starts the job, sees it through, and gives its status.
///
/// # Errors
/// [`LaunchError`]; whatever was started is gone then.
pub fn run(job: &Job, plan: &Plan) -> Result<i32, LaunchError> {
    let mut running = Running::new(job, plan)?;
    let outcome = running.start_ranks().and_then(|()| running.see_through());
    if outcome.is_err() {
        running.kill_groups(Signal::SIGKILL);
    }
    running.clean_up();
    outcome.map(|()| running.status.unwrap_or(0))
}

/// How far the job has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// All is well.
    Running,
    /// A rank has failed; others that fail at the same time are waited for.
    Settling { until: Instant },
    /// Ranks were told to end; the kill signal, or giving up, comes next.
    Ending { next: Instant, killed: bool },
}

/// The whole state of the loop.
struct Running<'a> {
    job: &'a Job,
    plan: &'a Plan,
    begun: Instant,
    epoll: Epoll,
    signals: SignalFd,
    common: Common,
    guard: Option<Guard>,
    server: Server,
    ranks: Vec<Rank>,
    by_pid: BTreeMap<u32, usize>,
    alive: usize,
    all_started: bool,
    streams: Streams,
    /// Streams that are not read while their reader is slow.
    paused: Vec<(usize, usize)>,
    feeder: Option<Feeder>,
    feeder_waits: input::WaitsFor,
    phase: Phase,
    failures: Vec<Failure>,
    status: Option<i32>,
    timeout_at: Option<Instant>,
    picture: Option<Picture>,
    last_picture: Option<Instant>,
    pictures_apart: Duration,
    buffer: Vec<u8>,
}

impl<'a> Running<'a> {
    fn new(job: &'a Job, plan: &'a Plan) -> Result<Running<'a>, LaunchError> {
        let size = plan.ranks.len();
        let open_files = raise_open_files(size)?;
        let signals = take_signals()?;
        let random: [u8; 8] = mpi_pmi::random_bytes().map_err(random_failed)?;
        let id = format!("{}-{}-{:016x}", plan.host, std::process::id(), u64::from_le_bytes(random));
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
            id,
        };
        let server = Server::new(world(job, plan, &common.id)?);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(LaunchError::system("epoll"))?;
        let begun = Instant::now();
        let running = Running {
            job,
            plan,
            begun,
            epoll,
            signals,
            common,
            guard,
            server,
            ranks: Vec::with_capacity(size),
            by_pid: BTreeMap::new(),
            alive: 0,
            all_started: false,
            streams,
            paused: Vec::new(),
            feeder: None,
            feeder_waits: input::WaitsFor::Nothing,
            phase: Phase::Running,
            failures: Vec::new(),
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

    /// Starts all ranks, serving those that run already.
    fn start_ranks(&mut self) -> Result<(), LaunchError> {
        let mut pipes: Vec<OwnedFd> = Vec::new();
        for (rank, place) in self.plan.ranks.iter().enumerate() {
            let Some(program) = self.plan.programs.get(place.program) else { continue };
            let source = input::source(self.job.stdin, rank);
            let (started, pipe) = start::start(&self.common, rank, place, program, source, &self.plan.host)?;
            if let Some(guard) = &mut self.guard {
                guard.add(started.pid);
            }
            if self.job.verbose {
                let line = format!("mpiexec: rank {rank} is pid {} on {}", started.pid, self.plan.host);
                self.streams.message(&line);
            }
            self.by_pid.insert(started.pid, rank);
            self.alive += 1;
            self.ranks.push(started);
            pipes.extend(pipe);
            self.watch_rank(rank)?;
            if rank % 8 == 7 {
                self.turn(Some(Duration::ZERO))?;
                if self.phase != Phase::Running {
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

    /// Turns until every rank is gone.
    fn see_through(&mut self) -> Result<(), LaunchError> {
        while self.alive > 0 || matches!(self.phase, Phase::Settling { .. }) {
            if matches!(self.phase, Phase::Settling { .. }) && self.alive == 0 {
                self.decide();
                break;
            }
            self.turn(None)?;
            if let Phase::Ending { next, killed: true } = self.phase {
                if Instant::now() >= next {
                    self.name_the_immortal();
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes note of a failure.
    fn fail(&mut self, failure: Failure) {
        if matches!(self.phase, Phase::Ending { .. }) || self.failures.iter().any(|f| f.rank == failure.rank)
        {
            return;
        }
        self.failures.push(failure);
        if self.phase == Phase::Running {
            self.phase = Phase::Settling { until: Instant::now() + limits::SIMULTANEOUS };
        }
    }

    /// The failures are in: the lowest rank's is the job's, so that it is the same in every run.
    fn decide(&mut self) {
        self.failures.sort_by_key(|f| f.rank);
        let Some(first) = self.failures.first().cloned() else { return };
        let line = format!("{} {}", self.name_and_time(first.rank), first.how);
        for failure in std::mem::take(&mut self.failures) {
            self.drain_rank(failure.rank);
            if failure.rank != first.rank && self.job.verbose {
                let line = format!("mpiexec: {} {} too", self.name(failure.rank), failure.how);
                self.streams.message(&line);
            }
        }
        // Everything that the ranks wrote before stands before the line that tells of the failure.
        self.streams.flush_before_report();
        self.streams.message(&format!("mpiexec: {line}"));
        self.end(first.status, &line, limits::KILL_AFTER_FAILURE);
    }

    /// Tells all ranks to end.
    fn end(&mut self, status: i32, reason: &str, kill_after: Duration) {
        self.status.get_or_insert(status);
        self.phase = Phase::Ending { next: Instant::now() + kill_after, killed: false };
        let abort = ToRank::Abort { code: status, message: reason.to_owned() };
        for rank in 0..self.ranks.len() {
            if self.server.phase(rank as u32) != RankPhase::Silent {
                self.send(rank, &abort);
            }
        }
        self.kill_groups(Signal::SIGTERM);
        self.kill_groups(Signal::SIGCONT);
    }

    fn kill_now(&mut self) {
        self.phase = Phase::Ending { next: Instant::now() + limits::GONE_AFTER_KILL, killed: true };
        self.kill_groups(Signal::SIGKILL);
    }

    /// Sends a signal to all ranks and their children.
    fn kill_groups(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| rank.group_left) {
            let _ = killpg(Pid::from_raw(rank.pid as i32), signal);
        }
    }

    /// Takes a picture of what all ranks wait for.
    fn take_picture(&mut self, title: String, said: BTreeMap<usize, Said>, then: Then) {
        let now = Instant::now();
        self.last_picture = Some(now);
        let asked: Vec<usize> = (0..self.ranks.len())
            .filter(|rank| self.ranks[*rank].end.is_none() && !said.contains_key(rank))
            .filter(|rank| self.server.phase(*rank as u32) != RankPhase::Silent)
            .collect();
        for rank in &asked {
            self.send(*rank, &ToRank::ReportWanted);
        }
        self.picture = Some(Picture { title, asked, said, until: now + limits::REPORTS, then });
    }

    /// Prints a complete picture.
    fn print_picture(&mut self, picture: &Picture) {
        for line in picture.lines(self.ranks.len(), |rank| self.state(rank), |rank| self.left(rank)) {
            self.streams.message(&format!("mpiexec: {line}"));
        }
        if let Then::End(status) = picture.then {
            self.end(status, &picture.title, limits::KILL_AFTER_FAILURE);
        }
    }

    fn state(&self, rank: usize) -> String {
        let Some(r) = self.ranks.get(rank) else { return String::from("not started") };
        match (r.end, self.server.phase(rank as u32)) {
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
        match (self.ranks.get(rank)?.end, self.server.phase(rank as u32)) {
            (Some(end), _) => Some(format!("has ended ({end})")),
            (None, RankPhase::Finalizing) => {
                Some(String::from("has called finalize, and sends and receives nothing more"))
            }
            (None, RankPhase::Finalized) => Some(String::from("has finalised MPI")),
            (None, _) => None,
        }
    }

    /// Carries out what the start-up server wants.
    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { rank, message } => self.send(rank as usize, &message),
                Action::Abort { rank, code, message } => {
                    let message = message.trim();
                    let why = if message.is_empty() { String::new() } else { format!(": {message}") };
                    let how = format!("called abort({code}){why}");
                    self.fail(Failure { rank: rank as usize, how, status: mpi_pmi::exit_status(code) });
                }
                Action::Report { rank, text, waits } => self.report(rank as usize, Said { text, waits }),
                Action::Broken { rank, reason } => self.broken(rank as usize, &reason),
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
        if self.phase == Phase::Running && !recent {
            // A wait that is meant to be long says so ever more rarely.
            self.pictures_apart = self.pictures_apart.saturating_mul(2);
            let title = format!("rank {rank} has been blocked for long; what the ranks wait for:");
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

    fn name(&self, rank: usize) -> String {
        let pid = self.ranks.get(rank).map_or(0, |r| r.pid);
        format!("rank {rank} (pid {pid} on {})", self.plan.host)
    }

    /// As `name`, with how long the job has run.
    fn name_and_time(&self, rank: usize) -> String {
        let pid = self.ranks.get(rank).map_or(0, |r| r.pid);
        format!("rank {rank} (pid {pid} on {}, after {})", self.plan.host, self.elapsed())
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
            guard::sweep(&self.common.id);
        }
        for rank in 0..self.ranks.len() {
            self.drain_rank(rank);
        }
        self.streams.finish();
        if self.job.print_all {
            let ends =
                self.ranks.iter().map(|r| r.end.map_or(String::from("left"), |e| e.status().to_string()));
            let ends: Vec<String> =
                ends.enumerate().map(|(rank, end)| format!("rank {rank}: {end}")).collect();
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

/// What each rank is told when it says hello.
fn world(job: &Job, plan: &Plan, id: &str) -> Result<Vec<Welcome>, LaunchError> {
    let secret = mpi_pmi::random_bytes().map_err(random_failed)?;
    let size = plan.ranks.len() as u32;
    let several = job.programs.len() > 1;
    let node_processors = plan.processors_used() as u32;
    let welcome = |(rank, place): (usize, &crate::plan::Place)| Welcome {
        version: STARTUP_VERSION,
        job: id.to_owned(),
        secret,
        rank: rank as u32,
        size,
        host: plan.host.clone(),
        node_slot: Some(rank as u32),
        node_size: size,
        node_processors,
        own_processors: place.processors.as_ref().unwrap_or(&plan.processors).len() as u32,
        multihost: false,
        appnum: several.then_some(place.program as i32),
        universe_size: Some(size.max(plan.processors.len() as u32)),
        parent: None,
    };
    Ok(plan.ranks.iter().enumerate().map(welcome).collect())
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
