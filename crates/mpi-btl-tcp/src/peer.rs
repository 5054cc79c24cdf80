//! A peer: its addresses, its connections, and what waits to be sent to it.

use crate::core::{Core, News, Token};
use crate::dial::Dial;
use crate::out::Out;
use mpi_btl::{Down, Ep, OpId};
use mpi_wire::hello::Identity;
use mpi_wire::{HEADER_LEN, Header, reserved};
use socket2::Socket;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

pub(crate) enum State {
    /// No connection yet; nothing waits.
    Idle,
    Dialing(Dial),
    Up,
    /// Gone; the fact.
    Down(String),
}

pub(crate) struct Peer {
    pub identity: Identity,
    pub host: String,
    pub addresses: Vec<SocketAddr>,
    /// What proves us to a peer of another job.
    pub guest_secret: Option<[u8; 32]>,
    pub state: State,
    /// The connection that carries what we send; the other, if there are two, only receives.
    pub sending: Option<Token>,
    pub socket: Option<Arc<Socket>>,
    pub conns: Vec<Token>,
    pub out: Out,
    /// This side said goodbye.
    pub closed: bool,
    /// Messages are held back for the next flush: in our queue,
    pub held: bool,
    /// or the last segment in the kernel's.
    pub corked: bool,
}

impl Peer {
    pub fn new(identity: Identity) -> Peer {
        Peer {
            identity,
            host: String::new(),
            addresses: Vec::new(),
            guest_secret: None,
            state: State::Idle,
            sending: None,
            socket: None,
            conns: Vec::new(),
            out: Out::default(),
            closed: false,
            held: false,
            corked: false,
        }
    }
}

/// How the receiving half found a connection to end.
pub(crate) enum End {
    Goodbye,
    Protocol(String),
    Lost(String),
}

impl Core {
    pub fn peer(&self, ep: Ep) -> Option<&Peer> {
        self.peers.get(ep.0 as usize)?.as_deref()
    }

    pub fn peer_mut(&mut self, ep: Ep) -> Option<&mut Peer> {
        self.peers.get_mut(ep.0 as usize)?.as_deref_mut()
    }

    /// Makes a peer known under a number, or finds it there.
    pub fn know(&mut self, ep: Ep, identity: Identity) -> &mut Peer {
        let at = ep.0 as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.by_identity.insert(identity, ep);
        self.peers[at].get_or_insert_with(|| Box::new(Peer::new(identity)))
    }

    /// A proven connection becomes one of the peer's.
    pub fn attach(&mut self, token: Token, ep: Ep) {
        self.stop_dialing(ep, Some(token));
        let Some(socket) = self.conn(token).map(|c| c.socket.clone()) else { return };
        let Some(peer) = self.peer_mut(ep) else { return };
        if matches!(peer.state, State::Down(_)) || peer.conns.len() >= 2 {
            self.remove(token);
            return;
        }
        crate::open::spare_pacing(&socket);
        peer.conns.push(token);
        peer.state = State::Up;
        if peer.sending.is_none() {
            peer.sending = Some(token);
            peer.socket = Some(socket.clone());
        }
        self.news.push_back(News::Up(token, ep, socket));
        self.drain(ep);
    }

    /// Sends what waits for a peer, as far as its socket takes it.
    pub fn drain(&mut self, ep: Ep) {
        let Some(peer) = self.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) else { return };
        let (Some(socket), Some(token)) = (&peer.socket, peer.sending) else { return };
        let result = peer.out.drain(socket.as_fd(), &mut self.done, &mut self.spare);
        if peer.out.refused.is_some() && peer.out.is_roomy() {
            peer.out.refused = None;
            self.news.push_back(News::Writable(ep));
        }
        for op in self.done.drain(..) {
            self.news.push_back(News::Completed(ep, op, Ok(())));
        }
        match result {
            Ok(true) => {
                if peer.closed {
                    let _ = socket.shutdown(Shutdown::Write);
                }
                self.blocked.retain(|b| *b != ep);
                self.unwatch_room(token);
            }
            Ok(false) => {
                if !self.blocked.contains(&ep) {
                    self.blocked.push(ep);
                }
            }
            Err(e) => self.sending_failed(ep, e.to_string()),
        }
    }

    /// The socket takes nothing more. What the peer sent before is still to be read, a goodbye
    /// perhaps: only reading ends the connection.
    pub fn sending_failed(&mut self, ep: Ep, why: String) {
        self.blocked.retain(|b| *b != ep);
        let Some(peer) = self.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) else { return };
        peer.socket = None;
        let token = peer.sending.take();
        for op in peer.out.abandon(&mut self.spare) {
            self.news.push_back(News::Completed(ep, op, Err(why.clone())));
        }
        if let Some(token) = token {
            self.unwatch_room(token);
            self.news.push_back(News::Look(token));
        }
    }

    /// The receiving half reached the end of a connection.
    pub fn ended(&mut self, token: Token, ep: Ep, end: End) {
        let Some(peer) = self.peer_mut(ep) else { return };
        match end {
            Goodbye => {
                peer.conns.retain(|c| *c != token);
                self.answer_goodbye(ep);
                self.remove(token);
                self.fail_peer(ep, Down::Goodbye);
            }
            End::Protocol(why) => self.fail_peer(ep, Down::Protocol(why)),
            End::Lost(why) => {
                peer.conns.retain(|c| *c != token);
                let last = peer.conns.is_empty();
                if peer.sending == Some(token) {
                    self.sending_failed(ep, why.clone());
                }
                self.remove(token);
                if last {
                    self.fail_peer(ep, Down::Reset(why));
                }
            }
        }
    }

    /// The peer leaves in good order; it may be waiting to hear that all it sent was taken.
    fn answer_goodbye(&mut self, ep: Ep) {
        let Some(peer) = self.peer_mut(ep) else { return };
        if peer.closed || !peer.out.is_empty() {
            return;
        }
        if let Some(socket) = &peer.socket {
            let goodbye = goodbye();
            let _ = crate::sys::send(socket.as_fd(), &[crate::sys::Piece::out(&goodbye)]);
            let _ = socket.shutdown(Shutdown::Write);
        }
    }

    /// Everything with the peer ends: operations fail first, then the peer is reported down.
    pub fn fail_peer(&mut self, ep: Ep, why: Down) {
        self.stop_dialing(ep, None);
        self.blocked.retain(|b| *b != ep);
        let fact = match &why {
            Down::Goodbye => "the peer said goodbye".to_owned(),
            Down::Reset(s) | Down::Protocol(s) | Down::Unreachable(s) => s.clone(),
        };
        let Some(peer) = self.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) else { return };
        if matches!(peer.state, State::Down(_)) {
            return;
        }
        peer.state = State::Down(fact.clone());
        peer.socket = None;
        peer.sending = None;
        let ops: Vec<OpId> = peer.out.abandon(&mut self.spare);
        for token in std::mem::take(&mut peer.conns) {
            self.remove(token);
        }
        for op in ops {
            self.news.push_back(News::Completed(ep, op, Err(fact.clone())));
        }
        self.news.push_back(News::Down(ep, why));
    }
}

use End::Goodbye;

/// The message that says so.
pub(crate) fn goodbye() -> [u8; HEADER_LEN] {
    Header { context: reserved::GOODBYE, ..Header::default() }.encode()
}
