//! Everything that the two halves share: sockets, peers, and what the receiving half is to tell.
//!
//! No callback is made from here: the engine may send from inside one. What happened is put into
//! `news`, in order, and the receiving half tells it with the lock released.

use crate::accept::{Accepting, TurnedAway};
use crate::dial::Attempt;
use crate::limits::ONE_PIECE_BYTES;
use crate::out::Spare;
use crate::peer::Peer;
use mpi_btl::{Down, Ep, OpId};
use mpi_wire::hello::{Identity, JobTag};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use socket2::Socket;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Names a connection: its slot, and which connection of that slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    pub slot: u32,
    pub generation: u32,
}

impl Token {
    pub const LISTENER: u64 = u64::MAX;
    pub const TIMER: u64 = u64::MAX - 1;

    fn encode(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }
    pub fn decode(data: u64) -> Token {
        Token { slot: data as u32, generation: (data >> 32) as u32 }
    }
}

/// What a connection is at the moment.
pub(crate) enum Role {
    /// Accepted; the other side has proved nothing.
    Accepting(Accepting),
    /// Being made by us.
    Dialing(Attempt),
    /// Both sides proved who they are. Without an `ep` the engine has not named the peer yet.
    Proven { ep: Option<Ep> },
}

pub(crate) struct Conn {
    pub socket: Arc<Socket>,
    pub role: Role,
    /// Epoll reports when the socket takes data.
    out_armed: bool,
    /// Epoll does not know the socket: whoever reads it does so without being told.
    aside: bool,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    conn: Option<Conn>,
}

/// What the receiving half has to tell or do, in order.
pub(crate) enum News {
    /// A peer without a number has proved who it is.
    Proven(Identity),
    /// A connection carries messages of `Ep` from now on.
    Up(Token, Ep, Arc<Socket>),
    /// Sending failed: reading will say why.
    Look(Token),
    Completed(Ep, OpId, Result<(), String>),
    Writable(Ep),
    Down(Ep, Down),
    /// For people.
    Notice(String),
}

pub(crate) struct Core {
    pub me: Identity,
    pub job: String,
    pub secret: [u8; 32],
    /// Where this process listens, for messages to people.
    pub own: Vec<SocketAddr>,
    pub epoll: Arc<Epoll>,
    pub listener: Socket,
    /// The listener rests until then.
    pub paused: Option<Instant>,
    timer: TimerFd,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pub peers: Vec<Option<Box<Peer>>>,
    pub by_identity: BTreeMap<Identity, Ep>,
    /// Proven connections of peers that the engine has not named.
    pub strangers: Vec<(Token, Identity)>,
    pub news: VecDeque<News>,
    /// Peers with messages waiting on a standing connection.
    pub blocked: Vec<Ep>,
    /// Peers with messages held back.
    pub held: Vec<Ep>,
    /// Accepted connections without proof, oldest first.
    pub unproven: VecDeque<Token>,
    /// Those that were dropped.
    pub turned_away: TurnedAway,
    /// Peers being dialled.
    pub dialing: Vec<Ep>,
    pub spare: Spare,
    /// Scratch for operations that completed.
    pub done: Vec<OpId>,
    /// Scratch for a message that leaves as one piece.
    pub whole: Vec<u8>,
}

impl Core {
    pub fn new(
        me: Identity,
        job: String,
        secret: [u8; 32],
        listener: Socket,
        own: Vec<SocketAddr>,
    ) -> io::Result<Core> {
        let epoll = Epoll::new(nix::sys::epoll::EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, Token::LISTENER))?;
        epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, Token::TIMER))?;
        Ok(Core {
            me,
            job,
            secret,
            own,
            epoll: Arc::new(epoll),
            listener,
            paused: None,
            timer,
            slots: Vec::new(),
            free: Vec::new(),
            peers: Vec::new(),
            by_identity: BTreeMap::new(),
            strangers: Vec::new(),
            news: VecDeque::new(),
            blocked: Vec::new(),
            held: Vec::new(),
            unproven: VecDeque::new(),
            turned_away: TurnedAway::default(),
            dialing: Vec::new(),
            spare: Spare::default(),
            done: Vec::new(),
            whole: Vec::with_capacity(ONE_PIECE_BYTES),
        })
    }

    pub fn identity(job: &str, rank: u32) -> Identity {
        Identity { job: JobTag::of(job), rank }
    }

    /// Takes a socket in and watches it.
    pub fn add(&mut self, socket: Socket, role: Role, flags: EpollFlags) -> io::Result<Token> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let token = Token { slot, generation: self.slots[slot as usize].generation };
        if let Err(e) = self.epoll.add(&socket, EpollEvent::new(flags, token.encode())) {
            self.free.push(slot);
            return Err(e.into());
        }
        let socket = Arc::new(socket);
        self.slots[slot as usize].conn = Some(Conn { socket, role, out_armed: false, aside: false });
        Ok(token)
    }

    pub fn conn(&mut self, token: Token) -> Option<&mut Conn> {
        let slot = self.slots.get_mut(token.slot as usize)?;
        if slot.generation == token.generation { slot.conn.as_mut() } else { None }
    }

    /// Lets a connection go. The socket closes when the receiving half drops it too.
    pub fn remove(&mut self, token: Token) -> Option<Conn> {
        let slot = self.slots.get_mut(token.slot as usize)?;
        if slot.generation != token.generation {
            return None;
        }
        let conn = slot.conn.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(token.slot);
        let _ = self.epoll.delete(&conn.socket);
        self.unproven.retain(|t| *t != token);
        Some(conn)
    }

    /// Says what epoll is to report of a connection.
    pub fn watch(&mut self, token: Token, flags: EpollFlags) {
        let epoll = self.epoll.clone();
        if let Some(conn) = self.conn(token) {
            conn.out_armed = flags.contains(EpollFlags::EPOLLOUT);
            let mut event = EpollEvent::new(flags, token.encode());
            let _ = match std::mem::take(&mut conn.aside) {
                true => epoll.add(&conn.socket, event),
                false => epoll.modify(&conn.socket, &mut event),
            };
        }
    }

    /// Takes a connection that is read again and again out of the set, whose bookkeeping every arrival pays for. True
    /// if it was in, and nothing but data is waited for.
    pub fn set_aside(&mut self, token: Token) -> bool {
        let epoll = self.epoll.clone();
        let Some(conn) = self.conn(token).filter(|c| !c.aside && !c.out_armed) else { return false };
        conn.aside = epoll.delete(&conn.socket).is_ok();
        conn.aside
    }

    /// What was set aside is reported again, and so is what came meanwhile.
    pub fn take_back(&mut self, token: Token) {
        if self.conn(token).is_some_and(|c| c.aside) {
            self.watch(token, EpollFlags::EPOLLIN);
        }
    }

    /// Unread until the engine names the peer. Not even an empty interest is left: epoll would go on
    /// reporting a hang-up, and nobody could sleep.
    pub fn unwatch(&mut self, token: Token) {
        let epoll = self.epoll.clone();
        if let Some(conn) = self.conn(token) {
            let _ = epoll.delete(&conn.socket);
        }
    }

    /// The peer is named: what it sent meanwhile, and its end, are reported now.
    pub fn watch_again(&mut self, token: Token) {
        let epoll = self.epoll.clone();
        if let Some(conn) = self.conn(token) {
            // Cannot fail for want of anything but kernel memory; polling reads the socket anyway.
            let _ = epoll.add(&conn.socket, EpollEvent::new(EpollFlags::EPOLLIN, token.encode()));
        }
    }

    /// An event on a connection. True when its data is for the receiving half to read.
    pub fn event(&mut self, token: Token, flags: EpollFlags) -> bool {
        match self.conn(token).map(|c| &c.role) {
            None | Some(Role::Proven { ep: None }) => false,
            Some(Role::Proven { ep: Some(ep) }) => {
                let ep = *ep;
                if flags.contains(EpollFlags::EPOLLOUT) {
                    self.drain(ep);
                }
                flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR)
            }
            Some(Role::Accepting(_)) => {
                self.accepting_ready(token);
                false
            }
            Some(Role::Dialing(_)) => {
                self.attempt_ready(token);
                false
            }
        }
    }

    /// There is more to do than reading.
    pub fn is_busy(&self) -> bool {
        !self.news.is_empty() || !self.blocked.is_empty() || self.is_shaking_hands()
    }

    /// Handshakes are under way: readiness has to be asked for, and the clock watched.
    pub fn is_shaking_hands(&self) -> bool {
        !self.unproven.is_empty() || !self.dialing.is_empty() || self.paused.is_some()
    }

    /// Everything that time alone brings about.
    pub fn expire(&mut self, now: Instant) {
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            let _ = self.epoll.add(&self.listener, EpollEvent::new(EpollFlags::EPOLLIN, Token::LISTENER));
        }
        self.expire_accepting(now);
        self.expire_dials(now);
    }

    /// Before the process sleeps: epoll has to report room for what waits, and the next deadline.
    pub fn before_sleep(&mut self) {
        for ep in self.blocked.clone() {
            let token = self.peers.get(ep.0 as usize).and_then(Option::as_ref).and_then(|p| p.sending);
            if let Some(token) = token {
                if self.conn(token).is_some_and(|c| !c.out_armed) {
                    self.watch(token, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT);
                }
            }
        }
        let report = self.turned_away.due(Instant::now());
        let next = [self.paused, self.next_accepting(), self.next_dial(), report].into_iter().flatten().min();
        let result = match next {
            Some(at) => {
                let wait =
                    at.saturating_duration_since(Instant::now()).max(std::time::Duration::from_millis(1));
                self.timer.set(Expiration::OneShot(TimeSpec::from_duration(wait)), TimerSetTimeFlags::empty())
            }
            None => self.timer.unset(),
        };
        // Cannot fail with a valid descriptor and time; the next poll looks at the clock anyway.
        let _ = result;
    }

    /// The timer fired: what is due is found by `expire`.
    pub fn timer_fired(&mut self) {
        let _ = self.timer.unset();
    }

    /// Stops watching for room where nothing waits any more.
    pub fn unwatch_room(&mut self, token: Token) {
        if self.conn(token).is_some_and(|c| c.out_armed) {
            self.watch(token, EpollFlags::EPOLLIN);
        }
    }
}
