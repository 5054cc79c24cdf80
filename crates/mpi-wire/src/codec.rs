//! A bounds-checked reader, and its writing twin. Everything is little-endian.

/// Bytes are not what the format says. The sender's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("{what}: needs {need} bytes, {have} are left")]
    Short {
        /// The field.
        what: &'static str,
        /// Bytes that it needs.
        need: usize,
        /// Bytes that were there.
        have: usize,
    },
    /// More bytes than the message has fields.
    #[error("{what}: {extra} bytes too many")]
    Long {
        /// The message.
        what: &'static str,
        /// Bytes left over.
        extra: usize,
    },
    /// A length above its limit.
    #[error("{what}: {length} bytes, the limit is {limit}")]
    Limit {
        /// The field.
        what: &'static str,
        /// What was announced.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
    /// A text that is not UTF-8.
    #[error("{what}: not UTF-8")]
    Utf8 {
        /// The field.
        what: &'static str,
    },
    /// A number that means nothing here.
    #[error("{what}: {value} has no meaning")]
    Value {
        /// The field.
        what: &'static str,
        /// What stood there.
        value: u64,
    },
}

/// Takes fields off the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(DecodeError::Short { what, need: n, have: self.rest.len() }),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N, what)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(DecodeError::Value { what, value: other.into() }),
        }
    }

    /// Bytes behind their length; nothing is allocated before the length is found to be there.
    pub(crate) fn bytes(&mut self, what: &'static str, limit: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.u32(what)? as usize;
        if length > limit {
            return Err(DecodeError::Limit { what, length, limit });
        }
        self.take(length, what)
    }

    pub(crate) fn text(&mut self, what: &'static str, limit: usize) -> Result<String, DecodeError> {
        let bytes = self.bytes(what, limit)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::Utf8 { what })
    }

    pub(crate) fn option<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.flag(what)? { read(self).map(Some) } else { Ok(None) }
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(crate) fn end(self, what: &'static str) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(DecodeError::Long { what, extra }),
        }
    }
}

/// Appends fields to a vector.
pub(crate) trait Put {
    fn put_u8(&mut self, v: u8);
    fn put_u32(&mut self, v: u32);
    fn put_u64(&mut self, v: u64);
    fn put_bytes(&mut self, v: &[u8], limit: usize);
    fn put_text(&mut self, v: &str, limit: usize);
    fn put_option<T>(&mut self, v: Option<T>, put: impl FnOnce(&mut Self, T));
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }
    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    /// What exceeds the limit is cut off: a frame that goes out can always be read.
    fn put_bytes(&mut self, v: &[u8], limit: usize) {
        let v = &v[..v.len().min(limit)];
        self.put_u32(v.len() as u32);
        self.extend_from_slice(v);
    }
    /// As `put_bytes`, cut between characters.
    fn put_text(&mut self, v: &str, limit: usize) {
        self.put_bytes(clip(v, limit).as_bytes(), limit);
    }
    fn put_option<T>(&mut self, v: Option<T>, put: impl FnOnce(&mut Self, T)) {
        match v {
            None => self.push(0),
            Some(v) => {
                self.push(1);
                put(self, v);
            }
        }
    }
}

/// The longest beginning of `text` of at most `limit` bytes that ends between characters.
pub(crate) fn clip(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
