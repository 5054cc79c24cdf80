//! The accepting side of a connection until the other side has proved who it is.
//!
//! A stranger gets a fixed number of bytes and seconds: nothing is allocated beyond its slot, and
//! what it claims decides nothing except whether its own connection is dropped.

use crate::core::{Core, News, Role, Token};
use crate::greeting::Outgoing;
use crate::limits::{
    ACCEPT_PAUSE, ACCEPTS_PER_POLL, PROOF_TIMEOUT, STRANGERS_REPORT_PERIOD, UNPROVEN_EVICT_AFTER,
    UNPROVEN_MAX,
};
use crate::peer::State;
use crate::{open, sys};
use mpi_btl::Ep;
use mpi_wire::hello::{
    Acceptor, HELLO_LEN, HELLO_REPLY_LEN, Hello, HelloError, Identity, PROOF_LEN, guest_secret,
};
use nix::sys::epoll::EpollFlags;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

enum Stage {
    Hello,
    Reply(Acceptor, Outgoing),
    Proof(Acceptor),
}

/// An accepted connection without proof.
pub(crate) struct Accepting {
    since: Instant,
    stage: Stage,
    bytes: [u8; HELLO_LEN],
    got: usize,
}

const _: () = assert!(PROOF_LEN <= HELLO_LEN);

/// What one step of the handshake led to.
enum Next {
    Wait,
    /// The other side left, or is one too many: no fault of anybody's.
    Leave,
    /// A stranger, and how that showed.
    Drop(String),
    Proven(Identity),
}

/// Strangers whose connections were dropped.
#[derive(Default)]
pub(crate) struct TurnedAway {
    /// Since the last report.
    count: u64,
    /// The last of them: from where, and what was wrong.
    last: String,
    /// When they were told of.
    told: Option<Instant>,
}

impl TurnedAway {
    /// When the next report may go out, if there is anything to report.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        (self.count > 0).then(|| self.told.map_or(now, |at| at + STRANGERS_REPORT_PERIOD))
    }
}

impl Core {
    /// Takes new connections from the listener.
    pub fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_POLL {
            let now = Instant::now();
            if self.unproven.len() >= UNPROVEN_MAX {
                if let Some(until) = self.evict(now) {
                    // The others wait in the kernel until a slot is free.
                    return self.pause(until);
                }
            }
            match sys::accept(&self.listener) {
                Ok(socket) => {
                    if open::prepare(&socket).is_err() {
                        continue;
                    }
                    let accepting =
                        Accepting { since: now, stage: Stage::Hello, bytes: [0; HELLO_LEN], got: 0 };
                    if let Ok(token) = self.add(socket, Role::Accepting(accepting), EpollFlags::EPOLLIN) {
                        self.unproven.push_back(token);
                        // Most have sent their hello before they are accepted.
                        self.accepting_ready(token);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_exhausted(&e) => return self.pause(now + ACCEPT_PAUSE),
                // That one connection is gone already (ECONNABORTED and its like).
                Err(_) => {}
            }
        }
    }

    /// The listener stays readable while nothing can be accepted: without a rest it would spin.
    fn pause(&mut self, until: Instant) {
        if self.paused.is_none() {
            let _ = self.epoll.delete(&self.listener);
            self.paused = Some(until);
        }
    }

    /// Drops the oldest connection without proof if it has had time enough; else, when that is.
    fn evict(&mut self, now: Instant) -> Option<Instant> {
        let &oldest = self.unproven.front()?;
        let until = match self.conn(oldest).map(|c| &c.role) {
            Some(Role::Accepting(a)) => a.since + UNPROVEN_EVICT_AFTER,
            _ => now,
        };
        if until > now {
            return Some(until);
        }
        self.turn_away(oldest, "it made no room for others in time");
        None
    }

    pub fn accepting_ready(&mut self, token: Token) {
        match self.accepting_step(token) {
            Next::Wait => {}
            Next::Leave => drop(self.remove(token)),
            Next::Drop(why) => self.turn_away(token, &why),
            Next::Proven(identity) => self.proven(token, identity),
        }
    }

    /// Drops a stranger and counts it.
    fn turn_away(&mut self, token: Token, why: &str) {
        let Some(conn) = self.remove(token) else {
            return self.unproven.retain(|t| *t != token);
        };
        let away = &mut self.turned_away;
        away.count += 1;
        // Words are made for one of them.
        if away.count == 1 {
            let from = conn.socket.peer_addr().ok().and_then(|a| a.as_socket());
            let from = from.map_or_else(|| "an unknown address".to_owned(), |a| a.to_string());
            away.last = format!("{from}: {why}");
        }
    }

    /// Says how many strangers were dropped, now and then.
    pub fn tell_of_strangers(&mut self) {
        let now = Instant::now();
        if self.turned_away.due(now).is_none_or(|at| at > now) {
            return;
        }
        let TurnedAway { count, last, .. } = &self.turned_away;
        let connections = if *count == 1 { "connection" } else { "connections" };
        let text =
            format!("{count} {connections} without proof of belonging to this job dropped; one from {last}");
        self.turned_away = TurnedAway { told: Some(now), ..TurnedAway::default() };
        self.news.push_back(News::Notice(text));
    }

    fn accepting_step(&mut self, token: Token) -> Next {
        loop {
            let Some(conn) = self.conn(token) else { return Next::Wait };
            let socket = conn.socket.clone();
            let Role::Accepting(accepting) = &mut conn.role else { return Next::Wait };
            let want = match &mut accepting.stage {
                Stage::Hello => HELLO_LEN,
                Stage::Reply(_, out) => match out.push(socket.as_fd()) {
                    Ok(true) => {
                        self.replied(token);
                        continue;
                    }
                    Ok(false) => {
                        self.watch(token, EpollFlags::EPOLLOUT);
                        return Next::Wait;
                    }
                    Err(_) => return Next::Leave,
                },
                Stage::Proof(_) => PROOF_LEN,
            };
            // Never a byte beyond: messages may stand right behind the proof.
            match sys::recv(socket.as_fd(), &mut accepting.bytes[accepting.got..want]) {
                // A peer that reached us by another address too closes the one connection.
                Ok(0) if accepting.got == 0 => return Next::Leave,
                Ok(0) => return Next::Drop("it was closed in the middle of the greeting".to_owned()),
                Ok(n) => accepting.got += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Next::Wait,
                Err(_) => return Next::Leave,
            }
            if accepting.got < want {
                continue;
            }
            accepting.got = 0;
            let bytes = accepting.bytes;
            match std::mem::replace(&mut accepting.stage, Stage::Hello) {
                Stage::Hello => {
                    let (acceptor, reply) = match self.answer(&bytes) {
                        Ok(answer) => answer,
                        Err(next) => return next,
                    };
                    if let Some(Role::Accepting(accepting)) = self.conn(token).map(|c| &mut c.role) {
                        accepting.stage = Stage::Reply(acceptor, Outgoing::new(&reply));
                    }
                }
                // What is read is the hello or the proof.
                Stage::Reply(..) => return Next::Leave,
                Stage::Proof(acceptor) => {
                    let mut proof = [0; PROOF_LEN];
                    proof.copy_from_slice(&bytes[..PROOF_LEN]);
                    return acceptor.proof(&proof).map_or_else(|e| Next::Drop(e.to_string()), Next::Proven);
                }
            }
        }
    }

    /// The reply has left: the proof comes next.
    fn replied(&mut self, token: Token) {
        if let Some(Role::Accepting(accepting)) = self.conn(token).map(|c| &mut c.role) {
            if let Stage::Reply(acceptor, _) = std::mem::replace(&mut accepting.stage, Stage::Hello) {
                accepting.stage = Stage::Proof(acceptor);
            }
        }
        self.unwatch_room(token);
    }

    /// The reply to a hello; else what to do with who sent it.
    fn answer(&self, bytes: &[u8; HELLO_LEN]) -> Result<(Acceptor, [u8; HELLO_REPLY_LEN]), Next> {
        let stranger = |e: HelloError| Next::Drop(e.to_string());
        let hello = Hello::decode(bytes).map_err(stranger)?;
        if self.is_refused(hello.from) {
            return Err(Next::Leave);
        }
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|_| Next::Leave)?;
        let secret = match hello.from.job == self.me.job {
            true => self.secret,
            false => guest_secret(&self.secret, hello.from.job),
        };
        Acceptor::new(secret, self.me, &hello, nonce).map_err(stranger)
    }

    /// Two ranks that dial each other at the same time need one connection, not two: the lower
    /// one's. It refuses the other's while its own is being made; the other tries again later. This
    /// is decided before the reply: once the other side has that, it may send messages. Where both
    /// came too far, both connections stay, and each carries one direction.
    fn is_refused(&self, from: Identity) -> bool {
        let Some(&ep) = self.by_identity.get(&from) else { return from == self.me };
        match self.peer(ep) {
            Some(peer) => match peer.state {
                State::Dialing(_) => self.me < from,
                State::Down(_) => true,
                State::Idle | State::Up => peer.conns.len() >= 2,
            },
            None => false,
        }
    }

    fn proven(&mut self, token: Token, identity: Identity) {
        self.unproven.retain(|t| *t != token);
        let ep = self.by_identity.get(&identity).copied();
        if let Some(conn) = self.conn(token) {
            conn.role = Role::Proven { ep };
        }
        match ep {
            Some(ep) => self.attach(token, ep),
            None => {
                // More than two of one peer there never are, see `is_refused`.
                if self.strangers.iter().filter(|(_, i)| *i == identity).count() >= 2 {
                    self.remove(token);
                    return;
                }
                self.unwatch(token);
                self.strangers.push((token, identity));
                self.news.push_back(News::Proven(identity));
            }
        }
    }

    /// The engine has named a peer whose connection waits.
    pub fn name_stranger(&mut self, identity: Identity, ep: Ep) {
        while let Some(at) = self.strangers.iter().position(|(_, i)| *i == identity) {
            let (token, _) = self.strangers.remove(at);
            if let Some(conn) = self.conn(token) {
                conn.role = Role::Proven { ep: Some(ep) };
                self.watch_again(token);
                self.attach(token, ep);
            }
        }
    }

    pub fn next_accepting(&mut self) -> Option<Instant> {
        let oldest = *self.unproven.front()?;
        match self.conn(oldest).map(|c| &c.role) {
            Some(Role::Accepting(a)) => Some(a.since + PROOF_TIMEOUT),
            _ => None,
        }
    }

    pub fn expire_accepting(&mut self, now: Instant) {
        while self.next_accepting().is_some_and(|at| at <= now) {
            if let Some(&oldest) = self.unproven.front() {
                self.turn_away(oldest, "it did not prove itself in time");
            }
        }
    }
}

/// This process, or the machine, has no descriptor or no memory left.
pub(crate) fn is_exhausted(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
