//! The sending half.

use crate::core::Core;
use crate::limits::{
    COALESCE_BYTES, COALESCE_LENT_BYTES, FIRST_PIECE_BYTES, HOLD_LIMIT_BYTES, ONE_PIECE_BYTES,
    SEND_PIECE_BYTES,
};
use crate::peer::{State, goodbye};
use crate::shared::Shared;
use crate::sys::{self, Piece};
use crate::{NAME, address};
use mpi_btl::{
    Am, Body, BtlTx, Caps, ConnectError, Ep, OpId, PeerInfo, RegionKey, RemoteError, SendError, Sent, Span,
};
use mpi_wire::HEADER_LEN;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

pub(crate) struct Tx {
    pub core: Arc<Shared>,
    pub caps: Caps,
}

impl BtlTx for Tx {
    fn caps(&self, _ep: Ep) -> Caps {
        self.caps
    }

    fn connect(&mut self, peer: &PeerInfo) -> Result<(), ConnectError> {
        let mut core = self.core.lock();
        let identity = Core::identity(&peer.job, peer.world_rank);
        let published = peer.addresses.get(NAME);
        let waits = core.strangers.iter().any(|(_, i)| *i == identity);
        if published.is_none() && !waits && core.peer(peer.ep).is_none() {
            return Err(ConnectError::Unreachable {
                backend: NAME,
                world_rank: peer.world_rank,
                host: peer.host.clone(),
            });
        }
        let addresses = published.map_or(Ok(Vec::new()), |bytes| address::decode(bytes)).map_err(|e| {
            ConnectError::Failed {
                backend: NAME,
                world_rank: peer.world_rank,
                host: peer.host.clone(),
                attempts: e.to_string(),
            }
        })?;
        let addresses = dialable(addresses, &core.own);
        let known = core.know(peer.ep, identity);
        known.host.clone_from(&peer.host);
        known.addresses = addresses;
        known.guest_secret = peer.guest_secret;
        core.name_stranger(identity, peer.ep);
        Ok(())
    }

    fn send(&mut self, ep: Ep, msg: Am<'_>) -> Result<Sent, SendError> {
        debug_assert_eq!(msg.header.length, msg.body.len() as u64, "header.length is the body's length");
        self.core.lock().send(ep, &msg)
    }

    fn flush(&mut self) {
        let mut core = self.core.lock();
        while let Some(ep) = core.held.pop() {
            let Some(peer) = core.peer_mut(ep) else { continue };
            peer.held = false;
            if std::mem::take(&mut peer.corked) {
                if let Some(socket) = &peer.socket {
                    // Set already; setting it pushes out what the kernel kept back. A socket that
                    // cannot is broken, and reading it will say so.
                    let _ = socket.set_tcp_nodelay(true);
                }
            }
            core.drain(ep);
        }
    }

    fn quiet(&self) -> bool {
        let core = self.core.lock();
        core.blocked.is_empty() && core.dialing.is_empty() && core.held.is_empty()
    }

    fn expose(&mut self, _ep: Ep, _mem: Span, _op: OpId) -> Option<RegionKey> {
        None
    }

    fn withdraw(&mut self, _ep: Ep, _op: OpId) -> bool {
        false
    }

    #[allow(unsafe_code)] // The trait declares it so; nothing unsafe happens here.
    unsafe fn get(
        &mut self,
        _ep: Ep,
        _key: &RegionKey,
        _offset: u64,
        _into: Span,
        _op: OpId,
        _last: bool,
    ) -> Result<Sent, RemoteError> {
        Err(RemoteError::Refused("tcp reads no remote memory".to_owned()))
    }

    fn close(&mut self, ep: Ep) {
        let mut core = self.core.lock();
        let core = &mut *core;
        let Some(peer) = core.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) else { return };
        if peer.closed || matches!(peer.state, State::Down(_)) {
            return;
        }
        peer.closed = true;
        // Where there is no connection there is nobody to take leave of.
        if matches!(peer.state, State::Dialing(_) | State::Up) {
            peer.out.push(&goodbye(), &mut core.spare);
            core.drain(ep);
        }
    }

    /// A peer asleep waits for its sockets: a message is what wakes it.
    fn wake(&mut self, _ep: Ep) {}
}

impl Core {
    fn send(&mut self, ep: Ep, msg: &Am<'_>) -> Result<Sent, SendError> {
        let head = msg.header.encode();
        let Some(peer) = self.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) else {
            return Err(SendError::Down("no peer is known under this number".to_owned()));
        };
        if peer.closed {
            return Err(SendError::Down("this side said goodbye".to_owned()));
        }
        let lent = matches!(msg.body, Body::Lent(..));
        // Small messages are held back as copies, lent ones as they are; the first of a burst to a
        // peer goes at once, so that the peer begins. What is between fills a packet and goes too.
        let hold = msg.more && if lent { peer.held } else { msg.body.len() < HOLD_LIMIT_BYTES };
        if peer.held && !hold && msg.body.len() >= HOLD_LIMIT_BYTES {
            self.drain(ep);
        }
        self.send_now(ep, msg, &head, hold)
    }

    fn send_now(
        &mut self,
        ep: Ep,
        msg: &Am<'_>,
        head: &[u8; HEADER_LEN],
        hold: bool,
    ) -> Result<Sent, SendError> {
        let Some(peer) = self.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) else {
            return Err(SendError::Down("no peer is known under this number".to_owned()));
        };
        if peer.out.is_empty() && !hold {
            if let (State::Up, Some(socket)) = (&peer.state, &peer.socket) {
                let cork = msg.more && !matches!(msg.body, Body::Lent(..));
                let sent = match send_direct(socket.as_fd(), head, &msg.body, cork, &mut self.whole) {
                    Ok(n) if n == head.len() + msg.body.len() => {
                        return Ok(self.in_kernel(ep, cork, msg.more));
                    }
                    Ok(n) => n,
                    Err(e) => {
                        let why = e.to_string();
                        self.sending_failed(ep, why.clone());
                        return Err(SendError::Down(why));
                    }
                };
                let pending = peer.out.push_message(head, msg.body, sent, &mut self.spare);
                self.drain(ep);
                return Ok(self.became(ep, pending));
            }
        }
        self.enqueue(ep, msg, head, hold)
    }

    /// All of a message is in the kernel; one that others are to follow owes a flush.
    fn in_kernel(&mut self, ep: Ep, cork: bool, more: bool) -> Sent {
        match self.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) {
            Some(peer) if more => {
                peer.corked = cork;
                if !peer.held {
                    peer.held = true;
                    self.held.push(ep);
                }
                Sent::Held
            }
            Some(peer) => {
                peer.corked = false;
                Sent::Done
            }
            None => Sent::Done,
        }
    }

    /// The message waits: for a connection, behind others, or because more is to come.
    fn enqueue(
        &mut self,
        ep: Ep,
        msg: &Am<'_>,
        head: &[u8; HEADER_LEN],
        hold: bool,
    ) -> Result<Sent, SendError> {
        let Some(peer) = self.peers.get_mut(ep.0 as usize).and_then(Option::as_deref_mut) else {
            return Err(SendError::Down("no peer is known under this number".to_owned()));
        };
        match &peer.state {
            State::Down(why) => return Err(SendError::Down(why.clone())),
            State::Up if peer.socket.is_none() => {
                return Err(SendError::Down("the connection is broken".to_owned()));
            }
            _ => {}
        }
        let lent = matches!(msg.body, Body::Lent(..));
        let copied = head.len() + if lent { 0 } else { msg.body.len() };
        if peer.out.refused.is_some() || !peer.out.has_room(copied) {
            peer.out.refused = Some(copied);
            return Err(SendError::Full);
        }
        let pending = peer.out.push_message(head, msg.body, 0, &mut self.spare);
        let hold = hold && peer.out.own_bytes() < COALESCE_BYTES && peer.out.bytes() < COALESCE_LENT_BYTES;
        match peer.state {
            State::Idle => self.dial(ep),
            State::Up if hold => {
                if !peer.held {
                    peer.held = true;
                    self.held.push(ep);
                }
                return Ok(if pending { Sent::Pending } else { Sent::Held });
            }
            // Behind others that the socket did not take, polling goes on.
            State::Up if self.blocked.contains(&ep) => {}
            State::Up => self.drain(ep),
            _ => {}
        }
        Ok(self.became(ep, pending))
    }

    /// What became of a message that was queued. One that still waits here (for its connection, for
    /// room in the socket) is held: somebody must go on polling, though the rank may compute.
    fn became(&self, ep: Ep, pending: bool) -> Sent {
        match self.peer(ep) {
            _ if pending => Sent::Pending,
            Some(peer) if !peer.out.is_empty() => Sent::Held,
            _ => Sent::Done,
        }
    }
}

/// A peer's addresses without those that lead back to this host: two hosts may share the address of
/// a bridge (docker0). A peer on this host has the same addresses as we, and keeps them.
fn dialable(theirs: Vec<SocketAddr>, own: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_own = |a: &SocketAddr| own.iter().any(|o| o.ip() == a.ip());
    let same_host = own.iter().all(|o| theirs.iter().any(|t| t.ip() == o.ip()));
    if same_host || theirs.iter().all(is_own) {
        return theirs;
    }
    theirs.into_iter().filter(|a| !is_own(a)).collect()
}

/// Sends header and body as far as the socket takes them; how far that is. `whole` is scratch.
fn send_direct(
    socket: BorrowedFd<'_>,
    head: &[u8; HEADER_LEN],
    body: &Body<'_>,
    more: bool,
    whole: &mut Vec<u8>,
) -> io::Result<usize> {
    let total = head.len() + body.len();
    if !more && total <= ONE_PIECE_BYTES {
        let parts: Option<[&[u8]; 2]> = match body {
            Body::Bytes(a) => Some([a, &[]]),
            Body::Two(a, b) => Some([a, b]),
            Body::Lent(..) => None,
        };
        if let Some([a, b]) = parts {
            // Copying costs less than a second piece in the kernel.
            whole.clear();
            whole.extend_from_slice(head);
            whole.extend_from_slice(a);
            whole.extend_from_slice(b);
            return match sys::send_one(socket, whole) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
                result => result,
            };
        }
    }
    let split = !more && total >= 2 * FIRST_PIECE_BYTES;
    let mut sent = 0;
    while sent < total {
        let most = if split && sent == 0 { FIRST_PIECE_BYTES } else { SEND_PIECE_BYTES };
        let pieces = pieces(head, body, sent, most);
        let asked: usize = pieces.iter().map(Piece::len).sum();
        // Several long messages in a row leave no short segment between them.
        let result = if more { sys::send_more(socket, &pieces) } else { sys::send(socket, &pieces) };
        let n = match result {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(sent),
            Err(e) => return Err(e),
        };
        sent += n;
        if n < asked {
            return Ok(sent);
        }
    }
    Ok(sent)
}

/// At most `most` bytes of header and body from byte `skip` on.
fn pieces<'a>(head: &'a [u8], body: &Body<'a>, mut skip: usize, mut most: usize) -> [Piece<'a>; 3] {
    let (a, b) = match body {
        Body::Bytes(a) => (Piece::out(a), Piece::EMPTY),
        Body::Two(a, b) => (Piece::out(a), Piece::out(b)),
        Body::Lent(span, _) => (Piece::lent(*span), Piece::EMPTY),
    };
    [Piece::out(head), a, b].map(|mut piece| {
        let from = skip.min(piece.len());
        skip -= from;
        piece.cut(from, most);
        most -= piece.len();
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::dialable;
    use std::net::SocketAddr;

    fn check(theirs: &[&str], own: &[&str], expected: &[&str]) {
        let list =
            |l: &[&str]| -> Vec<SocketAddr> { l.iter().map(|a| a.parse().expect("an address")).collect() };
        assert_eq!(dialable(list(theirs), &list(own)), list(expected));
    }

    #[test]
    fn ones_own_address_is_not_dialled_as_a_peers() {
        // Two hosts with a bridge of the same address.
        check(&["172.17.0.1:5", "10.0.0.2:5"], &["10.0.0.1:7", "172.17.0.1:7"], &["10.0.0.2:5"]);
        // The same host.
        check(
            &["10.0.0.1:5", "172.17.0.1:5"],
            &["10.0.0.1:7", "172.17.0.1:7"],
            &["10.0.0.1:5", "172.17.0.1:5"],
        );
        // Nothing else is there to try.
        check(&["172.17.0.1:5"], &["10.0.0.1:7", "172.17.0.1:7"], &["172.17.0.1:5"]);
        check(&["127.0.0.1:5"], &["127.0.0.1:7"], &["127.0.0.1:5"]);
    }
}
