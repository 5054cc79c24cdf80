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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> impl Strategy<Value = Header> {
        (any::<(u32, i32, i32, i32, u64, u32)>(), 0..=Header::MAX_LENGTH).prop_map(
            |((context, source, dest, tag, count, datatype), length)| Header {
                context,
                source,
                dest,
                tag,
                count,
                datatype,
                length,
            },
        )
    }

    #[test]
    fn the_layout_is_fixed() {
        let header = Header {
            context: 0x0102_0304,
            source: -1,
            dest: 2,
            tag: 0x0A0B_0C0D,
            count: 0x1112_1314_1516_1718,
            datatype: 0x8000_0007,
            length: 0x2122_2324_2526_2728,
        };
        #[rustfmt::skip]
        let expected = [
            0x21, 0x49, 0x50, 0x4D,  0x04, 0x03, 0x02, 0x01,  0xFF, 0xFF, 0xFF, 0xFF,  2, 0, 0, 0,
            0x0D, 0x0C, 0x0B, 0x0A,  0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
            0x07, 0, 0, 0x80,  0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21,
        ];
        assert_eq!(header.encode(), expected);
    }

    #[test]
    fn a_wrong_magic_is_named() {
        let mut bytes = Header::default().encode();
        bytes[0] ^= 0xFF;
        let error = Header::decode(&bytes).unwrap_err();
        assert_eq!(error.to_string(), "header starts with 0x4d5049de, expected 0x4d504921");
    }

    #[test]
    fn a_length_of_2_to_63_is_refused() {
        let mut bytes = Header::default().encode();
        bytes[39] = 0x80;
        assert_eq!(
            Header::decode(&bytes),
            Err(HeaderError::Length { length: 1 << 63, limit: Header::MAX_LENGTH })
        );
    }

    proptest! {
        #[test]
        fn round_trip(header in header()) {
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: [u8; HEADER_LEN]) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }
}
