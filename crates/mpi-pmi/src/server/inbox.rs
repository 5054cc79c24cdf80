//! What a rank says to its launcher, in whichever protocol it speaks: its first bytes tell.

use mpi_wire::DecodeError;
use mpi_wire::limits::{PMI1_LINE_MAX_BYTES, STARTUP_FRAME_MAX_BYTES};
use mpi_wire::pmi1::Line;
use mpi_wire::pmi1_spawn::Spawn;
use mpi_wire::startup::{Frames, ToLauncher};

/// One message of a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    /// In the native protocol.
    Native(ToLauncher),
    /// A line of PMI-1.
    Line(Line),
    /// The request of PMI-1 to spawn.
    Spawn(Spawn),
}

/// Collects bytes as they come and gives whole messages.
#[derive(Debug, Default)]
pub struct Inbox {
    speaks: Speaks,
    /// Bytes of PMI-1 without the end of their line, or those before it is known what is spoken.
    bytes: Vec<u8>,
    /// Lines of a request to spawn that is not complete.
    spawn: String,
    frames: Frames,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Speaks {
    #[default]
    Unknown,
    Native,
    Pmi1,
}

impl Inbox {
    /// Adds what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.speaks == Speaks::Native {
            return self.frames.push(bytes);
        }
        self.bytes.extend_from_slice(bytes);
        if self.speaks == Speaks::Unknown && self.bytes.len() >= 4 {
            // As the length of a frame these would be far above the limit.
            let lines = self.bytes.starts_with(b"cmd=") || self.bytes.starts_with(b"mcmd");
            self.speaks = if lines { Speaks::Pmi1 } else { Speaks::Native };
            if !lines {
                self.frames.push(&std::mem::take(&mut self.bytes));
            }
        }
    }

    /// The next whole message.
    ///
    /// # Errors
    /// Bytes that are no message: the rank cannot be understood any more.
    pub fn pop(&mut self) -> Result<Option<Said>, DecodeError> {
        match self.speaks {
            Speaks::Unknown => Ok(None),
            Speaks::Native => {
                let body = self.frames.pop()?;
                body.map(|body| ToLauncher::decode(body).map(Said::Native)).transpose()
            }
            Speaks::Pmi1 => self.pop_line(),
        }
    }

    fn pop_line(&mut self) -> Result<Option<Said>, DecodeError> {
        loop {
            let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
                let (length, limit) = (self.bytes.len(), PMI1_LINE_MAX_BYTES);
                return match length > limit {
                    true => Err(DecodeError::Limit { what: "PMI line", length, limit }),
                    false => Ok(None),
                };
            };
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            if self.spawn.is_empty() && !line.starts_with(b"mcmd=") {
                return Line::decode(&line).map(|line| Some(Said::Line(line)));
            }
            let text = std::str::from_utf8(&line).map_err(|_| DecodeError::Utf8 { what: "PMI line" })?;
            self.spawn.push_str(text);
            let (length, limit) = (self.spawn.len(), STARTUP_FRAME_MAX_BYTES);
            if length > limit {
                return Err(DecodeError::Limit { what: "request to spawn", length, limit });
            }
            if text == "endcmd\n" && is_last_block(&self.spawn) {
                let request = std::mem::take(&mut self.spawn);
                return Spawn::decode(&request).map(|spawn| Some(Said::Spawn(spawn)));
            }
        }
    }
}

/// The last block of a request says that it is the last; one that says nothing is wrong anyway.
fn is_last_block(request: &str) -> bool {
    let last = |key: &str| request.lines().rev().find_map(|line| line.strip_prefix(key));
    last("spawnssofar=") == last("totspawns=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi_wire::pmi1_spawn::Program;

    fn all(pieces: &[&[u8]]) -> Result<Vec<Said>, DecodeError> {
        let mut inbox = Inbox::default();
        let mut said = Vec::new();
        for piece in pieces {
            inbox.push(piece);
            while let Some(message) = inbox.pop()? {
                said.push(message);
            }
        }
        Ok(said)
    }

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        let mut frame = Vec::new();
        ToLauncher::Started.encode(&mut frame);
        assert_eq!(all(&[&frame[..2], &frame[2..]]), Ok(vec![Said::Native(ToLauncher::Started)]));
        let line = Said::Line(Line::new("get_maxes"));
        assert_eq!(all(&[b"cm", b"d=get_maxes\ncmd=get_", b"maxes\n"]), Ok(vec![line.clone(), line]));
        assert!(all(&[b"nonsense\n"]).is_err());
        assert!(all(&[b"cmd=", &[b'x'; PMI1_LINE_MAX_BYTES]]).is_err());
    }

    #[test]
    fn a_request_to_spawn_is_one_message() {
        let program = |name: &str| Program { name: name.to_owned(), count: 2, ..Program::default() };
        let spawn = Spawn {
            preput: vec![("key".to_owned(), "a port".to_owned())],
            programs: vec![program("a"), program("b c")],
        };
        let text = spawn.encode().unwrap() + "cmd=finalize\n";
        let (head, tail) = text.as_bytes().split_at(30);
        assert_eq!(all(&[head, tail]), Ok(vec![Said::Spawn(spawn), Said::Line(Line::new("finalize"))]));
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, text in "(m?cmd=|endcmd|[a-z=1 ]|\n){0,30}") {
            let _ = all(&[&bytes]);
            let _ = all(&[b"cmd=", &bytes]);
            let _ = all(&[b"mcmd=spawn\n", text.as_bytes()]);
        }
    }
}
