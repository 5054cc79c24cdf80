//! The native start-up protocol between a rank and its launcher.
//!
//! A frame is a length (u32, little-endian, of what follows), a kind (one byte) and the fields of
//! the kind. The rank speaks first ([`ToLauncher::Hello`]) and gets a [`ToRank::Welcome`]; after
//! that both sides speak when they have something to say. Requests carry an id that the answer
//! repeats.

use crate::codec::{DecodeError, Put, Reader};
pub use crate::frames::Frames;
use crate::frames::frame;
use crate::limits::{JOB_MAX_BYTES, KEY_MAX_BYTES, TEXT_MAX_BYTES, VALUE_MAX_BYTES};
use crate::spawn::{NameOutcome, NameRequest, SpawnOutcome, SpawnRequest};
use crate::waits::{self, Wait};
pub use crate::welcome::Welcome;

/// Version of the start-up protocol. Both sides state theirs; they must be equal.
pub const STARTUP_VERSION: u32 = 4;

/// First field of the first frame, so that a stranger's bytes are recognised as such.
const GREETING: u32 = 0x4D50_4953;

/// What a rank says to its launcher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToLauncher {
    /// The first frame.
    Hello {
        /// The rank's [`STARTUP_VERSION`].
        version: u32,
        /// Who it believes to be.
        rank: u32,
        /// Its process id.
        pid: u32,
    },
    /// Publishes a value under the sender's rank; visible once it started or fenced.
    Put {
        /// Key, at most [`KEY_MAX_BYTES`].
        key: String,
        /// Value, at most [`VALUE_MAX_BYTES`].
        value: Vec<u8>,
    },
    /// Waits until all ranks have said so as often.
    Fence {
        /// Name for the answer.
        id: u64,
    },
    /// Asks for what a rank published; answered once that rank has started or fenced, or is gone.
    Get {
        /// Name for the answer.
        id: u64,
        /// Whose value.
        rank: u32,
        /// Key.
        key: String,
    },
    /// The rank has initialised MPI; all it published so far is visible.
    Started,
    /// The rank has entered the finalisation of MPI.
    Finalizing,
    /// The rank has finalised MPI: an exit with 0 is a good end.
    Finalized,
    /// Starts another world; answered when all of its processes have initialised MPI, or none is
    /// left.
    Spawn {
        /// Name for the answer.
        id: u64,
        /// What to start.
        request: Box<SpawnRequest>,
    },
    /// Publishes, takes back or asks for a name.
    Name {
        /// Name for the answer.
        id: u64,
        /// What about which name.
        request: NameRequest,
    },
    /// The rank has, or no longer has, a communicator with processes of another job.
    Linked {
        /// The other job's id.
        job: String,
        /// It has one.
        linked: bool,
    },
    /// The job is to end.
    Abort {
        /// Code that the program gave.
        code: i32,
        /// Why, for people.
        message: String,
    },
    /// What a blocked rank waits for.
    Report {
        /// One line, for people.
        text: String,
        /// Its blocked calls; none when it runs outside of MPI.
        waits: Vec<Wait>,
    },
}

/// What a launcher says to a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToRank {
    /// Answer to the hello.
    Welcome(Box<Welcome>),
    /// The hello is not accepted: the launcher's version and the reason.
    Refused {
        /// The launcher's [`STARTUP_VERSION`].
        version: u32,
        /// Why, for people.
        reason: String,
    },
    /// All ranks have fenced.
    FenceDone {
        /// Id of the request.
        id: u64,
    },
    /// Answer to a get.
    Value {
        /// Id of the request.
        id: u64,
        /// What the rank published, `None` when it has nothing under that key.
        value: Option<Vec<u8>>,
    },
    /// Answer to a request to spawn.
    Spawned {
        /// Id of the request.
        id: u64,
        /// What became of it.
        outcome: SpawnOutcome,
    },
    /// Answer to a question about a name.
    Named {
        /// Id of the request.
        id: u64,
        /// The answer.
        outcome: NameOutcome,
    },
    /// The job ends.
    Abort {
        /// Status that the job ends with.
        code: i32,
        /// Why, for people.
        message: String,
    },
    /// Say what you wait for.
    ReportWanted,
    /// Another process is gone and the job goes on.
    PeerDied {
        /// The world that it was of; empty for the receiver's own.
        job: String,
        /// Its rank there.
        rank: u32,
        /// How, for people.
        how: String,
    },
}

const HELLO: u8 = 1;
const PUT: u8 = 2;
const FENCE: u8 = 3;
const GET: u8 = 4;
const STARTED: u8 = 5;
const FINALIZING: u8 = 6;
const FINALIZED: u8 = 7;
const ABORT: u8 = 8;
const REPORT: u8 = 9;
const SPAWN: u8 = 10;
const NAME: u8 = 11;
const LINKED: u8 = 12;

const WELCOME: u8 = 65;
const REFUSED: u8 = 66;
const FENCE_DONE: u8 = 67;
const VALUE: u8 = 68;
const JOB_ABORT: u8 = 69;
const REPORT_WANTED: u8 = 70;
const PEER_DIED: u8 = 71;
const SPAWNED: u8 = 72;
const NAMED: u8 = 73;

impl ToLauncher {
    /// Appends the frame to `out`. Texts above their limits are cut off.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame(out, |out| match self {
            ToLauncher::Hello { version, rank, pid } => {
                out.put_u8(HELLO);
                out.put_u32(GREETING);
                out.put_u32(*version);
                out.put_u32(*rank);
                out.put_u32(*pid);
            }
            ToLauncher::Put { key, value } => {
                out.put_u8(PUT);
                out.put_text(key, KEY_MAX_BYTES);
                out.put_bytes(value, VALUE_MAX_BYTES);
            }
            ToLauncher::Fence { id } => {
                out.put_u8(FENCE);
                out.put_u64(*id);
            }
            ToLauncher::Get { id, rank, key } => {
                out.put_u8(GET);
                out.put_u64(*id);
                out.put_u32(*rank);
                out.put_text(key, KEY_MAX_BYTES);
            }
            ToLauncher::Started => out.put_u8(STARTED),
            ToLauncher::Finalizing => out.put_u8(FINALIZING),
            ToLauncher::Finalized => out.put_u8(FINALIZED),
            ToLauncher::Spawn { id, request } => {
                out.put_u8(SPAWN);
                out.put_u64(*id);
                request.encode(out);
            }
            ToLauncher::Name { id, request } => {
                out.put_u8(NAME);
                out.put_u64(*id);
                request.encode(out);
            }
            ToLauncher::Linked { job, linked } => {
                out.put_u8(LINKED);
                out.put_text(job, JOB_MAX_BYTES);
                out.put_u8((*linked).into());
            }
            ToLauncher::Abort { code, message } => {
                out.put_u8(ABORT);
                out.put_u32(*code as u32);
                out.put_text(message, TEXT_MAX_BYTES);
            }
            ToLauncher::Report { text, waits } => {
                out.put_u8(REPORT);
                out.put_text(text, TEXT_MAX_BYTES);
                waits::encode(waits, out);
            }
        });
    }

    /// Reads the body of a frame (without its length).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(body: &[u8]) -> Result<ToLauncher, DecodeError> {
        let mut r = Reader::new(body);
        let message = match r.u8("kind of frame")? {
            HELLO => {
                let greeting = r.u32("greeting")?;
                if greeting != GREETING {
                    return Err(DecodeError::Value { what: "greeting", value: greeting.into() });
                }
                let version = r.u32("version")?;
                if version != STARTUP_VERSION {
                    // Of another version only greeting and version are known to be where they are:
                    // enough to tell both sides which versions met.
                    return Ok(ToLauncher::Hello { version, rank: u32::MAX, pid: 0 });
                }
                ToLauncher::Hello { version, rank: r.u32("rank")?, pid: r.u32("pid")? }
            }
            PUT => ToLauncher::Put {
                key: r.text("key", KEY_MAX_BYTES)?,
                value: r.bytes("value", VALUE_MAX_BYTES)?.to_vec(),
            },
            FENCE => ToLauncher::Fence { id: r.u64("id")? },
            GET => {
                ToLauncher::Get { id: r.u64("id")?, rank: r.u32("rank")?, key: r.text("key", KEY_MAX_BYTES)? }
            }
            STARTED => ToLauncher::Started,
            FINALIZING => ToLauncher::Finalizing,
            FINALIZED => ToLauncher::Finalized,
            SPAWN => ToLauncher::Spawn { id: r.u64("id")?, request: Box::new(SpawnRequest::decode(&mut r)?) },
            NAME => ToLauncher::Name { id: r.u64("id")?, request: NameRequest::decode(&mut r)? },
            LINKED => ToLauncher::Linked { job: r.text("job", JOB_MAX_BYTES)?, linked: r.flag("linked")? },
            ABORT => {
                ToLauncher::Abort { code: r.u32("code")? as i32, message: r.text("message", TEXT_MAX_BYTES)? }
            }
            REPORT => {
                ToLauncher::Report { text: r.text("report", TEXT_MAX_BYTES)?, waits: waits::decode(&mut r)? }
            }
            other => return Err(DecodeError::Value { what: "kind of frame", value: other.into() }),
        };
        r.end("frame")?;
        Ok(message)
    }
}

impl ToRank {
    /// Appends the frame to `out`. Texts above their limits are cut off.
    pub fn encode(&self, out: &mut Vec<u8>) {
        frame(out, |out| match self {
            ToRank::Welcome(welcome) => {
                out.put_u8(WELCOME);
                welcome.encode(out);
            }
            ToRank::Refused { version, reason } => {
                out.put_u8(REFUSED);
                out.put_u32(*version);
                out.put_text(reason, TEXT_MAX_BYTES);
            }
            ToRank::FenceDone { id } => {
                out.put_u8(FENCE_DONE);
                out.put_u64(*id);
            }
            ToRank::Value { id, value } => {
                out.put_u8(VALUE);
                out.put_u64(*id);
                out.put_option(value.as_deref(), |out, v| out.put_bytes(v, VALUE_MAX_BYTES));
            }
            ToRank::Spawned { id, outcome } => {
                out.put_u8(SPAWNED);
                out.put_u64(*id);
                outcome.encode(out);
            }
            ToRank::Named { id, outcome } => {
                out.put_u8(NAMED);
                out.put_u64(*id);
                outcome.encode(out);
            }
            ToRank::Abort { code, message } => {
                out.put_u8(JOB_ABORT);
                out.put_u32(*code as u32);
                out.put_text(message, TEXT_MAX_BYTES);
            }
            ToRank::ReportWanted => out.put_u8(REPORT_WANTED),
            ToRank::PeerDied { job, rank, how } => {
                out.put_u8(PEER_DIED);
                out.put_text(job, JOB_MAX_BYTES);
                out.put_u32(*rank);
                out.put_text(how, TEXT_MAX_BYTES);
            }
        });
    }

    /// Reads the body of a frame (without its length).
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(body: &[u8]) -> Result<ToRank, DecodeError> {
        let mut r = Reader::new(body);
        let message = match r.u8("kind of frame")? {
            WELCOME => ToRank::Welcome(Box::new(Welcome::decode(&mut r)?)),
            REFUSED => {
                ToRank::Refused { version: r.u32("version")?, reason: r.text("reason", TEXT_MAX_BYTES)? }
            }
            FENCE_DONE => ToRank::FenceDone { id: r.u64("id")? },
            VALUE => ToRank::Value {
                id: r.u64("id")?,
                value: r.option("value", |r| Ok(r.bytes("value", VALUE_MAX_BYTES)?.to_vec()))?,
            },
            SPAWNED => ToRank::Spawned { id: r.u64("id")?, outcome: SpawnOutcome::decode(&mut r)? },
            NAMED => ToRank::Named { id: r.u64("id")?, outcome: NameOutcome::decode(&mut r)? },
            JOB_ABORT => {
                ToRank::Abort { code: r.u32("code")? as i32, message: r.text("message", TEXT_MAX_BYTES)? }
            }
            REPORT_WANTED => ToRank::ReportWanted,
            PEER_DIED => ToRank::PeerDied {
                job: r.text("job", JOB_MAX_BYTES)?,
                rank: r.u32("rank")?,
                how: r.text("how", TEXT_MAX_BYTES)?,
            },
            other => return Err(DecodeError::Value { what: "kind of frame", value: other.into() }),
        };
        r.end("frame")?;
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{STARTUP_FRAME_MAX_BYTES, WAIT_PEERS_MAX, WAITS_MAX};
    use crate::spawn::SpawnCommand;
    use crate::waits::Foreign;
    use proptest::prelude::*;

    fn to_launcher() -> impl Strategy<Value = ToLauncher> {
        let key = || "[a-z.]{0,40}";
        prop_oneof![
            any::<(u32, u32)>().prop_map(|(rank, pid)| ToLauncher::Hello {
                version: STARTUP_VERSION,
                rank,
                pid
            }),
            (key(), any::<Vec<u8>>()).prop_map(|(key, value)| ToLauncher::Put { key, value }),
            any::<u64>().prop_map(|id| ToLauncher::Fence { id }),
            (any::<u64>(), any::<u32>(), key()).prop_map(|(id, rank, key)| ToLauncher::Get { id, rank, key }),
            Just(ToLauncher::Started),
            Just(ToLauncher::Finalizing),
            Just(ToLauncher::Finalized),
            any::<(i32, String)>().prop_map(|(code, message)| ToLauncher::Abort { code, message }),
            (any::<String>(), waits()).prop_map(|(text, waits)| ToLauncher::Report { text, waits }),
            (any::<u64>(), spawn_request())
                .prop_map(|(id, request)| ToLauncher::Spawn { id, request: Box::new(request) }),
            (any::<u64>(), name_request()).prop_map(|(id, request)| ToLauncher::Name { id, request }),
            ("[a-z.]{0,40}", any::<bool>()).prop_map(|(job, linked)| ToLauncher::Linked { job, linked }),
        ]
    }

    fn spawn_request() -> impl Strategy<Value = SpawnRequest> {
        let words = proptest::collection::vec(any::<Vec<u8>>(), 0..4);
        let info = proptest::collection::vec(("[a-z]{1,8}", any::<String>()), 0..3);
        let command = (any::<Vec<u8>>(), words, any::<u32>(), any::<Vec<u8>>(), info);
        let command = command.prop_map(|(program, arguments, count, directory, info)| SpawnCommand {
            program,
            arguments,
            count,
            directory,
            info,
        });
        (proptest::collection::vec(command, 0..4), "[a-z0-9:]{0,40}")
            .prop_map(|(commands, port)| SpawnRequest { commands, port })
    }

    fn name_request() -> impl Strategy<Value = NameRequest> {
        prop_oneof![
            ("[a-z]{0,20}", "[a-z]{0,20}").prop_map(|(service, port)| NameRequest::Publish { service, port }),
            "[a-z]{0,20}".prop_map(|service| NameRequest::Unpublish { service }),
            "[a-z]{0,20}".prop_map(|service| NameRequest::Lookup { service }),
        ]
    }

    fn spawn_outcome() -> impl Strategy<Value = SpawnOutcome> {
        prop_oneof![
            "[a-z.]{0,40}".prop_map(|job| SpawnOutcome::Started { job }),
            any::<(Option<u32>, String)>()
                .prop_map(|(command, reason)| SpawnOutcome::Failed { command, reason }),
        ]
    }

    fn name_outcome() -> impl Strategy<Value = NameOutcome> {
        prop_oneof![
            proptest::option::of("[a-z]{0,20}").prop_map(NameOutcome::Done),
            Just(NameOutcome::Taken),
            Just(NameOutcome::Unknown),
            Just(NameOutcome::Full),
        ]
    }

    fn waits() -> impl Strategy<Value = Vec<Wait>> {
        let wait = (proptest::collection::vec(any::<u32>(), 0..9), any::<bool>(), any::<bool>());
        let foreign = |rank| Foreign { job: format!("job.{rank}"), rank };
        let wait = wait.prop_map(move |(peers, any, polls)| {
            let foreign = peers.iter().copied().map(foreign).collect();
            Wait { peers, foreign, any, polls }
        });
        proptest::collection::vec(wait, 0..5)
    }

    #[test]
    fn a_hello_of_another_version_is_read_as_far_as_it_is_known() {
        let mut bytes = Vec::new();
        ToLauncher::Hello { version: STARTUP_VERSION + 1, rank: 3, pid: 4 }.encode(&mut bytes);
        bytes.extend_from_slice(b"fields of the future");
        let hello = ToLauncher::decode(&bytes[4..]);
        assert!(matches!(hello, Ok(ToLauncher::Hello { version, .. }) if version == STARTUP_VERSION + 1));
    }

    #[test]
    fn a_wait_for_too_many_names_nobody() {
        let waits = vec![Wait { peers: vec![7; WAIT_PEERS_MAX + 1], ..Wait::default() }; WAITS_MAX + 1];
        let mut bytes = Vec::new();
        ToLauncher::Report { text: String::new(), waits }.encode(&mut bytes);
        let Ok(ToLauncher::Report { waits, .. }) = ToLauncher::decode(&bytes[4..]) else { panic!() };
        assert_eq!(waits, vec![Wait::default(); WAITS_MAX]);
    }

    fn welcome() -> impl Strategy<Value = Welcome> {
        let names = (any::<String>(), any::<String>(), any::<Option<String>>());
        let numbers = any::<(u32, u32, Option<u32>, u32, bool, Option<i32>, Option<u32>)>();
        (names, any::<[u8; 32]>(), numbers).prop_map(|((job, host, parent), secret, n)| Welcome {
            version: STARTUP_VERSION,
            job: job.chars().take(20).collect(),
            secret,
            rank: n.0,
            size: n.1,
            host,
            node_slot: n.2,
            node_size: n.3,
            node_processors: n.0,
            own_processors: n.1,
            multihost: n.4,
            appnum: n.5,
            universe_size: n.6,
            parent,
        })
    }

    fn to_rank() -> impl Strategy<Value = ToRank> {
        prop_oneof![
            welcome().prop_map(|welcome| ToRank::Welcome(Box::new(welcome))),
            any::<(u32, String)>().prop_map(|(version, reason)| ToRank::Refused { version, reason }),
            any::<u64>().prop_map(|id| ToRank::FenceDone { id }),
            any::<(u64, Option<Vec<u8>>)>().prop_map(|(id, value)| ToRank::Value { id, value }),
            any::<(i32, String)>().prop_map(|(code, message)| ToRank::Abort { code, message }),
            Just(ToRank::ReportWanted),
            any::<(bool, u32, String)>().prop_map(|(other, rank, how)| {
                let job = String::from(if other { "another-job" } else { "" });
                ToRank::PeerDied { job, rank, how }
            }),
            (any::<u64>(), spawn_outcome()).prop_map(|(id, outcome)| ToRank::Spawned { id, outcome }),
            (any::<u64>(), name_outcome()).prop_map(|(id, outcome)| ToRank::Named { id, outcome }),
        ]
    }

    #[test]
    fn a_length_is_refused_before_its_bytes_come() {
        for length in [0, STARTUP_FRAME_MAX_BYTES as u32 + 1, u32::MAX] {
            let mut frames = Frames::default();
            frames.push(&length.to_le_bytes());
            assert!(matches!(frames.pop(), Err(DecodeError::Limit { .. })), "{length}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_so_that_it_can_be_read() {
        let mut bytes = Vec::new();
        let value = vec![0; VALUE_MAX_BYTES + 1];
        ToLauncher::Put { key: "ä".repeat(KEY_MAX_BYTES), value }.encode(&mut bytes);
        assert!(ToLauncher::decode(&bytes[4..]).is_ok());
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(
            sent in proptest::collection::vec(to_launcher(), 0..8),
            cut in 1usize..50,
        ) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|message| message.encode(&mut bytes));
            let mut frames = Frames::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(cut) {
                frames.push(piece);
                while let Some(body) = frames.pop().unwrap() {
                    got.push(ToLauncher::decode(body).unwrap());
                }
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn answers_round_trip(message in to_rank()) {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            prop_assert_eq!(ToRank::decode(&bytes[4..]), Ok(message));
        }

        #[test]
        fn hostile_bytes_never_panic(kind: u8, mut bytes: Vec<u8>) {
            let _ = ToLauncher::decode(&bytes);
            bytes.insert(0, kind % 80);
            let _ = ToLauncher::decode(&bytes);
            let _ = ToRank::decode(&bytes);
            let mut frames = Frames::default();
            frames.push(&bytes);
            while let Ok(Some(_)) = frames.pop() {}
        }
    }
}
