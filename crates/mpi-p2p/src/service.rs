//! Active messages: a context whose messages go to a handler instead of to receives.
//!
//! One-sided communication stands on this. A handler runs inside the engine, on whatever thread
//! makes progress: a thread of the rank that waits, or the helper while the rank computes.

use crate::context::{Context, ContextSpec, Face};
use crate::core::State;
use crate::engine::Engine;
use crate::progress::Wait;
use crate::report::Blocked;
use crate::request::Kind;
use crate::{Error, ErrorClass, RequestId, Status};
use mpi_btl::{Body, Ep, SendError};
use mpi_wire::{Header, reserved};
use std::sync::Arc;

/// Handles the messages of a context. Runs with the engine's lock held: it must not block and must call
/// the engine only through the [`Port`].
pub trait Service: Send {
    /// A message, whole.
    ///
    /// # Errors
    /// What the peer did that no peer may do: it is treated as gone.
    fn message(&mut self, from: u32, tag: i32, body: &[u8], port: &mut Port<'_>) -> Result<(), String>;

    /// Looks after what was put off, whenever the engine has looked around, as long as it answers
    /// true and [`Port::look_again`] was asked for.
    fn look(&mut self, port: &mut Port<'_>) -> bool;

    /// A rank of the context is gone; of services [beside](Engine::serve_aside) a context only.
    fn gone(&mut self, _rank: u32, _port: &mut Port<'_>) {}
}

/// The engine from inside, its lock held, on behalf of one context.
pub struct Port<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) face: &'a Face,
    /// Messages go beside the context.
    pub(crate) aside: bool,
}

impl Port<'_> {
    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.face.rank
    }

    /// Why nothing goes to or comes from a rank any more, if that is so.
    pub fn gone(&mut self, rank: u32) -> Option<String> {
        let ep = *self.face.peers.get(rank as usize)?;
        self.state.peers.get(ep)?.gone()
    }

    /// Largest message to a rank in bytes.
    ///
    /// # Errors
    /// Why it cannot be reached.
    pub fn limit(&mut self, to: u32) -> Result<usize, Error> {
        let ep = self.reach(to)?;
        let caps = self.state.peers.at(ep).caps;
        Ok(caps.eager_limit.min(caps.frame_limit))
    }

    fn reach(&mut self, to: u32) -> Result<Ep, Error> {
        let Some(&ep) = self.face.peers.get(to as usize) else {
            return Err(crate::recv::no_rank(self.face, to as i32, "one-sided"));
        };
        match self.state.reach(ep) {
            Ok(()) => Ok(ep),
            Err(why) => Err(self.failed(to, why)),
        }
    }

    fn failed(&self, to: u32, why: String) -> Error {
        let mut e = Error::new(ErrorClass::ProcFailed, "one-sided", why).on(self.face.name(), self.face.id);
        (e.peer, e.outgoing) = (Some(to as i32), true);
        e
    }

    /// Sends a message of two parts, of at most [`limit`](Port::limit) bytes together, or keeps it until there is
    /// room. Messages to one rank arrive in the order in which they were sent. With `more`, it may be held
    /// back for those that follow, until the thread waits, and leaves soon in any case.
    ///
    /// # Errors
    /// ProcFailed; Rank.
    pub fn send(&mut self, to: u32, tag: i32, head: &[u8], data: &[u8], more: bool) -> Result<(), Error> {
        let ep = self.reach(to)?;
        let (context, count) =
            if self.aside { (reserved::ASIDE, u64::from(self.face.id)) } else { (self.face.id, 0) };
        let header = Header {
            context,
            source: self.face.rank as i32,
            dest: to as i32,
            tag,
            count,
            length: (head.len() + data.len()) as u64,
            ..Header::default()
        };
        let state = &mut *self.state;
        let full = state.peers.at(ep).queues.as_ref().is_some_and(|q| q.full || !q.control.is_empty());
        if !full {
            match state.transmit_more(ep, header, Body::Two(head, data), more) {
                Ok(_) => return Ok(()),
                Err(SendError::Down(why)) => return Err(self.failed(to, why)),
                Err(SendError::Full) => {}
            }
        }
        let peer = state.peers.at(ep);
        peer.queues().full = true;
        peer.queues().control.push_back((header, [head, data].concat()));
        peer.refresh();
        Ok(())
    }

    /// Messages that wait for room towards a rank.
    pub fn waiting(&mut self, to: u32) -> usize {
        let Some(&ep) = self.face.peers.get(to as usize) else { return 0 };
        self.state.peers.get(ep).and_then(|p| p.queues.as_ref()).map_or(0, |q| q.control.len())
    }

    /// Has [`Service::look`] called while it answers true.
    pub fn look_again(&mut self) {
        if !self.state.looking.contains(&self.face.id) {
            self.state.looking.push(self.face.id);
        }
    }

    /// A request that [`finish`](Port::finish) completes.
    pub fn begin(&mut self) -> RequestId {
        let i = self.state.requests.alloc(Kind::Generalized);
        self.state.requests[i].status = Status::EMPTY;
        self.state.requests.id(i)
    }

    /// Completes a request that was begun; one that was freed meanwhile is let be.
    pub fn finish(&mut self, id: RequestId, result: Result<Status, Error>) {
        let Some(i) = self.state.requests.named(id.get()) else { return };
        match result {
            Ok(status) => {
                self.state.requests[i].status = status;
                self.state.complete(i);
            }
            Err(e) => self.state.fail(i, e),
        }
    }

    /// Wakes threads that wait for something of this context.
    pub fn wake(&mut self) {
        self.state.waiters.wake_probing();
    }
}

impl Engine {
    /// Makes a context known whose messages go to `service`. It is forgotten when dropped, as
    /// any context is.
    ///
    /// # Errors
    /// As [`add_context`](Engine::add_context).
    pub fn add_service(&self, spec: ContextSpec, service: Box<dyn Service>) -> Result<Arc<Context>, Error> {
        let mut core = self.enter();
        let result = core.state.add_context(spec);
        if let Ok(context) = &result {
            core.state.install(&context.face, service);
        }
        self.shared.leave(core);
        result
    }

    /// Runs `f` inside the engine, for instance to send active messages.
    #[inline]
    pub fn with_port<R>(&self, cx: &Context, f: impl FnOnce(&mut Port<'_>) -> R) -> R {
        let mut core = self.enter();
        let result = f(&mut Port { state: &mut core.state, face: &cx.face, aside: false });
        self.shared.leave(core);
        result
    }

    /// Runs `f` inside the engine until it gives a result: at once, and again whenever something
    /// has happened. `op` is for reports of what takes long.
    #[inline]
    pub fn wait_for<R>(
        &self,
        cx: &Context,
        op: &'static str,
        f: impl FnMut(&mut Port<'_>) -> Option<R>,
    ) -> R {
        self.wait_after(cx, |_| (), || About { op, ..About::default() }, f)
    }

    /// As [`with_port`](Engine::with_port) with `first` and then [`wait_for`](Engine::wait_for), with nothing between.
    /// `about` is asked when a report is made.
    #[inline]
    pub fn wait_after<R>(
        &self,
        cx: &Context,
        first: impl FnOnce(&mut Port<'_>),
        about: impl Fn() -> About,
        f: impl FnMut(&mut Port<'_>) -> Option<R>,
    ) -> R {
        let mut core = self.enter();
        first(&mut Port { state: &mut core.state, face: &cx.face, aside: false });
        self.wait_until(core, ForPort { face: &cx.face, about, f })
    }

    /// As [`wait_for`](Engine::wait_for) for what other processes bring about in memory that they share
    /// with this one, of which the engine hears nothing: `sleep` sleeps on it, at most for the time given.
    pub fn wait_outside_for<R>(
        &self,
        cx: &Context,
        about: impl Fn() -> About,
        f: impl FnMut(&mut Port<'_>) -> Option<R>,
        sleep: &dyn Fn(std::time::Duration),
    ) -> R {
        self.wait_outside(ForPort { face: &cx.face, about, f }, sleep)
    }

    /// True when memory can be shared with the process behind `ep`: it is on this machine, and the
    /// backend that reaches it is one of shared memory.
    pub fn shares_memory(&self, ep: Ep) -> bool {
        let mut core = self.enter();
        let state = &mut core.state;
        let shares = ep == state.me || (state.reach(ep).is_ok() && state.peers.at(ep).caps.node);
        self.shared.leave(core);
        shares
    }

    /// True when memory of the process behind `ep`, on this machine, may be read and written from here: by the kernel's
    /// leave and the backend's settings.
    pub fn reaches_memory(&self, ep: Ep) -> bool {
        let mut core = self.enter();
        let state = &mut core.state;
        let reaches = ep == state.me
            || (state.reach(ep).is_ok() && {
                let caps = &state.peers.at(ep).caps;
                caps.node && caps.get
            });
        self.shared.leave(core);
        reaches
    }

    /// Several threads call at the same time.
    pub fn is_multiple(&self) -> bool {
        self.enter().state.multiple
    }

    /// Until [`stop_serving`](Engine::stop_serving), as often as this was called, messages are served while
    /// the rank computes too.
    pub fn keep_serving(&self) {
        self.enter().state.standing += 1;
        self.shared.helper.needed();
    }

    /// Ends one [`keep_serving`](Engine::keep_serving).
    pub fn stop_serving(&self) {
        let mut core = self.enter();
        core.state.standing = core.state.standing.saturating_sub(1);
    }
}

/// Something that a service brings about.
struct ForPort<'a, A, F> {
    face: &'a Face,
    about: A,
    f: F,
}

/// What a wait is for, for reports of what takes long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// The operation.
    pub op: &'static str,
    /// Ranks of the communicator that all have to act.
    pub peers: Vec<u32>,
    /// What it is about, as `window "grid"`.
    pub object: Option<String>,
}

impl<R, A: Fn() -> About, F: FnMut(&mut Port<'_>) -> Option<R>> Wait for ForPort<'_, A, F> {
    type Result = R;
    #[inline]
    fn done(&mut self, state: &mut State) -> Option<R> {
        (self.f)(&mut Port { state, face: self.face, aside: false })
    }
    fn watch(&self, _: &mut State, _: u32) {}
    fn probing(&self) -> bool {
        true
    }
    fn facts(&self, state: &State) -> Blocked {
        let about = (self.about)();
        let mut b = state.facts_on(about.op, self.face.id);
        b.object = about.object;
        b.waits_for.extend(about.peers.iter().filter_map(|p| self.face.peers.get(*p as usize)));
        match about.peers[..] {
            [peer] => b.peer = Some(peer as i32),
            _ => b.absent = about.peers,
        }
        b
    }
}

impl State {
    /// Gives a context its service, and the service what came before it.
    fn install(&mut self, face: &Arc<Face>, service: Box<dyn Service>) {
        let Some(lane) = self.lanes.get_mut(face.id) else { return };
        let early = lane.unexpected.entries(&mut self.store);
        lane.service = Some(service);
        for m in early {
            let here = self.store.get(m).and_then(|s| match &s.body {
                crate::store::Body::Here(bytes) => Some((s.from, s.envelope(), bytes.to_vec())),
                _ => None,
            });
            if let Some((from, e, bytes)) = here {
                self.serve_message(from, face.id, e.source, e.tag, &bytes);
            }
            if let Some(lane) = self.lanes.get_mut(face.id) {
                lane.unexpected.remove(&mut self.store, m);
            }
            self.throw_away(m);
        }
    }

    /// Hands a whole message to the service of its context.
    pub fn serve_message(&mut self, from: Ep, context: u32, source: i32, tag: i32, body: &[u8]) {
        let Some(lane) = self.lanes.get_mut(context) else { return };
        let (Some(face), Some(mut service)) = (lane.face.clone(), lane.service.take()) else { return };
        let result = service.message(
            source as u32,
            tag,
            body,
            &mut Port { state: &mut *self, face: &face, aside: false },
        );
        self.put_back(context, service);
        if let Err(fact) = result {
            self.violated(from, fact);
        }
        self.waiters.wake_probing();
    }

    fn put_back(&mut self, context: u32, service: Box<dyn Service>) {
        if let Some(lane) = self.lanes.get_mut(context) {
            lane.service = Some(service);
        }
    }

    /// Lets the services look that asked for it.
    #[cold]
    pub fn look_again(&mut self) {
        for context in std::mem::take(&mut self.looking) {
            let Some(lane) = self.lanes.get_mut(context) else { continue };
            let (Some(face), Some(mut service)) = (lane.face.clone(), lane.service.take()) else { continue };
            let again = service.look(&mut Port { state: &mut *self, face: &face, aside: false });
            self.put_back(context, service);
            if again && !self.looking.contains(&context) {
                self.looking.push(context);
            }
        }
    }
}
