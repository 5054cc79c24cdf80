//! The two halves of an open backend.

use crate::{BulkId, Caps, ConnectError, Ep, OpId, PeerInfo, Sink, Span};
use mpi_wire::Header;
use std::os::fd::RawFd;

/// A message to send: header and body. `header.length` equals the body's length.
#[derive(Clone, Copy, Debug)]
pub struct Am<'a> {
    /// What stands in front.
    pub header: Header,
    /// What follows.
    pub body: Body<'a>,
    /// More follows soon: the backend may hold the message back ([`Sent::Held`]) until
    /// [`BtlTx::flush`], to send many at once.
    pub more: bool,
}

/// The body of a message.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// Copied, or on its way, when `send` returns.
    Bytes(&'a [u8]),
    /// As `Bytes`, in two parts one behind the other.
    Two(&'a [u8], &'a [u8]),
    /// Memory that stays valid and unchanged until [`Sink::completed`] with this id, if `send`
    /// answers [`Sent::Pending`]; only for backends with [`Caps::lend`].
    Lent(Span, OpId),
}

impl Body<'_> {
    /// Bytes of the body.
    pub fn len(&self) -> usize {
        match self {
            Body::Bytes(b) => b.len(),
            Body::Two(a, b) => a.len() + b.len(),
            Body::Lent(span, _) => span.len(),
        }
    }
    /// True when there is no body.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The body is free again and the message is on its way.
    Done,
    /// The body is free again, and the message still waits inside this process: for the next
    /// [`BtlTx::flush`], which the caller owes, or for its connection or room in the socket, which
    /// need polling. The caller keeps both up until [`BtlTx::quiet`].
    Held,
    /// The body is lent until [`Sink::completed`]. With [`Am::more`] the message may wait for the next
    /// [`BtlTx::flush`], as for `Held`.
    Pending,
}

/// A message was not taken. It can be offered again only after what the variant says.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// No room now; nothing of the message was taken. [`Sink::writable`] follows.
    #[error("no room towards the peer")]
    Full,
    /// The peer is gone.
    #[error("the peer is gone: {0}")]
    Down(String),
}

/// Remote access was not possible; the fact.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RemoteError {
    /// This backend or this peer does not allow it: use frames instead.
    #[error("remote access refused: {0}")]
    Refused(String),
    /// The key is none of this backend's: the peer's fault.
    #[error("malformed region key")]
    Key,
    /// No room for a further operation now; offer again after the next poll.
    #[error("too many operations in flight")]
    Busy,
}

/// Names exposed memory to a peer; opaque bytes that travel inside an announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionKey {
    /// The backend's own encoding; unused bytes are zero.
    pub bytes: [u8; RegionKey::LEN],
}

impl RegionKey {
    /// Length of a key in bytes.
    pub const LEN: usize = 40;
}

/// The sending half. All calls come from one thread at a time (the engine holds its lock).
pub trait BtlTx: Send {
    /// What this backend can do towards `ep`; constant while the peer is connected.
    fn caps(&self, ep: Ep) -> Caps;
    /// Makes the peer known. Connections may be made lazily, on the first send.
    ///
    /// # Errors
    /// [`ConnectError::Unreachable`] where the next backend should be asked.
    fn connect(&mut self, peer: &PeerInfo) -> Result<(), ConnectError>;
    /// Sends all of the message or nothing of it. Never blocks.
    ///
    /// # Errors
    /// [`SendError`]; after `Full`, order is the caller's: it must offer this message before any
    /// later one for the same peer.
    fn send(&mut self, ep: Ep, msg: Am<'_>) -> Result<Sent, SendError>;
    /// Pushes out everything that was held back.
    fn flush(&mut self);
    /// Nothing that was sent still waits inside this process. Finalisation polls until then, so
    /// that the last messages and the goodbyes are not lost with the process.
    fn quiet(&self) -> bool {
        true
    }
    /// Offers memory for the peer to `get`. The memory stays valid and unchanged until
    /// [`Sink::completed`] reports `op`, which happens when the peer has taken all of it.
    /// `None`: not possible here.
    fn expose(&mut self, ep: Ep, mem: Span, op: OpId) -> Option<RegionKey>;
    /// Withdraws an offer that the peer has not begun to take. `false`: it has begun.
    fn withdraw(&mut self, ep: Ep, op: OpId) -> bool;
    /// Copies `into.len()` bytes from byte `offset` of the region into `into`. `Done`: complete on
    /// return. `Pending`: [`Sink::completed`] with `op` follows. When `last`, the exposing side is
    /// told that it may have its memory back.
    ///
    /// # Safety
    /// `into` is valid for writes, and nobody else touches it, until the operation is complete.
    ///
    /// # Errors
    /// [`RemoteError`]; `into` is unspecified then.
    unsafe fn get(
        &mut self,
        ep: Ep,
        key: &RegionKey,
        offset: u64,
        into: Span,
        op: OpId,
        last: bool,
    ) -> Result<Sent, RemoteError>;
    /// Says goodbye to a peer, after all that was sent before; to one that said goodbye first too,
    /// as it may be waiting for it. Nothing is sent to the peer afterwards.
    fn close(&mut self, ep: Ep);
    /// The boards of this node, where the backend has such memory.
    fn boards(&self) -> Option<std::sync::Arc<dyn crate::Boards>> {
        None
    }
    /// Where a connected peer publishes on them; `None` when it does not.
    fn place(&self, _ep: Ep) -> Option<u32> {
        None
    }
    /// Lets every peer asleep that owes this rank nothing be; wakes `ep` if it sleeps.
    fn wake(&mut self, ep: Ep);
}

/// How much one poll found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polled {
    /// Nothing.
    Idle,
    /// Something was delivered or moved on.
    Progress,
}

/// What the sleeper can sleep on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeBy {
    /// A futex word if the backend has one.
    Futex,
    /// A file descriptor that becomes readable.
    Descriptor,
}

/// Answer to [`BtlRx::arm`].
#[derive(Clone, Copy, Debug)]
pub enum Armed<'a> {
    /// Something is there already: poll instead of sleeping.
    Ready,
    /// Sleep while the word equals `expected`; a sender changes it and wakes it (shared futex).
    Word {
        /// The word.
        word: &'a std::sync::atomic::AtomicU32,
        /// The value it had when armed.
        expected: u32,
    },
    /// Sleep until the descriptor (often an epoll) is readable.
    Descriptor(RawFd),
    /// This backend has no open way to any peer: nothing can wake through it.
    Nothing,
}

/// The receiving half. One owner at a time.
pub trait BtlRx: Send {
    /// Moves everything on, delivering at most `budget` messages.
    fn poll(&mut self, budget: usize, sink: &mut dyn Sink) -> Polled;
    /// As [`poll`](BtlRx::poll) but looks first, and if possible only, where `ep`'s messages come
    /// in; delivers at most one message. The fast path of a blocking receive.
    fn poll_from(&mut self, ep: Ep, sink: &mut dyn Sink) -> Polled;
    /// Prepares to sleep. After a `Word` or `Descriptor` answer every later arrival wakes.
    fn arm(&mut self, by: WakeBy) -> Armed<'_>;
    /// Awake again.
    fn disarm(&mut self);
    /// Forgets a [`Place::Direct`](crate::Place::Direct) or `Chunks`: the rest of that body is thrown away.
    fn revoke(&mut self, bulk: BulkId);
    /// Descriptors that a helper thread may wait on for messages that need service while the rank
    /// computes (often the epoll); `None` where a helper has nothing to wait on.
    fn service_descriptor(&self) -> Option<RawFd>;
    /// A helper thread is about to wait on the service descriptor: what is read without it while somebody polls has to
    /// be reported by it again.
    fn before_service(&mut self) {}
}
