//! Bodies of the messages of one-sided communication (MPI 5.0, chapter 12), for peers whose memory
//! cannot be reached directly.
//!
//! A target's datatype travels flattened: as [`Run`]s of primitives, of which one message carries as many as
//! the data beside them fill. A longer operation is several messages, each complete in itself, so the target
//! keeps nothing between them.

use crate::codec::{DecodeError, Put, Reader, clip};
use crate::limits::{RMA_FAULT_TEXT_MAX_BYTES, RMA_RUNS_MAX};

/// Length of an encoded [`Run`] in bytes.
pub const RUN_LEN: usize = 25;
/// Largest part of a message in bytes that is neither runs nor data.
pub const RMA_FIXED_MAX_LEN: usize = 24;

/// Blocks of equal length at a constant stride: a piece of a flattened type map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Id of the primitive that the blocks consist of.
    pub primitive: u8,
    /// Where the first block starts, in bytes from the operation's displacement.
    pub offset: i64,
    /// Primitives in one block.
    pub count: u32,
    /// Bytes from one block to the next.
    pub stride: i64,
    /// Number of blocks.
    pub repeat: u32,
}

/// The runs of a message, still encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs<'a>(&'a [u8]);

impl<'a> Runs<'a> {
    /// Runs that were encoded with [`Run::encode`], one behind the other.
    ///
    /// # Errors
    /// Not a whole number of them, or more than one message may carry.
    pub fn new(bytes: &'a [u8]) -> Result<Runs<'a>, DecodeError> {
        let n = bytes.len() / RUN_LEN;
        if bytes.len() % RUN_LEN != 0 {
            return Err(DecodeError::Short { what: "run", need: RUN_LEN, have: bytes.len() % RUN_LEN });
        }
        if n > RMA_RUNS_MAX {
            return Err(DecodeError::Limit { what: "runs", length: n, limit: RMA_RUNS_MAX });
        }
        Ok(Runs(bytes))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len() / RUN_LEN
    }

    /// True without any.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Run> + 'a {
        self.0.chunks_exact(RUN_LEN).filter_map(|bytes| Run::decode(bytes).ok())
    }
}

impl Run {
    /// Appends the run.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.primitive);
        out.put_u64(self.offset as u64);
        out.put_u32(self.count);
        out.put_u64(self.stride as u64);
        out.put_u32(self.repeat);
    }

    fn decode(bytes: &[u8]) -> Result<Run, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(Run {
            primitive: r.u8("primitive")?,
            offset: r.u64("offset")? as i64,
            count: r.u32("count")?,
            stride: r.u64("stride")? as i64,
            repeat: r.u32("repeat")?,
        })
    }
}

/// A message of one-sided communication. `at` is a displacement in the target's units; `id` names an
/// operation of the origin and comes back in the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields are those of the standard's calls")]
pub enum Rma<'a> {
    /// Write.
    Put { at: u64, runs: Runs<'a>, data: &'a [u8] },
    /// Combine; `op` is the number of a predefined operation.
    Accumulate { op: u8, at: u64, runs: Runs<'a>, data: &'a [u8] },
    /// Read; answered by `Data`.
    Get { id: u64, at: u64, runs: Runs<'a> },
    /// Read, then combine; answered by `Data`.
    GetAccumulate { id: u64, op: u8, at: u64, runs: Runs<'a>, data: &'a [u8] },
    /// The first half of the data is compared, the second put in; answered by `Data`.
    CompareAndSwap { id: u64, at: u64, runs: Runs<'a>, data: &'a [u8] },
    /// Open a passive epoch; what follows from this origin waits until it is granted.
    Lock { exclusive: bool },
    /// Close it; answered by `Ack`.
    Unlock { id: u64 },
    /// Answered by `Ack` when everything before is done.
    Flush { id: u64 },
    /// The sender exposes its memory to the receiver.
    Post,
    /// The sender's access epoch is over.
    Complete,
    /// A round of a fence.
    Fence { number: u64, round: u32 },
    /// Something in the shared header has changed that concerns the receiver.
    Look,
    /// What the receiver asked for waits, since its lock is not granted yet.
    Queued,
    /// Data that was read.
    Data { id: u64, data: &'a [u8] },
    /// Done.
    Ack { id: u64 },
    /// Operation `id` (0: one without an answer) failed, by MPI's error class.
    Fault { id: u64, class: i32, text: &'a str },
}

mod kind {
    pub const PUT: u8 = 1;
    pub const ACCUMULATE: u8 = 2;
    pub const GET: u8 = 3;
    pub const GET_ACCUMULATE: u8 = 4;
    pub const COMPARE_AND_SWAP: u8 = 5;
    pub const LOCK: u8 = 6;
    pub const UNLOCK: u8 = 7;
    pub const FLUSH: u8 = 8;
    pub const POST: u8 = 9;
    pub const COMPLETE: u8 = 10;
    pub const FENCE: u8 = 11;
    pub const LOOK: u8 = 12;
    pub const DATA: u8 = 13;
    pub const ACK: u8 = 14;
    pub const FAULT: u8 = 15;
    pub const QUEUED: u8 = 16;
}

impl<'a> Rma<'a> {
    /// Appends everything but the data, which follow directly.
    pub fn encode_head(&self, out: &mut Vec<u8>) {
        let mut head = |kind: u8, numbers: &[u64], runs: Option<Runs<'_>>| {
            out.put_u8(kind);
            numbers.iter().for_each(|n| out.put_u64(*n));
            if let Some(runs) = runs {
                out.extend_from_slice(&(runs.len() as u16).to_le_bytes());
                out.extend_from_slice(runs.0);
            }
        };
        match *self {
            Rma::Put { at, runs, .. } => head(kind::PUT, &[at], Some(runs)),
            Rma::Accumulate { op, at, runs, .. } => head(kind::ACCUMULATE, &[at, op.into()], Some(runs)),
            Rma::Get { id, at, runs } => head(kind::GET, &[id, at], Some(runs)),
            Rma::GetAccumulate { id, op, at, runs, .. } => {
                head(kind::GET_ACCUMULATE, &[id, at], None);
                out.put_u8(op);
                out.extend_from_slice(&(runs.len() as u16).to_le_bytes());
                out.extend_from_slice(runs.0);
            }
            Rma::CompareAndSwap { id, at, runs, .. } => head(kind::COMPARE_AND_SWAP, &[id, at], Some(runs)),
            Rma::Lock { exclusive } => head(kind::LOCK, &[exclusive.into()], None),
            Rma::Unlock { id } => head(kind::UNLOCK, &[id], None),
            Rma::Flush { id } => head(kind::FLUSH, &[id], None),
            Rma::Post => head(kind::POST, &[], None),
            Rma::Complete => head(kind::COMPLETE, &[], None),
            Rma::Fence { number, round } => head(kind::FENCE, &[number, round.into()], None),
            Rma::Look => head(kind::LOOK, &[], None),
            Rma::Queued => head(kind::QUEUED, &[], None),
            Rma::Data { id, .. } => head(kind::DATA, &[id], None),
            Rma::Ack { id } => head(kind::ACK, &[id], None),
            Rma::Fault { id, class, text } => {
                head(kind::FAULT, &[id, class as u32 as u64], None);
                out.extend_from_slice(clip(text, RMA_FAULT_TEXT_MAX_BYTES).as_bytes());
            }
        }
    }

    /// The data behind the head.
    pub const fn data(&self) -> &'a [u8] {
        match self {
            Rma::Put { data, .. }
            | Rma::Accumulate { data, .. }
            | Rma::GetAccumulate { data, .. }
            | Rma::CompareAndSwap { data, .. }
            | Rma::Data { data, .. } => data,
            _ => &[],
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Bytes that are no such message.
    pub fn decode(bytes: &'a [u8]) -> Result<Rma<'a>, DecodeError> {
        let mut r = Reader::new(bytes);
        let message = match r.u8("kind")? {
            kind::PUT => {
                let at = r.u64("displacement")?;
                let runs = runs(&mut r)?;
                Rma::Put { at, runs, data: r.rest() }
            }
            kind::ACCUMULATE => {
                let (at, op) = (r.u64("displacement")?, narrow(r.u64("operation")?, "operation")?);
                let runs = runs(&mut r)?;
                Rma::Accumulate { op, at, runs, data: r.rest() }
            }
            kind::GET => Rma::Get { id: r.u64("id")?, at: r.u64("displacement")?, runs: runs(&mut r)? },
            kind::GET_ACCUMULATE => {
                let (id, at, op) = (r.u64("id")?, r.u64("displacement")?, r.u8("operation")?);
                let runs = runs(&mut r)?;
                Rma::GetAccumulate { id, op, at, runs, data: r.rest() }
            }
            kind::COMPARE_AND_SWAP => {
                let (id, at) = (r.u64("id")?, r.u64("displacement")?);
                let runs = runs(&mut r)?;
                Rma::CompareAndSwap { id, at, runs, data: r.rest() }
            }
            kind::LOCK => match r.u64("lock type")? {
                value @ (0 | 1) => Rma::Lock { exclusive: value == 1 },
                value => return Err(DecodeError::Value { what: "lock type", value }),
            },
            kind::UNLOCK => Rma::Unlock { id: r.u64("id")? },
            kind::FLUSH => Rma::Flush { id: r.u64("id")? },
            kind::POST => Rma::Post,
            kind::COMPLETE => Rma::Complete,
            kind::FENCE => Rma::Fence { number: r.u64("fence")?, round: narrow(r.u64("round")?, "round")? },
            kind::LOOK => Rma::Look,
            kind::QUEUED => Rma::Queued,
            kind::DATA => Rma::Data { id: r.u64("id")?, data: r.rest() },
            kind::ACK => Rma::Ack { id: r.u64("id")? },
            kind::FAULT => {
                let (id, class) = (r.u64("id")?, narrow::<u32>(r.u64("class")?, "class")?);
                let text = r.rest();
                if text.len() > RMA_FAULT_TEXT_MAX_BYTES {
                    let (length, limit) = (text.len(), RMA_FAULT_TEXT_MAX_BYTES);
                    return Err(DecodeError::Limit { what: "fault", length, limit });
                }
                let text = std::str::from_utf8(text).map_err(|_| DecodeError::Utf8 { what: "fault" })?;
                Rma::Fault { id, class: class as i32, text }
            }
            value => return Err(DecodeError::Value { what: "kind", value: value.into() }),
        };
        r.end("message")?;
        Ok(message)
    }
}

fn runs<'a>(r: &mut Reader<'a>) -> Result<Runs<'a>, DecodeError> {
    let n = u16::from_le_bytes(r.array("number of runs")?) as usize;
    if n > RMA_RUNS_MAX {
        return Err(DecodeError::Limit { what: "runs", length: n, limit: RMA_RUNS_MAX });
    }
    Runs::new(r.take(n * RUN_LEN, "runs")?)
}

fn narrow<T: TryFrom<u64>>(value: u64, what: &'static str) -> Result<T, DecodeError> {
    T::try_from(value).map_err(|_| DecodeError::Value { what, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(message: &Rma<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode_head(&mut out);
        out.extend_from_slice(message.data());
        out
    }

    fn run() -> impl Strategy<Value = Run> {
        (any::<u8>(), any::<i64>(), any::<u32>(), any::<i64>(), any::<u32>()).prop_map(
            |(primitive, offset, count, stride, repeat)| Run { primitive, offset, count, stride, repeat },
        )
    }

    proptest! {
        #[test]
        fn every_message_comes_back(
            runs in proptest::collection::vec(run(), 0..20),
            data in proptest::collection::vec(any::<u8>(), 0..100),
            (id, at, op, round) in (any::<u64>(), any::<u64>(), any::<u8>(), any::<u32>()),
            (flag, class, text) in (any::<bool>(), any::<i32>(), "[a-zä]{0,20}"),
        ) {
            let mut bytes = Vec::new();
            runs.iter().for_each(|r| r.encode(&mut bytes));
            let all = Runs::new(&bytes).unwrap();
            prop_assert_eq!(all.iter().collect::<Vec<_>>(), runs);
            let (runs, data) = (all, &data[..]);
            for message in [
                Rma::Put { at, runs, data },
                Rma::Accumulate { op, at, runs, data },
                Rma::Get { id, at, runs },
                Rma::GetAccumulate { id, op, at, runs, data },
                Rma::CompareAndSwap { id, at, runs, data },
                Rma::Lock { exclusive: flag },
                Rma::Unlock { id },
                Rma::Flush { id },
                Rma::Post,
                Rma::Complete,
                Rma::Fence { number: id, round },
                Rma::Look,
                Rma::Queued,
                Rma::Data { id, data },
                Rma::Ack { id },
                Rma::Fault { id, class, text: &text },
            ] {
                let bytes = encoded(&message);
                prop_assert_eq!(Rma::decode(&bytes), Ok(message));
                let fixed = bytes.len() - data.len() * usize::from(!message.data().is_empty());
                if !matches!(message, Rma::Fault { .. }) {
                    prop_assert!(fixed <= RMA_FIXED_MAX_LEN + runs.len() * RUN_LEN);
                }
            }
        }

        #[test]
        fn noise_is_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(message) = Rma::decode(&bytes) {
                prop_assert_eq!(encoded(&message), bytes);
            }
        }
    }
}
