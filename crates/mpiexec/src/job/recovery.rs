//! Going on without ranks that have died (`--enable-recovery`).
//!
//! A rank that dies before it has finalised MPI is told of to the others, who get errors where they need it. The job
//! ends when the last of them does.

use super::end::{End, Failure};
use super::world::Phase;
use super::{RankPhase, Running};
use mpi_wire::startup::ToRank;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

impl Running<'_> {
    /// The job goes on when this rank ends.
    pub(super) fn may_lose(&self, slot: usize) -> bool {
        let Some(world) = self.ranks.get(slot).and_then(|r| self.worlds.get(r.world)) else { return false };
        // A world that is awaited comes to nothing, of which its parents hear. What a program returns after the end of
        // MPI is its result.
        let in_mpi = self.phase(slot) < RankPhase::Finalized;
        self.job.recovery && world.awaited.is_none() && world.phase == Phase::Running && in_mpi
    }

    /// A rank is gone, and the others go on.
    pub(super) fn go_on_without(&mut self, failure: &Failure) {
        let slot = failure.rank;
        let Some((number, own, pid, left)) =
            self.ranks.get(slot).map(|r| (r.world, r.rank, r.pid, r.group_left))
        else {
            return;
        };
        let actions = self.worlds[number].server.died(own, &failure.how);
        self.act(number, actions);
        let job = self.worlds[number].common.id.clone();
        let message = ToRank::PeerDied { job, rank: own, how: failure.how.clone() };
        for linked in self.links.with(number, &self.worlds, &self.ranks) {
            let others = if linked == number { 0..0 } else { self.worlds[linked].slots.clone() };
            for other in others {
                if self.phase(other) != RankPhase::Silent && self.ranks[other].end.is_none() {
                    self.send(other, &message);
                }
            }
        }
        if left {
            // Its children.
            let _ = killpg(Pid::from_raw(pid as i32), Signal::SIGKILL);
        }
        self.first_loss.get_or_insert(failure.status);
        self.drain_rank(slot);
        self.streams.flush_before_report();
        let line =
            format!("mpiexec: {} {}; the job goes on without it", self.name_and_time(slot), failure.how);
        self.streams.message(&line);
    }

    /// The status of a job of which no rank came to a good end.
    pub(super) fn status_of_losses(&self) -> Option<i32> {
        let good = self.ranks.iter().any(|r| r.end == Some(End::Exit(0)));
        self.first_loss.filter(|_| !good)
    }
}
