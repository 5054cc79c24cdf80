//! Words as bytes, little-endian as everything on the wire.

/// The bytes of words.
pub(crate) fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The words in bytes; what is less than a word at the end is left out.
pub(crate) fn from_bytes(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_come_back() {
        let words = [0, 1, u64::MAX, 0x0102_0304_0506_0708];
        assert_eq!(super::from_bytes(&super::to_bytes(&words)), words);
        assert_eq!(super::from_bytes(&[1, 2, 3]), []);
    }
}
