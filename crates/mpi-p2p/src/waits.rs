//! The things that threads wait for.

use crate::context::Face;
use crate::core::{State, Taken};
use crate::limits::{BLOCKED_REPORT_MESSAGES, BLOCKED_REPORT_PEERS};
use crate::progress::Wait;
use crate::report::{Blocked, Waiting};
use crate::request::{Kind, Phase, RequestId, flag};
use crate::status::ANY;
use crate::{Error, Status};
use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// The operation that this thread is in, for messages of which the user knows nothing.
    static WITHIN: Cell<&'static str> = const { Cell::new("collective") };
}

/// Says which operation the calling thread is in, before it sends and receives messages in other planes than the
/// point-to-point one: what a report calls them. Holds until the next is said.
#[inline]
pub fn within(op: &'static str) {
    WITHIN.set(op);
}

/// The operation that the calling thread is in, as [`within`] was told.
pub(crate) fn operation() -> &'static str {
    WITHIN.get()
}

/// Messages of this context are an operation's own; tags mean nothing to the user.
fn is_internal(context: u32) -> bool {
    context & 3 != 0
}

/// One request.
pub(crate) struct ForRequest {
    pub id: RequestId,
    pub op: &'static str,
}

impl Wait for ForRequest {
    type Result = Result<Status, Error>;
    #[inline]
    fn done(&mut self, state: &mut State) -> Option<Self::Result> {
        state.take(self.id)
    }
    fn watch(&self, state: &mut State, waiter: u32) {
        state.watch(self.id, waiter);
    }
    fn facts(&self, state: &State) -> Blocked {
        state.facts_of(self.op, self.id, 0)
    }
}

/// A message to probe.
pub(crate) struct ForMessage<'a> {
    pub cx: &'a Face,
    pub source: i32,
    pub tag: i32,
    pub op: &'static str,
}

impl Wait for ForMessage<'_> {
    type Result = Result<Status, Error>;
    fn done(&mut self, state: &mut State) -> Option<Self::Result> {
        state.iprobe(self.cx, self.source, self.tag).transpose()
    }
    fn watch(&self, _: &mut State, _: u32) {}
    fn probing(&self) -> bool {
        true
    }
    fn facts(&self, state: &State) -> Blocked {
        let mut b = state.facts_on(self.op, self.cx.id);
        (b.peer, b.tag) = (Some(self.source), (!is_internal(self.cx.id)).then_some(self.tag));
        match self.cx.peers.get(self.source as usize) {
            Some(peer) => b.waits_for.push(*peer),
            None => state.any_member(self.cx.id, &mut b),
        }
        b
    }
}

/// Room in the attached buffer: all of it.
pub(crate) struct ForBuffer;

impl Wait for ForBuffer {
    type Result = usize;
    fn done(&mut self, state: &mut State) -> Option<usize> {
        if state.attached.used > 0 { None } else { Some(state.attached.room.take().unwrap_or(0)) }
    }
    fn watch(&self, _: &mut State, _: u32) {}
    fn facts(&self, _: &State) -> Blocked {
        blocked("detach buffer")
    }
}

/// The first of several requests that completes, and which.
pub(crate) struct ForAny<'a> {
    pub list: &'a mut [Option<RequestId>],
}

impl Wait for ForAny<'_> {
    type Result = Option<(usize, Result<Status, Error>)>;
    fn done(&mut self, state: &mut State) -> Option<Self::Result> {
        state.take_any(self.list)
    }
    fn watch(&self, state: &mut State, waiter: u32) {
        self.list.iter().flatten().for_each(|id| state.watch(*id, waiter));
    }
    fn facts(&self, state: &State) -> Blocked {
        facts_of_list(state, "wait for any", self.list, true)
    }
}

/// All of several requests. Only the first incomplete one is looked at.
pub(crate) struct ForAll<'a> {
    pub list: &'a [Option<RequestId>],
    pub next: usize,
}

impl Wait for ForAll<'_> {
    type Result = ();
    fn done(&mut self, state: &mut State) -> Option<()> {
        while let Some(id) = self.list.get(self.next) {
            if id.is_some_and(|id| !state.is_done(id)) {
                return None;
            }
            self.next += 1;
        }
        Some(())
    }
    fn watch(&self, state: &mut State, waiter: u32) {
        if let Some(Some(id)) = self.list.get(self.next) {
            state.watch(*id, waiter);
        }
    }
    fn facts(&self, state: &State) -> Blocked {
        facts_of_list(state, "wait for all", &self.list[self.next.min(self.list.len())..], false)
    }
}

/// All requests of a list, each taken as soon as those before it are.
pub(crate) struct ForAllTaken<'a> {
    pub list: &'a mut [Option<RequestId>],
    pub next: usize,
    /// Where the statuses go, if anybody wants them.
    pub statuses: Option<&'a mut Vec<Status>>,
    /// The first error.
    pub first: Result<(), (usize, Error)>,
}

impl ForAllTaken<'_> {
    /// What is not the short way: an error, a persistent request, one with memory of its own. False:
    /// it is not complete.
    #[cold]
    fn take_rare(&mut self, state: &mut State, id: RequestId) -> bool {
        let Some(result) = state.take(id) else { return false };
        if state.requests.named(id.get()).is_none() {
            self.list[self.next] = None;
        }
        let status = match result {
            Ok(status) => status,
            Err(e) => {
                let status = Status { error: e.class, ..Status::EMPTY };
                if self.first.is_ok() {
                    self.first = Err((self.next, e));
                }
                status
            }
        };
        self.keep(status);
        true
    }

    #[inline(always)]
    fn keep(&mut self, status: Status) {
        if let Some(statuses) = &mut self.statuses {
            statuses.push(status);
        }
        self.next += 1;
    }
}

impl Wait for ForAllTaken<'_> {
    type Result = Result<(), (usize, Error)>;
    fn done(&mut self, state: &mut State) -> Option<Self::Result> {
        while let Some(entry) = self.list.get_mut(self.next) {
            let Some(id) = *entry else {
                self.keep(Status::EMPTY);
                continue;
            };
            if id == RequestId::DONE {
                *entry = None;
                self.keep(Status::EMPTY);
                continue;
            }
            match state.take_plain(id) {
                Taken::Plain(status) => {
                    *entry = None;
                    self.keep(status);
                }
                Taken::NotYet => return None,
                Taken::Rare if self.take_rare(state, id) => {}
                Taken::Rare => return None,
            }
        }
        Some(std::mem::replace(&mut self.first, Ok(())))
    }
    fn watch(&self, state: &mut State, waiter: u32) {
        if let Some(Some(id)) = self.list.get(self.next) {
            state.watch(*id, waiter);
        }
    }
    fn facts(&self, state: &State) -> Blocked {
        facts_of_list(state, "wait for all", &self.list[self.next.min(self.list.len())..], false)
    }
}

/// An activity that the waiting thread runs itself: one of its requests.
pub(crate) struct ForRunner {
    pub slot: u32,
    pub name: &'static str,
}

impl Wait for ForRunner {
    type Result = ();
    fn done(&mut self, state: &mut State) -> Option<()> {
        let slot = &mut state.requests[self.slot];
        (slot.phase == Phase::Done).then(|| slot.phase = Phase::Waiting)
    }
    fn watch(&self, state: &mut State, waiter: u32) {
        let slot = &mut state.requests[self.slot];
        slot.flags |= flag::WATCHED;
        slot.watcher = waiter;
    }
    fn facts(&self, state: &State) -> Blocked {
        state.facts_of_owner(self.name, self.slot)
    }
}

/// `any`: the first request that completes ends the wait; else all have to.
fn facts_of_list(state: &State, op: &'static str, list: &[Option<RequestId>], any: bool) -> Blocked {
    let open: Vec<RequestId> = list.iter().flatten().copied().filter(|id| !state.is_done(*id)).collect();
    state.facts_of_several(op, &open, any)
}

fn blocked(op: &'static str) -> Blocked {
    Blocked {
        op,
        comm: None,
        my_rank: None,
        peer: None,
        sends: false,
        waits_for: Vec::new(),
        any: false,
        tag: None,
        object: None,
        absent: Vec::new(),
        moving: false,
        since: Duration::ZERO,
        others: 0,
        unexpected: 0,
        first_unexpected: Vec::new(),
    }
}

impl State {
    /// The completion of `id` wakes `waiter`.
    pub fn watch(&mut self, id: RequestId, waiter: u32) {
        if let Some(i) = self.requests.named(id.get()) {
            let slot = &mut self.requests[i];
            if slot.phase != Phase::Done && slot.phase != Phase::Inactive {
                slot.flags |= flag::WATCHED;
                slot.watcher = waiter;
            }
        }
    }

    /// What is known on a context.
    pub fn facts_on(&self, op: &'static str, context: u32) -> Blocked {
        // Small blocking collectives, and what makes communicators, are plain sends and receives in planes of their
        // own. Facts are looked for by the thread that waits.
        let op = match op {
            "receive" | "send" | "send-receive" | "wait" | "collective" if is_internal(context) => {
                WITHIN.get()
            }
            _ => op,
        };
        let mut b = blocked(op);
        let Some(lane) = self.lanes.get(context) else { return b };
        b.comm = Some((self.context_name(context), context));
        b.my_rank = lane.face.as_ref().map(|f| f.rank as i32);
        b.unexpected = lane.unexpected.len();
        b.first_unexpected = self.first_messages(context, BLOCKED_REPORT_MESSAGES);
        b
    }

    /// What is known of a request that somebody waits for.
    pub fn facts_of(&self, op: &'static str, id: RequestId, others: usize) -> Blocked {
        let Some(i) = self.requests.named(id.get()) else { return blocked(op) };
        let slot = &self.requests[i];
        if !matches!(slot.kind, Kind::Recv | Kind::Send) {
            let name = slot.extra.as_ref().and_then(|x| x.activity.as_ref()).map_or(op, |a| a.name());
            return self.facts_of_owner(name, i);
        }
        let mut b = self.facts_on(op, slot.context);
        let rank = if slot.phase == Phase::Waiting {
            slot.key.source
        } else {
            slot.status.source.max(slot.key.source)
        };
        b.peer = Some(rank);
        b.sends = slot.kind == Kind::Send;
        b.tag = (!is_internal(slot.context)).then_some(slot.key.tag);
        b.moving = matches!(
            slot.phase,
            Phase::Arriving | Phase::Pulling | Phase::Framed | Phase::Streaming | Phase::Draining
        );
        if b.moving {
            // Nothing is concluded of what is going on.
        } else if rank == ANY {
            self.any_member(slot.context, &mut b);
        } else {
            b.waits_for.push(slot.ep);
        }
        b.others = others;
        b
    }

    /// What is known of several requests of which one (`any`) or all are waited for: the first, and
    /// the peers of all.
    fn facts_of_several(&self, op: &'static str, open: &[RequestId], any: bool) -> Blocked {
        let Some((first, rest)) = open.split_first() else { return blocked(op) };
        let mut b = self.facts_of(op, *first, rest.len());
        for id in rest {
            let other = self.facts_of(op, *id, 0);
            // A wait of both kinds at once is told as the weaker one: nothing wrong is concluded.
            b.any |= other.any;
            b.waits_for.extend(other.waits_for);
        }
        b.any |= any;
        b.waits_for.sort_unstable();
        b.waits_for.dedup();
        b
    }

    /// What tasks await: the oldest operation, and the peers of all, any of which may let a task go on.
    pub fn facts_of_awaited(&self) -> Option<Blocked> {
        let since = |i: u32| {
            let slot = &self.requests[i];
            let waits = slot.flags & flag::AWAITED != 0 && slot.phase != Phase::Done;
            Some((slot.extra.as_ref().filter(|_| waits)?.awaited.as_ref()?.since, i))
        };
        let mut all: Vec<(Instant, u32)> = self.requests.in_use().filter_map(since).collect();
        all.sort_unstable();
        let (begun, oldest) = *all.first()?;
        let op = match self.requests[oldest].kind {
            Kind::Send => "awaited send",
            Kind::Recv => "awaited receive",
            _ => "awaited operation",
        };
        let ids: Vec<RequestId> = all.iter().map(|(_, i)| self.requests.id(*i)).collect();
        let mut b = self.facts_of_several(op, &ids, ids.len() > 1);
        b.since = begun.elapsed();
        Some(b)
    }

    /// The same once for each operation that has been awaited for so long.
    pub fn overdue_awaited(&mut self) -> Option<Blocked> {
        let limit = self.limits.blocked_report;
        let mut overdue = false;
        let all: Vec<u32> = self.requests.in_use().collect();
        for i in all {
            let slot = &mut self.requests[i];
            let waits = slot.flags & flag::AWAITED != 0;
            let Some(awaited) = slot.extra.as_mut().filter(|_| waits).and_then(|x| x.awaited.as_mut()) else {
                continue;
            };
            if !awaited.reported && awaited.since.elapsed() >= limit {
                awaited.reported = true;
                overdue = true;
            }
        }
        if overdue { self.facts_of_awaited() } else { None }
    }

    /// Any other member of the communicator could end the wait.
    pub fn any_member(&self, context: u32, b: &mut Blocked) {
        b.any = true;
        let face = self.lanes.get(context).and_then(|lane| lane.face.as_ref());
        let Some(face) = face else { return };
        if face.peers.len() <= BLOCKED_REPORT_PEERS {
            let mine = face.peers.get(face.rank as usize);
            b.waits_for.extend(face.peers.iter().filter(|peer| Some(*peer) != mine));
        }
    }

    /// What an activity waits for: the first open request of its own.
    pub fn facts_of_owner(&self, op: &'static str, owner: u32) -> Blocked {
        let open = |i: &u32| {
            let s = &self.requests[*i];
            s.flags & flag::OWNED != 0 && s.owner == owner && s.phase != Phase::Done
        };
        let mine: Vec<RequestId> = self.requests.in_use().filter(open).map(|i| self.requests.id(i)).collect();
        self.facts_of_several(op, &mine, false)
    }

    /// The first few unexpected messages of a context.
    pub fn first_messages(&self, context: u32, n: usize) -> Vec<Waiting> {
        let comm = (self.context_name(context), context);
        let of = self.store.all().filter(|(_, s)| s.context == context && !s.probed);
        let waiting = |s: &crate::store::Stored| {
            let e = s.envelope();
            Waiting { comm: comm.clone(), source: e.source, tag: e.tag, bytes: e.total }
        };
        of.take(n).map(|(_, s)| waiting(s)).collect()
    }

    /// Takes the first complete request of a list. `Some(None)`: none of them is active.
    pub fn take_any(
        &mut self,
        list: &mut [Option<RequestId>],
    ) -> Option<Option<(usize, Result<Status, Error>)>> {
        let mut active = false;
        for (at, entry) in list.iter_mut().enumerate() {
            let Some(id) = *entry else { continue };
            if self.is_inactive(id) {
                continue;
            }
            active = true;
            if let Some(result) = self.take(id) {
                if self.requests.named(id.get()).is_none() {
                    *entry = None;
                }
                return Some(Some((at, result)));
            }
        }
        if active { None } else { Some(None) }
    }

    /// A persistent request that is not started.
    pub fn is_inactive(&self, id: RequestId) -> bool {
        id != RequestId::DONE
            && self.requests.named(id.get()).is_some_and(|i| self.requests[i].phase == Phase::Inactive)
    }
}
