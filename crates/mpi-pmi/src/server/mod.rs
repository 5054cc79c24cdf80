//! The launcher's side of the native protocol and of PMI-1, without I/O: messages in, messages and facts
//! out.
//!
//! One [`Server`] serves one world. The launcher owns the sockets: it hands in what a rank said
//! ([`Server::receive`]) or that it is gone ([`Server::gone`]) and carries out the [`Action`]s.
//! Memory is bounded per rank by [`limits`](crate::limits).

mod inbox;
mod pmi1;

pub use inbox::{Inbox, Said};

use crate::limits::{KEYSPACE_PER_RANK_MAX_BYTES, WAITING_PER_RANK_MAX};
use mpi_wire::spawn::{NameRequest, SpawnRequest};
use mpi_wire::startup::{STARTUP_VERSION, ToLauncher, ToRank, Welcome};
use mpi_wire::waits::Wait;
use std::collections::HashMap;

/// What the launcher is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send this to a rank.
    Send {
        /// To whom.
        rank: u32,
        /// What.
        message: ToRank,
    },
    /// Send this text to a rank that speaks PMI-1.
    Text {
        /// To whom.
        rank: u32,
        /// What.
        text: String,
    },
    /// A rank wants the job to end.
    Abort {
        /// Which.
        rank: u32,
        /// Its code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// A rank says what it waits for.
    Report {
        /// Which.
        rank: u32,
        /// Its line.
        text: String,
        /// Its blocked calls.
        waits: Vec<Wait>,
    },
    /// A rank wants another world. The launcher answers with [`ToRank::Spawned`].
    Spawn {
        /// Which.
        rank: u32,
        /// Name for the answer.
        id: u64,
        /// What to start.
        request: Box<SpawnRequest>,
        /// What the new world's key-value space begins with, under PMI-1.
        values: Vec<(String, String)>,
    },
    /// A rank asks about a name. The launcher answers with [`ToRank::Named`].
    Name {
        /// Which.
        rank: u32,
        /// Name for the answer.
        id: u64,
        /// What about which name.
        request: NameRequest,
    },
    /// A rank has, or no longer has, a communicator with processes of another job.
    Linked {
        /// Which.
        rank: u32,
        /// The other job.
        job: String,
        /// It has one.
        linked: bool,
    },
    /// A rank broke the protocol. Its fault: the job ends.
    Broken {
        /// Which.
        rank: u32,
        /// How.
        reason: String,
    },
}

/// How far a rank has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// It has said nothing: perhaps no MPI program.
    #[default]
    Silent,
    /// It has shaken hands.
    Connected,
    /// It has initialised MPI.
    Started,
    /// It has entered the finalisation.
    Finalizing,
    /// It has finalised MPI.
    Finalized,
}

impl Phase {
    /// An exit with 0 now is no good end: MPI is initialised and not finalised.
    #[must_use]
    pub fn owes_finalize(self) -> bool {
        matches!(self, Phase::Started | Phase::Finalizing)
    }
}

#[derive(Default)]
struct Rank {
    phase: Phase,
    gone: bool,
    /// How it failed, where the job goes on without it.
    died: Option<String>,
    /// What it put is visible: it has started or fenced.
    visible: bool,
    values: HashMap<String, Vec<u8>>,
    bytes: usize,
    fences: u64,
    fence_id: Option<u64>,
    /// Gets of this rank's values that wait until they are visible: who asks, id, key.
    asked: Vec<(u32, u64, String)>,
    /// Gets of its own that wait.
    waiting: usize,
    /// MPI programs that it has begun, one after the other.
    programs: u64,
    /// Its latest one is not welcomed yet: others have not finished the one before.
    held: bool,
    speaks_pmi1: bool,
    /// Under PMI-1: the command that answers its question about a name.
    asked_name: Option<&'static str>,
}

/// The state of one world's start-up.
pub struct Server {
    world: Vec<Welcome>,
    ranks: Vec<Rank>,
    /// Fences that are complete.
    fences: u64,
    /// Ranks that stand in the next fence.
    in_fence: usize,
    space: pmi1::Space,
}

impl Server {
    /// A server for a world; `world[r]` is what rank r is told when it says hello.
    #[must_use]
    pub fn new(world: Vec<Welcome>) -> Server {
        let ranks = world.iter().map(|_| Rank::default()).collect();
        Server { world, ranks, fences: 0, in_fence: 0, space: pmi1::Space::default() }
    }

    /// Under PMI-1, the key-value space begins with these.
    #[must_use]
    pub fn with_values(mut self, values: Vec<(String, String)>) -> Server {
        self.space = pmi1::Space::of(values);
        self
    }

    /// What `rank` will be told when it says hello, to be completed with what is learned later: before
    /// the rank is started.
    pub fn welcome_mut(&mut self, rank: u32) -> Option<&mut Welcome> {
        self.world.get_mut(rank as usize)
    }

    /// How far `rank` has come; [`Phase::Silent`] for one that is not in the world.
    #[must_use]
    pub fn phase(&self, rank: u32) -> Phase {
        self.ranks.get(rank as usize).map_or(Phase::Silent, |r| r.phase)
    }

    /// Takes what `rank` said, in whichever protocol.
    pub fn hear(&mut self, rank: u32, said: Said) -> Vec<Action> {
        let mut actions = Vec::new();
        let outcome = match said {
            Said::Native(message) => return self.receive(rank, message),
            Said::Line(line) => self.take_line(rank, &line, &mut actions),
            Said::Spawn(spawn) => {
                self.take_spawn(rank, spawn, &mut actions);
                Ok(())
            }
        };
        if let Err(reason) = outcome {
            actions.push(Action::Broken { rank, reason });
        }
        actions
    }

    /// Takes what `rank` said in the native protocol.
    pub fn receive(&mut self, rank: u32, message: ToLauncher) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Err(reason) = self.take(rank, message, &mut actions) {
            actions.push(Action::Broken { rank, reason });
        }
        actions
    }

    /// `rank` is gone: those who wait for its values wait no longer. Where it was never in MPI, which
    /// is no failure, the others hear that it will not come.
    pub fn gone(&mut self, rank: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        if let Some(r) = self.ranks.get_mut(rank as usize) {
            r.gone = true;
        }
        self.answer_waiting(rank, &mut actions);
        self.welcome_all_due(&mut actions);
        if self.never_came(rank) {
            let here = (0..self.world.len() as u32).filter(|other| {
                let other = &self.ranks[*other as usize];
                other.phase != Phase::Silent && !other.gone
            });
            actions.extend(here.map(|other| absent(other, rank)));
        }
        actions
    }

    /// `rank` has failed and the job goes on without it: the others hear of it, also those who come later.
    pub fn died(&mut self, rank: u32, how: &str) -> Vec<Action> {
        let Some(r) = self.ranks.get_mut(rank as usize) else { return Vec::new() };
        if r.died.replace(how.to_owned()).is_some() || self.never_came(rank) {
            // Those who are here have been told.
            return Vec::new();
        }
        let here = (0..self.world.len() as u32).filter(|other| {
            let other = &self.ranks[*other as usize];
            other.phase != Phase::Silent && !other.held && !other.gone
        });
        here.map(|other| died(other, rank, how)).collect()
    }

    /// What a rank that is welcomed is told of those that it will never meet.
    fn missing(&self, to: u32) -> impl Iterator<Item = Action> {
        (0..self.world.len() as u32).filter_map(move |rank| match &self.ranks[rank as usize].died {
            Some(how) => Some(died(to, rank, how)),
            None => self.never_came(rank).then(|| absent(to, rank)),
        })
    }

    fn never_came(&self, rank: u32) -> bool {
        self.ranks.get(rank as usize).is_some_and(|r| r.gone && r.phase == Phase::Silent)
    }

    fn take(&mut self, rank: u32, message: ToLauncher, actions: &mut Vec<Action>) -> Result<(), String> {
        let count = self.world.len();
        let Some(r) = self.ranks.get_mut(rank as usize) else {
            return Err(format!("a world of {count} has no rank {rank}"));
        };
        if r.phase == Phase::Silent && !matches!(message, ToLauncher::Hello { .. }) {
            return Err(String::from("it spoke before its hello"));
        }
        match message {
            ToLauncher::Hello { version, rank: claimed, .. } => match self.hello(rank, version, claimed) {
                Some(message) => actions.push(Action::Send { rank, message }),
                None => self.welcome_all_due(actions),
            },
            ToLauncher::Put { key, value } => r.put(key, value)?,
            ToLauncher::Fence { id } => self.fence(rank, id, actions)?,
            ToLauncher::Get { id, rank: whose, key } => self.get(rank, id, whose, key, actions)?,
            ToLauncher::Started => {
                r.phase = Phase::Started;
                r.visible = true;
                self.answer_waiting(rank, actions);
            }
            ToLauncher::Finalizing => r.phase = Phase::Finalizing,
            ToLauncher::Finalized => {
                r.phase = Phase::Finalized;
                self.welcome_all_due(actions);
            }
            ToLauncher::Spawn { id, request } => {
                actions.push(Action::Spawn { rank, id, request, values: Vec::new() });
            }
            ToLauncher::Name { id, request } => actions.push(Action::Name { rank, id, request }),
            ToLauncher::Linked { job, linked } => actions.push(Action::Linked { rank, job, linked }),
            ToLauncher::Abort { code, message } => actions.push(Action::Abort { rank, code, message }),
            ToLauncher::Report { text, waits } => actions.push(Action::Report { rank, text, waits }),
        }
        Ok(())
    }

    /// A second hello is in order: a script may run one MPI program after another as its rank, each of
    /// which begins with nothing of what the one before has published. The answer is a refusal, or comes
    /// when it is due.
    fn hello(&mut self, rank: u32, version: u32, claimed: u32) -> Option<ToRank> {
        if version != STARTUP_VERSION {
            let reason = format!(
                "the program speaks version {version}; program and mpiexec must come from the same release"
            );
            return Some(ToRank::Refused { version: STARTUP_VERSION, reason });
        }
        if claimed != rank {
            let reason =
                format!("this descriptor belongs to rank {rank}, and the process says it is {claimed}");
            return Some(ToRank::Refused { version: STARTUP_VERSION, reason });
        }
        let r = &mut self.ranks[rank as usize];
        (r.visible, r.bytes) = (false, 0);
        r.values.clear();
        // One that died in a fence does not stand in it any more.
        self.in_fence -= usize::from(r.fence_id.take().is_some());
        (r.programs, r.held) = (r.programs + 1, true);
        r.phase = Phase::Connected;
        None
    }

    /// Welcomes whoever may begin. A later program of a rank uses the node segment that the earlier one of another may
    /// still be in, so it waits until all have finished that, or are gone.
    fn welcome_all_due(&mut self, actions: &mut Vec<Action>) {
        let busy = |r: &Rank| !r.gone && !matches!(r.phase, Phase::Silent | Phase::Finalized) && !r.held;
        for rank in 0..self.ranks.len() {
            if !self.ranks[rank].held {
                continue;
            }
            let programs = self.ranks[rank].programs;
            let early = self.ranks.iter().any(|other| busy(other) && other.programs < programs);
            if early {
                continue;
            }
            self.ranks[rank].held = false;
            let message = ToRank::Welcome(Box::new(self.world[rank].clone()));
            let to = rank as u32;
            actions.push(Action::Send { rank: to, message });
            actions.extend(self.missing(to));
        }
    }

    fn fence(&mut self, rank: u32, id: u64, actions: &mut Vec<Action>) -> Result<(), String> {
        let r = &mut self.ranks[rank as usize];
        if r.fence_id.replace(id).is_some() {
            return Err(String::from("it entered a fence while it stands in one"));
        }
        r.fences += 1;
        r.visible = true;
        self.in_fence += 1;
        self.answer_waiting(rank, actions);
        if self.in_fence == self.ranks.len() {
            self.in_fence = 0;
            self.fences += 1;
            for (rank, r) in self.ranks.iter_mut().enumerate() {
                if let Some(id) = r.fence_id.take() {
                    actions.push(Action::Send { rank: rank as u32, message: ToRank::FenceDone { id } });
                }
            }
        }
        Ok(())
    }

    fn get(
        &mut self,
        rank: u32,
        id: u64,
        whose: u32,
        key: String,
        actions: &mut Vec<Action>,
    ) -> Result<(), String> {
        let Some(r) = self.ranks.get_mut(whose as usize) else {
            // No such rank has put anything; whether that is an error the asking layer knows.
            actions.push(Action::Send { rank, message: ToRank::Value { id, value: None } });
            return Ok(());
        };
        if r.visible || r.gone {
            let value = r.values.get(&key).cloned();
            actions.push(Action::Send { rank, message: ToRank::Value { id, value } });
            return Ok(());
        }
        r.asked.push((rank, id, key));
        let own = &mut self.ranks[rank as usize];
        own.waiting += 1;
        if own.waiting > WAITING_PER_RANK_MAX {
            return Err(format!("it has more than {WAITING_PER_RANK_MAX} questions open"));
        }
        Ok(())
    }

    fn answer_waiting(&mut self, whose: u32, actions: &mut Vec<Action>) {
        let Some(r) = self.ranks.get_mut(whose as usize) else { return };
        for (rank, id, key) in std::mem::take(&mut r.asked) {
            let value = self.ranks[whose as usize].values.get(&key).cloned();
            self.ranks[rank as usize].waiting -= 1;
            actions.push(Action::Send { rank, message: ToRank::Value { id, value } });
        }
    }
}

impl Rank {
    fn put(&mut self, key: String, value: Vec<u8>) -> Result<(), String> {
        self.bytes += key.len() + value.len();
        if let Some(old) = self.values.get(&key) {
            self.bytes -= key.len() + old.len();
        }
        if self.bytes > KEYSPACE_PER_RANK_MAX_BYTES {
            return Err(format!("it published more than {KEYSPACE_PER_RANK_MAX_BYTES} bytes"));
        }
        self.values.insert(key, value);
        Ok(())
    }
}

/// Tells `to` that `rank` has ended and was never in MPI.
fn absent(to: u32, rank: u32) -> Action {
    died(to, rank, "it has ended without initialising MPI")
}

/// Tells `to` that `rank` is gone.
fn died(to: u32, rank: u32, how: &str) -> Action {
    let (job, how) = (String::new(), how.to_owned());
    Action::Send { rank: to, message: ToRank::PeerDied { job, rank, how } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(size: u32) -> Server {
        let welcome = |rank| Welcome { version: STARTUP_VERSION, rank, size, ..Welcome::default() };
        let mut server = Server::new((0..size).map(welcome).collect());
        for rank in 0..size {
            let answer = server.receive(rank, ToLauncher::Hello { version: STARTUP_VERSION, rank, pid: 1 });
            assert!(matches!(&answer[..], [Action::Send { message: ToRank::Welcome(_), .. }]));
        }
        server
    }

    fn value(rank: u32, id: u64, value: Option<&[u8]>) -> Action {
        Action::Send { rank, message: ToRank::Value { id, value: value.map(<[u8]>::to_vec) } }
    }

    fn get(rank: u32) -> ToLauncher {
        ToLauncher::Get { id: 7, rank, key: String::from("k") }
    }

    fn put(bytes: &[u8]) -> ToLauncher {
        ToLauncher::Put { key: String::from("k"), value: bytes.to_vec() }
    }

    #[test]
    fn a_get_waits_for_the_peer_to_start() {
        let mut server = world(3);
        assert_eq!(server.receive(0, get(1)), []);
        assert_eq!(server.receive(1, put(b"v")), []);
        assert_eq!(server.receive(1, ToLauncher::Started), [value(0, 7, Some(b"v"))]);
        assert_eq!(server.receive(2, get(1)), [value(2, 7, Some(b"v"))]);
        assert_eq!(server.receive(2, get(9)), [value(2, 7, None)]);
    }

    #[test]
    fn a_second_program_starts_afresh() {
        let mut server = Server::new(world(2).world);
        server.world[1].node_slot = Some(1);
        let hello = || ToLauncher::Hello { version: STARTUP_VERSION, rank: 1, pid: 1 };
        let slot = |actions: Vec<Action>| match &actions[..] {
            [Action::Send { message: ToRank::Welcome(welcome), .. }] => welcome.node_slot,
            other => panic!("{other:?}"),
        };
        let zero = || ToLauncher::Hello { version: STARTUP_VERSION, rank: 0, pid: 1 };
        server.receive(0, zero());
        assert_eq!(slot(server.receive(1, hello())), Some(1));
        server.receive(1, put(b"first"));
        server.receive(1, ToLauncher::Started);
        server.receive(1, ToLauncher::Finalized);
        // The other may still use the segment.
        assert_eq!(server.receive(1, hello()), []);
        assert_eq!(slot(server.receive(0, ToLauncher::Finalized)), Some(1));
        assert_eq!(slot(server.receive(0, zero())), None);
        // What the first one published is not there; the second one's is waited for.
        assert_eq!(server.receive(0, get(1)), []);
        server.receive(1, put(b"second"));
        assert_eq!(server.receive(1, ToLauncher::Started), [value(0, 7, Some(b"second"))]);
    }

    #[test]
    fn who_never_comes_is_reported_to_those_who_are_here_and_to_those_who_come() {
        let mut server = Server::new(world(3).world);
        let hello = |rank| ToLauncher::Hello { version: STARTUP_VERSION, rank, pid: 1 };
        server.receive(0, hello(0));
        assert_eq!(server.gone(1), [absent(0, 1)]);
        assert_eq!(server.receive(2, hello(2))[1..], [absent(2, 1)]);
        // One that was in MPI and is gone has failed, or has finalised.
        assert_eq!(server.gone(2), []);
    }

    #[test]
    fn who_has_died_is_reported_once_to_those_who_are_here_and_to_those_who_come() {
        let mut server = Server::new(world(3).world);
        let hello = |rank| ToLauncher::Hello { version: STARTUP_VERSION, rank, pid: 1 };
        server.receive(0, hello(0));
        server.receive(1, hello(1));
        server.receive(1, ToLauncher::Started);
        assert_eq!(server.gone(1), []);
        assert_eq!(server.died(1, "killed"), [died(0, 1, "killed")]);
        assert_eq!(server.died(1, "killed"), []);
        assert_eq!(server.receive(2, hello(2))[1..], [died(2, 1, "killed")]);
        assert_eq!(server.died(7, "killed"), []);
    }

    #[test]
    fn a_get_from_a_rank_that_goes_is_answered() {
        let mut server = world(2);
        assert_eq!(server.receive(0, get(1)), []);
        assert_eq!(server.gone(1), [value(0, 7, None)]);
        assert_eq!(server.receive(0, get(1)), [value(0, 7, None)]);
    }

    #[test]
    fn a_fence_waits_for_all_and_can_be_repeated() {
        let mut server = world(2);
        for round in 0..3 {
            assert_eq!(server.receive(1, ToLauncher::Fence { id: round }), []);
            let done = server.receive(0, ToLauncher::Fence { id: 10 + round });
            let expected = |rank, id| Action::Send { rank, message: ToRank::FenceDone { id } };
            assert_eq!(done, [expected(0, 10 + round), expected(1, round)]);
        }
    }

    #[test]
    fn whoever_breaks_the_protocol_is_named() {
        let broken = |actions: &[Action], who: u32, why: &str| {
            assert!(
                matches!(actions, [Action::Broken { rank, reason }] if *rank == who && reason.contains(why)),
                "{actions:?}"
            );
        };
        let mut server = Server::new(vec![Welcome::default(); 2]);
        broken(&server.receive(1, ToLauncher::Started), 1, "before its hello");
        broken(&server.receive(5, ToLauncher::Started), 5, "no rank 5");
        let mut server = world(2);
        server.receive(0, ToLauncher::Fence { id: 1 });
        broken(&server.receive(0, ToLauncher::Fence { id: 2 }), 0, "stands in one");
        let mut server = world(2);
        for _ in 0..WAITING_PER_RANK_MAX {
            assert_eq!(server.receive(0, get(1)), []);
        }
        broken(&server.receive(0, get(1)), 0, "questions");
    }

    #[test]
    fn a_rank_cannot_fill_the_memory() {
        let mut server = world(1);
        let big = vec![0; KEYSPACE_PER_RANK_MAX_BYTES - 1];
        assert_eq!(server.receive(0, put(&big)), []);
        assert_eq!(server.receive(0, put(&big)), [], "the same key again takes no more");
        let more = ToLauncher::Put { key: String::from("l"), value: vec![0] };
        assert!(matches!(&server.receive(0, more)[..], [Action::Broken { .. }]));
    }

    #[test]
    fn versions_and_identities_are_checked() {
        let mut server = Server::new(vec![Welcome::default(); 2]);
        for (version, rank) in [(STARTUP_VERSION + 1, 0), (STARTUP_VERSION, 1)] {
            let answer = server.receive(0, ToLauncher::Hello { version, rank, pid: 1 });
            assert!(
                matches!(&answer[..], [Action::Send { rank: 0, message: ToRank::Refused { .. } }]),
                "{answer:?}"
            );
        }
        assert_eq!(server.phase(0), Phase::Silent);
    }
}
