//! The receive that a thread is waiting in, not posted: the shortest way from a transport to the
//! user's buffer.
//!
//! It stands before every posted receive, so it is used only when none of those could match its
//! message; whatever is posted while it waits comes later in order.

use crate::Status;
use crate::lend::Look;
use crate::memory::Memory;
use crate::status::ANY;
use mpi_btl::Ep;
use mpi_wire::Header;

/// How the waiting receive stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// There is none.
    Off,
    /// Nothing has come.
    Waiting,
    /// The message is in place.
    Done(Status),
    /// It became a request: its message needs more than one step, or its peer is gone.
    Request(u32),
}

#[derive(Debug)]
pub(crate) struct Direct {
    pub outcome: Outcome,
    pub from: Ep,
    pub context: u32,
    pub source: i32,
    pub tag: i32,
    pub signature: u32,
    pub memory: Memory,
    /// Who looks at the message where it lies, instead of having it copied.
    pub look: Option<Look>,
}

impl Direct {
    pub const fn off() -> Direct {
        Direct {
            outcome: Outcome::Off,
            from: Ep(0),
            context: u32::MAX,
            source: 0,
            tag: 0,
            signature: 0,
            memory: Memory::NOTHING,
            look: None,
        }
    }

    /// The message is this receive's.
    #[inline]
    pub fn takes(&self, from: Ep, header: &Header) -> bool {
        header.context == self.context
            && from == self.from
            && header.source == self.source
            && (self.tag == header.tag || self.tag == ANY)
            && self.outcome == Outcome::Waiting
    }
}
