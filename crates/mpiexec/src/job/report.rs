//! What the launcher says: what ranks are called, what they wait for, where they are.

use super::picture::{self, Picture, Said, Then};
use super::world::{self, Phase};
use super::{RankPhase, Running};
use crate::limits;
use crate::plan::ranges;
use mpi_wire::startup::ToRank;
use mpi_wire::waits::{Foreign, Wait};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::time::Instant;

/// The number of a process that is none of this job's, or not known to be.
const UNKNOWN_SLOT: u32 = u32::MAX;

impl Running<'_> {
    /// Takes a picture of what all ranks wait for.
    pub(super) fn take_picture(&mut self, title: String, said: BTreeMap<usize, Said>, then: Then) {
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
    pub(super) fn print_picture(&mut self, picture: &Picture) {
        let (size, name) = (self.ranks.len(), |slot| self.called(slot));
        let drawn = picture.draw(size, name, |slot| self.state(slot), |slot| self.left(slot));
        let mut lines = drawn.lines();
        lines.extend(self.reports.picture(&drawn.json()));
        for line in lines {
            self.streams.message(&format!("mpiexec: {line}"));
        }
        if let Then::End(status) = picture.then {
            self.end_all(status, Some(&picture.title), limits::KILL_AFTER_FAILURE);
        }
    }

    pub(super) fn state(&self, rank: usize) -> String {
        let Some(r) = self.ranks.get(rank) else { return String::from("not started") };
        let state = match &r.far {
            None => format!(", {}", picture::process_state(r.pid)),
            Some(_) => format!(" on {}", self.plan.host_name(r.host)),
        };
        match (r.end, self.phase(rank)) {
            (Some(end), _) => end.to_string(),
            (None, RankPhase::Silent) => format!("has not initialised MPI (pid {}{state})", r.pid),
            (None, RankPhase::Finalized) => format!("has finalised MPI (pid {}{state})", r.pid),
            (None, _) => format!("pid {}{}", r.pid, state),
        }
    }

    /// How a rank came to take no part in MPI any more, if it has.
    pub(super) fn left(&self, rank: usize) -> Option<String> {
        match (self.ranks.get(rank)?.end, self.phase(rank)) {
            (Some(end), _) => Some(format!("has ended ({end})")),
            (None, RankPhase::Finalizing) => {
                Some(String::from("has called finalize, and sends and receives nothing more"))
            }
            (None, RankPhase::Finalized) => Some(String::from("has finalised MPI")),
            (None, _) => None,
        }
    }

    /// A rank says what it waits for: asked, or by itself after it has waited for long.
    pub(super) fn report(&mut self, rank: usize, said: Said) {
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

    /// Who of other worlds is waited for: a rank by itself does not say in which world it is.
    pub(super) fn in_other_worlds(&self, waits: &[Wait]) -> Option<String> {
        /// More would be a line that nobody reads.
        const TOLD_MAX: usize = 4;
        let [wait] = waits else { return None };
        let name = |peer: &Foreign| {
            let known = self.worlds.iter().position(|world| world.common.id == peer.job);
            known.map_or_else(
                || format!("rank {} of job {}", peer.rank, peer.job),
                |w| world::name(w, peer.rank),
            )
        };
        let names: Vec<String> = wait.foreign.iter().take(TOLD_MAX).map(name).collect();
        let more = if wait.foreign.len() > names.len() { ", …" } else { "" };
        let joined = names.join(if wait.any { " or " } else { " and " });
        (!names.is_empty()).then(|| joined + more)
    }

    /// What a rank is called.
    pub(super) fn called(&self, slot: usize) -> String {
        self.ranks.get(slot).map_or_else(|| format!("rank {slot}"), |r| world::name(r.world, r.rank))
    }

    /// A wait of a rank of a world, in numbers of the job's processes.
    pub(super) fn in_slots(&self, number: usize, wait: Wait) -> Wait {
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
        Wait { peers, foreign: Vec::new(), any: wait.any, polls: wait.polls }
    }

    pub(super) fn name(&self, slot: usize) -> String {
        let Some(r) = self.ranks.get(slot) else { return format!("rank {slot}") };
        format!("{} (pid {} on {})", world::name(r.world, r.rank), r.pid, self.plan.host_name(r.host))
    }

    /// As `name`, with how long the job has run.
    pub(super) fn name_and_time(&self, slot: usize) -> String {
        let Some(r) = self.ranks.get(slot) else { return format!("rank {slot}") };
        let (name, elapsed) = (world::name(r.world, r.rank), self.elapsed());
        format!("{name} (pid {} on {}, after {elapsed})", r.pid, self.plan.host_name(r.host))
    }

    pub(super) fn elapsed(&self) -> String {
        format!("{:.1} s", self.begun.elapsed().as_secs_f64())
    }

    /// The processors that a rank may use, read back from the kernel.
    pub(super) fn processors_of(&self, slot: usize) -> Result<Vec<usize>, &'static str> {
        let Some(r) = self.ranks.get(slot) else { return Err("not started") };
        if let Some(far) = &r.far {
            return Ok(far.processors.clone());
        }
        match sched_getaffinity(Pid::from_raw(r.pid as i32)) {
            Ok(set) => Ok((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()),
            Err(e) => Err(e.desc()),
        }
    }

    /// Rank, host, and the processors read back from the kernel.
    pub(super) fn print_map(&mut self) {
        for (rank, r) in self.ranks.iter().enumerate() {
            let processors = match self.processors_of(rank) {
                Ok(set) => format!("processors {}", ranges(&set)),
                Err(e) => format!("processors unknown ({e})"),
            };
            let program = self.plan.ranks.get(rank).and_then(|place| self.plan.programs.get(place.program));
            let name = program.map(|p| p.name.to_string_lossy().into_owned()).unwrap_or_default();
            let host = self.plan.host_name(r.host);
            let line = format!("mpiexec: rank {rank}: {host}, {processors}, pid {}, {name}", r.pid);
            self.streams.message(&line);
        }
    }

    pub(super) fn print_map_as_json(&mut self) {
        let pid = |slot: usize| self.ranks.get(slot).map(|r| r.pid);
        let line = self.plan.json(|slot| (self.processors_of(slot).ok(), pid(slot)));
        self.streams.message(&line);
    }

    pub(super) fn name_the_immortal(&mut self) {
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].end.is_none() {
                let line = format!("mpiexec: {} does not die of SIGKILL; left behind", self.name(rank));
                self.streams.message(&line);
            }
        }
    }
}
