//! The engine's face: what communicators and collectives call.

use crate::config::{EngineConfig, Hooks, SpinPolicy};
use crate::context::{Context, ContextSpec};
use crate::core::Core;
use crate::direct::{Direct, Outcome};
use crate::helper::Helper;
use crate::lend::Standing;
use crate::limits::{POLL_OTHERS_TURNS, POLL_OTHERS_YIELDS};
use crate::memory::Memory;
use crate::patience::{Patience, Pause};
use crate::peer::Link;
use crate::request::RequestId;
use crate::status::{ANY, SendMode, Source, Tag};
use crate::store::Message;
use crate::waits::{ForMessage, ForRequest};
use crate::{Error, ErrorClass, Status, record};
use mpi_btl::{Ep, Opened, Polled};
use mpi_datatype::{Datatype, RecvBuf, SendBuf};
use mpi_node::{BiasedLock, Guard};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The point-to-point engine of one process. Knows no communicator beyond [`Context`], and no other
/// engine: there is no global state.
///
/// All calls may come from any thread; below thread level multiple (see
/// [`set_threads_multiple`](Engine::set_threads_multiple)) from one thread at a time.
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

/// What reports call [`Engine::sendrecv`].
const SENDRECV: &str = "send-receive";

/// What the engine shares with its helper thread.
pub(crate) struct Shared {
    pub lock: BiasedLock<Core>,
    pub spin: SpinPolicy,
    pub hooks: Hooks,
    pub helper: Helper,
    /// [`State::closed`](crate::core::State::closed), for those who do not hold the lock.
    pub closed: AtomicBool,
}

impl Engine {
    /// Makes an engine. The calling thread is favoured: it enters without a locked instruction.
    pub fn new(mut cfg: EngineConfig) -> Arc<Engine> {
        let core = Core::new(&mut cfg);
        let helper = cfg.limits.helper;
        let descriptors = core.rx.iter().filter_map(|rx| rx.service_descriptor()).collect();
        let shared = Arc::new(Shared {
            lock: BiasedLock::new(core),
            spin: cfg.spin,
            hooks: cfg.hooks,
            helper: Helper::new(descriptors, helper),
            closed: AtomicBool::new(false),
        });
        shared.helper.belongs_to(&shared);
        shared.lock.bias_to_current_thread();
        Arc::new(Engine { shared })
    }

    #[inline]
    pub(crate) fn enter(&self) -> Guard<'_, Core> {
        self.shared.lock.enter()
    }

    /// Several threads call at the same time from now on (`MPI_THREAD_MULTIPLE`).
    pub fn set_threads_multiple(&self) {
        record::several_threads();
        self.enter().state.multiple = true;
        self.shared.lock.set_unbiased();
    }

    /// Makes a context known. Messages that came for it already are there to be received.
    ///
    /// # Errors
    /// The number is in use, or out of range.
    pub fn add_context(&self, spec: ContextSpec) -> Result<Arc<Context>, Error> {
        let mut core = self.enter();
        let result = core.state.add_context(spec);
        self.shared.leave(core);
        result
    }

    /// Takes in one more backend, which is asked for peers that none of the others reaches.
    pub fn add_backend(&self, opened: Opened) {
        if let Some(descriptor) = opened.rx.service_descriptor() {
            self.shared.helper.watch(descriptor);
        }
        let mut core = self.enter();
        core.rx.push(opened.rx);
        core.idle.push(0);
        core.state.tx.push(opened.tx);
        // Whoever sleeps has not armed it.
        core.state.waiters.rouse();
        self.shared.leave(core);
    }

    /// Makes peers known to their backends before anything is sent, so that those who connect first
    /// are told from strangers. The directory must know them. Their end is noticed by their connections alone: whoever
    /// waits for one of them makes one.
    ///
    /// # Errors
    /// ProcFailed, for the first that no backend reaches.
    pub fn introduce(&self, peers: &[Ep]) -> Result<(), Error> {
        let mut core = self.enter();
        let result = peers.iter().try_for_each(|ep| core.state.introduce(*ep));
        self.shared.leave(core);
        result.map_err(|why| Error::new(ErrorClass::ProcFailed, "connect", why))
    }

    /// A number for the node that a process is on, by the directory: [`Directory::node`](crate::Directory::node).
    ///
    /// # Errors
    /// The fact, for people.
    pub fn node(&self, ep: Ep) -> Result<u64, String> {
        let directory = self.enter().state.directory.clone();
        directory.node(ep)
    }

    /// Forgets contexts that were dropped, with the messages that nobody received. Whoever lets
    /// others use a number again calls this first: messages of the new context would otherwise be
    /// taken for some of the old one.
    pub fn forget_dropped(&self) {
        self.enter().state.forget_dropped();
    }

    // ---- send

    /// Sends, and returns when the buffer can be reused (synchronous mode: when the receive has
    /// started). MPI 5.0, sections 3.2 and 3.4.
    ///
    /// # Errors
    /// Rank, Buffer (buffered mode), ProcFailed.
    #[inline]
    pub fn send(
        &self,
        cx: &Context,
        dest: u32,
        tag: i32,
        buf: SendBuf<'_>,
        mode: SendMode,
    ) -> Result<(), Error> {
        let mut core = self.enter();
        if matches!(mode, SendMode::Standard | SendMode::Ready)
            && core.state.send_now(&cx.face, dest, tag, &buf, false)
        {
            if core.state.owed {
                // It still waits inside: the helper is to know, as the rank may compute now.
                self.shared.leave(core);
            }
            return Ok(());
        }
        self.send_long(core, cx, dest, tag, &buf, mode)
    }

    #[cold]
    fn send_long(
        &self,
        mut core: Guard<'_, Core>,
        cx: &Context,
        dest: u32,
        tag: i32,
        buf: &SendBuf<'_>,
        mode: SendMode,
    ) -> Result<(), Error> {
        match core.state.isend(&cx.face, dest, tag, buf, mode, None) {
            Ok(id) => self.wait_until(core, ForRequest { id, op: mode.operation() }).map(|_| ()),
            Err(e) => {
                self.shared.leave(core);
                Err(e)
            }
        }
    }

    /// Starts a send. The memory stays valid until the request is complete: the promise made when
    /// the buffer was.
    ///
    /// # Errors
    /// Rank; Buffer (buffered mode). All else is the request's.
    #[inline]
    pub fn isend(
        &self,
        cx: &Context,
        dest: u32,
        tag: i32,
        buf: SendBuf<'_>,
        mode: SendMode,
    ) -> Result<RequestId, Error> {
        let mut core = self.enter();
        let result = core.state.isend(&cx.face, dest, tag, &buf, mode, None);
        self.shared.leave(core);
        result
    }

    // ---- receive

    /// Receives a message.
    ///
    /// # Errors
    /// Rank, Truncate, Type, ProcFailed.
    #[inline]
    pub fn recv(&self, cx: &Context, source: Source, tag: Tag, buf: RecvBuf<'_>) -> Result<Status, Error> {
        let core = self.enter();
        if let Source::Rank(rank) = source {
            return self.recv_named(core, cx, rank, tag, &buf);
        }
        self.recv_long(core, cx, ANY, tag.raw(), &buf, "receive")
    }

    fn recv_long(
        &self,
        mut core: Guard<'_, Core>,
        cx: &Context,
        source: i32,
        tag: i32,
        buf: &RecvBuf<'_>,
        op: &'static str,
    ) -> Result<Status, Error> {
        match core.state.irecv(&cx.face, source, tag, buf, None) {
            Ok(id) => crate::failure::blocking(self.wait_until(core, ForRequest { id, op })),
            Err(e) => {
                self.shared.leave(core);
                Err(e)
            }
        }
    }

    /// Nothing queued, nothing posted before: looks only where the message will come in.
    #[inline]
    fn recv_named(
        &self,
        mut core: Guard<'_, Core>,
        cx: &Context,
        rank: u32,
        tag: Tag,
        buf: &RecvBuf<'_>,
    ) -> Result<Status, Error> {
        let (source, tag) = (rank as i32, tag.raw());
        let memory = Memory::of_recv(buf);
        let (id, state) = (cx.face.id, &mut core.state);
        let clear = memory.plain
            && !state.multiple
            && state.lanes.get(id).is_some_and(|l| {
                l.unexpected.len() == 0 && l.posted.is_clear_for(source) && l.fate.is_none()
            });
        let ep = match cx.face.peers.get(rank as usize) {
            Some(ep) if clear && *ep != state.me => *ep,
            _ => {
                if let Some(status) = state.recv_here(id, source, tag, buf) {
                    state.flush_owed();
                    self.shared.leave(core);
                    return Ok(status);
                }
                return self.recv_long(core, cx, source, tag, buf, "receive");
            }
        };
        let peer = state.peers.at(ep);
        if peer.link != Link::Up {
            // The first time; where there is no way the long path says so.
            if state.reach(ep).is_err() {
                return self.recv_long(core, cx, source, tag, buf, "receive");
            }
        }
        let route = usize::from(state.peers.at(ep).route);
        let signature = buf.datatype().signature();
        state.flush_owed();
        let outcome = Outcome::Waiting;
        state.direct = Direct { outcome, from: ep, context: id, source, tag, signature, memory, look: None };
        // A panic that cuts the wait short takes the buffer along.
        let standing = Standing(&mut core);
        self.wait_direct(standing.0, ep, route);
        std::mem::forget(standing);
        if let Outcome::Done(status) = core.state.direct.outcome {
            core.state.direct.outcome = Outcome::Off;
            self.shared.leave(core);
            return Ok(status);
        }
        self.recv_undirect(core)
    }

    /// Looks where the message of the waiting receive will come in, until it has or the time to park has come.
    #[inline(always)]
    pub(crate) fn wait_direct(&self, core: &mut Guard<'_, Core>, ep: Ep, route: usize) {
        let mut patience = Patience::new(&self.shared.spin, core.state.slept_short);
        loop {
            let inner = &mut **core;
            let polled = inner.rx[route].poll_from(ep, &mut inner.state);
            if polled == Polled::Progress {
                inner.state.settle(&mut inner.rx);
            }
            if inner.state.direct.outcome != Outcome::Waiting {
                return;
            }
            record::waiting_for_message(patience.turns());
            match patience.next() {
                Pause::Again if patience.turns() % POLL_OTHERS_TURNS == 0 => {
                    core.poll();
                    core.yield_to_others();
                }
                Pause::Again => {}
                Pause::Yield => {
                    if patience.turns() % POLL_OTHERS_YIELDS == 0 {
                        core.poll();
                    }
                    if core.state.direct.outcome == Outcome::Waiting {
                        record::waits_long();
                        core.yield_to_others();
                        patience.yield_now();
                    }
                }
                Pause::Park => return,
            }
        }
    }

    /// The waiting receive goes on as a request.
    #[cold]
    fn recv_undirect(&self, mut core: Guard<'_, Core>) -> Result<Status, Error> {
        let outcome = core.state.direct.outcome;
        let i = match outcome {
            Outcome::Done(status) => {
                core.state.direct.outcome = Outcome::Off;
                self.shared.leave(core);
                return Ok(status);
            }
            Outcome::Request(i) => i,
            Outcome::Waiting | Outcome::Off => {
                let i = core.state.promote_direct();
                core.state.match_or_post(i);
                i
            }
        };
        core.state.direct.outcome = Outcome::Off;
        // Mostly its message was pulled at once.
        if let Some(result) = core.state.take_slot(i) {
            self.shared.leave(core);
            return result;
        }
        let id = core.state.requests.id(i);
        self.wait_until(core, ForRequest { id, op: "receive" })
    }

    /// Starts a receive. The memory stays valid until the request is complete.
    ///
    /// # Errors
    /// Rank. All else is the request's.
    #[inline]
    pub fn irecv(
        &self,
        cx: &Context,
        source: Source,
        tag: Tag,
        buf: RecvBuf<'_>,
    ) -> Result<RequestId, Error> {
        let mut core = self.enter();
        let result = core.state.irecv(&cx.face, source.raw(), tag.raw(), &buf, None);
        self.shared.leave(core);
        result
    }

    /// Receives a message whose size is known only when it is here: `alloc` is given its bytes
    /// and returns where they go, elements of `datatype`, valid as for [`RecvBuf::new`].
    ///
    /// # Errors
    /// As [`recv`](Engine::recv); Truncate when the bytes are no whole number of elements.
    ///
    /// # Safety
    /// The memory that `alloc` returns is valid for writes of that many bytes' elements until this
    /// returns.
    pub unsafe fn recv_alloc(
        &self,
        cx: &Context,
        source: Source,
        tag: Tag,
        datatype: &Datatype,
        alloc: &mut dyn FnMut(usize) -> *mut u8,
    ) -> Result<Status, Error> {
        let (message, status) = self.mprobe_for("receive", cx, source, tag)?;
        let bytes = usize::try_from(status.bytes).unwrap_or(usize::MAX);
        let size = datatype.size();
        let count = bytes.checked_div(size).unwrap_or(0);
        let at = alloc(count * size);
        // SAFETY: the caller's promise.
        let buf = unsafe { RecvBuf::new(at, count, datatype) };
        self.mrecv(message, buf)
    }

    /// Sends and receives at the same time, without deadlock.
    ///
    /// # Errors
    /// As both.
    #[allow(clippy::too_many_arguments, reason = "MPI_Sendrecv has them all")]
    pub fn sendrecv(
        &self,
        cx: &Context,
        send: SendBuf<'_>,
        dest: u32,
        send_tag: i32,
        recv: RecvBuf<'_>,
        source: Source,
        recv_tag: Tag,
    ) -> Result<Status, Error> {
        let mut core = self.enter();
        let state = &mut core.state;
        let coming = match state.irecv(&cx.face, source.raw(), recv_tag.raw(), &recv, None) {
            Ok(id) => id,
            Err(e) => {
                self.shared.leave(core);
                return Err(e);
            }
        };
        if state.send_now(&cx.face, dest, send_tag, &send, false) {
            return self.wait_until(core, ForRequest { id: coming, op: SENDRECV });
        }
        self.sendrecv_long(core, cx, &send, dest, send_tag, coming)
    }

    fn sendrecv_long(
        &self,
        mut core: Guard<'_, Core>,
        cx: &Context,
        send: &SendBuf<'_>,
        dest: u32,
        tag: i32,
        coming: RequestId,
    ) -> Result<Status, Error> {
        match core.state.isend(&cx.face, dest, tag, send, SendMode::Standard, None) {
            Ok(going) => {
                let sent = self.wait_until(core, ForRequest { id: going, op: SENDRECV });
                let received = self.wait_until(self.enter(), ForRequest { id: coming, op: SENDRECV });
                sent.and(received)
            }
            Err(e) => {
                if let Ok(i) = core.state.requests.find(coming) {
                    core.state.cancel(i);
                    core.state.take(coming);
                }
                self.shared.leave(core);
                Err(e)
            }
        }
    }

    /// As [`sendrecv`](Engine::sendrecv) with one buffer for both.
    ///
    /// # Errors
    /// As both.
    pub fn sendrecv_replace(
        &self,
        cx: &Context,
        buf: RecvBuf<'_>,
        dest: u32,
        send_tag: i32,
        source: Source,
        recv_tag: Tag,
    ) -> Result<Status, Error> {
        let out = buf.as_send();
        let mut copy = vec![0; out.bytes()];
        out.pack(0, &mut copy);
        let mut core = self.enter();
        let going = match core.state.isend_packed(&cx.face, dest, send_tag, copy, buf.datatype().signature())
        {
            Ok(id) => id,
            Err(e) => {
                self.shared.leave(core);
                return Err(e);
            }
        };
        let received = self.recv_long(core, cx, source.raw(), recv_tag.raw(), &buf, SENDRECV);
        let sent = self.wait_until(self.enter(), ForRequest { id: going, op: SENDRECV });
        sent.and(received)
    }

    // ---- probes

    /// Waits for a message that matches and leaves it where it is.
    ///
    /// # Errors
    /// Rank, ProcFailed.
    pub fn probe(&self, cx: &Context, source: Source, tag: Tag) -> Result<Status, Error> {
        self.probe_for("probe", cx, source, tag)
    }

    fn probe_for(&self, op: &'static str, cx: &Context, source: Source, tag: Tag) -> Result<Status, Error> {
        let core = self.enter();
        self.wait_until(core, ForMessage { cx: &cx.face, source: source.raw(), tag: tag.raw(), op })
    }

    /// Looks for a message that matches.
    ///
    /// # Errors
    /// Rank, ProcFailed.
    pub fn iprobe(&self, cx: &Context, source: Source, tag: Tag) -> Result<Option<Status>, Error> {
        let mut core = self.enter();
        core.state.flush_owed();
        let mut found = core.state.iprobe(&cx.face, source.raw(), tag.raw());
        if matches!(found, Ok(None)) {
            core.poll_all();
            found = core.state.iprobe(&cx.face, source.raw(), tag.raw());
            core.state.seek();
            if matches!(found, Ok(None)) {
                core.state.polling.probed(cx.face.id, source.raw(), tag.raw());
            }
        }
        self.shared.leave(core);
        found
    }

    /// Waits for a message that matches and takes it for [`mrecv`](Engine::mrecv).
    ///
    /// # Errors
    /// Rank, ProcFailed.
    pub fn mprobe(&self, cx: &Context, source: Source, tag: Tag) -> Result<(Message, Status), Error> {
        self.mprobe_for("probe", cx, source, tag)
    }

    /// As [`mprobe`](Engine::mprobe) for an operation that begins so: what reports and errors call it.
    ///
    /// # Errors
    /// Rank, ProcFailed.
    pub fn mprobe_for(
        &self,
        op: &'static str,
        cx: &Context,
        source: Source,
        tag: Tag,
    ) -> Result<(Message, Status), Error> {
        let named = |mut e: Error| {
            e.op = op;
            e
        };
        loop {
            self.probe_for(op, cx, source, tag).map_err(named)?;
            // Another thread may have been faster.
            if let Some(found) = self.improbe(cx, source, tag).map_err(named)? {
                return Ok(found);
            }
        }
    }

    /// Looks for a message that matches and takes it.
    ///
    /// # Errors
    /// Rank, ProcFailed.
    pub fn improbe(
        &self,
        cx: &Context,
        source: Source,
        tag: Tag,
    ) -> Result<Option<(Message, Status)>, Error> {
        let mut core = self.enter();
        core.state.flush_owed();
        let mut found = core.state.improbe(&cx.face, source.raw(), tag.raw());
        if matches!(found, Ok(None)) {
            core.poll_all();
            found = core.state.improbe(&cx.face, source.raw(), tag.raw());
            core.state.seek();
            if matches!(found, Ok(None)) {
                core.state.polling.probed(cx.face.id, source.raw(), tag.raw());
            }
        }
        self.shared.leave(core);
        found
    }

    /// Receives a message taken by a matched probe.
    ///
    /// # Errors
    /// Truncate, Type, ProcFailed; Request when it was received already.
    pub fn mrecv(&self, message: Message, buf: RecvBuf<'_>) -> Result<Status, Error> {
        let mut core = self.enter();
        match core.state.imrecv(message, &buf) {
            Ok(id) => self.wait_until(core, ForRequest { id, op: "receive" }),
            Err(e) => {
                self.shared.leave(core);
                Err(e)
            }
        }
    }

    /// Starts the receive of a message taken by a matched probe.
    ///
    /// # Errors
    /// Request when it was received already.
    pub fn imrecv(&self, message: Message, buf: RecvBuf<'_>) -> Result<RequestId, Error> {
        let mut core = self.enter();
        let result = core.state.imrecv(message, &buf);
        self.shared.leave(core);
        result
    }

    // ---- the attached buffer

    /// Attaches room for buffered sends. The bytes are an account: the copies are the engine's own.
    ///
    /// # Errors
    /// Buffer: one is attached already.
    pub fn attach_buffer(&self, bytes: usize) -> Result<(), Error> {
        let mut core = self.enter();
        if core.state.attached.room.is_some() {
            return Err(Error::new(ErrorClass::Buffer, "attach buffer", "a buffer is attached already"));
        }
        core.state.attached.room = Some(bytes);
        Ok(())
    }

    /// Waits until all buffered messages have left, and detaches; gives back the size attached.
    ///
    /// # Errors
    /// Buffer: none is attached.
    pub fn detach_buffer(&self) -> Result<usize, Error> {
        let core = self.enter();
        if core.state.attached.room.is_none() {
            return Err(Error::new(ErrorClass::Buffer, "detach buffer", "no buffer is attached"));
        }
        Ok(self.wait_until(core, crate::waits::ForBuffer))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.helper.stop();
    }
}
