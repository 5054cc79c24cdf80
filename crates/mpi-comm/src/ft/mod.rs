//! Communicators of which members fail: revoked, shrunk, agreed on (user-level failure mitigation).
//!
//! What a failure does to operations is the engine's matter (`mpi_p2p`). Here is what the survivors do about it: the
//! protocol is in `consensus.rs`, this file carries its letters, beside the communicator's own messages.
//!
//! A communicator on which an agreement was made, or that was revoked, keeps its context id for good, and what is left
//! of its agreements: others may still ask.

mod consensus;

use crate::comm::{Comm, Parts, exhausted};
use crate::context_ids::{ContextIds, Window};
use crate::topology::Topology;
use crate::{Group, words};
use consensus::{Consensus, Decision, Letter};
use mpi_p2p::{Context, Engine, Error, ErrorClass, Port, RequestId, Service, Status};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The outcome of [`Comm::agree`]: the same on every process that gets one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// The bits that all have set.
    pub flags: i32,
    /// The ranks that are known to have failed, in order.
    pub failed: Vec<u32>,
    /// All members have acknowledged all of these.
    pub acknowledged: bool,
}

impl From<&Decision> for Agreed {
    fn from(decision: &Decision) -> Agreed {
        let flags = decision.words.first().map_or(0, |word| *word as u32 as i32);
        Agreed { flags, failed: decision.failed.clone(), acknowledged: decision.acknowledged }
    }
}

/// The agreements of one communicator.
pub(crate) struct Agreements {
    context: Arc<Context>,
    state: Arc<Mutex<Shared>>,
}

struct Shared {
    consensus: Consensus,
    /// Requests that complete with an agreement.
    waiting: BTreeMap<u64, RequestId>,
    /// What was decided and is not asked for yet.
    outcomes: BTreeMap<u64, Decision>,
}

/// Carries letters.
struct Postman(Arc<Mutex<Shared>>);

fn lock(state: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Sends what is to be sent, and completes what is decided.
    fn carry(&mut self, port: &mut Port<'_>) {
        loop {
            let letters = self.consensus.letters();
            if letters.is_empty() {
                break;
            }
            for (to, letter) in letters {
                let bytes = words::to_bytes(&letter.encode());
                if port.send(to, 0, &bytes, &[], false).is_err() {
                    self.consensus.gone(to);
                }
            }
        }
        for number in self.consensus.news() {
            if let Some(decision) = self.consensus.decision(number) {
                self.outcomes.insert(number, decision.clone());
            }
            if let Some(id) = self.waiting.remove(&number) {
                port.finish(id, Ok(Status::EMPTY));
            }
        }
    }
}

impl Service for Postman {
    fn message(&mut self, from: u32, _tag: i32, body: &[u8], port: &mut Port<'_>) -> Result<(), String> {
        let letter = match body.len() % 8 {
            0 => Letter::decode(&words::from_bytes(body)),
            _ => None,
        };
        let letter = letter.ok_or_else(|| String::from("a letter about an agreement that makes no sense"))?;
        let mut state = lock(&self.0);
        state.consensus.heard(from, letter);
        state.carry(port);
        Ok(())
    }

    fn look(&mut self, _: &mut Port<'_>) -> bool {
        false
    }

    fn gone(&mut self, rank: u32, port: &mut Port<'_>) {
        let mut state = lock(&self.0);
        state.consensus.gone(rank);
        state.carry(port);
    }
}

impl Agreements {
    pub(crate) fn among(engine: &Engine, context: &Arc<Context>) -> Agreements {
        let consensus = Consensus::new(context.rank(), context.size());
        let state =
            Arc::new(Mutex::new(Shared { consensus, waiting: BTreeMap::new(), outcomes: BTreeMap::new() }));
        engine.serve_aside(context, Box::new(Postman(state.clone())));
        Agreements { context: context.clone(), state }
    }

    /// Takes part in the next agreement; `begin` says whether a request completes with it.
    fn start(&self, comm: &Comm, mine: &[u64], begin: bool) -> (u64, Option<RequestId>) {
        let failed = comm.failed();
        let acknowledged = comm.engine().acknowledged(comm.context());
        let acknowledged: Vec<u32> = failed.into_iter().take(acknowledged).collect();
        comm.engine().with_port_aside(&self.context, |port| {
            let mut state = lock(&self.state);
            let number = state.consensus.start(mine, acknowledged);
            let request = begin.then(|| port.begin());
            if let Some(id) = request {
                state.waiting.insert(number, id);
            }
            state.carry(port);
            (number, request)
        })
    }

    /// What came of an agreement, once.
    fn outcome(&self, number: u64) -> Option<Decision> {
        lock(&self.state).outcomes.remove(&number)
    }
}

impl Comm {
    /// Revokes the communicator: whatever waits on it ends with `Revoked`, here and soon on every other member, and so
    /// does what is started later, but for [`Comm::shrink`] and [`Comm::agree`]. Local: waits for nobody.
    ///
    /// # Errors
    /// `Other` after finalisation.
    pub fn revoke(&self) -> Result<(), Error> {
        self.alive("revoke")?;
        self.engine().revoke(self.context());
        Ok(())
    }

    /// True once the communicator is known to be revoked.
    pub fn is_revoked(&self) -> bool {
        self.context().is_stopped()
    }

    /// The ranks that are known here to have failed, in the order in which that became known; of an inter-communicator,
    /// those of the remote group. Local.
    pub fn failed(&self) -> Vec<u32> {
        self.engine().failed(self.context())
    }

    /// The failed processes as a group: that of [`Comm::failed`].
    ///
    /// # Errors
    /// None that are known.
    pub fn failed_group(&self) -> Result<Group, Error> {
        let group = self.remote_group().unwrap_or_else(|| self.group());
        let ranks: Vec<i32> = self.failed().into_iter().map(|rank| rank as i32).collect();
        group.include(&ranks)
    }

    /// Acknowledges the first `most` failed ranks of [`Comm::failed`]: receives from any source go on without them. Gives
    /// how many are acknowledged now.
    pub fn acknowledge_failed(&self, most: usize) -> usize {
        self.engine().acknowledge_failed(self.context(), most)
    }

    /// Agrees on flags, bit by bit "and", and on who has failed: the same outcome on every member that gets one,
    /// whatever fails meanwhile. Collective over the members that live; works on a revoked communicator.
    ///
    /// # Errors
    /// `Comm` for an inter-communicator.
    pub fn agree(&self, flags: i32) -> Result<Agreed, Error> {
        Ok(Agreed::from(&self.decide("agree", &[u64::from(flags as u32)])?))
    }

    /// Starts [`Comm::agree`]. Members start their agreements in the same order.
    ///
    /// # Errors
    /// As [`Comm::agree`].
    pub fn iagree(&self, flags: i32) -> Result<PendingAgreement, Error> {
        self.may_agree("agree")?;
        let (number, request) = self.agreements()?.start(self, &[u64::from(flags as u32)], true);
        let comm = self.clone();
        Ok(PendingAgreement { comm, number, request: request.unwrap_or(RequestId::DONE) })
    }

    /// A communicator of the members that live, in the same order, with this one's error handler. Collective over those;
    /// works on a revoked communicator. Who fails meanwhile may still be in it.
    ///
    /// # Errors
    /// `Comm` for an inter-communicator; `ProcFailed` where the others have taken this process for failed; those of a
    /// new communicator.
    pub fn shrink(&self) -> Result<Comm, Error> {
        let ids = self.core().ids.clone();
        let (mut window, mut attempt) = (Window::FIRST, 0);
        loop {
            // The ids offered are free here; nothing may be left of those who had them.
            self.engine().forget_dropped();
            let offered = self.decide("shrink", &ids.free_in(window))?;
            let Some(id) = ContextIds::choose_alike(window, &offered.words, attempt) else {
                window = window.next().ok_or_else(|| self.attach(exhausted()))?;
                continue;
            };
            let held = ids.reserve(id).then(|| self.hold(id));
            let confirmed = self.decide("shrink", &[u64::from(held.is_some())])?;
            match (confirmed.words.first(), held) {
                (Some(1), Some(id)) => return self.without(&confirmed.failed, id),
                _ => attempt += 1,
            }
        }
    }

    fn without(&self, failed: &[u32], id: crate::comm::Id) -> Result<Comm, Error> {
        let ranks: Vec<i32> = failed.iter().map(|rank| *rank as i32).collect();
        let group = self.group().exclude(&ranks)?;
        if group.rank().is_none() {
            let detail = "the other members have taken this process for failed";
            return Err(self.attach(Error::new(ErrorClass::ProcFailed, "shrink", detail)));
        }
        Comm::new(
            self.core(),
            Parts {
                id,
                group,
                remote: None,
                topology: Topology::Undefined,
                attributes: Default::default(),
                handler: self.error_handler(),
                name: String::new(),
            },
        )
    }

    fn may_agree(&self, op: &'static str) -> Result<(), Error> {
        self.alive(op)?;
        match self.is_inter() {
            false => Ok(()),
            true => {
                let detail = "an inter-communicator has no one group to do it; merge it first";
                Err(self.attach(Error::new(ErrorClass::Comm, op, detail)))
            }
        }
    }

    fn decide(&self, op: &'static str, mine: &[u64]) -> Result<Decision, Error> {
        self.may_agree(op)?;
        let agreements = self.agreements()?;
        let (number, _) = agreements.start(self, mine, false);
        Ok(self.engine().wait_for(&agreements.context, op, |_| agreements.outcome(number)))
    }
}

/// An agreement on its way: [`Comm::iagree`]. Dropped, it goes on without anybody to hear of it.
#[must_use = "the outcome is had from `wait`"]
#[derive(Debug)]
pub struct PendingAgreement {
    comm: Comm,
    number: u64,
    request: RequestId,
}

impl PendingAgreement {
    /// Waits for the outcome.
    ///
    /// # Errors
    /// `Other` after finalisation.
    pub fn wait(self) -> Result<Agreed, Error> {
        self.comm.engine().wait(self.request)?;
        self.outcome()
    }

    /// The outcome if it is there, or itself again.
    ///
    /// # Errors
    /// `Other` after finalisation.
    pub fn test(self) -> Result<Result<Agreed, PendingAgreement>, Error> {
        match self.comm.engine().test(self.request)? {
            Some(_) => self.outcome().map(Ok),
            None => Ok(Err(self)),
        }
    }

    fn outcome(&self) -> Result<Agreed, Error> {
        let decision = self.comm.agreements()?.outcome(self.number);
        let missing =
            || self.comm.attach(Error::new(ErrorClass::Intern, "agree", "the outcome was forgotten"));
        decision.as_ref().map(Agreed::from).ok_or_else(missing)
    }
}

impl Drop for PendingAgreement {
    fn drop(&mut self) {
        // Of one that was waited for nothing is left.
        let _ = self.comm.engine().free(self.request);
        let _ = self.comm.agreements().map(|agreements| agreements.outcome(self.number));
    }
}
