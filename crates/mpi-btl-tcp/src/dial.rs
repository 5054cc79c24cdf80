//! The dialling side of a connection: every address of the peer side by side, until one answers
//! with proof.

use crate::accept::is_exhausted;
use crate::core::{Core, News, Role, Token};
use crate::greeting::Outgoing;
use crate::limits::{ACCEPT_PAUSE, CONNECT_RETRY, CONNECT_TIMEOUT};
use crate::peer::State;
use crate::{open, sys};
use mpi_btl::{ConnectError, Down, Ep};
use mpi_wire::hello::{Dialer, HELLO_REPLY_LEN};
use nix::sys::epoll::EpollFlags;
use socket2::{Domain, SockAddr, Socket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

/// One socket on its way to one address.
pub(crate) struct Attempt {
    ep: Ep,
    address: usize,
    dialer: Option<Dialer>,
    connected: bool,
    out: Outgoing,
    reply: [u8; HELLO_REPLY_LEN],
    got: usize,
}

/// The state of one address.
enum Try {
    Under(Token),
    /// Closed by the peer before its reply: busy, or dialling us. Again at this time.
    Again(Instant),
    /// This process had no descriptor, or no memory, for it; the fact. Again at this time.
    Exhausted(String, Instant),
    Failed(String),
    /// The host answers, and nobody listens at the port.
    Refused,
}

/// All attempts to reach one peer.
pub(crate) struct Dial {
    deadline: Instant,
    /// It was told that the peer takes long to answer.
    told: bool,
    tries: Vec<Try>,
}

impl Dial {
    fn next(&self) -> Instant {
        let again = self.tries.iter().filter_map(|t| match t {
            Try::Again(at) | Try::Exhausted(_, at) => Some(*at),
            _ => None,
        });
        again.chain([self.deadline]).min().unwrap_or(self.deadline)
    }
}

enum Next {
    Wait,
    /// Proof is sent: messages may follow.
    Up,
    Again,
    Failed(String),
    Refused,
}

impl Core {
    /// Begins to dial a peer that has messages waiting.
    pub fn dial(&mut self, ep: Ep) {
        let now = Instant::now();
        let Some(peer) = self.peer_mut(ep) else { return };
        let count = peer.addresses.len();
        let tries = (0..count).map(|_| Try::Again(now)).collect();
        peer.state = State::Dialing(Dial { deadline: now + CONNECT_TIMEOUT, told: false, tries });
        self.dialing.push(ep);
        for address in 0..count {
            self.try_address(ep, address);
        }
        self.give_up_if_hopeless(ep);
    }

    fn try_address(&mut self, ep: Ep, address: usize) {
        let Some(peer) = self.peer(ep) else { return };
        let Some(&target) = peer.addresses.get(address) else { return };
        let to = peer.identity;
        let secret = peer.guest_secret.unwrap_or(self.secret);
        let result = start(target).and_then(|(socket, connected)| {
            let mut nonce = [0; 32];
            getrandom::fill(&mut nonce).map_err(io::Error::other)?;
            let dialer = Some(Dialer::new(secret, self.me, to, nonce));
            let (out, reply) = (Outgoing::NOTHING, [0; HELLO_REPLY_LEN]);
            let attempt = Attempt { ep, address, dialer, connected, out, reply, got: 0 };
            self.add(socket, Role::Dialing(attempt), EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT)
        });
        let state = match result {
            Ok(token) => Try::Under(token),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => Try::Refused,
            // Others may let descriptors go before the peer has to be given up.
            Err(e) if is_exhausted(&e) => Try::Exhausted(e.to_string(), Instant::now() + ACCEPT_PAUSE),
            Err(e) => Try::Failed(e.to_string()),
        };
        self.set_try(ep, address, state);
    }

    fn set_try(&mut self, ep: Ep, address: usize, state: Try) {
        if let Some(State::Dialing(dial)) = self.peer_mut(ep).map(|p| &mut p.state) {
            if let Some(slot) = dial.tries.get_mut(address) {
                *slot = state;
            }
        }
    }

    /// An attempt has news.
    pub fn attempt_ready(&mut self, token: Token) {
        let Some(Role::Dialing(attempt)) = self.conn(token).map(|c| &c.role) else { return };
        let (ep, address) = (attempt.ep, attempt.address);
        let state = match self.attempt_step(token) {
            Next::Wait => return,
            Next::Up => {
                if let Some(conn) = self.conn(token) {
                    conn.role = Role::Proven { ep: Some(ep) };
                }
                self.watch(token, EpollFlags::EPOLLIN);
                return self.attach(token, ep);
            }
            Next::Again => Try::Again(Instant::now() + CONNECT_RETRY),
            Next::Failed(why) => Try::Failed(why),
            Next::Refused => Try::Refused,
        };
        self.remove(token);
        self.set_try(ep, address, state);
        self.give_up_if_hopeless(ep);
    }

    fn attempt_step(&mut self, token: Token) -> Next {
        let Some(conn) = self.conn(token) else { return Next::Wait };
        let socket = conn.socket.clone();
        let Role::Dialing(attempt) = &mut conn.role else { return Next::Wait };
        if !attempt.connected {
            match socket.take_error() {
                Ok(None) => {}
                Ok(Some(e)) if e.kind() == io::ErrorKind::ConnectionRefused => return Next::Refused,
                Ok(Some(e)) | Err(e) => return Next::Failed(e.to_string()),
            }
            // Readable or writable without an error: but is it connected, or a spurious event?
            if let Err(e) = socket.peer_addr() {
                let pending = e.raw_os_error() == Some(libc::ENOTCONN);
                return if pending { Next::Wait } else { Next::Failed(e.to_string()) };
            }
            let Some(dialer) = &attempt.dialer else { return Next::Wait };
            attempt.out = Outgoing::new(&dialer.hello());
            attempt.connected = true;
        }
        if !attempt.out.is_empty() {
            return self.send_greeting(token);
        }
        while attempt.got < HELLO_REPLY_LEN {
            match sys::recv(socket.as_fd(), &mut attempt.reply[attempt.got..]) {
                Ok(0) => return Next::Again,
                Ok(n) => attempt.got += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Next::Wait,
                Err(e) => return lost(&e),
            }
        }
        let Some(dialer) = attempt.dialer.take() else { return Next::Wait };
        let proof = match dialer.reply(&attempt.reply) {
            Ok(proof) => proof,
            Err(e) => return Next::Failed(e.to_string()),
        };
        attempt.out = Outgoing::new(&proof);
        self.send_greeting(token)
    }

    /// Sends the hello or the proof on, as far as the socket takes it.
    fn send_greeting(&mut self, token: Token) -> Next {
        let Some(conn) = self.conn(token) else { return Next::Wait };
        let socket = conn.socket.clone();
        let Role::Dialing(attempt) = &mut conn.role else { return Next::Wait };
        let proving = attempt.dialer.is_none();
        match attempt.out.push(socket.as_fd()) {
            Ok(true) if proving => return Next::Up,
            Ok(true) => self.watch(token, EpollFlags::EPOLLIN),
            Ok(false) => self.watch(token, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT),
            Err(e) => return lost(&e),
        }
        Next::Wait
    }

    /// The peer is reached, or given up: no other attempt is needed.
    pub fn stop_dialing(&mut self, ep: Ep, reached: Option<Token>) {
        self.dialing.retain(|d| *d != ep);
        let Some(peer) = self.peer_mut(ep) else { return };
        if !matches!(peer.state, State::Dialing(_)) {
            return;
        }
        let State::Dialing(dial) = std::mem::replace(&mut peer.state, State::Idle) else { return };
        for one in dial.tries {
            if let Try::Under(token) = one {
                if Some(token) != reached {
                    self.remove(token);
                }
            }
        }
    }

    pub fn next_dial(&self) -> Option<Instant> {
        self.dialing.iter().filter_map(|ep| self.dial_of(*ep)).map(Dial::next).min()
    }

    fn dial_of(&self, ep: Ep) -> Option<&Dial> {
        match &self.peer(ep)?.state {
            State::Dialing(dial) => Some(dial),
            _ => None,
        }
    }

    pub fn expire_dials(&mut self, now: Instant) {
        for ep in self.dialing.clone() {
            let Some(dial) = self.dial_of(ep) else { continue };
            if dial.deadline <= now {
                match self.connected_to(ep) {
                    Some(address) => self.wait_longer(ep, address, now),
                    None => self.give_up(ep),
                }
                continue;
            }
            let due: Vec<usize> = dial
                .tries
                .iter()
                .enumerate()
                .filter(|(_, t)| matches!(t, Try::Again(at) | Try::Exhausted(_, at) if *at <= now))
                .map(|(i, _)| i)
                .collect();
            for address in due {
                self.try_address(ep, address);
            }
            self.give_up_if_hopeless(ep);
        }
    }

    /// The address where a connection stands that was not answered so far.
    fn connected_to(&mut self, ep: Ep) -> Option<SocketAddr> {
        let tries = &self.dial_of(ep)?.tries;
        let tokens: Vec<(usize, Token)> = tries
            .iter()
            .enumerate()
            .filter_map(|(i, t)| if let Try::Under(t) = t { Some((i, *t)) } else { None })
            .collect();
        let connected = |core: &mut Core, token| match core.conn(token).map(|c| &c.role) {
            Some(Role::Dialing(attempt)) => attempt.connected,
            _ => false,
        };
        let (address, _) = tokens.into_iter().find(|(_, token)| connected(self, *token))?;
        self.peer(ep)?.addresses.get(address).copied()
    }

    /// Whoever listens there lives, and answers when it calls MPI: it may compute for as long as it likes.
    fn wait_longer(&mut self, ep: Ep, address: SocketAddr, now: Instant) {
        let Some(peer) = self.peer_mut(ep) else { return };
        let State::Dialing(dial) = &mut peer.state else { return };
        dial.deadline = now + CONNECT_TIMEOUT;
        if std::mem::replace(&mut dial.told, true) {
            return;
        }
        let (rank, host, seconds) = (peer.identity.rank, peer.host.clone(), CONNECT_TIMEOUT.as_secs());
        let text = format!(
            "rank {rank} on {host} has not answered at {address} for {seconds} s: it computes without a call of MPI, \
             or is stopped, or another program listens there"
        );
        self.news.push_back(News::Notice(text));
    }

    fn give_up_if_hopeless(&mut self, ep: Ep) {
        if self
            .dial_of(ep)
            .is_some_and(|d| d.tries.iter().all(|t| matches!(t, Try::Failed(_) | Try::Refused)))
        {
            self.give_up(ep);
        }
    }

    fn give_up(&mut self, ep: Ep) {
        let (Some(peer), Some(dial)) = (self.peer(ep), self.dial_of(ep)) else { return };
        let mut facts: Vec<String> = peer
            .addresses
            .iter()
            .zip(&dial.tries)
            .map(|(address, state)| match state {
                Try::Failed(why) | Try::Exhausted(why, _) => format!("{address}: {why}"),
                Try::Refused => format!("{address}: nobody listens there"),
                Try::Under(_) => format!("{address}: no answer within {} s", CONNECT_TIMEOUT.as_secs()),
                Try::Again(_) => format!("{address}: closed before its hello"),
            })
            .collect();
        if facts.is_empty() {
            facts.push("it published no address".to_owned());
        }
        // Where every address answers that nobody listens, no network is to blame.
        let ended = !dial.tries.is_empty() && dial.tries.iter().all(|t| matches!(t, Try::Refused));
        let advice = if ended {
            "its process has ended, or never got there".to_owned()
        } else {
            let own: Vec<String> = self.own.iter().map(ToString::to_string).collect();
            format!(
                "this is rank {} at {}; MPI_IFACE=NAME chooses the network, MPI_PORT_RANGE=A-B the ports",
                self.me.rank,
                own.join(", "),
            )
        };
        let error = ConnectError::Failed {
            backend: crate::NAME,
            world_rank: peer.identity.rank,
            host: peer.host.clone(),
            attempts: format!("{}; {advice}", facts.join("; ")),
        };
        self.fail_peer(ep, Down::Unreachable(error.to_string()));
    }
}

/// The peer closed, or reset, a connection that it had accepted: it may do better later.
fn lost(e: &io::Error) -> Next {
    match e.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Next::Again,
        _ => Next::Failed(e.to_string()),
    }
}

/// A socket on its way to `target`; whether it is there already.
fn start(target: SocketAddr) -> io::Result<(Socket, bool)> {
    let socket = sys::socket(Domain::for_address(target))?;
    open::prepare(&socket)?;
    match socket.connect(&SockAddr::from(target)) {
        // The hello is sent when epoll says that the socket is writable, at once or later.
        Ok(()) => Ok((socket, false)),
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok((socket, false)),
        Err(e) => Err(e),
    }
}
