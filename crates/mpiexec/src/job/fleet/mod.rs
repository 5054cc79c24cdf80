//! The other hosts of a job, seen from the launcher: reached, asked, listened to, missed.

mod hear;
mod inlets;
mod reach;

use super::{Running, Token};
use crate::error::LaunchError;
use crate::hosts::Host;
use crate::limits;
use crate::link::Link;
use crate::report::far::Ahead;
use inlets::Inlet;
use mpi_wire::daemon::{ToDaemon, next_hop, parent};
use mpi_wire::limits::DAEMON_PIECE_MAX_BYTES;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The daemons.
pub struct Fleet {
    /// Streams to those that the launcher reaches itself.
    links: BTreeMap<u32, Link>,
    /// All of them, by number.
    hosts: Vec<FarHost>,
    fan_out: u32,
    silence: Duration,
    ping_at: Option<Instant>,
    /// Why the job cannot start.
    error: Option<LaunchError>,
    /// Standard input on its way to ranks.
    inlets: BTreeMap<usize, Inlet>,
}

/// One host.
struct FarHost {
    /// Its index in the plan.
    index: usize,
    name: String,
    launched: Option<Instant>,
    ready: bool,
    prepared: bool,
    lost: bool,
    heard: Instant,
    /// Bytes of output that have come and are not acknowledged.
    uncredited: u64,
    /// How far its clock is ahead.
    ahead: Ahead,
    /// What the command that leads there said, up to the end of the line.
    said: Vec<u8>,
}

impl FarHost {
    fn new(index: usize, name: &str) -> FarHost {
        FarHost {
            index,
            name: name.to_owned(),
            launched: None,
            ready: false,
            prepared: false,
            lost: false,
            heard: Instant::now(),
            uncredited: 0,
            ahead: Ahead::default(),
            said: Vec::new(),
        }
    }
}

impl Fleet {
    /// Of all hosts that need a daemon from the beginning.
    pub fn new(hosts: &[Host], fan_out: u32, silence: Duration) -> Fleet {
        let far = |(index, host): (usize, &Host)| FarHost::new(index, &host.name);
        let hosts = hosts.iter().enumerate().filter(|(_, host)| !host.here).map(far).collect();
        let (links, inlets) = (BTreeMap::new(), BTreeMap::new());
        Fleet { links, hosts, fan_out, silence, ping_at: None, error: None, inlets }
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The daemon of a host of the plan.
    pub fn daemon_of(&self, index: usize) -> Option<u32> {
        self.hosts.iter().position(|host| host.index == index).map(|at| at as u32)
    }

    /// As [`daemon_of`](Fleet::daemon_of), of a host that may need one only now.
    pub fn daemon_for(&mut self, index: usize, name: &str) -> u32 {
        self.daemon_of(index).unwrap_or_else(|| {
            self.hosts.push(FarHost::new(index, name));
            self.hosts.len() as u32 - 1
        })
    }

    /// The next moment at which something is to be done.
    pub fn deadline(&self) -> Option<Instant> {
        let starting = self.hosts.iter().filter(|host| !host.ready && !host.lost);
        let late = starting.filter_map(|host| Some(host.launched? + limits::DAEMON_START)).min();
        [self.ping_at, late].into_iter().flatten().min()
    }

    fn all_prepared(&self) -> bool {
        self.hosts.iter().all(|host| host.prepared)
    }

    fn send(&mut self, to: u32, message: &ToDaemon) {
        let next = next_hop(None, to, self.fan_out);
        if let Some(link) = next.and_then(|next| self.links.get_mut(&next)) {
            link.send_down(to, message);
        }
    }

    /// Sends to all that have answered and are there.
    fn send_all(&mut self, message: &ToDaemon) {
        for number in 0..self.hosts.len() {
            if self.hosts[number].ready && !self.hosts[number].lost {
                self.send(number as u32, message);
            }
        }
    }

    /// A signal for the ranks of some worlds.
    pub fn signal(&mut self, worlds: &[usize], signal: Signal) {
        let worlds = worlds.iter().map(|world| *world as u32).collect();
        self.send_all(&ToDaemon::Signal { worlds, signal: signal as i32 });
    }

    /// Bytes for the control channel of a rank.
    pub fn control(&mut self, daemon: u32, slot: usize, bytes: &[u8]) {
        for piece in bytes.chunks(DAEMON_PIECE_MAX_BYTES) {
            self.send(daemon, &ToDaemon::Control { slot: slot as u32, bytes: piece.to_vec() });
        }
    }

    /// Starts the ranks of a world that is prepared.
    pub fn start(&mut self, world: usize) {
        self.send_all(&ToDaemon::Start { world: world as u32 });
    }

    /// Why the job cannot go on, once.
    pub fn take_error(&mut self) -> Option<LaunchError> {
        self.error.take()
    }

    /// A child of the launcher has ended.
    pub fn note_end(&mut self, status: nix::sys::wait::WaitStatus) {
        let pid = status.pid().map(|pid| pid.as_raw() as u32);
        if let Some(link) = self.links.values_mut().find(|link| link.pid() == pid) {
            link.note_end(status);
        }
    }

    /// After the launcher was stopped for a while, nobody is blamed for having been silent.
    pub fn forgive(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.heard = Instant::now());
    }

    /// `number` stands below `above`, or is it.
    fn is_below(&self, number: u32, above: u32) -> bool {
        let mut at = Some(number);
        while let Some(host) = at {
            if host == above {
                return true;
            }
            at = parent(host, self.fan_out);
        }
        false
    }
}

/// Asks a daemon whether it is there, and what time it is.
fn ping() -> ToDaemon {
    ToDaemon::Ping { nanos: mpi_record::clock::nanos() }
}
