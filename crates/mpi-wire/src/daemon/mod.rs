//! Between the launcher and its daemons, one on each further host.
//!
//! The daemons stand in a tree: the launcher starts the first few, these start others. Each stream
//! joins a daemon with the one that started it, and carries frames for (or from) every host below:
//! a length (u32, little-endian, of what follows), the number of the host that the frame is for or
//! from (u32), a kind (one byte) and the fields of the kind. Who passes a frame on reads the number
//! of the host and nothing else ([`host_of`]).
//!
//! A daemon speaks first, with [`greeting`]: what a shell's start-up files print stands before it.

use crate::codec::{DecodeError, Put, Reader};
use crate::frames::frame;
use crate::limits::{
    DAEMON_LIST_MAX, DAEMON_PIECE_MAX_BYTES, JOB_MAX_BYTES, SPAWN_WORD_MAX_BYTES, SPAWN_WORDS_MAX,
    TEXT_MAX_BYTES,
};
use crate::spawn::{many, word};

mod prepare;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::frames::Frames;
pub use prepare::{Prepare, Program, RankHere};
pub use tree::{next_hop, parent};

/// Version of this protocol. Both sides must have the same.
pub const DAEMON_VERSION: u32 = 2;

/// What a greeting begins with; a version and a newline follow.
pub const GREETING: &[u8] = b"\0mpiexec daemon, version ";

/// The first bytes of a daemon.
#[must_use]
pub fn greeting() -> Vec<u8> {
    [GREETING, DAEMON_VERSION.to_string().as_bytes(), b"\n"].concat()
}

/// What the launcher says to the daemon of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToDaemon {
    /// The first frame.
    Setup(Setup),
    /// Starts the daemon of another host, with this command.
    Launch {
        /// The other host's number.
        host: u32,
        /// What it is called.
        name: String,
        /// The command.
        words: Vec<Vec<u8>>,
        /// The daemon's program goes in front of everything on the command's standard input.
        copy_self: bool,
    },
    /// What a world runs on this host; answered by [`FromDaemon::Prepared`] or
    /// [`FromDaemon::Refused`].
    Prepare(Box<Prepare>),
    /// Starts the ranks of a world that is prepared.
    Start {
        /// Which.
        world: u32,
    },
    /// Bytes for a rank's control channel.
    Control {
        /// The rank, by its number among all processes of the job.
        slot: u32,
        /// At most [`DAEMON_PIECE_MAX_BYTES`].
        bytes: Vec<u8>,
    },
    /// A signal for all ranks of some worlds and their children.
    Signal {
        /// Which worlds.
        worlds: Vec<u32>,
        /// The signal's number here on Linux.
        signal: i32,
    },
    /// Standard input of a rank; no bytes: its end.
    Input {
        /// The rank.
        slot: u32,
        /// At most [`DAEMON_PIECE_MAX_BYTES`].
        bytes: Vec<u8>,
    },
    /// Nobody reads a rank's output any more: its own next write is to tell it so.
    Deaf {
        /// The rank.
        slot: u32,
        /// 0: standard output, 1: standard error.
        stream: u8,
    },
    /// So many bytes of output have been taken: as many more may come.
    Credit {
        /// How many.
        bytes: u64,
    },
    /// Answered by [`FromDaemon::Pong`].
    Ping {
        /// The launcher's monotonic clock, in nanoseconds.
        nanos: u64,
    },
    /// The job is over.
    Quit,
}

/// The first frame to a daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Setup {
    /// Id of the job.
    pub job: String,
    /// What this host is called.
    pub name: String,
    /// Hosts that each daemon starts.
    pub fan_out: u32,
    /// Without a word from the launcher for so long, the daemon ends its ranks and itself.
    pub silence_ms: u64,
    /// Bytes of output that may be on the way.
    pub window_bytes: u64,
}

/// What the daemon of a host says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromDaemon {
    /// Answer to the setup.
    Ready {
        /// The host's own name.
        name: String,
        /// The daemon's process id.
        pid: u32,
    },
    /// Everything that the world needs is there.
    Prepared {
        /// Which world.
        world: u32,
        /// Processors that the ranks may use together.
        processors: u32,
        /// Processors that each rank is given, in the order of the request.
        own: Vec<u32>,
        /// The host has shared memory for the ranks.
        segment: bool,
    },
    /// Something is missing or failed. Of the first world: the launcher ends with this status; of a spawned
    /// one: nothing comes of it.
    Refused {
        /// Which world.
        world: u32,
        /// The exit status.
        status: i32,
        /// What, naming the host.
        reason: String,
    },
    /// A rank runs.
    Started {
        /// Which.
        slot: u32,
        /// Its process id.
        pid: u32,
        /// The processors that it may use, read back from the kernel.
        processors: Vec<u32>,
    },
    /// What a rank said on its control channel.
    Control {
        /// The rank.
        slot: u32,
        /// At most [`DAEMON_PIECE_MAX_BYTES`]; none: it will say no more.
        bytes: Vec<u8>,
    },
    /// What a rank wrote.
    Output {
        /// The rank.
        slot: u32,
        /// 0: standard output, 1: standard error.
        stream: u8,
        /// At most [`DAEMON_PIECE_MAX_BYTES`]; none: the stream has ended.
        bytes: Vec<u8>,
    },
    /// A rank has ended; everything that it said and wrote stands before this.
    Ended {
        /// The rank.
        slot: u32,
        /// The signal that killed it.
        signal: Option<i32>,
        /// Its exit status, where it exited.
        code: i32,
    },
    /// A rank has taken so many bytes of its standard input.
    Taken {
        /// The rank.
        slot: u32,
        /// How many; 0: it takes no more.
        bytes: u64,
    },
    /// The command that starts another host's daemon wrote this to its standard error.
    Says {
        /// The other host.
        host: u32,
        /// At most [`DAEMON_PIECE_MAX_BYTES`].
        bytes: Vec<u8>,
    },
    /// The stream to another host's daemon has ended.
    Lost {
        /// The other host.
        host: u32,
        /// How.
        reason: String,
    },
    /// Still there.
    Pong {
        /// What the launcher's clock was when it asked.
        asked: u64,
        /// The monotonic clock of the host, in nanoseconds.
        nanos: u64,
    },
    /// What a rank has written down for the job's reports since the last time.
    Records {
        /// The rank.
        slot: u32,
        /// At most [`DAEMON_PIECE_MAX_BYTES`], which this protocol does not look into.
        bytes: Vec<u8>,
    },
}

const SETUP: u8 = 1;
const LAUNCH: u8 = 2;
const PREPARE: u8 = 3;
const START: u8 = 4;
const CONTROL: u8 = 5;
const SIGNAL: u8 = 6;
const INPUT: u8 = 7;
const CREDIT: u8 = 8;
const PING: u8 = 9;
const QUIT: u8 = 10;
const DEAF: u8 = 11;

const READY: u8 = 65;
const PREPARED: u8 = 66;
const REFUSED: u8 = 67;
const STARTED: u8 = 68;
const FROM_CONTROL: u8 = 69;
const OUTPUT: u8 = 70;
const ENDED: u8 = 71;
const TAKEN: u8 = 72;
const SAYS: u8 = 73;
const LOST: u8 = 74;
const PONG: u8 = 75;
const RECORDS: u8 = 76;

/// The host that a frame is for or from; what follows is the message.
///
/// # Errors
/// [`DecodeError`].
pub fn host_of(body: &[u8]) -> Result<(u32, &[u8]), DecodeError> {
    let mut r = Reader::new(body);
    let host = r.u32("host")?;
    Ok((host, r.rest()))
}

/// Appends a frame with a body that was read before.
pub fn pass_on(body: &[u8], out: &mut Vec<u8>) {
    frame(out, |out| out.extend_from_slice(body));
}

impl ToDaemon {
    /// Appends the frame for `host` to `out`.
    pub fn encode(&self, host: u32, out: &mut Vec<u8>) {
        frame(out, |out| {
            out.put_u32(host);
            self.body(out);
        });
    }

    fn body(&self, out: &mut Vec<u8>) {
        match self {
            ToDaemon::Setup(setup) => {
                out.put_u8(SETUP);
                out.put_text(&setup.job, JOB_MAX_BYTES);
                out.put_text(&setup.name, TEXT_MAX_BYTES);
                out.put_u32(setup.fan_out);
                out.put_u64(setup.silence_ms);
                out.put_u64(setup.window_bytes);
            }
            ToDaemon::Launch { host, name, words, copy_self } => {
                out.put_u8(LAUNCH);
                out.put_u32(*host);
                out.put_text(name, TEXT_MAX_BYTES);
                put_words(words, out);
                out.put_u8((*copy_self).into());
            }
            ToDaemon::Prepare(prepare) => {
                out.put_u8(PREPARE);
                prepare.encode(out);
            }
            ToDaemon::Start { world } => {
                out.put_u8(START);
                out.put_u32(*world);
            }
            ToDaemon::Control { slot, bytes } => put_piece(CONTROL, *slot, bytes, out),
            ToDaemon::Signal { worlds, signal } => {
                out.put_u8(SIGNAL);
                put_numbers(worlds, out);
                out.put_u32(*signal as u32);
            }
            ToDaemon::Input { slot, bytes } => put_piece(INPUT, *slot, bytes, out),
            ToDaemon::Deaf { slot, stream } => {
                out.put_u8(DEAF);
                out.put_u32(*slot);
                out.put_u8(*stream);
            }
            ToDaemon::Credit { bytes } => {
                out.put_u8(CREDIT);
                out.put_u64(*bytes);
            }
            ToDaemon::Ping { nanos } => {
                out.put_u8(PING);
                out.put_u64(*nanos);
            }
            ToDaemon::Quit => out.put_u8(QUIT),
        }
    }

    /// Reads what stands behind the number of the host.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(message: &[u8]) -> Result<ToDaemon, DecodeError> {
        let mut r = Reader::new(message);
        let message = match r.u8("kind of frame")? {
            SETUP => ToDaemon::Setup(Setup {
                job: r.text("job", JOB_MAX_BYTES)?,
                name: r.text("host", TEXT_MAX_BYTES)?,
                fan_out: r.u32("fan-out")?,
                silence_ms: r.u64("silence")?,
                window_bytes: r.u64("window")?,
            }),
            LAUNCH => ToDaemon::Launch {
                host: r.u32("host")?,
                name: r.text("host", TEXT_MAX_BYTES)?,
                words: words(&mut r)?,
                copy_self: r.flag("copy")?,
            },
            PREPARE => ToDaemon::Prepare(Box::new(Prepare::decode(&mut r)?)),
            START => ToDaemon::Start { world: r.u32("world")? },
            CONTROL => ToDaemon::Control { slot: r.u32("slot")?, bytes: piece(&mut r)? },
            SIGNAL => {
                ToDaemon::Signal { worlds: numbers(&mut r, "worlds")?, signal: r.u32("signal")? as i32 }
            }
            INPUT => ToDaemon::Input { slot: r.u32("slot")?, bytes: piece(&mut r)? },
            DEAF => ToDaemon::Deaf { slot: r.u32("slot")?, stream: u8::from(r.flag("stream")?) },
            CREDIT => ToDaemon::Credit { bytes: r.u64("credit")? },
            PING => ToDaemon::Ping { nanos: r.u64("clock")? },
            QUIT => ToDaemon::Quit,
            other => return Err(DecodeError::Value { what: "kind of frame", value: other.into() }),
        };
        r.end("frame")?;
        Ok(message)
    }
}

impl FromDaemon {
    /// Appends the frame from `host` to `out`.
    pub fn encode(&self, host: u32, out: &mut Vec<u8>) {
        frame(out, |out| {
            out.put_u32(host);
            self.body(out);
        });
    }

    fn body(&self, out: &mut Vec<u8>) {
        match self {
            FromDaemon::Ready { name, pid } => {
                out.put_u8(READY);
                out.put_text(name, TEXT_MAX_BYTES);
                out.put_u32(*pid);
            }
            FromDaemon::Prepared { world, processors, own, segment } => {
                out.put_u8(PREPARED);
                out.put_u32(*world);
                out.put_u32(*processors);
                put_numbers(own, out);
                out.put_u8((*segment).into());
            }
            FromDaemon::Refused { world, status, reason } => {
                out.put_u8(REFUSED);
                out.put_u32(*world);
                out.put_u32(*status as u32);
                out.put_text(reason, TEXT_MAX_BYTES);
            }
            FromDaemon::Started { slot, pid, processors } => {
                out.put_u8(STARTED);
                out.put_u32(*slot);
                out.put_u32(*pid);
                put_numbers(processors, out);
            }
            FromDaemon::Control { slot, bytes } => put_piece(FROM_CONTROL, *slot, bytes, out),
            FromDaemon::Output { slot, stream, bytes } => {
                out.put_u8(OUTPUT);
                out.put_u32(*slot);
                out.put_u8(*stream);
                out.put_bytes(bytes, DAEMON_PIECE_MAX_BYTES);
            }
            FromDaemon::Ended { slot, signal, code } => {
                out.put_u8(ENDED);
                out.put_u32(*slot);
                out.put_option(*signal, |out, signal| out.put_u32(signal as u32));
                out.put_u32(*code as u32);
            }
            FromDaemon::Taken { slot, bytes } => {
                out.put_u8(TAKEN);
                out.put_u32(*slot);
                out.put_u64(*bytes);
            }
            FromDaemon::Says { host, bytes } => put_piece(SAYS, *host, bytes, out),
            FromDaemon::Lost { host, reason } => {
                out.put_u8(LOST);
                out.put_u32(*host);
                out.put_text(reason, TEXT_MAX_BYTES);
            }
            FromDaemon::Pong { asked, nanos } => {
                out.put_u8(PONG);
                out.put_u64(*asked);
                out.put_u64(*nanos);
            }
            FromDaemon::Records { slot, bytes } => put_piece(RECORDS, *slot, bytes, out),
        }
    }

    /// Reads what stands behind the number of the host.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(message: &[u8]) -> Result<FromDaemon, DecodeError> {
        let mut r = Reader::new(message);
        let message = match r.u8("kind of frame")? {
            READY => FromDaemon::Ready { name: r.text("host", TEXT_MAX_BYTES)?, pid: r.u32("pid")? },
            PREPARED => FromDaemon::Prepared {
                world: r.u32("world")?,
                processors: r.u32("processors")?,
                own: numbers(&mut r, "processors of the ranks")?,
                segment: r.flag("segment")?,
            },
            REFUSED => FromDaemon::Refused {
                world: r.u32("world")?,
                status: r.u32("status")? as i32,
                reason: r.text("reason", TEXT_MAX_BYTES)?,
            },
            STARTED => FromDaemon::Started {
                slot: r.u32("slot")?,
                pid: r.u32("pid")?,
                processors: numbers(&mut r, "processors")?,
            },
            FROM_CONTROL => FromDaemon::Control { slot: r.u32("slot")?, bytes: piece(&mut r)? },
            OUTPUT => FromDaemon::Output {
                slot: r.u32("slot")?,
                stream: u8::from(r.flag("stream")?),
                bytes: piece(&mut r)?,
            },
            ENDED => FromDaemon::Ended {
                slot: r.u32("slot")?,
                signal: r.option("signal", |r| Ok(r.u32("signal")? as i32))?,
                code: r.u32("exit status")? as i32,
            },
            TAKEN => FromDaemon::Taken { slot: r.u32("slot")?, bytes: r.u64("bytes")? },
            SAYS => FromDaemon::Says { host: r.u32("host")?, bytes: piece(&mut r)? },
            LOST => FromDaemon::Lost { host: r.u32("host")?, reason: r.text("reason", TEXT_MAX_BYTES)? },
            PONG => FromDaemon::Pong { asked: r.u64("clock")?, nanos: r.u64("clock")? },
            RECORDS => FromDaemon::Records { slot: r.u32("slot")?, bytes: piece(&mut r)? },
            other => return Err(DecodeError::Value { what: "kind of frame", value: other.into() }),
        };
        r.end("frame")?;
        Ok(message)
    }
}

fn put_piece(kind: u8, number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    out.put_u8(kind);
    out.put_u32(number);
    out.put_bytes(bytes, DAEMON_PIECE_MAX_BYTES);
}

fn piece(r: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    Ok(r.bytes("bytes", DAEMON_PIECE_MAX_BYTES)?.to_vec())
}

fn put_words(words: &[Vec<u8>], out: &mut Vec<u8>) {
    let words = &words[..words.len().min(SPAWN_WORDS_MAX)];
    out.put_u32(words.len() as u32);
    words.iter().for_each(|word| out.put_bytes(word, SPAWN_WORD_MAX_BYTES));
}

fn words(r: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, DecodeError> {
    many(r, "words", SPAWN_WORDS_MAX, |r| word(r, "word"))
}

fn put_numbers(numbers: &[u32], out: &mut Vec<u8>) {
    let numbers = &numbers[..numbers.len().min(DAEMON_LIST_MAX)];
    out.put_u32(numbers.len() as u32);
    numbers.iter().for_each(|number| out.put_u32(*number));
}

fn numbers(r: &mut Reader<'_>, what: &'static str) -> Result<Vec<u32>, DecodeError> {
    many(r, what, DAEMON_LIST_MAX, |r| r.u32(what))
}
