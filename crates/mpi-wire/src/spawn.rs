//! Inside the native start-up protocol: processes to be spawned, and published names.

use crate::codec::{DecodeError, Put, Reader};
use crate::limits::{
    JOB_MAX_BYTES, NAME_MAX_BYTES, PORT_MAX_BYTES, SPAWN_COMMANDS_MAX, SPAWN_INFO_MAX, SPAWN_WORD_MAX_BYTES,
    SPAWN_WORDS_MAX, TEXT_MAX_BYTES,
};

/// Programs that are to become one world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpawnRequest {
    /// The programs, in the order of the ranks; at most [`SPAWN_COMMANDS_MAX`].
    pub commands: Vec<SpawnCommand>,
    /// The port under which the new processes reach the one that asks.
    pub port: String,
}

/// One program of a [`SpawnRequest`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpawnCommand {
    /// Name or path of the program, as bytes of the file system.
    pub program: Vec<u8>,
    /// Its arguments, without the name; at most [`SPAWN_WORDS_MAX`].
    pub arguments: Vec<Vec<u8>>,
    /// How many processes.
    pub count: u32,
    /// The directory of the process that asks: the default for the new ones.
    pub directory: Vec<u8>,
    /// Hints, key and value; at most [`SPAWN_INFO_MAX`].
    pub info: Vec<(String, String)>,
}

/// What became of a [`SpawnRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpawnOutcome {
    /// Every process has initialised MPI.
    Started {
        /// Job id of the new world.
        job: String,
    },
    /// None is left.
    Failed {
        /// The program at fault, by its place in the request; `None` when it is none's.
        command: Option<u32>,
        /// Which program, and why.
        reason: String,
    },
}

/// A question about published names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameRequest {
    /// Binds a name to a port.
    Publish {
        /// The name.
        service: String,
        /// The port.
        port: String,
    },
    /// Takes a name back.
    Unpublish {
        /// The name.
        service: String,
    },
    /// Asks for the port of a name.
    Lookup {
        /// The name.
        service: String,
    },
}

/// The answer to a [`NameRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameOutcome {
    /// Done; the port, where one was asked for.
    Done(Option<String>),
    /// The name is published already.
    Taken,
    /// Nobody has published it.
    Unknown,
    /// There is no room for another name.
    Full,
}

impl SpawnRequest {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_text(&self.port, PORT_MAX_BYTES);
        let commands = &self.commands[..self.commands.len().min(SPAWN_COMMANDS_MAX)];
        out.put_u32(commands.len() as u32);
        for command in commands {
            out.put_bytes(&command.program, SPAWN_WORD_MAX_BYTES);
            let arguments = &command.arguments[..command.arguments.len().min(SPAWN_WORDS_MAX)];
            out.put_u32(arguments.len() as u32);
            arguments.iter().for_each(|word| out.put_bytes(word, SPAWN_WORD_MAX_BYTES));
            out.put_u32(command.count);
            out.put_bytes(&command.directory, SPAWN_WORD_MAX_BYTES);
            let info = &command.info[..command.info.len().min(SPAWN_INFO_MAX)];
            out.put_u32(info.len() as u32);
            for (key, value) in info {
                out.put_text(key, SPAWN_WORD_MAX_BYTES);
                out.put_text(value, SPAWN_WORD_MAX_BYTES);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<SpawnRequest, DecodeError> {
        let port = r.text("port", PORT_MAX_BYTES)?;
        let command = |r: &mut Reader<'_>| {
            Ok(SpawnCommand {
                program: word(r, "program")?,
                arguments: many(r, "arguments", SPAWN_WORDS_MAX, |r| word(r, "argument"))?,
                count: r.u32("processes of a program")?,
                directory: word(r, "directory")?,
                info: many(r, "hints", SPAWN_INFO_MAX, |r| {
                    Ok((r.text("hint", SPAWN_WORD_MAX_BYTES)?, r.text("hint", SPAWN_WORD_MAX_BYTES)?))
                })?,
            })
        };
        Ok(SpawnRequest { commands: many(r, "programs", SPAWN_COMMANDS_MAX, command)?, port })
    }
}

pub(crate) fn word(r: &mut Reader<'_>, what: &'static str) -> Result<Vec<u8>, DecodeError> {
    Ok(r.bytes(what, SPAWN_WORD_MAX_BYTES)?.to_vec())
}

/// A counted list. Memory is taken as its elements come, not on the word of the count.
pub(crate) fn many<T>(
    r: &mut Reader<'_>,
    what: &'static str,
    limit: usize,
    one: impl Fn(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = r.u32(what)? as usize;
    if count > limit {
        return Err(DecodeError::Limit { what, length: count, limit });
    }
    (0..count).map(|_| one(r)).collect()
}

const STARTED: u8 = 0;
const FAILED: u8 = 1;

impl SpawnOutcome {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            SpawnOutcome::Started { job } => {
                out.put_u8(STARTED);
                out.put_text(job, JOB_MAX_BYTES);
            }
            SpawnOutcome::Failed { command, reason } => {
                out.put_u8(FAILED);
                out.put_option(*command, Put::put_u32);
                out.put_text(reason, TEXT_MAX_BYTES);
            }
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<SpawnOutcome, DecodeError> {
        match r.u8("outcome")? {
            STARTED => Ok(SpawnOutcome::Started { job: r.text("job", JOB_MAX_BYTES)? }),
            FAILED => Ok(SpawnOutcome::Failed {
                command: r.option("program", |r| r.u32("program"))?,
                reason: r.text("reason", TEXT_MAX_BYTES)?,
            }),
            other => Err(DecodeError::Value { what: "outcome", value: other.into() }),
        }
    }
}

const PUBLISH: u8 = 0;
const UNPUBLISH: u8 = 1;
const LOOKUP: u8 = 2;

impl NameRequest {
    /// The name that it is about.
    #[must_use]
    pub fn service(&self) -> &str {
        match self {
            NameRequest::Publish { service, .. }
            | NameRequest::Unpublish { service }
            | NameRequest::Lookup { service } => service,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(match self {
            NameRequest::Publish { .. } => PUBLISH,
            NameRequest::Unpublish { .. } => UNPUBLISH,
            NameRequest::Lookup { .. } => LOOKUP,
        });
        out.put_text(self.service(), NAME_MAX_BYTES);
        if let NameRequest::Publish { port, .. } = self {
            out.put_text(port, PORT_MAX_BYTES);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<NameRequest, DecodeError> {
        let kind = r.u8("question about a name")?;
        let service = r.text("name", NAME_MAX_BYTES)?;
        match kind {
            PUBLISH => Ok(NameRequest::Publish { service, port: r.text("port", PORT_MAX_BYTES)? }),
            UNPUBLISH => Ok(NameRequest::Unpublish { service }),
            LOOKUP => Ok(NameRequest::Lookup { service }),
            other => Err(DecodeError::Value { what: "question about a name", value: other.into() }),
        }
    }
}

const DONE: u8 = 0;
const TAKEN: u8 = 1;
const UNKNOWN: u8 = 2;
const FULL: u8 = 3;

impl NameOutcome {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            NameOutcome::Done(port) => {
                out.put_u8(DONE);
                out.put_option(port.as_deref(), |out, port| out.put_text(port, PORT_MAX_BYTES));
            }
            NameOutcome::Taken => out.put_u8(TAKEN),
            NameOutcome::Unknown => out.put_u8(UNKNOWN),
            NameOutcome::Full => out.put_u8(FULL),
        }
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<NameOutcome, DecodeError> {
        match r.u8("answer about a name")? {
            DONE => Ok(NameOutcome::Done(r.option("port", |r| r.text("port", PORT_MAX_BYTES))?)),
            TAKEN => Ok(NameOutcome::Taken),
            UNKNOWN => Ok(NameOutcome::Unknown),
            FULL => Ok(NameOutcome::Full),
            other => Err(DecodeError::Value { what: "answer about a name", value: other.into() }),
        }
    }
}
