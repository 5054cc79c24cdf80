//! Bytes on the wire of an MPI job: the message header, control messages and the hello.
//!
//! The crate turns values into bytes and bytes into values. It performs no I/O, holds no
//! socket, knows no clock and has no `unsafe`; a tool that wants to read a captured stream
//! depends on this crate alone. It must never know a request, a communicator or an operating
//! system.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod codec;
pub mod control;
pub mod daemon;
mod frames;
mod header;
pub mod hello;
pub mod limits;
pub mod pmi1;
pub mod pmi1_spawn;
pub mod pmi2;
pub mod pmi2_spawn;
pub mod rma;
pub mod spawn;
pub mod startup;
pub mod waits;
mod welcome;

pub use codec::DecodeError;
pub use header::{HEADER_LEN, Header, HeaderError, MAGIC};

/// Contexts that no communicator ever has; a header that carries one is a control message.
pub mod reserved {
    /// The job is to end; `tag` carries the code of the abort.
    pub const ABORT: u32 = 0x7AB0_0117;
    /// Clear to send: the receiver of an announced message is ready for its data.
    pub const CLEAR_TO_SEND: u32 = 0x7AB0_0C75;
    /// A piece of an announced message.
    pub const RENDEZVOUS_DATA: u32 = 0x7AB0_0DA7;
    /// The receiver has matched (and, for a pulled message, taken all of) an announced message.
    pub const ACKNOWLEDGE: u32 = 0x7AB0_0ACC;
    /// The sender wants an announced message back, if nobody has matched it: answered by an
    /// acknowledgement that it was dropped, or not at all.
    pub const CANCEL: u32 = 0x7AB0_CA9C;
    /// Flow control: announce instead of sending eagerly, or stop doing so.
    pub const FLOW: u32 = 0x7AB0_F10E;
    /// A communicator is revoked: `count` carries its id. There is no body.
    pub const REVOKE: u32 = 0x7AB0_4E0C;
    /// A message beside a communicator, which gets through when that one does not: `count` carries the context that it
    /// concerns, `source` and `tag` are as there.
    pub const ASIDE: u32 = 0x7AB0_A51D;
    /// The peer leaves in good order; what follows on this connection is end of file.
    pub const GOODBYE: u32 = 0x7AB0_600D;
    /// The first of the reserved contexts; every id from here to [`LAST`] is reserved.
    pub const FIRST: u32 = 0x7AB0_0000;
    /// The last of the reserved contexts.
    pub const LAST: u32 = 0x7AB0_FFFF;

    /// True for a context that belongs to a control message.
    pub const fn is_reserved(context: u32) -> bool {
        context >= FIRST && context <= LAST
    }
}

/// Bit of [`Header::datatype`] that marks an announcement (ready to send) instead of the data.
pub const ANNOUNCEMENT: u32 = 0x8000_0000;
