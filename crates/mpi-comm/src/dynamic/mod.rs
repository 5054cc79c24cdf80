//! Beyond the own world: processes that are spawned, or that connect (MPI 4.1 chapter 11).
//!
//! Two groups that have nothing in common but a way between their roots become an
//! inter-communicator in `members.rs`: the roots exchange who is in their groups and where they are,
//! tell their own group, and all agree on a context id. The way is a connection of its own, made
//! through a port (`port.rs`), or any communicator that has both roots.
//!
//! Between worlds messages travel by the transports that have addresses. They are opened when they
//! are first needed: a world on one node does without.

mod connect;
mod dial;
mod foreign;
mod members;
mod port;
mod spawn;
mod waiting;

pub use connect::{close_port, join, lookup_name, open_port, publish_name, unpublish_name};
pub(crate) use foreign::{Foreign, Identity};
pub(crate) use port::Stream;
pub use spawn::{SpawnCommand, spawn_limit};
pub(crate) use waiting::described as waiting_outside;

use crate::directory::Card;
use crate::group::Group;
use mpi_btl::{Addresses, Btl, Ep, OpenEnv};
use mpi_p2p::{Engine, Error, ErrorClass};
use mpi_pmi::{Client, Kind};
use mpi_wire::hello::{JobTag, guest_secret};
use port::Port;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a process needs to reach beyond its own world.
pub(crate) struct Beyond {
    pub(crate) own: Identity,
    pub(crate) foreign: Arc<Foreign>,
    pub(crate) client: Arc<dyn Client>,
    pub(crate) kind: Kind,
    pub(crate) engine: Arc<Engine>,
    /// What to open transports with, later.
    pub(crate) env: OpenEnv,
    /// After this time a wait is reported; `None` for never.
    pub(crate) blocked_report: Option<Duration>,
    pub(crate) wide: Mutex<Wide>,
    /// Communicators with processes of each other job.
    pub(crate) links: Mutex<HashMap<String, u32>>,
    ports: Mutex<HashMap<String, Arc<Port>>>,
}

/// The transports that have addresses.
pub(crate) struct Wide {
    /// Not opened so far, best first.
    pub(crate) unopened: Vec<&'static dyn Btl>,
    /// Under which this process is reached.
    pub(crate) card: Card,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Beyond {
    #[allow(clippy::too_many_arguments, reason = "the parts of a start, each of its own kind")]
    pub(crate) fn new(
        own: Identity,
        foreign: Arc<Foreign>,
        client: Arc<dyn Client>,
        kind: Kind,
        engine: Arc<Engine>,
        env: OpenEnv,
        blocked_report: Option<Duration>,
        wide: Wide,
    ) -> Beyond {
        let (wide, links, ports) = (Mutex::new(wide), Mutex::default(), Mutex::default());
        Beyond { own, foreign, client, kind, engine, env, blocked_report, wide, links, ports }
    }

    /// Who has a number.
    pub(crate) fn identity(&self, ep: Ep) -> Identity {
        let own = || Identity { job: self.own.job.clone(), rank: ep.0 };
        self.foreign.identity(ep).unwrap_or_else(own)
    }

    /// Opens a transport by which other worlds reach this process, where none is open, and gives
    /// what they need to know.
    fn widen(&self) -> Result<Card, Error> {
        let mut wide = lock(&self.wide);
        let mut reasons = Vec::new();
        while wide.card.addresses.is_empty() && !wide.unopened.is_empty() {
            let backend = wide.unopened.remove(0);
            match backend.open(&self.env) {
                Ok(opened) if opened.address.is_some() => {
                    let mut addresses = Addresses::new();
                    opened.publish(backend.name(), &mut addresses);
                    self.engine.add_backend(opened);
                    wide.card.addresses = addresses;
                }
                Ok(_) => reasons.push(format!("{} reaches its own node only", backend.name())),
                Err(e) => reasons.push(e.to_string()),
            }
        }
        if wide.card.addresses.is_empty() {
            let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) };
            let detail =
                format!("no transport that leads to other worlds is open (MPI_BTL excludes it?){why}");
            return Err(Error::new(ErrorClass::Other, "connect worlds", detail));
        }
        Ok(wide.card.clone())
    }

    /// Stands for the memory that this process can share with others of its world.
    pub(crate) fn memory_number(&self) -> u64 {
        let wide = lock(&self.wide);
        crate::directory::node_number(&self.own.job, wide.card.segment)
    }

    /// A process without a launcher may have started one.
    fn listen_to_launcher(&self) {
        if self.kind == Kind::Singleton {
            crate::control::start(&self.client, &self.engine, &self.foreign);
        }
    }

    /// What lets another job's processes in.
    fn secret_for(&self, job: &str) -> [u8; 32] {
        guest_secret(&self.env.secret, JobTag::of(job))
    }

    /// Counts a communicator; the launcher hears of the first and the last with each other job.
    pub(crate) fn link<'g>(self: &Arc<Beyond>, groups: impl Iterator<Item = &'g Group>) -> Option<Link> {
        let mut jobs: Vec<String> = Vec::new();
        for group in groups.filter(|group| group.reaches(|ep| self.foreign.is_foreign(ep))) {
            for ep in group.members().filter(|ep| self.foreign.is_foreign(*ep)) {
                let job = self.identity(ep).job;
                if !jobs.contains(&job) {
                    jobs.push(job);
                }
            }
        }
        if jobs.is_empty() {
            return None;
        }
        let mut links = lock(&self.links);
        for job in &jobs {
            let count = links.entry(job.clone()).or_default();
            *count += 1;
            if *count == 1 {
                // A launcher that is gone is noticed by its own thread.
                let _ = self.client.linked(job, true);
            }
        }
        Some(Link { beyond: self.clone(), jobs })
    }
}

/// A communicator with processes of other jobs, as it is counted.
pub(crate) struct Link {
    beyond: Arc<Beyond>,
    jobs: Vec<String>,
}

impl Drop for Link {
    fn drop(&mut self) {
        let mut links = lock(&self.beyond.links);
        for job in &self.jobs {
            if let Some(count) = links.get_mut(job) {
                *count -= 1;
                if *count == 0 {
                    links.remove(job);
                    let _ = self.beyond.client.linked(job, false);
                }
            }
        }
    }
}
