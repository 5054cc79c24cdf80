//! What a blocked or broken process says of itself.

use crate::limits::ABSENT_SHOWN;
use mpi_btl::Ep;
use std::fmt;
use std::time::Duration;

/// An operation that has been blocked for long, with everything known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// The operation: `receive`, `probe`, `wait`, `send`.
    pub op: &'static str,
    /// Name and context of the communicator.
    pub comm: Option<(String, u32)>,
    /// This process's rank there.
    pub my_rank: Option<i32>,
    /// Rank of the peer there; negative for any source.
    pub peer: Option<i32>,
    /// It sends to the peer; else it receives from it.
    pub sends: bool,
    /// The processes whose act would end it; empty where that is nobody in particular.
    pub waits_for: Vec<Ep>,
    /// One of them is enough; else all have to act.
    pub any: bool,
    /// The tag; negative for any.
    pub tag: Option<i32>,
    /// What it is about besides the communicator, as `window "grid"`.
    pub object: Option<String>,
    /// Of several who are waited for, their ranks; of one it is the peer.
    pub absent: Vec<u32>,
    /// It has found its other half, and data are on their way: no act of the peer is waited for.
    pub moving: bool,
    /// For how long.
    pub since: Duration,
    /// Further operations that the same call waits for.
    pub others: usize,
    /// Unexpected messages in the same communicator, of which none matches a receive: how many.
    pub unexpected: usize,
    /// The first few of them.
    pub first_unexpected: Vec<Waiting>,
}

/// A message or a posted receive that waits for its other half.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Name and context of the communicator; no name while it is not known here.
    pub comm: (String, u32),
    /// Rank of the sender; negative for any.
    pub source: i32,
    /// Tag; negative for any.
    pub tag: i32,
    /// Bytes of data, or of room.
    pub bytes: u64,
}

/// The state of an engine, for a picture of who waits for whom.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    /// Blocked operations of all threads.
    pub blocked: Vec<Blocked>,
    /// Operations that no call waits for, the first few.
    pub open: Vec<Open>,
    /// How many there are.
    pub open_total: usize,
    /// How often a test or a probe has found nothing so far: it grows while a thread polls.
    pub fruitless: u64,
    /// What the last such probe looked for.
    pub probed: Option<Open>,
    /// Posted receives, the first few.
    pub posted: Vec<Waiting>,
    /// How many there are.
    pub posted_total: usize,
    /// Unexpected messages, the first few.
    pub unexpected: Vec<Waiting>,
    /// How many there are.
    pub unexpected_total: usize,
    /// Bytes of memory that they occupy.
    pub unexpected_bytes: u64,
}

/// An operation that is under way without a call that waits for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// In words, as `receive on "grid" from rank 3 tag 7`.
    pub text: String,
    /// The processes whose act would complete it; empty where that is nobody in particular.
    pub waits_for: Vec<Ep>,
}

/// What the engine has to tell of at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fatal {
    /// The peer is gone without a goodbye.
    PeerGone {
        /// Who.
        ep: Ep,
        /// How.
        how: String,
    },
    /// The peer called abort.
    Abort {
        /// Who.
        ep: Ep,
        /// With which code.
        code: i32,
        /// What it said.
        text: String,
    },
    /// Nothing broke, but people should hear of it.
    Notice {
        /// The fact.
        text: String,
    },
}

fn write_tag(f: &mut fmt::Formatter<'_>, tag: i32) -> fmt::Result {
    if tag < 0 { f.write_str("any tag") } else { write!(f, "tag {tag}") }
}

fn write_source(f: &mut fmt::Formatter<'_>, rank: i32) -> fmt::Result {
    if rank < 0 { f.write_str("any rank") } else { write!(f, "rank {rank}") }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("from ")?;
        write_source(f, self.source)?;
        f.write_str(" ")?;
        write_tag(f, self.tag)?;
        write!(f, " ({} byte{})", self.bytes, if self.bytes == 1 { "" } else { "s" })
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has been blocked for {:.0} s", self.op, self.since.as_secs_f64())?;
        if let Some((name, context)) = &self.comm {
            match name.as_str() {
                "" => write!(f, " on a communicator without a name (context {context})")?,
                name => write!(f, " on {name:?} (context {context})")?,
            }
        }
        if let Some(object) = &self.object {
            write!(f, ", {object}")?;
        }
        if let Some((first, rest)) = self.absent.split_first() {
            write!(f, ", waiting for rank{} {first}", if rest.is_empty() { "" } else { "s" })?;
            for rank in rest.iter().take(ABSENT_SHOWN - 1) {
                write!(f, ", {rank}")?;
            }
            if rest.len() >= ABSENT_SHOWN {
                write!(f, " and {} more", rest.len() - (ABSENT_SHOWN - 1))?;
            }
        }
        // Without a tag it is an operation of many, which waits for one of them at a time.
        let is_transfer = self.tag.is_some();
        if let Some(peer) = self.peer {
            f.write_str(match (is_transfer, self.sends) {
                (false, _) => ", waiting for ",
                (true, true) => " to ",
                (true, false) => " from ",
            })?;
            write_source(f, peer)?;
        }
        if let Some(tag) = self.tag {
            f.write_str(", ")?;
            write_tag(f, tag)?;
        }
        if self.others > 0 {
            let s = if self.others == 1 { "" } else { "s" };
            write!(f, ", and {} further operation{s}", self.others)?;
        }
        match self.unexpected {
            _ if self.moving => f.write_str("; its data are under way"),
            _ if !is_transfer => Ok(()),
            0 if self.sends => Ok(()),
            0 => f.write_str("; no unexpected message is here"),
            n => {
                let s = if n == 1 { " is" } else { "s are" };
                // What a send waits for is at the other side; that nobody receives here may be why.
                let verdict = if self.sends { "" } else { ", and none matches" };
                write!(f, "; {n} unexpected message{s} here{verdict}:")?;
                for m in &self.first_unexpected {
                    write!(f, " [{m}]")?;
                }
                Ok(())
            }
        }
    }
}
