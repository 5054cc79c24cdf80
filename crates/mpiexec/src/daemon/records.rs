//! What the ranks of this host write down for the job's reports: passed on as it changes.

use super::Daemon;
use crate::limits;
use crate::report::far;
use mpi_record::Courier;
use mpi_wire::daemon::FromDaemon;
use mpi_wire::limits::DAEMON_PIECE_MAX_BYTES;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// The records of the ranks here.
#[derive(Default)]
pub struct Records {
    /// By world.
    couriers: std::collections::BTreeMap<u32, Courier>,
    every: Duration,
    next: Option<Instant>,
}

impl Daemon {
    /// Memory for the records of a world's ranks here, if any are wanted: `wanted` is what the launcher says.
    /// What cannot be had is missing from the reports, where the launcher says so.
    pub(super) fn make_records(
        &mut self,
        world: u32,
        wanted: u8,
        size: u32,
        here: &[u32],
    ) -> Option<OwnedFd> {
        let options = far::options(wanted)?;
        let fd = mpi_record::create_for(size, options, here.iter().copied()).ok()?;
        self.records.couriers.insert(world, Courier::new(fd.as_fd()).ok()?);
        let every = if options.events { limits::EVENTS_TAKEN_EVERY } else { limits::FAR_RECORDS_EVERY };
        self.records.every = every;
        self.records.next = Some(Instant::now() + every);
        Some(fd)
    }

    /// When they are passed on next.
    pub(super) fn records_due(&self) -> Option<Instant> {
        self.records.next
    }

    /// Passes on what has changed, where it is time to, and the launcher keeps up.
    pub(super) fn see_to_records(&mut self) {
        let now = Instant::now();
        if self.records.next.is_none_or(|next| now < next) {
            return;
        }
        self.records.next = Some(now + self.records.every);
        if self.up.waiting() < limits::FAR_RECORDS_WAITING_MAX_BYTES {
            self.pass_all_records();
        }
    }

    pub(super) fn pass_all_records(&mut self) {
        let slots: Vec<u32> = self.ranks.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.pass_records(slot));
    }

    /// Passes on what a rank has written down.
    pub(super) fn pass_records(&mut self, slot: u32) {
        let Some(here) = self.ranks.get(&slot) else { return };
        let (world, rank) = here.world_and_rank();
        let Some(courier) = self.records.couriers.get_mut(&world) else { return };
        for bytes in courier.take(rank as usize, DAEMON_PIECE_MAX_BYTES) {
            self.say(&FromDaemon::Records { slot, bytes });
        }
    }
}
