//! PMI-1: one message per line, `cmd=NAME key=value key=value`.
//!
//! Fields are separated by single spaces; a key has no space, `=` or newline; a value has no space
//! or newline and is not empty. Nobody escapes, so neither does this: a value that would need it
//! cannot be built. The order of fields is free and unknown ones are ignored.

use crate::codec::DecodeError;
use crate::limits::PMI1_LINE_MAX_BYTES;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    command: String,
    fields: Vec<(String, String)>,
}

/// A message that cannot be written. The caller's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} cannot stand in a PMI message")]
pub struct Unwritable {
    /// The key or value.
    pub text: String,
}

impl Line {
    /// A message without fields.
    #[must_use]
    pub fn new(command: &str) -> Line {
        Line { command: command.to_owned(), fields: Vec::new() }
    }

    /// With one more field.
    ///
    /// # Errors
    /// [`Unwritable`] where key or value would break the line.
    pub fn with(mut self, key: &str, value: &str) -> Result<Line, Unwritable> {
        if key.is_empty() || key.contains([' ', '=', '\n']) {
            return Err(Unwritable { text: key.to_owned() });
        }
        if value.is_empty() || value.contains([' ', '\n', '\\']) {
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

    /// The return code: 0 where there is none.
    ///
    /// # Errors
    /// A code that is no number.
    pub fn code(&self) -> Result<i64, DecodeError> {
        return_code(&self.fields)
    }

    /// The line with its newline.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut line = format!("cmd={}", self.command);
        for (key, value) in &self.fields {
            line.push(' ');
            line.push_str(key);
            line.push('=');
            line.push_str(value);
        }
        line.push('\n');
        line
    }

    /// Reads a line, with or without its newline.
    ///
    /// # Errors
    /// No UTF-8, no `cmd`, a field without `=`, a line that is too long.
    pub fn decode(bytes: &[u8]) -> Result<Line, DecodeError> {
        if bytes.len() > PMI1_LINE_MAX_BYTES {
            let (length, limit) = (bytes.len(), PMI1_LINE_MAX_BYTES);
            return Err(DecodeError::Limit { what: "PMI line", length, limit });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| DecodeError::Utf8 { what: "PMI line" })?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let mut command = None;
        let mut fields = Vec::new();
        for field in text.split(' ').filter(|field| !field.is_empty()) {
            let Some((key, value)) = field.split_once('=') else {
                // Words without `=` follow `msg=` in the answers of some servers.
                continue;
            };
            if key == "cmd" && command.is_none() {
                command = Some(value.to_owned());
            } else {
                fields.push((key.to_owned(), value.to_owned()));
            }
        }
        match command.filter(|command| !command.is_empty()) {
            Some(command) => Ok(Line { command, fields }),
            None => Err(DecodeError::Short { what: "cmd of a PMI line", need: 1, have: 0 }),
        }
    }
}

/// The value of a field, the first of that name; for both versions of the protocol.
pub(crate) fn value_of<'a>(fields: &'a [(String, String)], key: &str) -> Option<&'a str> {
    fields.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
}

/// The field `rc`, 0 where there is none; for both versions of the protocol.
pub(crate) fn return_code(fields: &[(String, String)]) -> Result<i64, DecodeError> {
    match value_of(fields, "rc").map(str::parse) {
        None => Ok(0),
        Some(Ok(code)) => Ok(code),
        Some(Err(_)) => Err(DecodeError::Value { what: "rc", value: 0 }),
    }
}

/// Collects bytes as they come and gives whole lines.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line.
    ///
    /// # Errors
    /// What [`Line::decode`] says; more bytes than a line may have without a newline.
    pub fn pop(&mut self) -> Result<Option<Line>, DecodeError> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            if self.bytes.len() > PMI1_LINE_MAX_BYTES {
                let (length, limit) = (self.bytes.len(), PMI1_LINE_MAX_BYTES);
                return Err(DecodeError::Limit { what: "PMI line", length, limit });
            }
            return Ok(None);
        };
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Line::decode(&line).map(Some)
    }
}

/// How many consecutive ranks sit on which node: the value of `PMI_process_mapping`.
///
/// Gives the node of each of `size` ranks. `(vector,(X,Y,Z),...)`: nodes X to X+Y-1 with Z
/// consecutive ranks each; a bare number is one rank on that node; `[...]xN` repeats. When ranks
/// are left over the list starts again.
///
/// # Errors
/// What is no mapping, or one that places no rank.
pub fn process_mapping(text: &str, size: u32) -> Result<Vec<u32>, DecodeError> {
    let bad = || DecodeError::Value { what: "PMI_process_mapping", value: 0 };
    let inner = text.trim().strip_prefix("(vector,").and_then(|t| t.strip_suffix(')')).ok_or_else(bad)?;
    let mut parser = Mapping { rest: inner, size: size as usize };
    let once = parser.items(0)?;
    if !parser.rest.is_empty() || once.is_empty() {
        return Err(bad());
    }
    Ok(once.iter().copied().cycle().take(size as usize).collect())
}

struct Mapping<'a> {
    rest: &'a str,
    size: usize,
}

impl Mapping<'_> {
    /// Deepest nesting of `[...]` that is read.
    const DEPTH_MAX: u32 = 4;

    fn items(&mut self, depth: u32) -> Result<Vec<u32>, DecodeError> {
        let mut nodes = Vec::new();
        loop {
            self.item(depth, &mut nodes)?;
            // No more than the world has ranks, whatever the text says.
            nodes.truncate(self.size);
            if !self.eat(',') {
                return Ok(nodes);
            }
        }
    }

    fn item(&mut self, depth: u32, nodes: &mut Vec<u32>) -> Result<(), DecodeError> {
        if self.eat('(') {
            let first = self.number()?;
            self.expect(',')?;
            let count = self.number()?;
            self.expect(',')?;
            let each = self.number()?;
            self.expect(')')?;
            // Without ranks there is nothing to repeat, however often the text says so.
            let count = if each == 0 { 0 } else { count };
            let all =
                (0..count).flat_map(|node| std::iter::repeat_n(first.saturating_add(node), each as usize));
            nodes.extend(all.take(self.size));
        } else if self.eat('[') {
            if depth == Self::DEPTH_MAX {
                return Err(DecodeError::Value {
                    what: "nesting of PMI_process_mapping",
                    value: depth.into(),
                });
            }
            let inner = self.items(depth + 1)?;
            self.expect(']')?;
            self.expect('x')?;
            let times = self.number()? as usize;
            nodes.extend(inner.iter().cycle().take(inner.len().saturating_mul(times).min(self.size)));
        } else {
            nodes.push(self.number()?);
        }
        Ok(())
    }

    fn eat(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Result<(), DecodeError> {
        if self.eat(c) { Ok(()) } else { Err(DecodeError::Value { what: "PMI_process_mapping", value: 0 }) }
    }

    fn number(&mut self) -> Result<u32, DecodeError> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits.parse().map_err(|_| DecodeError::Value { what: "number in PMI_process_mapping", value: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_as_servers_write_them() {
        let line = Line::decode(b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n").unwrap();
        assert_eq!(
            (line.command(), line.get("pmi_subversion"), line.code()),
            ("response_to_init", Some("2"), Ok(0))
        );
        let line = Line::decode(b"rc=-1 cmd=get_result msg=key not found value=unknown").unwrap();
        assert_eq!((line.command(), line.code(), line.get("msg")), ("get_result", Ok(-1), Some("key")));
        assert_eq!(Line::decode(b"cmd=put_result").unwrap().code(), Ok(0));
        assert!(Line::decode(b"hello world\n").is_err());
        assert!(Line::decode(b"cmd= a=b").is_err());
        assert!(Line::decode(b"cmd=x rc=y").unwrap().code().is_err());
    }

    #[test]
    fn the_first_line_is_what_slurm_wants() {
        let line = Line::new("init").with("pmi_version", "1").and_then(|l| l.with("pmi_subversion", "1"));
        assert_eq!(line.unwrap().encode(), "cmd=init pmi_version=1 pmi_subversion=1\n");
    }

    #[test]
    fn what_would_break_the_line_is_refused() {
        for (key, value) in
            [("a b", "c"), ("a", "b c"), ("a", ""), ("", "a"), ("a=", "b"), ("a", "b\n"), ("a", "\\")]
        {
            assert!(Line::new("put").with(key, value).is_err(), "{key:?} {value:?}");
        }
    }

    #[test]
    fn mappings() {
        for (text, size, expected) in [
            ("(vector,(0,1,2))", 2, &[0, 0][..]),
            ("(vector,(0,2,2))", 6, &[0, 0, 1, 1, 0, 0]),
            ("(vector,(0,1,1),(5,2,1))", 3, &[0, 5, 6]),
            ("(vector,0,1,1)", 3, &[0, 1, 1]),
            ("(vector,[(0,2,1)]x2)", 4, &[0, 1, 0, 1]),
        ] {
            assert_eq!(process_mapping(text, size).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "(vector,)",
            "(vector,(0,1))",
            "(vector,(0,1,0))",
            "(vector,(0,4294967295,0))",
            "(vector,[[[[[[0]x1]x1]x1]x1]x1]x1)",
        ] {
            assert!(process_mapping(text, 4).is_err(), "{text}");
        }
        assert_eq!(process_mapping("(vector,(0,4294967295,4294967295))", 3), Ok(vec![0, 0, 0]));
    }

    proptest! {
        #[test]
        fn round_trip(
            command in "[a-z_]{1,20}",
            fields in proptest::collection::vec(("[a-z_0-9-]{1,9}", "[!-\\[\\]-~]{1,30}"), 0..6),
            cut in 1usize..20,
        ) {
            let mut line = Line::new(&command);
            for (key, value) in &fields {
                prop_assume!(key != "cmd");
                line = line.with(key, value).unwrap();
            }
            let mut lines = Lines::default();
            let mut got = Vec::new();
            for piece in line.encode().as_bytes().chunks(cut) {
                lines.push(piece);
                got.extend(lines.pop().unwrap());
            }
            prop_assert_eq!(got, [line]);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, text in "[\\[\\](),x0-9vector]{0,40}") {
            let _ = Line::decode(&bytes);
            let _ = process_mapping(&text, 100);
            let _ = process_mapping(&format!("(vector,{text})"), 100);
        }
    }
}
