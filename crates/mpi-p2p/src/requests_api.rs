//! The engine's face: requests, activities, reports, the end.

use crate::activity::{Activity, Step};
use crate::context::{Context, Face};
use crate::core::{Core, State};
use crate::engine::Engine;
use crate::limits::LAST_WORDS_TURNS;
use crate::memory::Memory;
use crate::peer::Link;
use crate::recv::FINALISED;
use crate::report::{Fatal, Report, Waiting};
use crate::request::{Kind, Phase, RequestId, flag};
use crate::status::{SendMode, Source, Tag};
use crate::store::Message;
use crate::waits::{ForAll, ForAllTaken, ForAny, ForRequest, ForRunner};
use crate::{Error, ErrorClass, Inside, Status, record};
use mpi_btl::Ep;
use mpi_datatype::{RecvBuf, SendBuf};
use mpi_node::Guard;
use std::sync::atomic::Ordering;

/// Posted receives and messages that a [`Report`] names.
pub(crate) const REPORT_ENTRIES: usize = 16;

/// Index, status or error of each request that completed.
pub type Completed = Vec<(usize, Result<Status, Error>)>;

impl Engine {
    /// Waits for a request, which is gone then; a persistent one is inactive then.
    ///
    /// # Errors
    /// The operation's; Request for a stale id.
    pub fn wait(&self, id: RequestId) -> Result<Status, Error> {
        if record::on() {
            return record::during(record::ops::WAIT, || None, || self.wait_now(id));
        }
        self.wait_now(id)
    }

    #[inline]
    fn wait_now(&self, id: RequestId) -> Result<Status, Error> {
        let core = self.enter();
        self.wait_until(core, ForRequest { id, op: "wait" })
    }

    /// The result of a request if it is complete; it is gone then.
    ///
    /// # Errors
    /// As [`wait`](Engine::wait).
    pub fn test(&self, id: RequestId) -> Result<Option<Status>, Error> {
        let _recording = record::op(record::ops::TEST, || None);
        self.look(|state| state.take(id)).transpose()
    }

    /// Whether a request is complete, with its status; it stays (`MPI_Request_get_status`).
    ///
    /// # Errors
    /// Request for a stale id.
    pub fn request_status(&self, id: RequestId) -> Result<Option<Status>, Error> {
        self.look(|state| {
            if id == RequestId::DONE {
                return Some(Ok(Status::EMPTY));
            }
            match state.requests.find(id) {
                Ok(i) if state.requests[i].phase == Phase::Done => Some(Ok(state.requests[i].status)),
                Ok(i) if state.requests[i].phase == Phase::Inactive => Some(Ok(Status::EMPTY)),
                Ok(_) => None,
                Err(e) => Some(Err(e)),
            }
        })
        .transpose()
    }

    /// Polls once if `look` finds nothing, and looks again.
    fn look<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let mut core = self.enter();
        core.state.flush_owed();
        let mut found = look(&mut core.state);
        if found.is_none() {
            core.state.seek();
            core.poll_all();
            found = look(&mut core.state);
            if found.is_none() {
                core.state.polling.tested();
            }
        }
        self.shared.leave(core);
        found
    }

    /// Waits until one of the requests is complete: which, and its status. Its entry is `None` then,
    /// unless it is persistent. `None` when no entry is active.
    ///
    /// # Errors
    /// The operation's, with its index.
    pub fn wait_any(
        &self,
        list: &mut [Option<RequestId>],
    ) -> Result<Option<(usize, Status)>, (usize, Error)> {
        let _recording = record::op(record::ops::WAIT, || None);
        let core = self.enter();
        index_error(self.wait_until(core, ForAny { list }))
    }

    /// As [`wait_any`](Engine::wait_any) without waiting: `None` when none is complete yet,
    /// `Some(None)` when no entry is active.
    ///
    /// # Errors
    /// The operation's, with its index.
    #[allow(clippy::type_complexity, reason = "not yet, nothing ever, this one")]
    pub fn test_any(
        &self,
        list: &mut [Option<RequestId>],
    ) -> Result<Option<Option<(usize, Status)>>, (usize, Error)> {
        let _recording = record::op(record::ops::TEST, || None);
        match self.look(|state| state.take_any(list)) {
            Some(found) => index_error(found).map(Some),
            None => Ok(None),
        }
    }

    /// Waits until at least one of the requests is complete and takes all that are. `None` when no
    /// entry is active.
    pub fn wait_some(&self, list: &mut [Option<RequestId>]) -> Option<Completed> {
        let _recording = record::op(record::ops::WAIT, || None);
        let core = self.enter();
        let first = self.wait_until(core, ForAny { list })?;
        let mut all = vec![first];
        let mut core = self.enter();
        while let Some(Some(next)) = core.state.take_any(list) {
            all.push(next);
        }
        self.shared.leave(core);
        all.sort_by_key(|(at, _)| *at);
        Some(all)
    }

    /// Takes all that are complete, perhaps none. `None` when no entry is active.
    pub fn test_some(&self, list: &mut [Option<RequestId>]) -> Option<Completed> {
        let _recording = record::op(record::ops::TEST, || None);
        let mut all = Vec::new();
        let first = match self.look(|state| state.take_any(list)) {
            None => return Some(all),
            Some(first) => first?,
        };
        all.push(first);
        let mut core = self.enter();
        while let Some(Some(next)) = core.state.take_any(list) {
            all.push(next);
        }
        self.shared.leave(core);
        all.sort_by_key(|(at, _)| *at);
        Some(all)
    }

    /// Waits for all requests; one result per entry, an empty status for `None`. All entries that are
    /// not persistent are `None` then.
    pub fn wait_all(&self, list: &mut [Option<RequestId>]) -> Vec<Result<Status, Error>> {
        let _recording = record::op(record::ops::WAIT, || None);
        let core = self.enter();
        let (mut core, ()) = self.wait_inside(core, ForAll { list, next: 0 });
        let all = take_all(&mut core, list);
        self.shared.leave(core);
        all
    }

    /// As [`wait_all`](Engine::wait_all) without results to look at: the first error, if any.
    ///
    /// # Errors
    /// The first operation's that failed, with its index; all are complete nevertheless.
    pub fn wait_all_ok(&self, list: &mut [Option<RequestId>]) -> Result<(), (usize, Error)> {
        let _recording = record::op(record::ops::WAIT, || None);
        self.wait_until(self.enter(), ForAllTaken { list, next: 0, statuses: None, first: Ok(()) })
    }

    /// As [`wait_all`](Engine::wait_all) for those who need no error but the first: one status per
    /// entry, in place of what `statuses` held.
    ///
    /// # Errors
    /// As [`wait_all_ok`](Engine::wait_all_ok).
    pub fn wait_all_into(
        &self,
        list: &mut [Option<RequestId>],
        statuses: &mut Vec<Status>,
    ) -> Result<(), (usize, Error)> {
        let _recording = record::op(record::ops::WAIT, || None);
        statuses.clear();
        statuses.reserve(list.len());
        let statuses = Some(statuses);
        self.wait_until(self.enter(), ForAllTaken { list, next: 0, statuses, first: Ok(()) })
    }

    /// All results if all are complete, else `None` and nothing is taken.
    pub fn test_all(&self, list: &mut [Option<RequestId>]) -> Option<Vec<Result<Status, Error>>> {
        let _recording = record::op(record::ops::TEST, || None);
        let done = |state: &mut State| list.iter().flatten().all(|id| state.is_done(*id)).then_some(());
        self.look(done)?;
        let mut core = self.enter();
        let all = take_all(&mut core, list);
        self.shared.leave(core);
        Some(all)
    }

    /// Cancels where that is still possible. A later wait returns and its status says whether it was.
    ///
    /// # Errors
    /// Request for a stale id.
    pub fn cancel(&self, id: RequestId) -> Result<(), Error> {
        if id == RequestId::DONE {
            return Ok(());
        }
        let mut core = self.enter();
        let result = core.state.requests.find(id).map(|i| core.state.cancel(i));
        self.shared.leave(core);
        result
    }

    /// Lets go of a request; the operation goes on.
    ///
    /// # Errors
    /// Request for a stale id.
    pub fn free(&self, id: RequestId) -> Result<(), Error> {
        if id == RequestId::DONE {
            return Ok(());
        }
        let mut core = self.enter();
        let result = core.state.requests.find(id).map(|i| core.state.free(i));
        self.shared.leave(core);
        result
    }

    // ---- persistent requests

    /// A send to be started again and again with [`restart`](Engine::restart). The memory stays
    /// valid while it is active.
    ///
    /// # Errors
    /// Rank.
    pub fn send_init(
        &self,
        cx: &Context,
        dest: u32,
        tag: i32,
        buf: SendBuf<'_>,
        mode: SendMode,
    ) -> Result<RequestId, Error> {
        let mut core = self.enter();
        let i = core.state.new_send(&cx.face, dest, tag, &buf, mode)?;
        Ok(persist(&mut core, i))
    }

    /// A receive to be started again and again.
    ///
    /// # Errors
    /// Rank.
    pub fn recv_init(
        &self,
        cx: &Context,
        source: Source,
        tag: Tag,
        buf: RecvBuf<'_>,
    ) -> Result<RequestId, Error> {
        let mut core = self.enter();
        let i = core.state.new_recv(&cx.face, source.raw(), tag.raw(), &buf)?;
        Ok(persist(&mut core, i))
    }

    /// Starts an inactive persistent request (`MPI_Start`).
    ///
    /// # Errors
    /// Request: stale, active, or not persistent. Buffer.
    pub fn restart(&self, id: RequestId) -> Result<(), Error> {
        let _recording = record::op(const { record::ops::Op::named("start") }, || None);
        if id == RequestId::DONE {
            return Ok(());
        }
        let mut core = self.enter();
        let result = core.state.restart(id);
        self.shared.leave(core);
        result
    }

    // ---- activities

    /// Starts an activity that the engine advances; waited for like any request.
    pub fn start(&self, activity: Box<dyn Activity>) -> RequestId {
        let mut core = self.enter();
        let i = core.state.requests.alloc(Kind::Activity);
        core.state.requests[i].status = Status::EMPTY;
        core.state.requests[i].extra().activity = Some(activity);
        let id = core.state.requests.id(i);
        core.state.serve(i);
        core.state.advance(i);
        self.shared.leave(core);
        id
    }

    /// An activity to be started again and again with [`restart`](Engine::restart), each time after
    /// [`Activity::rearm`].
    pub fn init(&self, activity: Box<dyn Activity>) -> RequestId {
        let mut core = self.enter();
        let i = core.state.requests.alloc(Kind::Activity);
        core.state.requests[i].status = Status::EMPTY;
        core.state.requests[i].extra().activity = Some(activity);
        persist(&mut core, i)
    }

    /// Runs an activity to its end on this thread.
    ///
    /// # Errors
    /// The activity's.
    pub fn run(&self, activity: &mut dyn Activity) -> Result<Status, Error> {
        let mut core = self.enter();
        let slot = core.state.requests.alloc(Kind::Runner);
        let result = loop {
            let state = &mut core.state;
            match activity.advance(&mut Inside { state, owner: slot }) {
                Ok(Step::Done(status)) => break Ok(status),
                Err(e) => break Err(e),
                Ok(Step::Pending) => {}
            }
            (core, ()) = self.wait_inside(core, ForRunner { slot, name: activity.name() });
        };
        core.state.release(slot);
        self.shared.leave(core);
        result
    }

    // ---- generalized requests

    /// A request that [`complete_generalized`](Engine::complete_generalized) completes.
    pub fn generalized(&self) -> RequestId {
        let mut core = self.enter();
        let i = core.state.requests.alloc(Kind::Generalized);
        core.state.requests[i].status = Status::EMPTY;
        core.state.requests.id(i)
    }

    /// Completes a generalized request, from any thread.
    ///
    /// # Errors
    /// Request: stale, or no generalized one.
    pub fn complete_generalized(&self, id: RequestId, status: Status) -> Result<(), Error> {
        let mut core = self.enter();
        let i = core.state.requests.find(id)?;
        if core.state.requests[i].kind != Kind::Generalized {
            return Err(Error::new(ErrorClass::Request, "request", "not a generalized request"));
        }
        core.state.requests[i].status = status;
        core.state.complete(i);
        core.state.waiters.wake_all();
        self.shared.leave(core);
        Ok(())
    }

    // ---- everything else

    /// Moves everything on, once.
    pub fn progress(&self) {
        let mut core = self.enter();
        core.state.flush_owed();
        core.poll_all();
        core.state.flush_owed();
        core.state.forget_dropped();
        self.shared.leave(core);
    }

    /// What is blocked, posted and unexpected here. From any thread, also while others are blocked.
    pub fn report(&self) -> Report {
        let mut core = self.enter();
        core.state.report()
    }

    /// Somebody knows better than the transports: the peer is gone.
    pub fn peer_died(&self, ep: Ep, how: String) {
        let mut guard = self.enter();
        let core = &mut *guard;
        // What it sent before it died is received all the same, unless somebody else polls.
        let polls = !core.state.waiters.is_asleep() && !core.state.waiters.polling;
        let mut turns = if polls { LAST_WORDS_TURNS } else { 0 };
        while turns > 0 && core.poll_all() {
            turns -= 1;
        }
        core.state.fatal.push(Fatal::PeerGone { ep, how: how.clone() });
        core.state.peer_gone(ep, Link::Down(how.into()));
        // Before anybody polls: its transport may be in the middle of a body.
        core.state.settle(&mut core.rx);
        self.shared.leave(guard);
    }

    /// What finalisation would have to wait for: requests that are neither complete nor inactive,
    /// each in a line for people.
    pub fn pending_summary(&self) -> Vec<String> {
        let core = self.enter();
        core.state.pending_summary()
    }

    /// A request in a line for people: `receive on "grid" from rank 3 tag 7`. `None` when it is gone, or was complete
    /// when it was started.
    pub fn describe(&self, id: RequestId) -> Option<String> {
        let core = self.enter();
        core.state.requests.named(id.get()).map(|i| core.state.line(i))
    }

    /// What a matched probe has found, as it was then; `None` when it was received already.
    pub fn matched(&self, message: &Message) -> Option<Status> {
        let core = self.enter();
        let stored = core.state.store.get(core.state.store.probed(message)?)?;
        let e = stored.envelope();
        let error = ErrorClass::Success;
        Some(Status { source: e.source, tag: e.tag, bytes: e.total, cancelled: false, error })
    }

    /// True once the engine was closed: it starts nothing any more.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Relaxed)
    }

    /// Finalisation has begun: what still waits for peers that leave is told so, rather than that they are gone.
    pub fn ending(&self) {
        self.enter().state.ending = true;
    }

    /// Tells every peer goodbye, and gives the transports until `timeout` to get everything out.
    pub fn close(&self, timeout: std::time::Duration) {
        let mut core = self.enter();
        core.state.closed = true;
        self.shared.closed.store(true, Ordering::Release);
        core.state.flush_owed();
        let until = std::time::Instant::now() + timeout;
        // What waits for room goes first.
        while core.state.has_queued() && std::time::Instant::now() < until {
            core.poll_all();
        }
        let me = core.state.me;
        let mut up = Vec::new();
        for (ep, peer) in core.state.peers.iter_mut() {
            if peer.link == Link::Up && ep != me {
                up.push((ep, usize::from(peer.route)));
                peer.link = Link::Left;
                peer.refresh();
            }
        }
        for (ep, route) in up {
            core.state.tx[route].close(ep);
        }
        while !core.state.tx.iter().all(|tx| tx.quiet()) && std::time::Instant::now() < until {
            core.poll_all();
        }
        core.state.fail_posted();
        // That a peer is gone is no news any more.
        let news = core.state.news().without_fatal();
        drop(core);
        self.shared.spread(news);
        self.shared.helper.stop();
    }
}

fn persist(core: &mut Guard<'_, Core>, i: u32) -> RequestId {
    let slot = &mut core.state.requests[i];
    slot.persistent = true;
    slot.phase = Phase::Inactive;
    core.state.requests.id(i)
}

type Found = Option<(usize, Result<Status, Error>)>;

fn index_error(found: Found) -> Result<Option<(usize, Status)>, (usize, Error)> {
    match found {
        None => Ok(None),
        Some((at, Ok(status))) => Ok(Some((at, status))),
        Some((at, Err(e))) => Err((at, e)),
    }
}

fn take_all(core: &mut Guard<'_, Core>, list: &mut [Option<RequestId>]) -> Vec<Result<Status, Error>> {
    let mut take = |entry: &mut Option<RequestId>| {
        let Some(id) = *entry else { return Ok(Status::EMPTY) };
        let result = core.state.take(id).unwrap_or(Ok(Status::EMPTY));
        if core.state.requests.named(id.get()).is_none() {
            *entry = None;
        }
        result
    };
    list.iter_mut().map(&mut take).collect()
}

impl State {
    fn restart(&mut self, id: RequestId) -> Result<(), Error> {
        let i = self.requests.find(id)?;
        if self.closed {
            return Err(self.error_of(i, ErrorClass::Other, FINALISED));
        }
        let slot = &mut self.requests[i];
        if !slot.persistent || slot.phase != Phase::Inactive {
            let detail = "only an inactive persistent request can be started";
            return Err(Error::new(ErrorClass::Request, "start", detail));
        }
        slot.status = Status::EMPTY;
        if slot.kind == Kind::Activity {
            return self.restart_activity(i);
        }
        slot.phase = Phase::Waiting;
        slot.transfer = crate::request::Transfer::default();
        if let Some(extra) = &mut slot.extra {
            extra.cancel_asked = false;
        }
        match (slot.kind, slot.mode) {
            (Kind::Recv, _) => self.match_or_post(i),
            (_, SendMode::Buffered) => return self.restart_buffered(i),
            _ => self.start_send(i),
        }
        Ok(())
    }

    fn restart_activity(&mut self, i: u32) -> Result<(), Error> {
        let slot = &mut self.requests[i];
        if !slot.extra().activity.as_mut().is_some_and(|activity| activity.rearm()) {
            return Err(Error::new(ErrorClass::Request, "start", "the operation cannot be started again"));
        }
        slot.phase = Phase::Waiting;
        self.serve(i);
        self.advance(i);
        Ok(())
    }

    /// A persistent buffered send: the message goes off on its own, the request is complete.
    fn restart_buffered(&mut self, i: u32) -> Result<(), Error> {
        let once = self.requests.alloc(Kind::Send);
        let slot = &self.requests[i];
        let (key, ep, context) =
            (crate::matching::PostedKey::new(slot.key.source, slot.key.tag), slot.ep, slot.context);
        let (memory, signature, count) = (slot.memory, slot.signature, slot.count);
        let send = slot.extra.as_ref().and_then(|x| x.send.clone());
        let copy = &mut self.requests[once];
        (copy.key, copy.ep, copy.context, copy.mode) = (key, ep, context, SendMode::Buffered);
        (copy.memory, copy.signature, copy.count) = (memory, signature, count);
        copy.status = Status::EMPTY;
        if send.is_some() {
            copy.extra().send = send;
        }
        if let Err(e) = self.buffer(once) {
            self.requests[i].phase = Phase::Inactive;
            return Err(e);
        }
        self.start_send(once);
        self.complete(i);
        Ok(())
    }

    /// Sends bytes of the engine's own under another type's signature.
    pub fn isend_packed(
        &mut self,
        face: &Face,
        dest: u32,
        tag: i32,
        bytes: Vec<u8>,
        signature: u32,
    ) -> Result<RequestId, Error> {
        let i = self.new_send(face, dest, tag, &SendBuf::packed(&[]), SendMode::Standard)?;
        let mut owned = bytes.into_boxed_slice();
        let slot = &mut self.requests[i];
        slot.memory = Memory::of_owned(&mut owned);
        slot.signature = signature;
        slot.extra().owned = Some(owned);
        let id = self.requests.id(i);
        self.start_send(i);
        Ok(id)
    }

    fn has_queued(&mut self) -> bool {
        self.peers.iter_mut().any(|(_, p)| p.queues.as_ref().is_some_and(|q| !q.is_empty()))
    }

    fn report(&mut self) -> Report {
        let mut report = Report::default();
        for (_, since, blocked) in &self.waiters.blocked {
            let mut b = blocked.clone();
            b.since = since.elapsed();
            // What came after it was written down.
            if let Some((_, context)) = b.comm {
                let now = self.facts_on(b.op, context);
                (b.unexpected, b.first_unexpected) = (now.unexpected, now.first_unexpected);
            }
            report.blocked.push(b);
        }
        report.blocked.extend(self.facts_of_awaited());
        let posted = |i: &u32| {
            let s = &self.requests[*i];
            s.kind == Kind::Recv && s.phase == Phase::Waiting
        };
        let all: Vec<u32> = self.requests.in_use().filter(posted).collect();
        report.posted_total = all.len();
        for i in all.into_iter().take(REPORT_ENTRIES) {
            let s = &self.requests[i];
            let comm = (self.context_name(s.context), s.context);
            let bytes = s.memory.bytes as u64;
            report.posted.push(Waiting { comm, source: s.key.source, tag: s.key.tag, bytes });
        }
        let contexts: Vec<(u32, usize)> =
            self.lanes.iter().map(|(id, l)| (id, l.unexpected.len() + l.early.len())).collect();
        for (context, count) in contexts {
            report.unexpected_total += count;
            let room = REPORT_ENTRIES - report.unexpected.len();
            report.unexpected.extend(self.first_messages(context, room));
        }
        report.unexpected_bytes = self.unexpected_bytes;
        self.report_open(&mut report);
        report
    }

    fn pending_summary(&self) -> Vec<String> {
        let open = |i: &u32| {
            let s = &self.requests[*i];
            !matches!(s.phase, Phase::Done | Phase::Inactive)
                && s.flags & (flag::OWNED | flag::DETACHED) != flag::OWNED
        };
        self.requests.in_use().filter(open).map(|i| self.line(i)).collect()
    }

    /// An operation in a line for people.
    pub(crate) fn line(&self, i: u32) -> String {
        let s = &self.requests[i];
        match s.kind {
            Kind::Send | Kind::Recv => self.line_of(s.kind, s.context, s.key.source, s.key.tag),
            _ => {
                let activity = s.extra.as_ref().and_then(|x| x.activity.as_ref());
                activity.map_or("operation", |a| a.name()).to_owned()
            }
        }
    }

    pub(crate) fn line_of(&self, kind: Kind, context: u32, peer: i32, tag: i32) -> String {
        let name = match self.context_name(context) {
            name if name.is_empty() => format!("communicator {context}"),
            name => format!("{name:?}"),
        };
        let tag = if tag < 0 { "any tag".to_owned() } else { format!("tag {tag}") };
        match kind {
            Kind::Send => format!("send on {name} to rank {peer} {tag}"),
            _ if peer < 0 => format!("receive on {name} from any rank {tag}"),
            _ => format!("receive on {name} from rank {peer} {tag}"),
        }
    }
}
