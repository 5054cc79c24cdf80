//! Client of the native protocol: one socket, any number of calling threads.
//!
//! No thread of its own reads the socket. Whoever waits for something takes the reading role if it
//! is free, files what comes in, and hands the role on; so a rank without a control thread costs
//! none, and a control thread that sleeps in [`Events::wait`] serves all callers.

use crate::client::Source;
use crate::limits::{ANSWER_TIMEOUT, EVENTS_MAX, READ_BYTES};
use crate::{Client, Event, Events, PmiError};
use mpi_wire::limits::{KEY_MAX_BYTES, VALUE_MAX_BYTES};
use mpi_wire::startup::{Frames, STARTUP_VERSION, ToLauncher, ToRank, Welcome};
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
        let deadline = Some(Instant::now() + ANSWER_TIMEOUT);
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

    fn abort(&self, code: i32, message: &str) {
        let abort = ToLauncher::Abort { code, message: message.to_owned() };
        if self.shared.send(&abort, "abort").is_err() {
            eprintln!("abort({code}): {message} (and the launcher is gone)");
        }
    }

    fn report(&self, text: &str) -> Result<(), PmiError> {
        self.shared.send(&ToLauncher::Report { text: text.to_owned() }, "report")
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
            ToRank::FenceDone { .. } | ToRank::Value { .. } => {}
            ToRank::Abort { code, message } => self.event(Event::Abort { code, message }),
            ToRank::ReportWanted => self.event(Event::ReportWanted),
            ToRank::PeerDied { rank, how } => self.event(Event::PeerDied { rank, how }),
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

fn check_length(what: &'static str, length: usize, limit: usize) -> Result<(), PmiError> {
    if length > limit { Err(PmiError::TooLong { what, length, limit }) } else { Ok(()) }
}
