//! Frames on a stream: a length (u32, little-endian, of what follows) and a body.

use crate::codec::{DecodeError, Put};
use crate::limits::STARTUP_FRAME_MAX_BYTES;

/// Writes a frame: its length is known once its body is there.
pub(crate) fn frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put_u32(0);
    body(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Collects bytes as they come and gives whole frames.
///
/// Holds at most one frame and what one read brought; a length above the limit is an error before
/// anything is allocated for it.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    taken: usize,
    limit: usize,
}

impl Default for Frames {
    /// For the start-up protocol between a rank and its launcher.
    fn default() -> Frames {
        Frames::up_to(STARTUP_FRAME_MAX_BYTES)
    }
}

impl Frames {
    /// Of frames whose bodies are at most `limit` bytes long.
    #[must_use]
    pub fn up_to(limit: usize) -> Frames {
        Frames { bytes: Vec::new(), taken: 0, limit }
    }

    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The body of the next whole frame; `None` until more bytes come.
    ///
    /// # Errors
    /// A length of 0 or above the limit: the stream cannot be read any further.
    pub fn pop(&mut self) -> Result<Option<&[u8]>, DecodeError> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((head, tail)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length == 0 || length > self.limit {
            return Err(DecodeError::Limit { what: "frame", length, limit: self.limit });
        }
        if tail.len() < length {
            return Ok(None);
        }
        let start = self.taken + 4;
        self.taken = start + length;
        Ok(Some(&self.bytes[start..start + length]))
    }
}
