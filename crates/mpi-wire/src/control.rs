//! Bodies of the messages that steer others: announcement, clear to send, acknowledge, flow, abort.
//!
//! Each has a fixed size except the announcement, behind whose fixed part the first bytes of the
//! message may travel, and the abort, which carries a text. The header in front names the kind by
//! its [reserved context](crate::reserved), and the announcement by the bit
//! [`ANNOUNCEMENT`]. A goodbye has no body.

use crate::codec::{DecodeError, Put, Reader, clip};
use crate::limits::ABORT_TEXT_MAX_BYTES;
use crate::{ANNOUNCEMENT, Header, reserved};

/// Length of an encoded [`Announcement`] in bytes: one cache line.
pub const ANNOUNCEMENT_LEN: usize = 64;
/// Length of an encoded [`ClearToSend`] in bytes.
pub const CLEAR_TO_SEND_LEN: usize = 32;
/// Length of an encoded [`Acknowledge`] in bytes.
pub const ACKNOWLEDGE_LEN: usize = 16;
/// Length of an encoded [`Flow`] in bytes.
pub const FLOW_LEN: usize = 16;
/// Length in bytes of the name of exposed memory.
pub const REGION_KEY_LEN: usize = 40;

/// A message that is ready to be sent (RTS). Context, source, dest, tag, count and datatype stand
/// in the header, whose length is that of this body and of the inline bytes behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// Bytes of the whole message.
    pub total: u64,
    /// The sender's name for the operation; comes back in clear-to-send and acknowledge.
    pub op: u64,
    /// The sender waits for the match: an acknowledgement is owed (synchronous mode).
    pub sync: bool,
    /// Where the receiver may take the data itself; without it the receiver clears the sender to
    /// send.
    pub pull: Option<[u8; REGION_KEY_LEN]>,
}

const FLAG_SYNC: u32 = 1;
const FLAG_PULL: u32 = 2;

impl Announcement {
    /// The fixed part as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ANNOUNCEMENT_LEN] {
        let mut out = [0; ANNOUNCEMENT_LEN];
        let flags = if self.sync { FLAG_SYNC } else { 0 } | if self.pull.is_some() { FLAG_PULL } else { 0 };
        out[0..8].copy_from_slice(&self.total.to_le_bytes());
        out[8..16].copy_from_slice(&self.op.to_le_bytes());
        out[16..20].copy_from_slice(&flags.to_le_bytes());
        out[24..64].copy_from_slice(&self.pull.unwrap_or([0; REGION_KEY_LEN]));
        out
    }

    /// Reads an announcement off the front of a body; gives the inline bytes behind it too.
    ///
    /// # Errors
    /// A body that is too short, an unknown flag, a total above [`Header::MAX_LENGTH`], more
    /// inline bytes than the message has.
    pub fn decode(body: &[u8]) -> Result<(Announcement, &[u8]), DecodeError> {
        let mut r = Reader::new(body);
        let mut fixed = Reader::new(r.take(ANNOUNCEMENT_LEN, "announcement")?);
        let total = fixed.u64("total")?;
        let op = fixed.u64("operation")?;
        let flags = fixed.u32("flags")?;
        let spare = fixed.u32("spare")?;
        let key = fixed.array("region key")?;
        if total > Header::MAX_LENGTH {
            return Err(DecodeError::Value { what: "total", value: total });
        }
        if flags & !(FLAG_SYNC | FLAG_PULL) != 0 || spare != 0 {
            return Err(DecodeError::Value {
                what: "flags",
                value: u64::from(spare) << 32 | u64::from(flags),
            });
        }
        let inline = body.get(ANNOUNCEMENT_LEN..).unwrap_or_default();
        if inline.len() as u64 > total {
            return Err(DecodeError::Long { what: "inline data", extra: inline.len() - total as usize });
        }
        let pull = (flags & FLAG_PULL != 0).then_some(key);
        Ok((Announcement { total, op, sync: flags & FLAG_SYNC != 0, pull }, inline))
    }

    /// True for a header behind which an announcement stands.
    #[must_use]
    pub const fn announced_by(header: &Header) -> bool {
        header.datatype & ANNOUNCEMENT != 0 && !reserved::is_reserved(header.context)
    }
}

/// The receiver of an announced message is ready for its data (CTS).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClearToSend {
    /// The sender's name for the operation, from the announcement.
    pub op: u64,
    /// The receiver's name for it, to stand in front of the data.
    pub into: u64,
    /// First byte of the message that is wanted.
    pub offset: u64,
    /// Number of bytes wanted from there; less than announced where the buffer is too small.
    pub length: u64,
}

impl ClearToSend {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; CLEAR_TO_SEND_LEN] {
        words([self.op, self.into, self.offset, self.length])
    }

    /// Reads it.
    ///
    /// # Errors
    /// A wrong size; a range that reaches beyond [`Header::MAX_LENGTH`].
    pub fn decode(body: &[u8]) -> Result<ClearToSend, DecodeError> {
        let mut r = Reader::new(body);
        let cts = ClearToSend {
            op: r.u64("operation")?,
            into: r.u64("destination")?,
            offset: r.u64("offset")?,
            length: r.u64("length")?,
        };
        r.end("clear to send")?;
        match cts.offset.checked_add(cts.length) {
            Some(end) if end <= Header::MAX_LENGTH => Ok(cts),
            _ => Err(DecodeError::Value { what: "length", value: cts.length }),
        }
    }
}

/// What became of an announced message at its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Matched; and for a pulled message all of it is taken.
    Taken,
    /// Never to be taken: the receiver threw it away (truncation, cancel, freed communicator).
    Dropped,
}

/// The receiver has matched an announced message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledge {
    /// The sender's name for the operation.
    pub op: u64,
    /// What became of it.
    pub outcome: Outcome,
}

impl Acknowledge {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ACKNOWLEDGE_LEN] {
        words([self.op, if self.outcome == Outcome::Taken { 0 } else { 1 }])
    }

    /// Reads it.
    ///
    /// # Errors
    /// A wrong size or an unknown outcome.
    pub fn decode(body: &[u8]) -> Result<Acknowledge, DecodeError> {
        let mut r = Reader::new(body);
        let op = r.u64("operation")?;
        let outcome = match r.u64("outcome")? {
            0 => Outcome::Taken,
            1 => Outcome::Dropped,
            value => return Err(DecodeError::Value { what: "outcome", value }),
        };
        r.end("acknowledge")?;
        Ok(Acknowledge { op, outcome })
    }
}

/// Flow control between a pair: how the peer is to send from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Announce every message, however small, instead of sending it at once.
    pub announce: bool,
    /// Unexpected bytes of this peer that the sender of this message holds.
    pub held: u64,
}

impl Flow {
    /// As bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; FLOW_LEN] {
        words([self.announce.into(), self.held])
    }

    /// Reads it.
    ///
    /// # Errors
    /// A wrong size or an unknown mode.
    pub fn decode(body: &[u8]) -> Result<Flow, DecodeError> {
        let mut r = Reader::new(body);
        let announce = match r.u64("mode")? {
            0 => false,
            1 => true,
            value => return Err(DecodeError::Value { what: "mode", value }),
        };
        let held = r.u64("held")?;
        r.end("flow")?;
        Ok(Flow { announce, held })
    }
}

/// Header and body of an abort: the code in the tag, a text for people behind it.
#[must_use]
pub fn abort(source: i32, dest: i32, code: i32, text: &str) -> (Header, Vec<u8>) {
    let body = clip(text, ABORT_TEXT_MAX_BYTES).as_bytes().to_vec();
    let length = body.len() as u64;
    (Header { context: reserved::ABORT, source, dest, tag: code, length, ..Header::default() }, body)
}

/// The text of an abort's body.
///
/// # Errors
/// More than [`ABORT_TEXT_MAX_BYTES`], or no UTF-8.
pub fn abort_text(body: &[u8]) -> Result<&str, DecodeError> {
    if body.len() > ABORT_TEXT_MAX_BYTES {
        let (length, limit) = (body.len(), ABORT_TEXT_MAX_BYTES);
        return Err(DecodeError::Limit { what: "abort text", length, limit });
    }
    std::str::from_utf8(body).map_err(|_| DecodeError::Utf8 { what: "abort text" })
}

/// The header of a goodbye, which has no body.
#[must_use]
pub fn goodbye(source: i32, dest: i32) -> Header {
    Header { context: reserved::GOODBYE, source, dest, ..Header::default() }
}

fn words<const N: usize, const W: usize>(values: [u64; W]) -> [u8; N] {
    const { assert!(N == W * 8) };
    let mut bytes = Vec::with_capacity(N);
    for value in values {
        bytes.put_u64(value);
    }
    let mut out = [0; N];
    out.copy_from_slice(&bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_announcement_fills_a_cache_line() {
        let rts = Announcement { total: 5, op: 9, sync: true, pull: None };
        let mut body = rts.encode().to_vec();
        assert_eq!(body.len(), 64);
        assert_eq!(Announcement::decode(&body), Ok((rts, &[][..])));
        body.extend_from_slice(b"hello");
        assert_eq!(Announcement::decode(&body), Ok((rts, &b"hello"[..])));
        body.push(b'!');
        assert!(matches!(Announcement::decode(&body), Err(DecodeError::Long { extra: 1, .. })));
    }

    #[test]
    fn an_announcement_is_told_from_a_control_message() {
        let header = Header { datatype: ANNOUNCEMENT | 3, ..Header::default() };
        assert!(Announcement::announced_by(&header));
        assert!(!Announcement::announced_by(&Header { datatype: 3, ..header }));
        assert!(!Announcement::announced_by(&Header { context: reserved::FLOW, ..header }));
    }

    #[test]
    fn ranges_do_not_wrap() {
        let cts = ClearToSend { op: 1, into: 2, offset: u64::MAX, length: 2 };
        assert!(ClearToSend::decode(&cts.encode()).is_err());
    }

    #[test]
    fn an_abort_is_cut_between_characters() {
        let (header, body) = abort(1, 2, -7, &"é".repeat(ABORT_TEXT_MAX_BYTES));
        assert_eq!((header.tag, header.length), (-7, body.len() as u64));
        assert!(abort_text(&body).unwrap().ends_with('é'));
        assert!(abort_text(&[b'x'; ABORT_TEXT_MAX_BYTES + 1]).is_err());
        assert_eq!(abort_text(&[0xFF]), Err(DecodeError::Utf8 { what: "abort text" }));
    }

    proptest! {
        #[test]
        fn round_trips(
            total in 0..=Header::MAX_LENGTH,
            op: u64,
            into: u64,
            sync: bool,
            key: Option<[u8; REGION_KEY_LEN]>,
            offset in 0..=Header::MAX_LENGTH / 2,
            length in 0..=Header::MAX_LENGTH / 2,
        ) {
            let rts = Announcement { total, op, sync, pull: key };
            let body = rts.encode();
            prop_assert_eq!(Announcement::decode(&body), Ok((rts, &[][..])));
            let cts = ClearToSend { op, into, offset, length };
            prop_assert_eq!(ClearToSend::decode(&cts.encode()), Ok(cts));
            let outcome = if sync { Outcome::Taken } else { Outcome::Dropped };
            let ack = Acknowledge { op, outcome };
            prop_assert_eq!(Acknowledge::decode(&ack.encode()), Ok(ack));
            let flow = Flow { announce: sync, held: into };
            prop_assert_eq!(Flow::decode(&flow.encode()), Ok(flow));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Announcement::decode(&bytes);
            let _ = ClearToSend::decode(&bytes);
            let _ = Acknowledge::decode(&bytes);
            let _ = Flow::decode(&bytes);
            let _ = abort_text(&bytes);
        }
    }
}
