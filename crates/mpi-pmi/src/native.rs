//! Client of the native protocol: one socket, any number of calling threads.
//!
//! No thread of its own reads the socket. Whoever waits for something takes the reading role if it
//! is free, files what comes in, and hands the role on; so a rank without a control thread costs
//! none, and a control thread that sleeps in [`Events::wait`] serves all callers.

use crate::client::Source;
use crate::limits::{ANSWER_TIMEOUT, EVENTS_MAX, READ_BYTES};
use crate::{Client, Event, Events, PmiError};
use mpi_wire::limits::{
    KEY_MAX_BYTES, NAME_MAX_BYTES, PORT_MAX_BYTES, SPAWN_COMMANDS_MAX, SPAWN_INFO_MAX, SPAWN_WORD_MAX_BYTES,
    SPAWN_WORDS_MAX, STARTUP_FRAME_MAX_BYTES, VALUE_MAX_BYTES,
};
use mpi_wire::spawn::{NameOutcome, NameRequest, SpawnOutcome, SpawnRequest};
use mpi_wire::startup::{Frames, STARTUP_VERSION, ToLauncher, ToRank, Welcome};
use mpi_wire::waits::Wait;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The way to the launcher.
pub(crate) struct Native {
    shared: Arc<Shared>,
    peers_timeout: Duration,
}

struct Shared {
    socket: UnixStream,
    writing: Mutex<()>,
    inbox: Mutex<Inbox>,
    changed: Condvar,
}

/// What has come in and who reads.
#[derive(Default)]
struct Inbox {
    frames: Frames,
    reading: bool,
    next_id: u64,
    welcome: Option<Result<Box<Welcome>, PmiError>>,
    fences: Vec<u64>,
    values: HashMap<u64, Option<Vec<u8>>>,
    spawned: HashMap<u64, SpawnOutcome>,
    named: HashMap<u64, NameOutcome>,
    /// Requests still awaited: the answer to any other is dropped (its caller gave up).
    awaited: Vec<u64>,
    events: VecDeque<Event>,
    events_taken: bool,
    closed: Option<String>,
}

impl Native {
    /// Shakes hands with the launcher at the other end of `socket`.
    pub(crate) fn connect(
        socket: OwnedFd,
        rank: u32,
        peers_timeout: Duration,
    ) -> Result<(Native, Box<Welcome>), PmiError> {
        Native::connect_within(socket, rank, peers_timeout, ANSWER_TIMEOUT)
    }

    /// As [`Native::connect`], with a bound on the wait for the welcome.
    pub(crate) fn connect_within(
        socket: OwnedFd,
        rank: u32,
        peers_timeout: Duration,
        within: Duration,
    ) -> Result<(Native, Box<Welcome>), PmiError> {
        const WHAT: &str = "hello";
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(true).map_err(|e| lost(WHAT, &e))?;
        let shared = Arc::new(Shared {
            socket,
            writing: Mutex::default(),
            inbox: Mutex::default(),
            changed: Condvar::new(),
        });
        let native = Native { shared, peers_timeout };
        let hello = ToLauncher::Hello { version: STARTUP_VERSION, rank, pid: std::process::id() };
        native.shared.send(&hello, WHAT)?;
        let deadline = Some(Instant::now() + within);
        let welcome = native.shared.wait(WHAT, deadline, |inbox| inbox.welcome.take())??;
        if welcome.version != STARTUP_VERSION {
            return Err(version_mismatch(welcome.version, String::from("versions must be equal")));
        }
        Ok((native, welcome))
    }

    /// Sends a request and waits for what `take` finds under its id.
    fn ask<T>(
        &self,
        what: &'static str,
        request: impl FnOnce(u64) -> ToLauncher,
        take: impl Fn(&mut Inbox, u64) -> Option<T>,
    ) -> Result<T, PmiError> {
        let id = {
            let mut inbox = self.shared.lock();
            inbox.next_id += 1;
            let id = inbox.next_id;
            inbox.awaited.push(id);
            id
        };
        let deadline = Some(Instant::now() + self.peers_timeout);
        let answer = self
            .shared
            .send(&request(id), what)
            .and_then(|()| self.shared.wait(what, deadline, |inbox| take(inbox, id)));
        self.shared.lock().awaited.retain(|other| *other != id);
        answer.map_err(|e| match e {
            PmiError::Timeout { what, .. } => {
                PmiError::Timeout { what, seconds: self.peers_timeout.as_secs() }
            }
            e => e,
        })
    }
}

impl Client for Native {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        check_length("key", key.len(), KEY_MAX_BYTES)?;
        check_length("value", value.len(), VALUE_MAX_BYTES)?;
        self.shared.send(&ToLauncher::Put { key: key.to_owned(), value: value.to_vec() }, "put")
    }

    fn fence(&self) -> Result<(), PmiError> {
        self.ask(
            "fence",
            |id| ToLauncher::Fence { id },
            |inbox, id| {
                let at = inbox.fences.iter().position(|done| *done == id)?;
                inbox.fences.swap_remove(at);
                Some(())
            },
        )
    }

    fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        check_length("key", key.len(), KEY_MAX_BYTES)?;
        self.ask(
            "get",
            |id| ToLauncher::Get { id, rank, key: key.to_owned() },
            |inbox, id| inbox.values.remove(&id),
        )
    }

    fn started(&self) -> Result<(), PmiError> {
        self.shared.send(&ToLauncher::Started, "started")
    }

    fn finalizing(&self) -> Result<(), PmiError> {
        self.shared.send(&ToLauncher::Finalizing, "finalizing")
    }

    fn finalized(&self) -> Result<(), PmiError> {
        self.shared.send(&ToLauncher::Finalized, "finalized")
    }

    fn spawn(&self, request: SpawnRequest) -> Result<SpawnOutcome, PmiError> {
        check_request(&request)?;
        self.ask(
            "spawn",
            |id| ToLauncher::Spawn { id, request: Box::new(request) },
            |inbox, id| inbox.spawned.remove(&id),
        )
    }

    fn name(&self, request: NameRequest) -> Result<NameOutcome, PmiError> {
        check_length("name", request.service().len(), NAME_MAX_BYTES)?;
        if let NameRequest::Publish { port, .. } = &request {
            check_length("port", port.len(), PORT_MAX_BYTES)?;
        }
        self.ask("name", |id| ToLauncher::Name { id, request }, |inbox, id| inbox.named.remove(&id))
    }

    fn linked(&self, job: &str, linked: bool) -> Result<(), PmiError> {
        self.shared.send(&ToLauncher::Linked { job: job.to_owned(), linked }, "linked")
    }

    fn abort(&self, code: i32, message: &str) {
        let abort = ToLauncher::Abort { code, message: message.to_owned() };
        if self.shared.send(&abort, "abort").is_err() {
            eprintln!("{} (and the launcher is gone)", crate::abort_words(code, message));
        }
    }

    fn report(&self, text: &str, waits: &[Wait]) -> Result<(), PmiError> {
        self.shared.send(&ToLauncher::Report { text: text.to_owned(), waits: waits.to_vec() }, "report")
    }

    fn events(&self) -> Option<Events> {
        let mut inbox = self.shared.lock();
        if std::mem::replace(&mut inbox.events_taken, true) {
            return None;
        }
        Some(Events::new(Box::new(Stream { shared: self.shared.clone() })))
    }
}

/// The events of one connection.
struct Stream {
    shared: Arc<Shared>,
}

impl Source for Stream {
    fn next(&mut self) -> Event {
        // Without a deadline the only failure is the end of the connection.
        self.shared.wait("event", None, |inbox| inbox.events.pop_front()).unwrap_or(Event::LauncherGone)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: &ToLauncher, what: &'static str) -> Result<(), PmiError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match (&self.socket).write(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.ready(PollFlags::POLLOUT, Some(deadline), what)?;
                }
                Err(e) => return Err(lost(what, &e)),
            }
        }
        Ok(())
    }

    /// Waits until `take` finds something in the inbox, reading meanwhile when nobody else does.
    fn wait<T>(
        &self,
        what: &'static str,
        deadline: Option<Instant>,
        mut take: impl FnMut(&mut Inbox) -> Option<T>,
    ) -> Result<T, PmiError> {
        let mut inbox = self.lock();
        loop {
            if let Some(found) = take(&mut inbox) {
                return Ok(found);
            }
            if let Some(reason) = &inbox.closed {
                return Err(PmiError::Lost { what, reason: reason.clone() });
            }
            if inbox.reading {
                inbox = self.wait_for_reader(inbox, deadline, what)?;
                continue;
            }
            inbox.reading = true;
            drop(inbox);
            let read = self.ready(PollFlags::POLLIN, deadline, what).map(|()| self.read_some());
            inbox = self.lock();
            inbox.reading = false;
            if let Ok(read) = &read {
                inbox.file(read);
            }
            // Also after a timeout: another waiter must take the role over.
            self.changed.notify_all();
            let _filed = read?;
        }
    }

    fn wait_for_reader<'a>(
        &self,
        inbox: MutexGuard<'a, Inbox>,
        deadline: Option<Instant>,
        what: &'static str,
    ) -> Result<MutexGuard<'a, Inbox>, PmiError> {
        let Some(deadline) = deadline else {
            return Ok(self.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timeout(what));
        }
        Ok(self.changed.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    fn read_some(&self) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match (&self.socket).read(&mut bytes) {
                Ok(0) => return Err(String::from("end of file")),
                Ok(n) => {
                    bytes.truncate(n);
                    return Ok(bytes);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(Vec::new()),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    /// Sleeps until the socket is ready.
    fn ready(&self, flags: PollFlags, deadline: Option<Instant>, what: &'static str) -> Result<(), PmiError> {
        loop {
            let left = match deadline {
                None => PollTimeout::NONE,
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(timeout(what));
                    }
                    // Rounded up, so that the last part of a millisecond is slept and not spun.
                    PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX)
                }
            };
            match poll(&mut [PollFd::new(self.socket.as_fd(), flags)], left) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(e) => return Err(PmiError::Lost { what, reason: e.to_string() }),
            }
        }
    }
}

impl Inbox {
    /// Files what was read under what it answers.
    fn file(&mut self, read: &Result<Vec<u8>, String>) {
        match read {
            Ok(bytes) => self.frames.push(bytes),
            Err(reason) => {
                self.closed.get_or_insert_with(|| reason.clone());
                return;
            }
        }
        loop {
            let message = match self.frames.pop() {
                Ok(None) => return,
                Ok(Some(body)) => ToRank::decode(body),
                Err(e) => Err(e),
            };
            match message {
                Ok(message) => self.dispatch(message),
                Err(e) => {
                    self.closed.get_or_insert_with(|| format!("malformed message: {e}"));
                    return;
                }
            }
        }
    }

    fn dispatch(&mut self, message: ToRank) {
        match message {
            ToRank::Welcome(welcome) => self.welcome = Some(Ok(welcome)),
            ToRank::Refused { version, reason } => {
                self.welcome = Some(Err(if version == STARTUP_VERSION {
                    PmiError::Refused { what: "hello", reason }
                } else {
                    version_mismatch(version, reason)
                }));
            }
            ToRank::FenceDone { id } if self.awaited.contains(&id) => self.fences.push(id),
            ToRank::Value { id, value } if self.awaited.contains(&id) => {
                self.values.insert(id, value);
            }
            ToRank::Spawned { id, outcome } if self.awaited.contains(&id) => {
                self.spawned.insert(id, outcome);
            }
            ToRank::Named { id, outcome } if self.awaited.contains(&id) => {
                self.named.insert(id, outcome);
            }
            ToRank::FenceDone { .. }
            | ToRank::Value { .. }
            | ToRank::Spawned { .. }
            | ToRank::Named { .. } => {}
            ToRank::Abort { code, message } => self.event(Event::Abort { code, message }),
            ToRank::ReportWanted => self.event(Event::ReportWanted),
            ToRank::PeerDied { job, rank, how } => self.event(Event::PeerDied { job, rank, how }),
        }
    }

    fn event(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        }
    }
}

fn lost(what: &'static str, e: &std::io::Error) -> PmiError {
    PmiError::Lost { what, reason: e.to_string() }
}

fn timeout(what: &'static str) -> PmiError {
    PmiError::Timeout { what, seconds: ANSWER_TIMEOUT.as_secs() }
}

fn version_mismatch(theirs: u32, reason: String) -> PmiError {
    PmiError::Version { ours: STARTUP_VERSION.to_string(), theirs: theirs.to_string(), reason }
}

/// What the wire would cut short is an error here.
fn check_request(request: &SpawnRequest) -> Result<(), PmiError> {
    check_length("port", request.port.len(), PORT_MAX_BYTES)?;
    check_length("list of programs", request.commands.len(), SPAWN_COMMANDS_MAX)?;
    let mut total = request.port.len();
    for command in &request.commands {
        check_length("list of arguments", command.arguments.len(), SPAWN_WORDS_MAX)?;
        check_length("list of hints", command.info.len(), SPAWN_INFO_MAX)?;
        let hints = command.info.iter().flat_map(|(key, value)| [key.len(), value.len()]);
        let words = command.arguments.iter().map(Vec::len);
        for length in [command.program.len(), command.directory.len()].into_iter().chain(words).chain(hints) {
            check_length("word of a program to spawn", length, SPAWN_WORD_MAX_BYTES)?;
            total += length + 8;
        }
    }
    // Of the frame's limit a little is left for its own fields.
    check_length("request to spawn", total, STARTUP_FRAME_MAX_BYTES - 4096)
}

fn check_length(what: &'static str, length: usize, limit: usize) -> Result<(), PmiError> {
    if length > limit { Err(PmiError::TooLong { what, length, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Action, Server};
    use std::thread;

    const BOUND: Duration = Duration::from_secs(30);

    fn ends() -> (OwnedFd, UnixStream) {
        let (rank, launcher) = UnixStream::pair().unwrap();
        launcher.set_read_timeout(Some(BOUND)).unwrap();
        (rank.into(), launcher)
    }

    fn say(to: &UnixStream, message: &ToRank) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        (&mut &*to).write_all(&bytes).unwrap();
    }

    /// A launcher of one rank, which answers as the server says until the rank closes.
    fn serve(launcher: UnixStream, said: std::sync::mpsc::Sender<Action>) {
        let mut server =
            Server::new(vec![Welcome { version: STARTUP_VERSION, size: 1, ..Welcome::default() }]);
        let mut frames = Frames::default();
        let mut bytes = [0; 1000];
        loop {
            match (&launcher).read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(n) => frames.push(&bytes[..n]),
            }
            while let Some(body) = frames.pop().unwrap() {
                for action in server.receive(0, ToLauncher::decode(body).unwrap()) {
                    match action {
                        Action::Send { message, .. } => say(&launcher, &message),
                        other => said.send(other).unwrap(),
                    }
                }
            }
        }
    }

    fn connected() -> (Native, std::sync::mpsc::Receiver<Action>) {
        let (rank, launcher) = ends();
        let (said, heard) = std::sync::mpsc::channel();
        thread::spawn(move || serve(launcher, said));
        (Native::connect(rank, 0, BOUND).unwrap().0, heard)
    }

    fn refusal(answer: impl FnOnce(&UnixStream) + Send + 'static) -> PmiError {
        let (rank, launcher) = ends();
        thread::spawn(move || {
            let mut hello = [0; 64];
            let _ = (&launcher).read(&mut hello);
            answer(&launcher);
        });
        Native::connect(rank, 0, BOUND).err().unwrap()
    }

    #[test]
    fn many_threads_share_the_connection_with_a_control_thread() {
        let (native, heard) = connected();
        native.put("k", b"v").unwrap();
        native.started().unwrap();
        let mut events = native.events().unwrap();
        assert!(native.events().is_none(), "taken once");
        let control = thread::spawn(move || events.wait());
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        assert_eq!(native.get(0, "k").unwrap().as_deref(), Some(&b"v"[..]));
                        assert_eq!(native.get(0, "other").unwrap(), None);
                    }
                });
            }
        });
        native.fence().unwrap();
        native.abort(3, "why");
        let abort = Action::Abort { rank: 0, code: 3, message: String::from("why") };
        assert_eq!(heard.recv_timeout(BOUND), Ok(abort));
        native.shared.socket.shutdown(std::net::Shutdown::Both).unwrap();
        assert_eq!(control.join().unwrap(), Event::LauncherGone);
        assert!(matches!(native.get(0, "k"), Err(PmiError::Lost { .. })));
    }

    #[test]
    fn a_launcher_that_misbehaves_is_named_and_never_waited_for() {
        let error = refusal(|_| ());
        assert!(matches!(error, PmiError::Lost { what: "hello", .. }), "{error}");
        let error = refusal(|to| (&mut &*to).write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap());
        assert!(error.to_string().contains("malformed"), "{error}");
        let error = refusal(|to| say(to, &ToRank::Refused { version: 9, reason: String::from("too new") }));
        assert!(matches!(error, PmiError::Version { .. }), "{error}");
        assert!(error.to_string().contains("protocol 9") && error.to_string().contains("too new"), "{error}");
        let error = refusal(|to| say(to, &ToRank::Welcome(Box::default())));
        assert!(matches!(error, PmiError::Version { .. }), "{error}");
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_dropped_and_events_are_bounded() {
        let (rank, launcher) = ends();
        let welcome = Welcome { version: STARTUP_VERSION, size: 1, ..Welcome::default() };
        say(&launcher, &ToRank::Welcome(Box::new(welcome)));
        let (native, _) = Native::connect(rank, 0, BOUND).unwrap();
        let writer = thread::spawn(move || {
            for id in 0..2 * EVENTS_MAX as u64 {
                say(&launcher, &ToRank::FenceDone { id: id + 100 });
                say(&launcher, &ToRank::ReportWanted);
            }
            say(&launcher, &ToRank::Value { id: 1, value: None });
            launcher
        });
        assert_eq!(native.get(0, "k"), Ok(None));
        let inbox = native.shared.lock();
        assert_eq!((inbox.events.len(), inbox.fences.len()), (EVENTS_MAX, 0));
        drop(inbox);
        writer.join().unwrap();
    }

    #[test]
    fn waiting_is_bounded() {
        let (rank, launcher) = ends();
        let welcome = Welcome { version: STARTUP_VERSION, size: 2, ..Welcome::default() };
        say(&launcher, &ToRank::Welcome(Box::new(welcome)));
        let (native, _) = Native::connect(rank, 0, Duration::from_millis(20)).unwrap();
        assert_eq!(native.get(1, "k"), Err(PmiError::Timeout { what: "get", seconds: 0 }));
        assert!(matches!(native.put(&"k".repeat(300), b""), Err(PmiError::TooLong { what: "key", .. })));
        drop(launcher);
    }
}
