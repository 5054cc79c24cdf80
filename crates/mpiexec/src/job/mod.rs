//! A running job: one thread, one poll loop, from the first rank started to the last one gone.
//!
//! ```text
//! Running --failure--> Settling --20 ms--> Ending --all gone--> status
//!    |------abort, signal, --timeout--------^
//! ```

mod begin;
mod control;
mod end;
mod fleet;
pub mod input;
mod knot;
mod mixer;
mod picture;
mod recovery;
mod report;
mod shown;
mod sink;
mod spawn;
pub mod start;
mod streams;
mod terminal;
mod turn;
mod world;

use crate::error::LaunchError;
use crate::guard::{self, Guard};
use crate::limits;
use crate::plan::Plan;
use crate::report::Reports;
use crate::settings::Job;
pub use begin::raise_open_files;
use begin::{random_failed, segment, take_signals, universe_size, world};
use end::Failure;
use fleet::Fleet;
use input::Feeder;
use mpi_pmi::names::Names;
use mpi_pmi::server::{Action, Phase as RankPhase, Server};
use mpi_wire::startup::ToRank;
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;
use picture::{Picture, Said};
use start::{Common, Rank};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use streams::Streams;
use turn::Token;
use world::{Links, Phase, World};

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
        let attached = start::attach(socket, pid, running.here)?;
        running.take_in(attached)?;
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
    outcome.map(|()| running.status.or(running.status_of_losses()).unwrap_or(0))
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
    fleet: Fleet,
    /// Index of this machine among the hosts of the plan; out of range where it is none of them.
    here: usize,
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
    /// The size of the terminal that ranks which read get.
    terminal: Option<(u16, u16)>,
    /// The launcher's own terminal passes every key on.
    raw: Option<terminal::Raw>,
    status: Option<i32>,
    /// The status of the first rank that the job went on without.
    first_loss: Option<i32>,
    /// What ended the job before its time.
    ended_by: Option<String>,
    timeout_at: Option<Instant>,
    picture: Option<Picture>,
    last_picture: Option<Instant>,
    pictures_apart: Duration,
    reports: Reports,
    buffer: Vec<u8>,
}

impl<'a> Running<'a> {
    fn new(job: &'a Job, plan: &'a Plan, id: String, size: usize) -> Result<Running<'a>, LaunchError> {
        let far = plan.hosts_used().iter().filter(|host| !host.here).count().min(job.fan_out as usize);
        // Ranks elsewhere need nothing here but their files.
        let near = plan.ranks.iter().filter(|place| plan.is_here(place.host)).count();
        let open_files = raise_open_files(if job.output_dir.is_some() { size } else { near }, far)?;
        let signals = take_signals()?;
        let mut streams = Streams::new(size, mixer::Tags { rank: job.tag, time: job.timestamp });
        if let Some(directory) = &job.output_dir {
            streams.write_to(directory, size)?;
        }
        match (&job.output_from, &job.output_dir) {
            (Some(ranks), _) => streams.show_only(ranks.clone()),
            (None, Some(_)) => streams.show_only(Vec::new()),
            (None, None) => {}
        }
        let guard = Guard::start(&guard::mark_of_job(&id))
            .map_err(|e| streams.message(&format!("mpiexec: no guard against kill -9 of mpiexec: {e}")))
            .ok();
        let here = plan.hosts.iter().position(|host| host.here).unwrap_or(usize::MAX);
        let node_size = plan.ranks_of(here).count().clamp(1, size.max(1));
        let mut remarks = Vec::new();
        let mut reports = Reports::new(&job.wanted, &mut remarks);
        // The ranks write to pipes, and only the launcher knows whether those end in a terminal. What the user sets wins.
        let terminal = if std::io::IsTerminal::is_terminal(&std::io::stderr()) { "1" } else { "0" };
        let mut env = vec![(String::from("MPI_STDERR_TERMINAL"), String::from(terminal))];
        if job.recovery {
            env.push((String::from("MPI_RECOVERY"), String::from("1")));
        }
        env.extend(job.env.iter().cloned());
        begin::faults(&env);
        let common = Common {
            segment: segment(node_size, &mut streams),
            records: reports.world(0, size, plan.ranks_of(here).map(|(rank, _)| rank as u32), &mut remarks),
            size,
            node_size,
            several: plan.hosts.len() > 1,
            environment: None,
            env,
            errhandler: job.errhandler.clone(),
            scrub: start::foreign_variables(),
            open_files,
            id: id.clone(),
            spawned: false,
        };
        remarks.iter().for_each(|line| streams.message(&format!("mpiexec: {line}")));
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
            fleet: Fleet::new(plan.hosts_used(), job.fan_out, job.silence),
            here,
            worlds: vec![World::new(server, common, 0..size)],
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
            terminal: job.pty.then(terminal::size),
            raw: None,
            status: None,
            first_loss: None,
            ended_by: None,
            timeout_at: job.timeout.map(|timeout| begun + timeout),
            picture: None,
            last_picture: None,
            pictures_apart: limits::PICTURES_APART / 2,
            reports,
            buffer: vec![0; limits::READ_BYTES],
        };
        running.watch_signals()?;
        Ok(running)
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
        if let Some(reason) = reason {
            self.ended_by
                .get_or_insert_with(|| reason.trim_end_matches("; what the ranks wait for:").to_owned());
        }
        let abort = reason.map(|reason| ToRank::Abort { code: status, message: reason.to_owned() });
        for number in worlds {
            let world = &mut self.worlds[*number];
            world.phase = Phase::Ending { next: Instant::now() + kill_after, killed: false };
            let slots = world.slots.clone();
            self.abandon(*number);
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
    fn kill_groups(&mut self, signal: Signal) {
        let all: Vec<usize> = (0..self.worlds.len()).collect();
        self.kill_worlds(&all, signal);
    }

    /// Sends a signal to the ranks of some worlds and their children.
    fn kill_worlds(&mut self, worlds: &[usize], signal: Signal) {
        self.fleet.signal(worlds, signal);
        for rank in self.ranks.iter().filter(|rank| rank.group_left && worlds.contains(&rank.world)) {
            let _ = killpg(Pid::from_raw(rank.pid as i32), signal);
        }
    }

    /// How far a rank has come.
    fn phase(&self, slot: usize) -> RankPhase {
        self.ranks.get(slot).map_or(RankPhase::Silent, |r| self.worlds[r.world].server.phase(r.rank))
    }

    /// Carries out what the start-up server of a world wants.
    fn act(&mut self, number: usize, actions: Vec<Action>) {
        let first = self.worlds[number].slots.start;
        for action in actions {
            match action {
                Action::Send { rank, message } => self.send(first + rank as usize, &message),
                Action::Text { rank, text } => self.send_bytes(first + rank as usize, text.as_bytes()),
                Action::Abort { rank, code, message } => {
                    let how = mpi_pmi::abort_words(code, &message);
                    let status = mpi_pmi::exit_status(code);
                    self.fail(Failure { rank: first + rank as usize, how, status });
                }
                Action::Report { rank, mut text, waits } => {
                    if let Some(who) = self.in_other_worlds(&waits) {
                        text.push_str(&format!("; that is {who}"));
                    }
                    let waits = waits.into_iter().map(|wait| self.in_slots(number, wait)).collect();
                    self.report(first + rank as usize, Said { text, waits });
                }
                Action::Spawn { rank, id, request, values } => {
                    self.spawn(first + rank as usize, id, &request, values);
                }
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

    fn send(&mut self, rank: usize, message: &ToRank) {
        let Some((number, own)) = self.ranks.get(rank).map(|r| (r.world, r.rank)) else { return };
        let mut bytes = Vec::new();
        match self.worlds[number].server.in_pmi1(own, message) {
            Some(text) => bytes = text.into_bytes(),
            None => message.encode(&mut bytes),
        }
        self.send_bytes(rank, &bytes);
    }

    fn send_bytes(&mut self, rank: usize, bytes: &[u8]) {
        let Some(r) = self.ranks.get_mut(rank) else { return };
        if let Some(far) = &r.far {
            return self.fleet.control(far.daemon, rank, bytes);
        }
        let Some(control) = &mut r.control else { return };
        // A rank that has gone takes nothing; its end tells so.
        control.send_bytes(bytes);
        if control.waiting() > limits::CONTROL_WAITING_MAX_BYTES {
            self.ranks[rank].control = None;
            self.broken(rank, "it asks and does not read the answers");
            return;
        }
        self.watch_control(rank);
    }

    /// What ranks wrote is not all where it was wanted: whatever else, the job has not gone well.
    fn tell_of_incomplete_files(&mut self) {
        let incomplete = self.streams.incomplete();
        if incomplete == 0 {
            return;
        }
        self.status.get_or_insert(3);
        if let Some(loss) = self.streams.take_loss() {
            self.streams.message(&format!("mpiexec: {loss}"));
        }
        if incomplete > 1 {
            let line = format!("mpiexec: {incomplete} files of --output-dir are incomplete");
            self.streams.message(&line);
        }
    }

    /// Every rank is gone: the rest of their output, what they left behind, the last lines.
    fn clean_up(&mut self) {
        let abnormal = self.status.is_some_and(|status| status != 0);
        self.raw = None;
        self.kill_groups(Signal::SIGKILL);
        self.dismiss_hosts();
        if abnormal {
            guard::sweep(&guard::mark_of_job(&self.id));
        }
        for rank in 0..self.ranks.len() {
            self.drain_rank(rank);
        }
        self.streams.finish();
        self.tell_of_incomplete_files();
        self.report_at_end();
        if self.job.print_all {
            let end = |r: &Rank| match r.end {
                None => String::from("left"),
                // Its status would be that of who failed, or of the signal that it was sent.
                Some(_) if r.was_told => String::from("ended by mpiexec"),
                Some(end) => end.status().to_string(),
            };
            let ends = self.ranks.iter().map(end);
            let names = self.ranks.iter().map(|r| world::name(r.world, r.rank));
            let ends: Vec<String> = names.zip(ends).map(|(name, end)| format!("{name}: {end}")).collect();
            self.streams.message(&format!("mpiexec: exit statuses: {}", ends.join(", ")));
        }
        if self.job.verbose {
            let line = format!("mpiexec: status {} after {}", self.status.unwrap_or(0), self.elapsed());
            self.streams.message(&line);
        }
        self.streams.flush_at_end();
        if let Some(failure) = self.streams.take_failure() {
            self.status.get_or_insert(3);
            self.streams.message(&format!("mpiexec: {failure}"));
            self.streams.flush_at_end();
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}
