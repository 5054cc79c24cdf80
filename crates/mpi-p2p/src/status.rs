//! What is said about an operation, and what a receive asks for.

use crate::ErrorClass;

/// Whose message a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// That of one rank.
    Rank(u32),
    /// Anyone's.
    Any,
}

/// Which tag a receive takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    /// Exactly this one, not negative.
    Is(i32),
    /// Every one.
    Any,
}

/// How a wildcard is kept beside ranks and tags.
pub(crate) const ANY: i32 = -1;

impl Source {
    pub(crate) fn raw(self) -> i32 {
        match self {
            Source::Rank(rank) => rank as i32,
            Source::Any => ANY,
        }
    }
}

impl Tag {
    pub(crate) fn raw(self) -> i32 {
        match self {
            Tag::Is(tag) => tag,
            Tag::Any => ANY,
        }
    }
}

/// Communication modes of a send (MPI 5.0, section 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendMode {
    /// Complete when the buffer can be reused.
    Standard,
    /// Complete at once; the message is kept in the attached buffer meanwhile.
    Buffered,
    /// Complete when the receiver has matched.
    Synchronous,
    /// The receive is posted already. Treated as standard.
    Ready,
}

impl SendMode {
    /// The operation, as people say it.
    #[must_use]
    pub const fn operation(self) -> &'static str {
        match self {
            SendMode::Standard => "send",
            SendMode::Buffered => "buffered send",
            SendMode::Synchronous => "synchronous send",
            SendMode::Ready => "ready send",
        }
    }
}

/// What became of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Rank of the sender; negative where there is none.
    pub source: i32,
    /// Tag of the message; negative where there is none.
    pub tag: i32,
    /// Bytes of data, packed, that were received.
    pub bytes: u64,
    /// The operation was cancelled and moved nothing.
    pub cancelled: bool,
    /// How it ended.
    pub error: ErrorClass,
}

impl Status {
    /// The status of an operation that has nothing to say (MPI's empty status).
    pub const EMPTY: Status =
        Status { source: ANY, tag: ANY, bytes: 0, cancelled: false, error: ErrorClass::Success };
}
