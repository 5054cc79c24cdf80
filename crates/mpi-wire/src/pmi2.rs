//! PMI-2: six characters of length, then `cmd=NAME;key=value;...;`.
//!
//! Servers pad the length on either side; both are read, and the right side is written. Values
//! have no `;` and are never empty; nobody escapes.

use crate::codec::DecodeError;
use crate::limits::PMI2_MESSAGE_MAX_BYTES;
use crate::pmi1::{Unwritable, return_code, value_of};

/// Characters of the length in front.
pub const LENGTH_LEN: usize = 6;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    command: String,
    fields: Vec<(String, String)>,
}

impl Message {
    /// A message without fields.
    #[must_use]
    pub fn new(command: &str) -> Message {
        Message { command: command.to_owned(), fields: Vec::new() }
    }

    /// With one more field; fields are written in the order in which they are added.
    ///
    /// # Errors
    /// [`Unwritable`] where key or value would break the message.
    pub fn with(mut self, key: &str, value: &str) -> Result<Message, Unwritable> {
        if key.is_empty() || key.contains([';', '=']) {
            return Err(Unwritable { text: key.to_owned() });
        }
        if value.is_empty() || value.contains(';') {
            return Err(Unwritable { text: value.to_owned() });
        }
        self.fields.push((key.to_owned(), value.to_owned()));
        Ok(self)
    }

    /// The command.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The value of a field, the first of that name.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        value_of(&self.fields, key)
    }

    /// All fields, in order; some messages repeat a key.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The return code: 0 where there is none.
    ///
    /// # Errors
    /// A code that is no number.
    pub fn code(&self) -> Result<i64, DecodeError> {
        return_code(&self.fields)
    }

    /// The message with its length. One above [`PMI2_MESSAGE_MAX_BYTES`] ([`Message::length`]) is not to be sent: nobody
    /// would read it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut body = format!("cmd={};", self.command);
        for (key, value) in &self.fields {
            body.push_str(key);
            body.push('=');
            body.push_str(value);
            body.push(';');
        }
        format!("{:<6}{body}", body.len())
    }

    /// Bytes of the message without its six characters of length.
    #[must_use]
    pub fn length(&self) -> usize {
        let fields: usize = self.fields.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
        "cmd=;".len() + self.command.len() + fields
    }

    /// Reads what follows the length.
    ///
    /// # Errors
    /// No UTF-8, no `cmd` at its start, a field without `=`.
    pub fn decode(body: &[u8]) -> Result<Message, DecodeError> {
        let text = std::str::from_utf8(body).map_err(|_| DecodeError::Utf8 { what: "PMI-2 message" })?;
        let mut fields = Vec::new();
        for field in text.trim_end_matches(['\n', ';']).split(';') {
            let Some((key, value)) = field.split_once('=') else {
                return Err(DecodeError::Value {
                    what: "field of a PMI-2 message",
                    value: fields.len() as u64,
                });
            };
            fields.push((key.to_owned(), value.to_owned()));
        }
        match fields.first() {
            Some((key, command)) if key == "cmd" && !command.is_empty() => {
                let command = command.clone();
                fields.remove(0);
                Ok(Message { command, fields })
            }
            _ => Err(DecodeError::Short { what: "cmd of a PMI-2 message", need: 1, have: 0 }),
        }
    }
}

/// Reads a length, padded on either side.
///
/// # Errors
/// No number, or one above [`PMI2_MESSAGE_MAX_BYTES`].
pub fn length(bytes: &[u8; LENGTH_LEN]) -> Result<usize, DecodeError> {
    let what = "length of a PMI-2 message";
    let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Utf8 { what })?;
    let length: usize = text.trim_matches(' ').parse().map_err(|_| DecodeError::Value { what, value: 0 })?;
    if length > PMI2_MESSAGE_MAX_BYTES {
        return Err(DecodeError::Limit { what, length, limit: PMI2_MESSAGE_MAX_BYTES });
    }
    Ok(length)
}

/// Collects bytes as they come and gives whole messages.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
}

impl Messages {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message.
    ///
    /// # Errors
    /// What [`length`] and [`Message::decode`] say.
    pub fn pop(&mut self) -> Result<Option<Message>, DecodeError> {
        let Some((head, tail)) = self.bytes.split_first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let length = length(head)?;
        let Some(body) = tail.get(..length) else { return Ok(None) };
        let message = Message::decode(body)?;
        self.bytes.drain(..LENGTH_LEN + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_as_servers_write_them() {
        for text in ["    30cmd=kvs-get-response;rc=0;a=b;", "30    cmd=kvs-get-response;rc=0;a=b;"] {
            let mut messages = Messages::default();
            messages.push(text.as_bytes());
            let message = messages.pop().unwrap().unwrap();
            assert_eq!((message.command(), message.get("a")), ("kvs-get-response", Some("b")));
        }
        let message = Message::decode(b"cmd=fullinit-response;rc=0;rank=1;size=2;").unwrap();
        assert_eq!(
            (message.command(), message.get("size"), message.code()),
            ("fullinit-response", Some("2"), Ok(0))
        );
        assert!(Message::decode(b"rank=1;cmd=x;").is_err());
        assert!(Message::decode(b"cmd=x;y;").is_err());
        assert_eq!(length(b"  63  "), Ok(63));
        assert!(length(b"-1    ").is_err() && length(b"999999").is_err() && length(b"abcdef").is_err());
    }

    #[test]
    fn the_length_is_padded_on_the_right() {
        let text = Message::new("finalize").with("thrid", "1").unwrap().encode();
        assert_eq!(text, "21    cmd=finalize;thrid=1;");
        assert!(Message::new("x").with("a", "").is_err());
        assert!(Message::new("x").with("a", "b;c").is_err());
    }

    proptest! {
        #[test]
        fn round_trip(
            command in "[a-z-]{1,20}",
            fields in proptest::collection::vec(("[a-z_0-9-]{1,9}", "[ -:<-~]{1,30}"), 0..6),
            cut in 1usize..20,
        ) {
            let mut message = Message::new(&command);
            for (key, value) in &fields {
                message = message.with(key, value).unwrap();
            }
            let mut messages = Messages::default();
            let mut got = Vec::new();
            for piece in message.encode().as_bytes().chunks(cut) {
                messages.push(piece);
                got.extend(messages.pop().unwrap());
            }
            prop_assert_eq!(message.length() + LENGTH_LEN, message.encode().len());
            prop_assert_eq!(got, [message]);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, head: [u8; LENGTH_LEN]) {
            let _ = Message::decode(&bytes);
            let _ = length(&head);
            let mut messages = Messages::default();
            messages.push(b"10    ");
            messages.push(&bytes);
            let _ = messages.pop();
        }
    }
}
