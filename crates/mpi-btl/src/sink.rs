//! What a receiving half tells the engine.

use crate::{Ep, Span};
use mpi_wire::Header;

/// The engine's name for an operation that a backend completes later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpId(pub u64);

/// The engine's name for a body that arrives in parts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BulkId(pub u64);

/// Where the engine wants the body of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The engine took everything it wants. Bytes of the body that are still to come are read
    /// and thrown away.
    Done,
    /// Put the bytes after `have` into `into` (exactly `total - have.len()` long), then call
    /// [`Sink::arrived`] (at once when nothing is left to come). The engine keeps the memory valid
    /// until then, until `revoke`, or until the peer is down.
    Direct {
        /// Name for `arrived` and `revoke`.
        bulk: BulkId,
        /// Destination of the rest of the body.
        into: Span,
    },
    /// Hand over the bytes after `have` with [`Sink::chunk`] as they come. When nothing is left to
    /// come, one empty chunk with `last` follows at once.
    Chunks(BulkId),
}

/// Why a peer is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Down {
    /// It said goodbye first: finalised in good order.
    Goodbye,
    /// The connection ended, or the process died, without a goodbye; with the errno or fact.
    Reset(String),
    /// It sent what no peer may send; with the fact.
    Protocol(String),
    /// It cannot be reached; with every attempt.
    Unreachable(String),
}

/// Receives what a backend delivers. Borrowed bytes die when the callback returns.
pub trait Sink {
    /// A message from `from`: `have` is the part of its body already here (the whole body for a
    /// backend that delivers whole messages), `total` equals `header.length`.
    fn message(&mut self, from: Ep, header: &Header, have: &[u8], total: u64) -> Place;
    /// The next bytes of a body placed by [`Place::Chunks`]; `last` with the final ones.
    fn chunk(&mut self, from: Ep, bulk: BulkId, bytes: &[u8], last: bool);
    /// A body placed by [`Place::Direct`] is complete in its place.
    fn arrived(&mut self, from: Ep, bulk: BulkId);
    /// A lent body, a `get` or an exposed region is done with: the memory is the engine's again.
    /// `Err` carries the fact when it could not be carried out.
    fn completed(&mut self, ep: Ep, op: OpId, result: Result<(), String>);
    /// A peer that answered `Full` takes messages again.
    fn writable(&mut self, ep: Ep);
    /// The peer is gone; nothing more comes from it. Every operation that was pending with it has
    /// been reported by [`completed`](Sink::completed) with `Err` before; memory given by
    /// [`Place::Direct`] is the engine's again. Reported once per peer.
    fn down(&mut self, ep: Ep, why: Down);
    /// A peer that [`BtlTx::connect`](crate::BtlTx::connect) has not named yet has reached this
    /// process and proved who it is. The number under which its messages are to be delivered;
    /// `None` keeps it waiting, unread, until `connect` names it.
    fn introduced(&mut self, _job: &str, _world_rank: u32) -> Option<Ep> {
        None
    }
    /// Something that people should hear of, though nothing broke: strangers at the door, say. The
    /// backend bounds how often.
    fn notice(&mut self, _text: String) {}
}
