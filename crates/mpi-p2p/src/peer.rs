//! What the engine knows of one peer.

use crate::limits::LEND_ABOVE_BYTES;
use mpi_btl::{Caps, Ep};
use mpi_wire::Header;
use std::collections::VecDeque;

/// How things stand with a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Link {
    /// Never needed so far.
    #[default]
    Unknown,
    /// A backend reaches it.
    Up,
    /// It finished in good order.
    Left,
    /// It is gone, or cannot be reached; the fact.
    Down(Box<str>),
}

/// One peer. Small: there are thousands of silent ones.
#[derive(Debug)]
pub(crate) struct Peer {
    /// A message of fewer bytes may be sent at once, ahead of nothing. Zero while anything is
    /// queued, the peer is not up, silent, or asked for announcements: the one comparison of the fast path.
    pub fast_below: usize,
    pub link: Link,
    /// Which backend carries everything ordered.
    pub route: u8,
    /// It asked to be told of messages instead of getting them.
    pub announce: bool,
    /// It was asked so by us.
    pub told: bool,
    /// One of another world whose end nobody tells of, and that nothing has gone to: no connection would break.
    pub silent: bool,
    pub caps: Caps,
    /// Unexpected bytes that it has here.
    pub held: u64,
    pub queues: Option<Box<Queues>>,
}

/// What waits for room towards a peer.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Control messages: first, since they make room elsewhere.
    pub control: VecDeque<(Header, Vec<u8>)>,
    /// Sends in order, by request.
    pub pending: VecDeque<u32>,
    /// Sends that were cleared, by request.
    pub streams: VecDeque<u32>,
    /// Offered again only after `writable`.
    pub full: bool,
}

impl Queues {
    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.pending.is_empty() && self.streams.is_empty()
    }
}

const NO_CAPS: Caps =
    Caps { inline_limit: 0, eager_limit: 0, frame_limit: 0, get: false, lend: false, node: false };

impl Peer {
    const NEW: Peer = Peer {
        fast_below: 0,
        link: Link::Unknown,
        route: 0,
        announce: false,
        told: false,
        silent: false,
        caps: NO_CAPS,
        held: 0,
        queues: None,
    };

    /// Recomputes the fast path's limit.
    pub fn refresh(&mut self) {
        let clear = self.link == Link::Up
            && !self.announce
            && !self.silent
            && self.queues.as_ref().is_none_or(|q| q.pending.is_empty() && !q.full);
        self.fast_below = if clear { self.caps.eager_limit.min(LEND_ABOVE_BYTES) + 1 } else { 0 };
    }

    pub fn queues(&mut self) -> &mut Queues {
        self.queues.get_or_insert_default()
    }

    /// Why nothing goes to or comes from it any more.
    pub fn gone(&self) -> Option<String> {
        match &self.link {
            Link::Unknown | Link::Up => None,
            Link::Left => Some("the peer has finalized".to_owned()),
            Link::Down(why) => Some(format!("the peer is gone: {why}")),
        }
    }
}

/// All peers by number.
#[derive(Debug, Default)]
pub(crate) struct Peers(Vec<Peer>);

impl Peers {
    pub fn get(&self, ep: Ep) -> Option<&Peer> {
        self.0.get(ep.0 as usize)
    }

    #[inline]
    pub fn at(&mut self, ep: Ep) -> &mut Peer {
        let i = ep.0 as usize;
        if i >= self.0.len() {
            self.grow(i);
        }
        &mut self.0[i]
    }

    #[cold]
    fn grow(&mut self, i: usize) {
        self.0.resize_with(i + 1, || Peer::NEW);
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Ep, &mut Peer)> {
        self.0.iter_mut().enumerate().map(|(i, p)| (Ep(i as u32), p))
    }
}
