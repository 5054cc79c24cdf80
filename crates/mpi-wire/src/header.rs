//! The 40 bytes in front of every message.

/// Length of an encoded [`Header`] in bytes.
pub const HEADER_LEN: usize = 40;

/// First four bytes of every header, little-endian: "MPI!" read as a big-endian word.
pub const MAGIC: u32 = 0x4D50_4921;

/// What stands in front of every message body.
///
/// Layout, little-endian: magic u32, context u32, source i32, dest i32, tag i32, count u64,
/// datatype u32, length u64.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Context of the communicator (or a [reserved](crate::reserved) one).
    pub context: u32,
    /// Rank of the sender inside the communicator.
    pub source: i32,
    /// Rank of the receiver inside the communicator.
    pub dest: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Number of elements; in control messages an operation id.
    pub count: u64,
    /// Signature of the element type; the top bit is [`ANNOUNCEMENT`](crate::ANNOUNCEMENT).
    pub datatype: u32,
    /// Bytes of body that follow this header. Always the framing length, whatever the message.
    pub length: u64,
}

/// Why forty bytes are no header. The peer's fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// The first four bytes are not the magic.
    #[error("header starts with {found:#010x}, expected {MAGIC:#010x}")]
    Magic {
        /// What stood there.
        found: u32,
    },
    /// The body is announced longer than an address space.
    #[error("header announces a body of {length} bytes, the limit is {limit}")]
    Length {
        /// What the header says.
        length: u64,
        /// What is allowed.
        limit: u64,
    },
}

impl Header {
    /// Largest body, in bytes, that any header may announce (2^62).
    pub const MAX_LENGTH: u64 = 1 << 62;

    /// The header as bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.context.to_le_bytes());
        out[8..12].copy_from_slice(&self.source.to_le_bytes());
        out[12..16].copy_from_slice(&self.dest.to_le_bytes());
        out[16..20].copy_from_slice(&self.tag.to_le_bytes());
        out[20..28].copy_from_slice(&self.count.to_le_bytes());
        out[28..32].copy_from_slice(&self.datatype.to_le_bytes());
        out[32..40].copy_from_slice(&self.length.to_le_bytes());
        out
    }

    /// Reads a header.
    ///
    /// # Errors
    /// A wrong magic, or a length above [`Header::MAX_LENGTH`].
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, HeaderError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let found = word(0);
        if found != MAGIC {
            return Err(HeaderError::Magic { found });
        }
        let length = long(32);
        if length > Self::MAX_LENGTH {
            return Err(HeaderError::Length { length, limit: Self::MAX_LENGTH });
        }
        Ok(Header {
            context: word(4),
            source: word(8) as i32,
            dest: word(12) as i32,
            tag: word(16) as i32,
            count: long(20),
            datatype: word(28),
            length,
        })
    }
}
