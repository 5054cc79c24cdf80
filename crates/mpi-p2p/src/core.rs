//! The state of an engine, behind its lock, and the small steps that everything else is made of.

use crate::activity::{Activity, Inside, Step};
use crate::config::{Directory, EngineConfig, Limits};
use crate::context::{Context, ContextSpec, Dropped, Face};
use crate::direct::Direct;
use crate::failure::Failures;
use crate::lanes::Lanes;
use crate::peer::{Link, Peers};
use crate::polling::Polling;
use crate::report::Fatal;
use crate::request::{Extra, Kind, Phase, RequestId, Requests, flag};
use crate::sink::Bulks;
use crate::store::Store;
use crate::waiting::Waiters;
use crate::{Error, ErrorClass, Status};
use mpi_btl::{BtlRx, BtlTx, BulkId, ConnectError, Ep};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// Everything behind the lock: the receiving halves, and the rest, which they deliver into.
pub(crate) struct Core {
    pub rx: Vec<Box<dyn BtlRx>>,
    /// How often each backend found nothing in a row; quiet ones are polled rarely.
    pub idle: Vec<u8>,
    /// Polls since the quiet ones were last asked. It outlives a wait: short waits, one after the
    /// other, would else ask them every time.
    pub since_quiet: u32,
    pub state: State,
}

/// The attached buffer of buffered mode, as an account: the copies are the engine's own.
#[derive(Default)]
pub(crate) struct Attached {
    pub room: Option<usize>,
    pub used: usize,
}

/// What the program gave, or what owns it.
#[allow(dead_code, reason = "it is only dropped")]
pub(crate) enum Leftover {
    Extra(Box<Extra>),
    Activity(Box<dyn Activity>),
    Waker(Waker),
}

/// What the short way to a result found.
pub(crate) enum Taken {
    /// The request succeeded and is gone.
    Plain(Status),
    /// It is not complete.
    NotYet,
    /// It has something to say, or stays: [`State::take`] knows.
    Rare,
}

/// The state that deliveries change.
pub(crate) struct State {
    pub me: Ep,
    pub tx: Vec<Box<dyn BtlTx>>,
    pub directory: Arc<dyn Directory>,
    pub limits: Limits,
    pub peers: Peers,
    pub lanes: Lanes,
    pub requests: Requests,
    pub store: Store,
    pub bulks: Bulks,
    pub direct: Direct,
    /// Activities of which a request has completed.
    pub ready: VecDeque<u32>,
    /// Peers that may have room again.
    pub dirty: Vec<Ep>,
    /// Pulls that the transport was too busy for.
    pub retry: Vec<u32>,
    /// Bodies on their way that nobody wants any more, by backend.
    pub revoked: Vec<(usize, BulkId)>,
    /// What the hooks are to be told once the lock is free.
    pub fatal: Vec<Fatal>,
    /// Wakers of operations that have completed, to be called once the lock is free. Each counts in
    /// [`serve`](State::serve) until then, so that whoever leaves next sees to it.
    pub wakers: Vec<Waker>,
    /// What the program gave and nobody needs any more, to be dropped once the lock is free: its end may be code that
    /// calls the engine. Counts as wakers do.
    pub leftovers: Vec<Leftover>,
    /// A backend holds messages back until it is flushed.
    pub owed: bool,
    /// Immediate sends since then.
    pub since_flush: u32,
    /// The last sleep ended sooner than it was worth.
    pub slept_short: bool,
    /// Unexpected bytes held, and who was told to announce because of them.
    pub unexpected_bytes: u64,
    pub told: Vec<Ep>,
    pub attached: Attached,
    /// Operations that need progress while the rank computes.
    pub serve: u32,
    /// What needs progress while the rank computes whether or not anything is under way.
    pub standing: u32,
    /// Contexts whose service wants to look again.
    pub looking: Vec<u32>,
    /// How many peers are silent, and how many are gone.
    pub silent: u32,
    pub lost: u32,
    /// Contexts on which somebody waits for a message from any rank, some of which are silent.
    pub seeking: Vec<u32>,
    /// For packing; empty between uses.
    pub scratch: Vec<u8>,
    pub dropped: Arc<Dropped>,
    pub waiters: Waiters,
    pub polling: Polling,
    pub multiple: bool,
    /// Boards that a context of this process has, a bit each.
    pub boards_taken: u64,
    pub failures: Failures,
    pub closed: bool,
    /// This process is on its way to that: a peer that has left is where all go.
    pub ending: bool,
}

impl Core {
    pub fn new(cfg: &mut EngineConfig) -> Core {
        let (mut tx, mut rx) = (Vec::new(), Vec::new());
        for (_, opened) in cfg.backends.drain(..) {
            tx.push(opened.tx);
            rx.push(opened.rx);
        }
        let idle = vec![0; rx.len()];
        let state = State {
            me: cfg.me,
            tx,
            directory: cfg.directory.clone(),
            limits: cfg.limits,
            peers: Peers::default(),
            lanes: Lanes::default(),
            requests: Requests::default(),
            store: Store::default(),
            bulks: Bulks::default(),
            direct: Direct::off(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            retry: Vec::new(),
            revoked: Vec::new(),
            fatal: Vec::new(),
            wakers: Vec::new(),
            leftovers: Vec::new(),
            owed: false,
            since_flush: 0,
            slept_short: false,
            unexpected_bytes: 0,
            told: Vec::new(),
            attached: Attached::default(),
            serve: 0,
            standing: 0,
            looking: Vec::new(),
            silent: 0,
            lost: 0,
            seeking: Vec::new(),
            scratch: Vec::new(),
            dropped: Arc::new(Dropped::default()),
            waiters: Waiters::default(),
            polling: Polling::default(),
            multiple: false,
            boards_taken: 0,
            failures: Failures::default(),
            closed: false,
            ending: false,
        };
        Core { rx, idle, since_quiet: 0, state }
    }
}

impl State {
    // ---- contexts

    pub fn add_context(&mut self, spec: ContextSpec) -> Result<Arc<Context>, Error> {
        self.forget_dropped();
        let id = spec.id;
        let bad = |why: &str| Error::new(ErrorClass::Comm, "communicator", format!("context {id}: {why}"));
        let face = Arc::new(Face {
            id,
            rank: spec.rank,
            peers: spec.peers,
            name: std::sync::RwLock::new(spec.name),
            stopped: std::sync::atomic::AtomicBool::new(false),
        });
        let lane = self.lanes.make(id).ok_or_else(|| bad("the number is out of range"))?;
        if lane.face.is_some() {
            return Err(bad("the number is in use"));
        }
        lane.face = Some(face.clone());
        self.know_fate(&face);
        let lane = self.lanes.make(id).ok_or_else(|| bad("the number is out of range"))?;
        for m in std::mem::take(&mut lane.early) {
            self.claim(&face, m);
        }
        Ok(Arc::new(Context { face, dropped: self.dropped.clone() }))
    }

    /// Forgets contexts whose handles were dropped.
    pub fn forget_dropped(&mut self) {
        for id in self.dropped.take() {
            match self.lanes.get_mut(id) {
                Some(lane) if lane.posted.len() > 0 => lane.closing = true,
                Some(_) => self.forget(id),
                None => {}
            }
        }
    }

    /// A context that was dropped goes once nothing is posted on it any more.
    pub fn forget_if_closing(&mut self, context: u32) {
        if self.lanes.get(context).is_some_and(|lane| lane.closing && lane.posted.len() == 0) {
            self.forget(context);
        }
    }

    fn forget(&mut self, context: u32) {
        if let Some(lane) = self.lanes.remove(context) {
            self.failures.forget(&lane);
            for m in lane.unexpected.entries(&mut self.store) {
                self.throw_away(m);
            }
        }
    }

    // ---- peers

    /// Makes sure that a backend reaches the peer.
    ///
    /// # Errors
    /// Why nothing goes to it.
    #[inline]
    pub fn reach(&mut self, ep: Ep) -> Result<(), String> {
        if self.peers.at(ep).link == Link::Up { Ok(()) } else { self.reach_first(ep) }
    }

    #[cold]
    fn reach_first(&mut self, ep: Ep) -> Result<(), String> {
        match &self.peers.at(ep).link {
            Link::Unknown => self.connect(ep),
            _ => Err(self.peers.at(ep).gone().unwrap_or_default()),
        }
    }

    fn connect(&mut self, ep: Ep) -> Result<(), String> {
        let result = self.try_connect(ep);
        match &result {
            Ok(route) => {
                let caps = self.tx[*route].caps(ep);
                let peer = self.peers.at(ep);
                peer.link = Link::Up;
                peer.route = *route as u8;
                peer.caps = caps;
                peer.refresh();
            }
            Err(why) => {
                self.peers.at(ep).link = Link::Down(why.clone().into());
                self.lost += 1;
            }
        }
        result.map(|_| ())
    }

    fn try_connect(&mut self, ep: Ep) -> Result<usize, String> {
        let info = self.directory.lookup(ep)?;
        let mut reasons = Vec::new();
        for (route, tx) in self.tx.iter_mut().enumerate() {
            match tx.connect(&info) {
                Ok(()) => return Ok(route),
                Err(e @ ConnectError::Unreachable { .. }) => reasons.push(e.to_string()),
                Err(e) => return Err(e.to_string()),
            }
        }
        if reasons.is_empty() {
            reasons.push("no transport is open".to_owned());
        }
        Err(reasons.join("; "))
    }

    // ---- what is let go

    /// Gives a request's slot back.
    #[inline]
    pub fn release(&mut self, i: u32) {
        if let Some(extra) = self.requests.release(i) {
            self.released(extra);
        }
    }

    #[cold]
    fn released(&mut self, extra: Box<Extra>) {
        if extra.is_of_program() {
            self.let_go(Leftover::Extra(extra));
        }
    }

    /// Has something dropped once the lock is free.
    pub fn let_go(&mut self, leftover: Leftover) {
        self.leftovers.push(leftover);
        self.serve += 1;
    }

    // ---- completion

    /// The operation is over.
    #[inline]
    pub fn complete(&mut self, i: u32) {
        let slot = &mut self.requests[i];
        slot.phase = Phase::Done;
        if slot.flags != 0 {
            self.completed_for_somebody(i);
        }
    }

    #[cold]
    fn completed_for_somebody(&mut self, i: u32) {
        let slot = &mut self.requests[i];
        let flags = slot.flags;
        let (owner, watcher) = (slot.owner, slot.watcher);
        slot.flags &= !(flag::SERVED | flag::WATCHED);
        if flags & flag::SERVED != 0 {
            self.serve -= 1;
        }
        if flags & flag::WATCHED != 0 {
            self.waiters.wake(watcher);
        }
        if flags & flag::AWAITED != 0 {
            self.wake_later(i);
        }
        if flags & flag::OWNED != 0 {
            self.ready.push_back(owner);
        }
        if flags & flag::DETACHED != 0 {
            if let Some(extra) = &self.requests[i].extra {
                self.attached.used -= extra.buffered;
            }
            self.release(i);
            self.waiters.wake_all();
        }
    }

    /// The operation is over and did not succeed.
    #[cold]
    pub fn fail(&mut self, i: u32, error: Error) {
        let slot = &mut self.requests[i];
        slot.status.error = error.class;
        slot.extra().error = Some(error);
        self.complete(i);
    }

    /// From now on the operation needs progress even while the rank computes.
    pub fn serve(&mut self, i: u32) {
        let slot = &mut self.requests[i];
        if slot.flags & flag::SERVED == 0 {
            slot.flags |= flag::SERVED;
            self.serve += 1;
        }
    }

    /// True when the request is complete, inactive or gone.
    pub fn is_done(&self, id: RequestId) -> bool {
        id == RequestId::DONE
            || self
                .requests
                .named(id.get())
                .is_none_or(|i| matches!(self.requests[i].phase, Phase::Done | Phase::Inactive))
    }

    /// The result of a complete request, which is gone then (a persistent one inactive).
    #[inline]
    pub fn take(&mut self, id: RequestId) -> Option<Result<Status, Error>> {
        if id == RequestId::DONE {
            return Some(Ok(Status::EMPTY));
        }
        match self.requests.find(id) {
            Ok(i) => self.take_slot(i),
            Err(e) => Some(Err(e)),
        }
    }

    /// The short way to the result of a request that succeeded and that nothing else is known of.
    #[inline]
    pub fn take_plain(&mut self, id: RequestId) -> Taken {
        let Some(i) = self.requests.named(id.get()) else { return Taken::Rare };
        let slot = &self.requests[i];
        if slot.phase != Phase::Done {
            return if slot.phase == Phase::Inactive { Taken::Rare } else { Taken::NotYet };
        }
        if slot.extra.is_some() || slot.persistent {
            return Taken::Rare;
        }
        let status = slot.status;
        self.release(i);
        Taken::Plain(status)
    }

    #[inline]
    pub fn take_slot(&mut self, i: u32) -> Option<Result<Status, Error>> {
        let slot = &mut self.requests[i];
        match slot.phase {
            Phase::Done => {}
            Phase::Inactive => return Some(Ok(Status::EMPTY)),
            _ => return None,
        }
        let result = match &mut slot.extra {
            Some(extra) => extra.error.take().map_or(Ok(slot.status), Err),
            None => Ok(slot.status),
        };
        if slot.persistent {
            slot.phase = Phase::Inactive;
        } else {
            self.release(i);
        }
        Some(result)
    }

    // ---- activities

    /// Advances every activity of which a request has completed.
    pub fn advance_ready(&mut self) {
        while let Some(i) = self.ready.pop_front() {
            if self.requests[i].kind == Kind::Activity {
                self.advance(i);
            } else if self.requests[i].kind == Kind::Runner {
                // A thread runs it: it only has to look again.
                let slot = &mut self.requests[i];
                slot.phase = Phase::Done;
                if slot.flags & flag::WATCHED != 0 {
                    slot.flags &= !flag::WATCHED;
                    let watcher = slot.watcher;
                    self.waiters.wake(watcher);
                }
            }
        }
    }

    pub fn advance(&mut self, i: u32) {
        // One that is over, and may be started again, keeps its activity.
        if self.requests[i].phase != Phase::Waiting {
            return;
        }
        let Some(mut activity) = self.requests[i].extra().activity.take() else { return };
        let step = activity.advance(&mut Inside { state: self, owner: i });
        if self.requests[i].persistent || matches!(step, Ok(Step::Pending)) {
            self.requests[i].extra().activity = Some(activity);
        } else {
            self.let_go(Leftover::Activity(activity));
        }
        match step {
            Ok(Step::Pending) => {}
            Ok(Step::Done(status)) => {
                self.requests[i].status = status;
                self.complete(i);
            }
            Err(e) => self.fail(i, e),
        }
    }

    // ---- errors

    /// An error of a request, with everything known.
    #[cold]
    pub fn error_of(&self, i: u32, class: ErrorClass, detail: impl Into<String>) -> Error {
        let slot = &self.requests[i];
        let outgoing = slot.kind == Kind::Send;
        let op = if outgoing { slot.mode.operation() } else { "receive" };
        let mut e = self.error_on(slot.context, op, class, detail);
        e.peer = Some(slot.key.source);
        e.tag = Some(slot.key.tag);
        e.outgoing = outgoing;
        e
    }

    #[cold]
    pub fn error_on(
        &self,
        context: u32,
        op: &'static str,
        class: ErrorClass,
        detail: impl Into<String>,
    ) -> Error {
        let name = self.context_name(context);
        Error::new(class, op, detail).on(name, context)
    }

    pub fn context_name(&self, context: u32) -> String {
        self.lanes.get(context).and_then(|l| l.face.as_ref()).map(|f| f.name()).unwrap_or_default()
    }
}
