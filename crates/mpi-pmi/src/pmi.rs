//! Under a launcher that speaks PMI: one flat key-value space, a barrier, and little else.
//!
//! What the native protocol has and PMI has not is made here: keys carry their rank, values are
//! written in hexadecimal and cut into as many pieces as the server's limit asks for, and the job's
//! secret and the host names go through the key-value space at start-up.

use crate::bootstrap::{Lookup, number};
use crate::limits::{
    ANSWER_TIMEOUT, PEERS_TIMEOUT, PEERS_TIMEOUT_SETTING, VALUE_PIECES_MAX, WORLD_MAX_RANKS,
};
use crate::{Bootstrap, Client, Events, Kind, PmiError, host_name, pmi1, pmi2};
use mpi_wire::pmi1::process_mapping;
use mpi_wire::pmi1_spawn::{Program, Spawn};
use mpi_wire::spawn::{NameOutcome, NameRequest, SpawnCommand, SpawnOutcome, SpawnRequest};
use mpi_wire::waits::Wait;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Descriptor of the connection to a PMI server.
pub(crate) const FD: &str = "PMI_FD";
/// Host and port of a PMI server.
pub(crate) const PORT: &str = "PMI_PORT";
const RANK: &str = "PMI_RANK";
const SIZE: &str = "PMI_SIZE";
const ID: &str = "PMI_ID";
/// `pmi2` asks a server for PMI-2; PMI-1 otherwise, which all of them speak.
const PROTOCOL: &str = "MPI_PMI_PROTOCOL";

/// Set where a process was spawned.
const SPAWNED: &str = "PMI_SPAWNED";
/// Under which a spawned world finds the port of its parent.
const PARENT_KEY: &str = "mpi-parent-port";

/// One version of the protocol, on one connection.
pub(crate) trait Wire: Send {
    fn limits(&self) -> Limits;
    fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError>;
    fn get(&mut self, key: &str) -> Result<Option<String>, PmiError>;
    /// What the server itself knows, such as `PMI_process_mapping`.
    fn attribute(&mut self, key: &str) -> Result<Option<String>, PmiError>;
    fn fence(&mut self) -> Result<(), PmiError>;
    fn finalize(&mut self) -> Result<(), PmiError>;
    fn abort(&mut self, code: i32, message: &str) -> Result<(), PmiError>;

    /// Starts programs; the code of each process that did not start, where the server tells.
    fn spawn(&mut self, request: &Spawn) -> Result<Vec<i64>, PmiError>;

    /// A question about a name: the port, where one was asked for; `None` where the server says no.
    fn name(&mut self, request: &NameRequest) -> Result<Option<String>, PmiError>;
}

/// The longest key and value that a server takes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) key: usize,
    pub(crate) value: usize,
}

/// Who this process is, by the server's word.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) appnum: Option<i32>,
    pub(crate) universe_size: Option<u32>,
    /// Name of the key-value space: the same in all ranks and in no other job.
    pub(crate) space: String,
}

/// Starts under PMI; `None` where neither descriptor nor port is there.
pub(crate) fn start(lookup: Lookup<'_>) -> Result<Option<Bootstrap>, PmiError> {
    let peers = match number::<u64>(lookup, PEERS_TIMEOUT_SETTING)? {
        Some(seconds) => Duration::from_secs(seconds.max(1)),
        None => PEERS_TIMEOUT,
    };
    let Some((link, from)) = Link::open(lookup, peers)? else { return Ok(None) };
    let version2 = match lookup(PROTOCOL).as_deref() {
        None | Some("" | "pmi1") => false,
        Some("pmi2") => true,
        Some(other) => {
            let reason = String::from("expected pmi1 or pmi2");
            return Err(PmiError::Setting { name: PROTOCOL, value: other.to_owned(), reason });
        }
    };
    let (kind, (wire, identity)): (_, (Box<dyn Wire>, _)) = if version2 {
        (Kind::Pmi2, boxed(pmi2::connect(link, from)?))
    } else {
        (Kind::Pmi1, boxed(pmi1::connect(link, from)?))
    };
    if identity.size == 0 || identity.size > WORLD_MAX_RANKS || identity.rank >= identity.size {
        let reason = format!("it says rank {} of {}", identity.rank, identity.size);
        return Err(PmiError::Protocol { what: "init", reason });
    }
    let spawned = lookup(SPAWNED).is_some_and(|value| value != "0");
    world(kind, wire, identity, spawned).map(Some)
}

fn boxed<W: Wire + 'static>((wire, identity): (W, Identity)) -> (Box<dyn Wire>, Identity) {
    (Box::new(wire), identity)
}

/// Agrees on the secret and learns who is where, with one fence.
fn world(
    kind: Kind,
    mut wire: Box<dyn Wire>,
    identity: Identity,
    spawned: bool,
) -> Result<Bootstrap, PmiError> {
    // None where another library's program has spawned this one: it speaks another language anyway.
    let parent = if spawned { wire.get(PARENT_KEY)? } else { None };
    let mapping = match identity.size {
        1 => None,
        _ => wire.attribute("PMI_process_mapping")?,
    };
    let nodes = mapping.and_then(|text| process_mapping(&text, identity.size).ok());
    let client = Pmi { rank: identity.rank, wire: Mutex::new(wire) };
    let mut secret = crate::random_bytes()?;
    if identity.size > 1 {
        if identity.rank == 0 {
            client.put("secret", &secret)?;
        }
        client.fence()?;
        let agreed = client.get(0, "secret")?.and_then(|bytes| bytes.try_into().ok());
        secret = agreed.ok_or_else(|| PmiError::Protocol {
            what: "secret",
            reason: String::from("rank 0's 32 bytes are not in the key-value space"),
        })?;
    }
    let own = nodes.as_ref().and_then(|nodes| nodes.get(identity.rank as usize).copied());
    let here = nodes.iter().flatten().filter(|node| Some(**node) == own).count() as u32;
    Ok(Bootstrap {
        job: identity.space,
        secret,
        rank: identity.rank,
        size: identity.size,
        host: host_name(),
        node_slot: None,
        node_size: here.max(1),
        processors: crate::bootstrap::own_processors(),
        segment: None,
        // Where the server does not say who is where, other hosts must be expected.
        multihost: identity.size > 1 && here != identity.size,
        appnum: identity.appnum,
        universe_size: identity.universe_size,
        parent,
        client: Arc::new(client),
        kind,
    })
}

/// The client, over either version.
struct Pmi {
    rank: u32,
    wire: Mutex<Box<dyn Wire>>,
}

impl Pmi {
    fn lock(&self) -> MutexGuard<'_, Box<dyn Wire>> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client for Pmi {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        let mut wire = self.lock();
        for (key, value) in pieces(self.rank, key, value, wire.limits())? {
            wire.put(&key, &value)?;
        }
        Ok(())
    }

    fn fence(&self) -> Result<(), PmiError> {
        self.lock().fence()
    }

    fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        let mut wire = self.lock();
        let Some(first) = wire.get(&name(rank, key, 0))? else { return Ok(None) };
        let bad = |reason: &str| PmiError::Protocol { what: "get", reason: reason.to_owned() };
        let (count, first) = first.split_once('.').ok_or_else(|| bad("a value without its count"))?;
        let count: usize = count.parse().map_err(|_| bad("a count that is no number"))?;
        if count == 0 || count > VALUE_PIECES_MAX {
            return Err(bad("a count of pieces out of range"));
        }
        let mut text = first.to_owned();
        for piece in 1..count {
            let value = wire.get(&name(rank, key, piece))?;
            let value = value.ok_or_else(|| bad("a piece of the value is missing"))?;
            text.push_str(value.strip_prefix('.').ok_or_else(|| bad("a piece without its mark"))?);
        }
        from_hex(&text).map(Some).ok_or_else(|| bad("a value that is not hexadecimal"))
    }

    fn started(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn finalizing(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn finalized(&self) -> Result<(), PmiError> {
        self.lock().finalize()
    }

    /// The answer comes before the processes have started.
    fn spawn(&self, request: SpawnRequest) -> Result<SpawnOutcome, PmiError> {
        let spawn = spawn_lines(&request)?;
        Ok(match self.lock().spawn(&spawn) {
            Ok(codes) => match codes.iter().find(|code| **code != 0) {
                None => SpawnOutcome::Started { job: String::new() },
                Some(code) => failed_spawn(format!("the launcher's code for a process is {code}")),
            },
            Err(PmiError::Refused { reason, .. }) => failed_spawn(format!("the launcher refused: {reason}")),
            Err(e) => return Err(e),
        })
    }

    fn name(&self, request: NameRequest) -> Result<NameOutcome, PmiError> {
        let wanted = matches!(request, NameRequest::Lookup { .. });
        let publishes = matches!(request, NameRequest::Publish { .. });
        Ok(match self.lock().name(&request)? {
            Some(port) => NameOutcome::Done(Some(port).filter(|_| wanted)),
            None if publishes => NameOutcome::Taken,
            None => NameOutcome::Unknown,
        })
    }

    /// PMI has no word for it: its launchers end what they started together.
    fn linked(&self, _: &str, _: bool) -> Result<(), PmiError> {
        Ok(())
    }

    fn abort(&self, code: i32, message: &str) {
        eprintln!("rank {} {}", self.rank, crate::abort_words(code, message));
        // Where the launcher is gone there is nobody to tell.
        let _ = self.lock().abort(crate::exit_status(code), message);
    }

    fn report(&self, text: &str, _: &[Wait]) -> Result<(), PmiError> {
        eprintln!("rank {}: {text}", self.rank);
        Ok(())
    }

    fn events(&self) -> Option<Events> {
        None
    }
}

fn failed_spawn(reason: String) -> SpawnOutcome {
    SpawnOutcome::Failed { command: None, reason }
}

/// A request as PMI takes it: texts, each on a line.
fn spawn_lines(request: &SpawnRequest) -> Result<Spawn, PmiError> {
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).map_err(|_| PmiError::Refused {
            what: "spawn",
            reason: String::from("over PMI a program and its arguments must be UTF-8"),
        })
    };
    let program = |command: &SpawnCommand| {
        let mut info = command.info.clone();
        if !info.iter().any(|(key, _)| key == "wdir") {
            info.push((String::from("wdir"), text(&command.directory)?));
        }
        // PMI knows no variables of a program to spawn, and its servers no other hints.
        info.retain(|(key, value)| ["wdir", "path", "host"].contains(&key.as_str()) && !value.is_empty());
        let arguments = command.arguments.iter().map(|word| text(word)).collect::<Result<_, _>>()?;
        Ok(Program { name: text(&command.program)?, count: command.count, arguments, info })
    };
    let programs = request.commands.iter().map(program).collect::<Result<_, PmiError>>()?;
    Ok(Spawn { preput: vec![(PARENT_KEY.to_owned(), request.port.clone())], programs })
}

/// Name of a piece of a value in the flat key-value space.
fn name(rank: u32, key: &str, piece: usize) -> String {
    if piece == 0 { format!("mpi-{rank}-{key}") } else { format!("mpi-{rank}-{key}-{piece}") }
}

/// A value as the key-value space takes it: the first piece says how many there are.
fn pieces(rank: u32, key: &str, value: &[u8], limits: Limits) -> Result<Vec<(String, String)>, PmiError> {
    /// Room for the count and its dot.
    const COUNT_BYTES: usize = 8;
    let longest = name(rank, key, VALUE_PIECES_MAX).len();
    if longest >= limits.key {
        return Err(PmiError::TooLong { what: "key", length: longest, limit: limits.key });
    }
    // A server's limit counts the end of the string.
    let room = limits.value.saturating_sub(COUNT_BYTES + 1).max(2);
    let hex = to_hex(value);
    let mut cut: Vec<&str> = Vec::new();
    let mut rest = hex.as_str();
    while rest.len() > room {
        let (piece, tail) = rest.split_at(room);
        cut.push(piece);
        rest = tail;
    }
    cut.push(rest);
    if cut.len() > VALUE_PIECES_MAX {
        let limit = VALUE_PIECES_MAX * room / 2;
        return Err(PmiError::TooLong { what: "value", length: value.len(), limit });
    }
    let count = cut.len();
    let text = |(at, piece): (usize, &str)| {
        let mark = if at == 0 { format!("{count}.{piece}") } else { format!(".{piece}") };
        (name(rank, key, at), mark)
    };
    Ok(cut.into_iter().enumerate().map(text).collect())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: &u8| char::from(*c).to_digit(16).map(|d| d as u8);
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

/// The connection to the server.
pub(crate) enum Link {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// How the connection was found, and what the environment says beside it.
#[derive(Clone, Debug)]
pub(crate) enum From {
    /// By descriptor: rank and size stand in the environment.
    Descriptor { rank: u32, size: u32, job: Option<String> },
    /// By port: the server tells rank and size to whoever gives this id.
    Port { id: u32 },
}

impl Link {
    fn open(lookup: Lookup<'_>, peers: Duration) -> Result<Option<(Link, From)>, PmiError> {
        let found = if let Some(fd) = number::<i32>(lookup, FD)? {
            let missing = |missing| PmiError::Missing { present: FD, missing };
            let rank = number(lookup, RANK)?.ok_or_else(|| missing(RANK))?;
            let size = number(lookup, SIZE)?.ok_or_else(|| missing(SIZE))?;
            let socket = mpi_node::spawn::inherited(fd).map_err(|e| PmiError::Setting {
                name: FD,
                value: fd.to_string(),
                reason: format!("descriptor {fd} is not open ({e})"),
            })?;
            (Link::of(socket), From::Descriptor { rank, size, job: lookup("PMI_JOBID") })
        } else if let Some(port) = lookup(PORT) {
            let id = number(lookup, ID)?.ok_or(PmiError::Missing { present: PORT, missing: ID })?;
            let socket = TcpStream::connect(&port).map_err(|e| PmiError::Setting {
                name: PORT,
                value: port.clone(),
                reason: format!("cannot connect to the launcher: {e}"),
            })?;
            // Small questions and answers: nothing to collect.
            let _ = socket.set_nodelay(true);
            (Link::Tcp(socket), From::Port { id })
        } else {
            return Ok(None);
        };
        found.0.bound(peers).map_err(|e| PmiError::Lost { what: "init", reason: e.to_string() })?;
        Ok(Some(found))
    }

    fn of(socket: OwnedFd) -> Link {
        Link::Unix(UnixStream::from(socket))
    }

    /// No call waits for ever: answers may depend on the slowest rank, requests do not.
    fn bound(&self, peers: Duration) -> std::io::Result<()> {
        match self {
            Link::Unix(s) => {
                s.set_nonblocking(false)?;
                s.set_read_timeout(Some(peers)).and_then(|()| s.set_write_timeout(Some(ANSWER_TIMEOUT)))
            }
            Link::Tcp(s) => {
                s.set_read_timeout(Some(peers)).and_then(|()| s.set_write_timeout(Some(ANSWER_TIMEOUT)))
            }
        }
    }

    /// Sends with one write.
    pub(crate) fn send(&mut self, what: &'static str, text: &str) -> Result<(), PmiError> {
        let sent = match self {
            Link::Unix(s) => s.write_all(text.as_bytes()),
            Link::Tcp(s) => s.write_all(text.as_bytes()),
        };
        sent.map_err(|e| failed(what, &e, ANSWER_TIMEOUT))
    }

    /// Reads what comes next.
    pub(crate) fn read(&mut self, what: &'static str, into: &mut [u8]) -> Result<usize, PmiError> {
        loop {
            let read = match self {
                Link::Unix(s) => s.read(into),
                Link::Tcp(s) => s.read(into),
            };
            match read {
                Ok(0) => return Err(PmiError::Lost { what, reason: String::from("end of file") }),
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(what, &e, self.patience())),
            }
        }
    }

    /// How long an answer is waited for.
    fn patience(&self) -> Duration {
        let set = match self {
            Link::Unix(s) => s.read_timeout(),
            Link::Tcp(s) => s.read_timeout(),
        };
        set.ok().flatten().unwrap_or(PEERS_TIMEOUT)
    }
}

fn failed(what: &'static str, e: &std::io::Error, patience: Duration) -> PmiError {
    if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        PmiError::Timeout { what, seconds: patience.as_secs() }
    } else {
        PmiError::Lost { what, reason: e.to_string() }
    }
}

/// An answer that breaks the grammar.
pub(crate) fn malformed(what: &'static str) -> impl Fn(mpi_wire::DecodeError) -> PmiError {
    move |e| PmiError::Protocol { what, reason: e.to_string() }
}

/// A question that cannot be written down.
pub(crate) fn unwritable(what: &'static str) -> impl Fn(mpi_wire::pmi1::Unwritable) -> PmiError {
    move |e| PmiError::Refused { what, reason: e.to_string() }
}

/// A field that must be a number.
pub(crate) fn field<T: std::str::FromStr>(what: &'static str, value: Option<&str>) -> Result<T, PmiError> {
    value
        .and_then(|v| v.parse().ok())
        .ok_or_else(|| PmiError::Protocol { what, reason: format!("expected a number, got {value:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_values_are_cut_and_their_count_comes_first() {
        let limits = Limits { key: 64, value: 29 };
        let cut = pieces(3, "btl", &[0xAB; 25], limits).unwrap();
        let keys: Vec<&str> = cut.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["mpi-3-btl", "mpi-3-btl-1", "mpi-3-btl-2"]);
        assert!(cut[0].1.starts_with("3.abab") && cut[1].1.starts_with(".abab"), "{cut:?}");
        assert!(cut.iter().all(|(_, value)| value.len() < limits.value));
        assert!(pieces(3, &"k".repeat(64), &[], limits).is_err());
        assert!(pieces(3, "k", &vec![0; 1 << 20], limits).is_err());
    }

    proptest! {
        #[test]
        fn hexadecimal_round_trips(bytes: Vec<u8>, text: String) {
            prop_assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
            let _ = from_hex(&text);
        }
    }
}
