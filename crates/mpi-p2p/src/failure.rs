//! Going on when peers fail: what a failed process, or a revocation, means for the contexts it concerns.
//!
//! A peer that is gone ends the operations with it in any case (`stream.rs`). Where the job is to survive
//! ([`Limits::recovery`](crate::Limits::recovery)) it also ends those that could wait for it: receives from any source
//! until the failure is acknowledged, and every operation in the planes of collectives, of which nobody can know whom
//! they wait for. Terms and rules are those of user-level failure mitigation (W. Bland and others, "Post-failure
//! recovery of MPI communication capability", 2013).
//!
//! A communicator is revoked by a message to every member, who passes it on to every other when it comes for the
//! first time: once one that lives has it, all get it. Whoever has revoked a communicator keeps its id for good, so
//! that a late message is never taken for one about another communicator: its sender is no member of that.

use crate::context::{Context, Face};
use crate::core::State;
use crate::direct::Outcome;
use crate::engine::Engine;
use crate::lanes::Lane;
use crate::limits::{ASIDE_WAITING_MAX_BYTES, EARLY_ASIDE_BYTES, EARLY_REVOCATIONS_MAX};
use crate::request::{Kind, Phase};
use crate::service::{Port, Service};
use crate::status::ANY;
use crate::{Error, ErrorClass, Status};
use mpi_btl::{Ep, Place};
use mpi_wire::{Header, reserved};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Planes of a communicator: the low two bits of a context's number.
const PLANES: u32 = 4;
const POINT_TO_POINT: u32 = 0;

/// What keeps a context from being used as ever. A context without is as ever.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// Nothing is done any more.
    revoked: bool,
    /// Of a plane of collectives: a rank that has failed, and how.
    lost: Option<(u32, String)>,
    /// Of the plane of users' messages: a rank that has failed and was not acknowledged, and how.
    pending: Option<(u32, String)>,
    /// Failed members that were acknowledged: the first ones in the order in which they failed.
    acknowledged: usize,
}

/// Messages beside a context.
#[derive(Default)]
pub(crate) struct Aside {
    service: Option<Box<dyn Service>>,
    /// What came before the service did: sender, its rank, tag, body.
    early: Vec<(Ep, u32, i32, Vec<u8>)>,
}

impl Aside {
    fn waiting_bytes(&self) -> usize {
        self.early.iter().map(|early| early.3.len() + EARLY_ASIDE_BYTES).sum()
    }
}

/// What is known of failures in all.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Somebody has failed: for those who look without the engine's lock.
    any: Arc<AtomicBool>,
    /// Failed processes, in the order in which this one heard of them.
    failed: Vec<Ep>,
    /// Bytes of messages beside contexts that have no service yet.
    waiting_bytes: usize,
    /// Revocations of communicators that are not known here (yet): id, and who says so.
    early: Vec<(u32, Ep)>,
}

impl Failures {
    /// The lane is gone.
    pub fn forget(&mut self, lane: &Lane) {
        self.waiting_bytes -= lane.aside.as_ref().map_or(0, |aside| aside.waiting_bytes());
    }
}

/// The error of a blocking receive, which is over with it.
pub(crate) fn blocking(mut result: Result<Status, Error>) -> Result<Status, Error> {
    if let Err(e) = &mut result {
        if e.class == ErrorClass::ProcFailedPending {
            e.class = ErrorClass::ProcFailed;
        }
    }
    result
}

impl Engine {
    /// The ranks of a context that have failed, in the order in which this process heard of it.
    pub fn failed(&self, cx: &Context) -> Vec<u32> {
        self.enter().state.failed_ranks(&cx.face)
    }

    /// True once a peer has failed while the job goes on. For operations that need no engine, and are to notice.
    pub fn losses(&self) -> Arc<AtomicBool> {
        self.enter().state.failures.any.clone()
    }

    /// Acknowledges the first `most` failed ranks of a context, in the order of [`failed`](Engine::failed): receives from
    /// any source go on without them. Gives how many are acknowledged now; it never becomes fewer.
    pub fn acknowledge_failed(&self, cx: &Context, most: usize) -> usize {
        let mut core = self.enter();
        let state = &mut core.state;
        let failed = state.failed_ranks(&cx.face);
        let how = failed.get(most).map(|rank| (*rank, state.how_gone(&cx.face, *rank)));
        let Some(fate) = state.lanes.get_mut(cx.face.id).and_then(|lane| lane.fate.as_mut()) else {
            return 0;
        };
        if most > fate.acknowledged {
            fate.acknowledged = most.min(failed.len());
            fate.pending = how;
        }
        fate.acknowledged
    }

    /// Failed ranks of a context that were acknowledged.
    pub fn acknowledged(&self, cx: &Context) -> usize {
        let core = self.enter();
        core.state
            .lanes
            .get(cx.face.id)
            .and_then(|lane| lane.fate.as_ref())
            .map_or(0, |fate| fate.acknowledged)
    }

    /// Revokes the communicator of a context: everything that waits on it, here and soon on every other member, ends
    /// with `Revoked`, and so does what is started later. What is matched already may still succeed.
    pub fn revoke(&self, cx: &Context) {
        let mut core = self.enter();
        core.state.revoke(cx.face.id / PLANES);
        core.state.flush_owed();
        self.shared.leave(core);
    }

    /// True once the communicator of a context is revoked, here or by a member that this process has heard of.
    pub fn is_revoked(&self, cx: &Context) -> bool {
        let core = self.enter();
        core.state.lanes.get(cx.face.id).and_then(|lane| lane.fate.as_ref()).is_some_and(|fate| fate.revoked)
    }

    /// Why a collective on a context comes to nothing, if that is known.
    pub fn refusal(&self, cx: &Context) -> Option<Error> {
        self.enter().state.refusal_of_collective(&cx.face)
    }

    /// Whether peers may fail while the job goes on.
    pub fn recovers(&self) -> bool {
        self.enter().state.limits.recovery
    }

    /// Gives a context a service for messages that go beside it, and get through when it is revoked or a rank has
    /// failed. What came before is handed over now, and every rank that is gone. One that is there already stays.
    pub fn serve_aside(&self, cx: &Context, service: Box<dyn Service>) {
        let mut core = self.enter();
        core.state.install_aside(&cx.face, service);
        core.state.flush_owed();
        self.shared.leave(core);
    }

    /// As [`with_port`](Engine::with_port), with a port whose messages go beside the context.
    pub fn with_port_aside<R>(&self, cx: &Context, f: impl FnOnce(&mut Port<'_>) -> R) -> R {
        let mut core = self.enter();
        let result = f(&mut Port { state: &mut core.state, face: &cx.face, aside: true });
        core.state.flush_owed();
        self.shared.leave(core);
        result
    }
}

impl State {
    fn failed_ranks(&self, face: &Face) -> Vec<u32> {
        let rank = |ep: &Ep| face.peers.iter().position(|peer| peer == ep).map(|rank| rank as u32);
        self.failures.failed.iter().filter_map(rank).collect()
    }

    fn how_gone(&mut self, face: &Face, rank: u32) -> String {
        face.peers.get(rank as usize).and_then(|ep| self.peers.at(*ep).gone()).unwrap_or_default()
    }

    // ---- failures

    /// A peer is gone: what that means for contexts, beyond operations with itself.
    pub fn note_gone(&mut self, ep: Ep, failed: bool) {
        let failed = failed && self.limits.recovery && !self.failures.failed.contains(&ep);
        if failed {
            self.failures.failed.push(ep);
            self.failures.any.store(true, Ordering::Release);
        }
        let of: Vec<u32> = self.lanes.iter().map(|(id, _)| id).collect();
        for context in of {
            let face = self.lanes.get(context).and_then(|lane| lane.face.clone());
            let Some(face) = face else { continue };
            let Some(rank) = face.peers.iter().position(|peer| *peer == ep) else { continue };
            if failed {
                self.member_failed(&face, rank as u32);
            }
            self.tell_aside(&face, rank as u32);
        }
    }

    fn member_failed(&mut self, face: &Face, rank: u32) {
        let how = self.how_gone(face, rank);
        if face.id % PLANES == POINT_TO_POINT {
            let Some(lane) = self.lanes.get_mut(face.id) else { return };
            let fate = lane.fate.get_or_insert_default();
            fate.pending.get_or_insert((rank, how));
            return self.withdraw_wildcards(face.id);
        }
        // Both groups of an inter-communicator take part in its collectives.
        for plane in 1..PLANES {
            let context = face.id / PLANES * PLANES + plane;
            let Some(lane) = self.lanes.get_mut(context) else { continue };
            if lane.service.is_some() || lane.face.is_none() {
                continue;
            }
            let fate = lane.fate.get_or_insert_default();
            if fate.lost.is_none() {
                fate.lost = Some((rank, how.clone()));
                self.stop(context);
            }
        }
    }

    /// Receives from any source could wait for one that has failed: they end, and what comes for them is kept for others.
    fn withdraw_wildcards(&mut self, context: u32) {
        for i in self.requests.in_use().collect::<Vec<u32>>() {
            let slot = &self.requests[i];
            let wild = slot.kind == Kind::Recv && slot.phase == Phase::Waiting && slot.key.source == ANY;
            if wild && slot.context == context {
                self.unpost(i);
                let error = self.pending_failure(i);
                self.fail(i, error);
            }
        }
    }

    fn pending_failure(&self, i: u32) -> Error {
        let fate = self.lanes.get(self.requests[i].context).and_then(|lane| lane.fate.as_ref());
        let (rank, how) = fate.and_then(|fate| fate.pending.clone()).unwrap_or_default();
        let detail = format!("rank {rank} may be the one to send it, and failed: {how} (not acknowledged)");
        self.error_of(i, ErrorClass::ProcFailedPending, detail)
    }

    // ---- what a context may still do

    /// Why nothing is done on a context any more.
    fn why_stopped(&self, context: u32) -> Option<(ErrorClass, String)> {
        let fate = self.lanes.get(context)?.fate.as_ref()?;
        if fate.revoked {
            return Some((ErrorClass::Revoked, String::from("the communicator was revoked")));
        }
        let (rank, how) = fate.lost.as_ref()?;
        Some((ErrorClass::ProcFailed, format!("rank {rank} has failed: {how}")))
    }

    /// Ends what waits on a context. What is matched goes on: its memory is in use.
    fn stop(&mut self, context: u32) {
        let Some((class, why)) = self.why_stopped(context) else { return };
        if let Some(face) = self.lanes.get(context).and_then(|lane| lane.face.as_ref()) {
            face.stopped.store(true, Ordering::Relaxed);
        }
        if self.direct.outcome == Outcome::Waiting && self.direct.context == context {
            if self.direct.look.is_some() {
                // Who looks goes the long way, and is refused there.
                self.direct.outcome = Outcome::Off;
            } else {
                let i = self.promote_direct();
                let error = self.error_of(i, class, why.clone());
                self.fail(i, error);
            }
        }
        for i in self.requests.in_use().collect::<Vec<u32>>() {
            let slot = &self.requests[i];
            if slot.context != context {
                continue;
            }
            match (slot.kind, slot.phase) {
                (Kind::Recv, Phase::Waiting) => {
                    self.unpost(i);
                    let error = self.error_of(i, class, why.clone());
                    self.fail(i, error);
                }
                (Kind::Send, Phase::Waiting | Phase::Announced) => {
                    let error = self.error_of(i, class, why.clone());
                    self.requests[i].extra().verdict = Some(error);
                    self.cancel(i);
                }
                _ => {}
            }
        }
        self.waiters.wake_all();
    }

    /// A send on a context with a fate. True: it has failed.
    #[cold]
    pub fn refuse_send(&mut self, i: u32) -> bool {
        let Some((class, why)) = self.why_stopped(self.requests[i].context) else { return false };
        let error = self.error_of(i, class, why);
        self.fail(i, error);
        true
    }

    /// A receive on a context with a fate. True: it has failed.
    #[cold]
    pub fn refuse_receive(&mut self, i: u32) -> bool {
        if self.refuse_send(i) {
            return true;
        }
        let key = self.requests[i].key;
        let Some(lane) = self.lanes.get_mut(self.requests[i].context) else { return false };
        let pending = lane.fate.as_ref().is_some_and(|fate| fate.pending.is_some());
        let here = |lane: &mut Lane, store| lane.unexpected.find(store, key.source, key.tag).is_some();
        if key.source != ANY || !pending || here(lane, &mut self.store) {
            return false;
        }
        let error = self.pending_failure(i);
        self.fail(i, error);
        true
    }

    /// A probe on a context with a fate.
    #[cold]
    pub fn check_probe(&self, face: &Face, source: i32, tag: i32, found: bool) -> Result<(), Error> {
        let refused = self.why_stopped(face.id).or_else(|| {
            let fate = self.lanes.get(face.id)?.fate.as_ref()?;
            let (rank, how) = fate.pending.as_ref().filter(|_| source == ANY && !found)?;
            let detail =
                format!("rank {rank} may be the one to send it, and failed: {how} (not acknowledged)");
            Some((ErrorClass::ProcFailed, detail))
        });
        match refused {
            None => Ok(()),
            Some((class, why)) => {
                let mut e = self.error_on(face.id, "probe", class, why);
                (e.peer, e.tag) = (Some(source), Some(tag));
                Err(e)
            }
        }
    }

    /// Why a collective on a context comes to nothing.
    pub fn refusal_of_collective(&self, face: &Face) -> Option<Error> {
        if !self.limits.recovery || !face.is_stopped() {
            return None;
        }
        let (class, why) = self.why_stopped(face.id)?;
        let mut e = self.error_on(face.id, crate::waits::operation(), class, why);
        let fate = self.lanes.get(face.id).and_then(|lane| lane.fate.as_ref());
        e.peer = fate.filter(|fate| !fate.revoked).and_then(|fate| Some(fate.lost.as_ref()?.0 as i32));
        Some(e)
    }

    /// A context was made: what has happened before concerns it, too.
    pub fn know_fate(&mut self, face: &Arc<Face>) {
        let id = face.id / PLANES;
        for rank in self.failed_ranks(face) {
            self.member_failed(face, rank);
        }
        // A failure in the other group of an inter-communicator.
        if let Some((rank, how)) = self.loss_beside(face) {
            if let Some(lane) = self.lanes.get_mut(face.id) {
                lane.fate.get_or_insert_default().lost = Some((rank, how));
                self.stop(face.id);
            }
        }
        let sibling = |plane: u32| self.lanes.get(id * PLANES + plane);
        let revoked =
            (0..PLANES).filter_map(sibling).filter_map(|lane| lane.fate.as_ref()).any(|f| f.revoked);
        let told = self.failures.early.iter().any(|(of, from)| *of == id && face.peers.contains(from));
        if revoked || told {
            self.revoke(id);
        }
    }

    /// What another plane of a communicator's collectives knows, and this one does not.
    fn loss_beside(&self, face: &Face) -> Option<(u32, String)> {
        let lost = |context: u32| self.lanes.get(context)?.fate.as_ref()?.lost.clone();
        if face.id % PLANES == POINT_TO_POINT || lost(face.id).is_some() {
            return None;
        }
        let first = face.id / PLANES * PLANES + 1;
        (first..first + PLANES - 1).find_map(lost)
    }

    // ---- revocation

    /// A peer has revoked a communicator.
    pub fn on_revoke(&mut self, from: Ep, id: u64) {
        // A communicator that is freed here sends no more word of itself: its number is free for others.
        self.forget_dropped();
        let id = match u32::try_from(id) {
            Ok(id) if id < crate::limits::CONTEXT_MAX / PLANES => id,
            _ => return self.violated(from, format!("revokes communicator {id}")),
        };
        let faces = (0..PLANES).filter_map(|plane| self.lanes.get(id * PLANES + plane)?.face.as_ref());
        match faces.into_iter().any(|face| face.peers.contains(&from)) {
            true => self.revoke(id),
            // One that is not made here yet; or one that is freed, and then its number is never that of another with
            // this member.
            false if self.failures.early.contains(&(id, from)) => {}
            false => {
                if self.failures.early.iter().filter(|(_, of)| *of == from).count() >= EARLY_REVOCATIONS_MAX {
                    self.failures.early.retain(|(_, of)| *of != from);
                }
                self.failures.early.push((id, from));
            }
        }
    }

    fn revoke(&mut self, id: u32) {
        let mut members: Vec<Ep> = Vec::new();
        let mut news = false;
        for context in id * PLANES..(id + 1) * PLANES {
            let Some(lane) = self.lanes.get_mut(context) else { continue };
            let Some(face) = &lane.face else { continue };
            members.extend(face.peers.iter());
            // Windows have epochs of their own.
            if lane.service.is_some() {
                continue;
            }
            let fate = lane.fate.get_or_insert_default();
            if !std::mem::replace(&mut fate.revoked, true) {
                news = true;
                self.stop(context);
            }
        }
        if !news {
            return;
        }
        members.sort_unstable();
        members.dedup();
        for ep in members.into_iter().filter(|ep| *ep != self.me).collect::<Vec<_>>() {
            self.control_with(
                ep,
                Header { context: reserved::REVOKE, count: u64::from(id), ..Header::default() },
                &[],
            );
        }
    }

    // ---- beside a context

    fn install_aside(&mut self, face: &Arc<Face>, service: Box<dyn Service>) {
        let Some(lane) = self.lanes.get_mut(face.id) else { return };
        let aside = lane.aside.get_or_insert_default();
        if aside.service.is_some() {
            return;
        }
        aside.service = Some(service);
        self.failures.waiting_bytes -= aside.waiting_bytes();
        let early = std::mem::take(&mut aside.early);
        for rank in 0..face.peers.len() {
            let ep = face.peers[rank];
            if self.peers.get(ep).is_some_and(|peer| peer.gone().is_some()) {
                self.tell_aside(face, rank as u32);
            }
        }
        for (from, rank, tag, body) in early {
            if face.peers.get(rank as usize) == Some(&from) {
                self.hand_aside(face, from, rank, tag, &body);
            }
        }
    }

    /// A message beside a context.
    pub fn on_aside(&mut self, from: Ep, header: &Header, body: &[u8]) -> Place {
        let (rank, tag) = (header.source as u32, header.tag);
        let context = u32::try_from(header.count).unwrap_or(u32::MAX);
        let Some(lane) = self.lanes.make(context) else {
            return self.violation(from, format!("message beside context {context:#x}"));
        };
        let face = lane.face.clone();
        let aside = lane.aside.get_or_insert_default();
        match face {
            Some(face) if face.peers.get(rank as usize) != Some(&from) => {
                return self.violation(from, format!("message beside context {context} as rank {rank}"));
            }
            Some(face) if aside.service.is_some() => self.hand_aside(&face, from, rank, tag, body),
            _ => {
                self.failures.waiting_bytes += body.len() + EARLY_ASIDE_BYTES;
                aside.early.push((from, rank, tag, body.to_vec()));
                if self.failures.waiting_bytes > ASIDE_WAITING_MAX_BYTES {
                    return self.violation(from, format!("too many messages beside context {context}"));
                }
            }
        }
        Place::Done
    }

    fn hand_aside(&mut self, face: &Arc<Face>, from: Ep, rank: u32, tag: i32, body: &[u8]) {
        let result = self.with_aside(face, |service, port| service.message(rank, tag, body, port));
        if let Some(Err(fact)) = result {
            self.violated(from, fact);
        }
    }

    fn tell_aside(&mut self, face: &Arc<Face>, rank: u32) {
        self.with_aside(face, |service, port| service.gone(rank, port));
    }

    /// Runs `f` on the service beside a context, which is away meanwhile.
    fn with_aside<R>(
        &mut self,
        face: &Arc<Face>,
        f: impl FnOnce(&mut dyn Service, &mut Port<'_>) -> R,
    ) -> Option<R> {
        let mut service = self.lanes.get_mut(face.id)?.aside.as_mut()?.service.take()?;
        let result = f(&mut *service, &mut Port { state: self, face, aside: true });
        if let Some(aside) = self.lanes.get_mut(face.id).and_then(|lane| lane.aside.as_mut()) {
            aside.service = Some(service);
        }
        self.waiters.wake_probing();
        Some(result)
    }
}
