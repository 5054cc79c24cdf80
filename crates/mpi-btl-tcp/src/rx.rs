//! The receiving half: reads sockets, delivers, and tells what the core has to say.

use crate::core::{News, Token};
use crate::limits::{
    ASIDE_AFTER_READS, DIRECT_CONNECTIONS, DRAINS_PER_POLL, EVENTS, LISTENER_EVERY_POLLS, LOOK_AHEAD_BYTES,
    READS_PER_POLL, SHORT_READ_BYTES, WHOLE_BYTES,
};
use crate::parser::{Parser, Stop};
use crate::peer::End;
use crate::shared::Shared;
use crate::sys;
use mpi_btl::{Armed, BtlRx, BulkId, Ep, Polled, Sink, WakeBy};
use mpi_wire::hello::JobTag;
use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};
use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

/// A standing connection as the receiving half sees it.
struct Inbound {
    token: Token,
    ep: Ep,
    socket: Arc<Socket>,
    parser: Parser,
    /// Look-ahead: `start..end` is read and not yet parsed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Parsing stopped at the budget: there is more without reading.
    backlog: bool,
    /// How much the next read may take. Short after a long body, so that the next long one is
    /// not read into the look-ahead buffer and copied from there.
    read_limit: usize,
    /// Reads that found something since readiness was last of use to anybody.
    hot: u32,
    /// Readiness is not reported; only reading tells.
    aside: bool,
}

pub(crate) struct Rx {
    core: Arc<Shared>,
    epoll: Arc<Epoll>,
    job: String,
    job_tag: JobTag,
    conns: Vec<Inbound>,
    /// Polls since the last look at epoll.
    since_epoll: u32,
    events: Vec<EpollEvent>,
}

/// What reading a connection came to.
enum Read {
    Nothing,
    Something,
    Ended(End),
}

impl Rx {
    pub fn new(core: Arc<Shared>) -> Rx {
        let (epoll, job, job_tag) = {
            let core = core.lock();
            (core.epoll.clone(), core.job.clone(), core.me.job)
        };
        Rx {
            core,
            epoll,
            job,
            job_tag,
            conns: Vec::new(),
            since_epoll: LISTENER_EVERY_POLLS,
            events: vec![EpollEvent::empty(); EVENTS],
        }
    }

    /// Tells what the core has to say, in order, with its lock released.
    fn news(&mut self, sink: &mut dyn Sink) -> bool {
        let mut found = false;
        loop {
            let item = self.core.lock().news.pop_front();
            let Some(item) = item else { return found };
            found = true;
            match item {
                News::Up(token, ep, socket) => {
                    self.conns.push(Inbound::new(token, ep, socket));
                    self.take_back();
                }
                News::Look(token) => {
                    if let Some(at) = self.position(token) {
                        self.read(at, &mut 0, sink);
                    }
                }
                News::Proven(identity) => {
                    if identity.job == self.job_tag {
                        if let Some(ep) = sink.introduced(&self.job, identity.rank) {
                            let mut core = self.core.lock();
                            core.know(ep, identity);
                            core.name_stranger(identity, ep);
                        }
                    }
                }
                News::Completed(ep, op, result) => sink.completed(ep, op, result),
                News::Writable(ep) => sink.writable(ep),
                News::Notice(text) => sink.notice(text),
                News::Down(ep, why) => {
                    self.conns.retain(|c| c.ep != ep);
                    sink.down(ep, why);
                }
            }
        }
    }

    fn position(&self, token: Token) -> Option<usize> {
        self.conns.iter().position(|c| c.token == token)
    }

    /// Reads and delivers from one connection.
    fn read(&mut self, at: usize, budget: &mut usize, sink: &mut dyn Sink) -> bool {
        let Some(conn) = self.conns.get_mut(at) else { return false };
        match conn.read(budget, sink) {
            Read::Nothing => false,
            Read::Something => {
                conn.hot = conn.hot.saturating_add(1);
                if conn.hot == ASIDE_AFTER_READS {
                    self.set_aside(at);
                }
                true
            }
            Read::Ended(end) => {
                let conn = self.conns.swap_remove(at);
                self.core.lock().ended(conn.token, conn.ep, end);
                true
            }
        }
    }

    /// A connection that is read directly, and is never slept on, needs no readiness.
    #[cold]
    fn set_aside(&mut self, at: usize) {
        let few = self.conns.len() <= DIRECT_CONNECTIONS;
        let Some(conn) = self.conns.get_mut(at).filter(|c| few && !c.aside) else { return };
        conn.aside = self.core.lock().set_aside(conn.token);
    }

    /// Every connection's readiness is reported from now on.
    fn take_back(&mut self) {
        for conn in &mut self.conns {
            conn.hot = 0;
            if std::mem::take(&mut conn.aside) {
                self.core.lock().take_back(conn.token);
            }
        }
    }

    /// Sends what waits, lets time pass; true when readiness has to be asked for.
    fn tend(&mut self) -> bool {
        let mut core = self.core.lock();
        for _ in 0..DRAINS_PER_POLL.min(core.blocked.len()) {
            // Round robin: a drained peer leaves the list, any other goes to its end.
            let ep = core.blocked.remove(0);
            core.blocked.push(ep);
            core.drain(ep);
        }
        let shaking = core.is_shaking_hands();
        if shaking {
            core.expire(Instant::now());
        }
        shaking
    }

    /// Asks epoll what is ready, and sees to it.
    fn ready(&mut self, budget: &mut usize, sink: &mut dyn Sink) -> bool {
        self.since_epoll = 0;
        let mut events = std::mem::take(&mut self.events);
        let n = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        let mut found = false;
        for event in &events[..n] {
            match event.data() {
                Token::LISTENER => self.core.lock().accept(),
                Token::TIMER => self.core.lock().timer_fired(),
                data => {
                    let token = Token::decode(data);
                    let readable = self.core.lock().event(token, event.events());
                    if readable && *budget > 0 {
                        if let Some(at) = self.position(token) {
                            found |= self.read(at, budget, sink);
                        }
                    }
                }
            }
        }
        self.events = events;
        self.core.lock().tell_of_strangers();
        found
    }
}

impl BtlRx for Rx {
    fn poll(&mut self, budget: usize, sink: &mut dyn Sink) -> Polled {
        let mut left = budget;
        let (mut found, mut shaking) = (false, false);
        if self.core.is_busy() {
            found = self.news(sink);
            shaking = self.tend();
        }
        self.since_epoll += 1;
        if self.conns.len() <= DIRECT_CONNECTIONS {
            for at in (0..self.conns.len()).rev() {
                if left > 0 {
                    found |= self.read(at, &mut left, sink);
                }
            }
            if shaking || self.since_epoll >= LISTENER_EVERY_POLLS {
                found |= self.ready(&mut left, sink);
            }
        } else {
            for at in (0..self.conns.len()).rev() {
                if left > 0 && self.conns.get(at).is_some_and(|c| c.backlog) {
                    found |= self.read(at, &mut left, sink);
                }
            }
            found |= self.ready(&mut left, sink);
        }
        if self.core.is_busy() {
            found |= self.news(sink);
        }
        if found { Polled::Progress } else { Polled::Idle }
    }

    fn poll_from(&mut self, ep: Ep, sink: &mut dyn Sink) -> Polled {
        let mut left = 1;
        let mut found = false;
        let mut seen = false;
        for at in (0..self.conns.len()).rev() {
            if left > 0 && self.conns.get(at).is_some_and(|c| c.ep == ep) {
                seen = true;
                found |= self.read(at, &mut left, sink);
            }
        }
        self.since_epoll += 1;
        let busy = self.core.is_busy();
        if found && !busy {
            return Polled::Progress;
        }
        if busy || !seen || self.since_epoll >= LISTENER_EVERY_POLLS {
            found |= self.poll(left, sink) == Polled::Progress;
        }
        if found { Polled::Progress } else { Polled::Idle }
    }

    fn arm(&mut self, _by: WakeBy) -> Armed<'_> {
        self.take_back();
        let mut core = self.core.lock();
        if !core.news.is_empty() || self.conns.iter().any(|c| c.backlog) {
            return Armed::Ready;
        }
        core.before_sleep();
        Armed::Descriptor(self.epoll.0.as_raw_fd())
    }

    fn disarm(&mut self) {
        // Whatever woke us may be the listener, the timer or another peer.
        self.since_epoll = LISTENER_EVERY_POLLS;
    }

    fn revoke(&mut self, bulk: BulkId) {
        for conn in &mut self.conns {
            if conn.parser.revoke(bulk) {
                return;
            }
        }
    }

    fn service_descriptor(&self) -> Option<RawFd> {
        Some(self.epoll.0.as_raw_fd())
    }

    fn before_service(&mut self) {
        self.take_back();
    }
}

impl Inbound {
    fn new(token: Token, ep: Ep, socket: Arc<Socket>) -> Inbound {
        Inbound {
            token,
            ep,
            socket,
            parser: Parser::new(ep),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            backlog: false,
            read_limit: LOOK_AHEAD_BYTES,
            hot: 0,
            aside: false,
        }
    }

    fn read(&mut self, budget: &mut usize, sink: &mut dyn Sink) -> Read {
        let mut result = Read::Nothing;
        if self.backlog {
            result = self.parse(budget, sink);
            if self.backlog || matches!(result, Read::Ended(_)) {
                return result;
            }
        }
        if self.buffer.is_empty() {
            // Zeroed by the kernel: pages that no traffic reaches are never there.
            self.buffer = vec![0; LOOK_AHEAD_BYTES];
        }
        for _ in 0..READS_PER_POLL {
            let (asked, got) = self.receive(sink);
            match got {
                Ok(0) => {
                    return Read::Ended(End::Lost(self.cut("the connection was closed without a goodbye")));
                }
                Ok(n) => {
                    result = Read::Something;
                    match self.parse(budget, sink) {
                        Read::Ended(end) => return Read::Ended(end),
                        _ if self.backlog || n < asked => return result,
                        _ => {}
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return result,
                Err(e) => return Read::Ended(End::Lost(self.cut(&e.to_string()))),
            }
            if *budget == 0 {
                return result;
            }
        }
        result
    }

    /// One read: into the posted buffer with the look-ahead behind it, or into the look-ahead.
    /// How much was asked for, and what came.
    fn receive(&mut self, sink: &mut dyn Sink) -> (usize, io::Result<usize>) {
        let socket = self.socket.as_fd();
        if let Some(into) = self.parser.direct() {
            // A body under way has used up all that was looked ahead.
            let behind = &mut self.buffer[..SHORT_READ_BYTES];
            let asked = into.len() + behind.len();
            let got = sys::recv_direct(socket, into, behind);
            if let Ok(n) = got {
                let direct = n.min(into.len());
                self.start = 0;
                self.end = n - direct;
                self.read_limit = SHORT_READ_BYTES;
                self.parser.filled(direct, sink);
            }
            return (asked, got);
        }
        let to = (self.end + self.read_limit).min(self.buffer.len());
        let room = &mut self.buffer[self.end..to];
        let asked = room.len();
        let got = sys::recv(socket, room);
        if let Ok(n) = got {
            self.end += n;
            if n == asked {
                self.read_limit = (self.read_limit * 4).min(LOOK_AHEAD_BYTES);
            }
        }
        (asked, got)
    }

    /// Delivers what the look-ahead holds.
    fn parse(&mut self, budget: &mut usize, sink: &mut dyn Sink) -> Read {
        let before = self.start;
        let fed = self.parser.feed(&self.buffer[self.start..self.end], budget, sink);
        self.start += fed.consumed;
        self.backlog = false;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        match fed.stop {
            Stop::Needs(_) => {
                // A message that is delivered whole has to fit behind `start`.
                if self.buffer.len() - self.start < 2 * WHOLE_BYTES {
                    self.buffer.copy_within(self.start..self.end, 0);
                    (self.start, self.end) = (0, self.end - self.start);
                }
            }
            Stop::Budget => self.backlog = true,
            Stop::Goodbye => return Read::Ended(End::Goodbye),
            Stop::Bad(error) => return Read::Ended(End::Protocol(error.to_string())),
        }
        if fed.consumed > 0 && before <= self.start { Read::Something } else { Read::Nothing }
    }

    /// The end of the stream in words; a message cut in two is said to be one.
    fn cut(&self, why: &str) -> String {
        if self.parser.inside() || self.start < self.end {
            format!("{why}, in the middle of a message")
        } else {
            why.to_owned()
        }
    }
}
