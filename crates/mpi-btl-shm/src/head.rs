//! A message header as it travels in a cell: five words where the values are small, else in full
//! in front of the body.

use mpi_node::ring::HEAD_WORDS;
use mpi_wire::{HEADER_LEN, Header};

/// What a cell holds; the ring's mark.
pub(crate) mod mark {
    /// A message whose header fits the words.
    pub(crate) const COMPACT: u8 = 0;
    /// A message whose encoded header precedes its body.
    pub(crate) const WIDE: u8 = 1;
    /// The sender's messages come by ring from now on; the first word is its number.
    pub(crate) const RING: u8 = 2;
    /// The sender leaves in good order.
    pub(crate) const GOODBYE: u8 = 3;
}

/// The words of a header, if it is small: ranks below 2^16, count below 2^32. The length is the
/// body's own.
#[inline(always)]
pub(crate) fn compact(header: &Header) -> Option<[u32; HEAD_WORDS]> {
    let ranks_fit = (header.source as u32 | header.dest as u32) <= 0xFFFF;
    if !ranks_fit || header.count > u64::from(u32::MAX) {
        return None;
    }
    Some([
        header.context,
        header.tag as u32,
        header.datatype,
        header.source as u32 | (header.dest as u32) << 16,
        header.count as u32,
    ])
}

/// The header behind the words.
#[inline(always)]
pub(crate) fn expand(words: [u32; HEAD_WORDS], length: usize) -> Header {
    Header {
        context: words[0],
        tag: words[1] as i32,
        datatype: words[2],
        source: (words[3] & 0xFFFF) as i32,
        dest: (words[3] >> 16) as i32,
        count: u64::from(words[4]),
        length: length as u64,
    }
}

/// Splits a wide body into header and body. The error says what the peer did wrong.
#[cold]
pub(crate) fn split_wide(body: &[u8]) -> Result<(Header, &[u8]), String> {
    let Some((header, rest)) = body.split_first_chunk::<HEADER_LEN>() else {
        return Err(format!("a message of {} bytes is shorter than its header", body.len()));
    };
    let header = Header::decode(header).map_err(|e| e.to_string())?;
    if header.length != rest.len() as u64 {
        return Err(format!("a header announces {} bytes and {} follow", header.length, rest.len()));
    }
    Ok((header, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_headers_survive_and_large_ones_go_in_full() {
        let small =
            Header { context: 9, source: 3, dest: 65_535, tag: -5, count: 7, datatype: 1 << 31, length: 11 };
        assert_eq!(expand(compact(&small).expect("small"), 11), small);
        for large in [
            Header { source: -1, ..small },
            Header { dest: 65_536, ..small },
            Header { count: 1 << 32, ..small },
        ] {
            assert_eq!(compact(&large), None);
            let mut bytes = large.encode().to_vec();
            bytes.extend([0; 11]);
            assert_eq!(split_wide(&bytes), Ok((large, &[0_u8; 11][..])));
        }
        assert!(split_wide(&[0; 39]).is_err());
        assert!(split_wide(&[0; 40]).is_err());
        assert!(split_wide(&small.encode()).is_err());
    }
}
