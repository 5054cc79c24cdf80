//! Ports: where a group waits for another one, and the connection between two roots.
//!
//! The name of a port says where it listens and carries a key of its own, by which both sides prove
//! themselves as in every connection of this library (`mpi_wire::hello`). Who does not know the name
//! cannot connect; who does has learned no secret of the job.

use super::waiting::Wait;
use super::{Beyond, lock};
use crate::limits::{
    PORT_ADDRESSES_MAX, PORT_EVICT_AFTER, PORT_FRAME_MAX_BYTES, PORT_PENDING_MAX, PORT_PROOF_TIMEOUT,
    PORT_READ_BYTES, PORT_STRANGERS_PERIOD,
};
use mpi_node::addresses;
use mpi_p2p::{Error, ErrorClass};
use mpi_wire::hello::{Acceptor, HELLO_LEN, HELLO_REPLY_LEN, Hello, Identity, JobTag, PROOF_LEN};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Start of every port's name.
const SCHEME: &str = "mpi-tcp";

/// Addresses, at least one, and a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PortName {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) key: [u8; 32],
}

impl std::fmt::Display for PortName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/", self.shown())?;
        self.key.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl PortName {
    /// # Errors
    /// `Port`, when this is no name of a port.
    pub(super) fn parse(op: &'static str, text: &str) -> Result<PortName, Error> {
        let parts: Vec<&str> = text.trim().split('/').collect();
        let parsed = match parts.as_slice() {
            [SCHEME, list, key] => {
                let addresses: Result<Vec<SocketAddr>, _> = list.split(',').map(str::parse).collect();
                addresses.ok().filter(|all| all.len() <= PORT_ADDRESSES_MAX).zip(from_hex(key))
            }
            _ => None,
        };
        parsed.map(|(addresses, key)| PortName { addresses, key }).ok_or_else(|| {
            // Not printed: what was meant as one may carry a key.
            Error::new(ErrorClass::Port, op, "this is no port name of this library, as open_port gives")
        })
    }

    /// The name without its key, for people.
    pub(super) fn shown(&self) -> String {
        let list: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        format!("{SCHEME}/{}", list.join(","))
    }

    pub(super) fn identity(&self) -> Identity {
        Identity { job: JobTag::of(&self.shown()), rank: 0 }
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |c: &u8| char::from(*c).to_digit(16).map(|d| d as u8);
    let mut key = [0; 32];
    if text.len() != 2 * key.len() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(&pair[0])? << 4 | digit(&pair[1])?;
    }
    Some(key)
}

/// An open port.
pub(super) struct Port {
    pub(super) name: PortName,
    listener: TcpListener,
    closed: AtomicBool,
    /// Held while somebody accepts: one at a time.
    waiting: Mutex<Waiting>,
}

/// Who has come and was not taken yet.
#[derive(Default)]
struct Waiting {
    /// Oldest first.
    pending: Vec<Pending>,
    proven: VecDeque<TcpStream>,
    /// Strangers dropped since the last line about them, and when that was.
    dropped: u64,
    told: Option<Instant>,
}

/// A connection that has not proved itself.
struct Pending {
    socket: TcpStream,
    since: Instant,
    acceptor: Option<Acceptor>,
    bytes: [u8; HELLO_LEN],
    got: usize,
}

enum Step {
    Wait,
    /// It has said nothing wrong and left: it came another way, or thought better of it.
    Left,
    Drop,
    Proven,
}

const _: () = assert!(PROOF_LEN <= HELLO_LEN);

impl Port {
    /// Opens a port of this process: on every usable address where the job may have other hosts.
    pub(super) fn open(beyond: &Beyond) -> Result<Port, Error> {
        let failed = |what: &str, e: &dyn std::fmt::Display| {
            Error::new(ErrorClass::Other, "open port", format!("{what}: {e}"))
        };
        let hosts = own_hosts(beyond).map_err(|e| failed("no address to listen on", &e))?;
        let listener = listen(&hosts).map_err(|e| failed("no port to listen on", &e))?;
        listener.set_nonblocking(true).map_err(|e| failed("the listener", &e))?;
        let bound = listener.local_addr().map_err(|e| failed("the listener's address", &e))?;
        let addresses = match bound.ip().is_unspecified() {
            true => hosts.iter().map(|ip| SocketAddr::new(*ip, bound.port())).collect(),
            false => vec![bound],
        };
        let key = mpi_pmi::random_bytes().map_err(|e| failed("no key", &e))?;
        let name = PortName { addresses, key };
        Ok(Port { name, listener, closed: AtomicBool::new(false), waiting: Mutex::default() })
    }

    /// Nobody connects from now on, and whoever accepts stops.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Wakes whoever accepts. Where nothing listens any more there is nobody to wake.
        if let Some(address) = self.name.addresses.first() {
            let _ = TcpStream::connect_timeout(address, Duration::from_secs(1));
        }
    }

    /// Waits for a connection that proves itself, at most until `deadline`.
    pub(super) fn accept(&self, beyond: &Beyond, deadline: Option<Instant>) -> Result<Stream, Error> {
        let fault = |detail: String| Error::new(ErrorClass::Port, "accept", detail);
        let shown = self.name.shown();
        let mut wait = Wait::new(beyond, format!("accept waits for a connection on port {shown}"));
        let mut waiting = lock(&self.waiting);
        let begun = Instant::now();
        // Those left from before could not go on while nobody accepted.
        waiting.pending.iter_mut().for_each(|pending| pending.since = begun);
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(fault(format!("port {shown} was closed")));
            }
            waiting.tell(Instant::now(), beyond.own.rank, &shown);
            if let Some(socket) = waiting.proven.pop_front() {
                return Stream::new(socket).map_err(|e| fault(e.to_string()));
            }
            let now = Instant::now();
            if deadline.is_some_and(|at| now >= at) {
                return Err(fault(format!("nobody connected to port {shown} in time")));
            }
            wait.look();
            let left = deadline.map_or(wait.slice(), |at| wait.slice().min(at - now));
            self.take_what_comes(&mut waiting, left).map_err(|e| fault(e.to_string()))?;
        }
    }

    /// Sleeps until something comes, and moves every handshake on.
    fn take_what_comes(&self, waiting: &mut Waiting, mut left: Duration) -> io::Result<()> {
        let full_until = waiting.full_until().filter(|until| *until > Instant::now());
        if let Some(until) = full_until {
            // Newcomers wait in the kernel, and must not wake us before there is room.
            left = left.min(until.saturating_duration_since(Instant::now()));
        }
        let ready: Vec<bool> = {
            let listens = if full_until.is_some() { PollFlags::empty() } else { PollFlags::POLLIN };
            let sockets = waiting.pending.iter().map(|p| PollFd::new(p.socket.as_fd(), PollFlags::POLLIN));
            let listener = std::iter::once(PollFd::new(self.listener.as_fd(), listens));
            let mut fds: Vec<PollFd<'_>> = listener.chain(sockets).collect();
            let time = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, time) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
            fds.iter().map(|fd| fd.any().unwrap_or(false)).collect()
        };
        let now = Instant::now();
        let mut ready = ready.into_iter();
        let newcomers = ready.next().unwrap_or(false);
        for pending in std::mem::take(&mut waiting.pending) {
            let is_ready = ready.next().unwrap_or(false);
            waiting.keep(pending, is_ready, &self.name, now);
        }
        if newcomers {
            self.take_newcomers(waiting, now);
        }
        Ok(())
    }

    /// Accepts those who came, as far as there is room.
    fn take_newcomers(&self, waiting: &mut Waiting, now: Instant) {
        loop {
            if let Some(until) = waiting.full_until() {
                if until > now {
                    break;
                }
                waiting.pending.remove(0);
                waiting.dropped += 1;
            }
            match self.listener.accept() {
                Ok((socket, _)) if socket.set_nonblocking(true).is_ok() => {
                    let pending =
                        Pending { socket, since: now, acceptor: None, bytes: [0; HELLO_LEN], got: 0 };
                    // Most have sent their hello before they are accepted.
                    waiting.keep(pending, true, &self.name, now);
                }
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // That one connection is gone already, or no descriptor is free: both may pass.
                Err(_) => break,
            }
        }
    }
}

impl Waiting {
    /// All places are taken: when the oldest of those there has had time enough.
    fn full_until(&self) -> Option<Instant> {
        let oldest = self.pending.first()?;
        (self.pending.len() >= PORT_PENDING_MAX).then(|| oldest.since + PORT_EVICT_AFTER)
    }

    /// Moves a handshake on where there is something to read, and keeps, drops or promotes it.
    fn keep(&mut self, mut pending: Pending, is_ready: bool, name: &PortName, now: Instant) {
        let step = if is_ready { pending.step(name) } else { Step::Wait };
        match step {
            Step::Wait if now.saturating_duration_since(pending.since) < PORT_PROOF_TIMEOUT => {
                self.pending.push(pending);
            }
            Step::Left => {}
            Step::Wait | Step::Drop => self.dropped += 1,
            Step::Proven => self.proven.push_back(pending.socket),
        }
    }

    /// Says how many were dropped, now and then.
    fn tell(&mut self, now: Instant, rank: u32, port: &str) {
        let due = self.told.is_none_or(|at| now.saturating_duration_since(at) >= PORT_STRANGERS_PERIOD);
        if self.dropped > 0 && due {
            let connections = if self.dropped == 1 { "connection" } else { "connections" };
            eprintln!(
                "mpi: rank {rank}: {} {connections} to port {port} without its key dropped",
                self.dropped
            );
            (self.dropped, self.told) = (0, Some(now));
        }
    }
}

impl Pending {
    fn step(&mut self, port: &PortName) -> Step {
        loop {
            let want = if self.acceptor.is_none() { HELLO_LEN } else { PROOF_LEN };
            // Never a byte beyond: what follows the proof is the other side's first words.
            match self.socket.read(&mut self.bytes[self.got..want]) {
                Ok(0) if self.got == 0 => return Step::Left,
                Ok(0) => return Step::Drop,
                Ok(n) => self.got += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Step::Wait,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Step::Drop,
            }
            if self.got < want {
                continue;
            }
            self.got = 0;
            match self.acceptor.take() {
                None => {
                    let Some((acceptor, reply)) = answer(port, &self.bytes) else { return Step::Drop };
                    // The socket is new: a reply that does not fit is no connection to keep.
                    if self.socket.write(&reply).ok() != Some(reply.len()) {
                        return Step::Drop;
                    }
                    self.acceptor = Some(acceptor);
                }
                Some(acceptor) => {
                    let mut proof = [0; PROOF_LEN];
                    proof.copy_from_slice(&self.bytes[..PROOF_LEN]);
                    return if acceptor.proof(&proof).is_ok() { Step::Proven } else { Step::Drop };
                }
            }
        }
    }
}

fn answer(port: &PortName, hello: &[u8; HELLO_LEN]) -> Option<(Acceptor, [u8; HELLO_REPLY_LEN])> {
    let hello = Hello::decode(hello).ok()?;
    let nonce = mpi_pmi::random_bytes().ok()?;
    Acceptor::new(port.key, port.identity(), &hello, nonce).ok()
}

/// Where this process is reached, as the transports find it: `MPI_HOST_IP`; loopback in a job on one host; else
/// every usable address.
fn own_hosts(beyond: &Beyond) -> io::Result<Vec<IpAddr>> {
    let setting = crate::settings::lookup;
    if let Some(text) = setting("MPI_HOST_IP") {
        let ip = text.trim().parse::<IpAddr>();
        return Ok(vec![ip.map_err(|_| invalid(format!("MPI_HOST_IP={text}: expected an IP address")))?]);
    }
    if !beyond.env.multihost {
        return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)]);
    }
    let iface = setting("MPI_IFACE");
    let all = addresses::interfaces()?;
    let mut usable = addresses::usable(&all, iface.as_deref());
    usable.truncate(PORT_ADDRESSES_MAX);
    match usable.is_empty() {
        true => Err(invalid(format!(
            "no interface that is up has an address other than loopback and link-local; there are: {}",
            addresses::names(&all).join(", ")
        ))),
        false => Ok(usable),
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, text)
}

/// Listens where `hosts` can be reached, within `MPI_PORT_RANGE`: on one address, of loopback ones on the first
/// that is there, else on all.
fn listen(hosts: &[IpAddr]) -> io::Result<TcpListener> {
    const WILDCARDS: &[IpAddr] = &[IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let setting = crate::settings::lookup;
    let is_single = hosts.len() == 1 || hosts.iter().all(IpAddr::is_loopback);
    let binds = if is_single { hosts } else { WILDCARDS };
    let ports = match setting("MPI_PORT_RANGE") {
        None => 0..=0,
        Some(text) => {
            let range = text.trim().split_once('-');
            let parse = |s: &str| s.trim().parse::<u16>().ok();
            let range = range.and_then(|(a, b)| Some(parse(a)?..=parse(b)?));
            range.ok_or_else(|| invalid(format!("MPI_PORT_RANGE={text}: expected FIRST-LAST")))?
        }
    };
    let mut last = invalid(String::from("the range is empty"));
    for host in binds {
        for port in ports.clone() {
            match TcpListener::bind((*host, port)) {
                Ok(listener) => return Ok(listener),
                Err(e) => last = e,
            }
        }
    }
    Err(last)
}

/// The connection between the roots of two groups: frames, each with its length in front.
pub(crate) struct Stream {
    socket: TcpStream,
}

impl Stream {
    pub(super) fn new(socket: TcpStream) -> io::Result<Stream> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        // Reads come back now and then, so that a long wait can be told of.
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(Stream { socket })
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut frame = Vec::with_capacity(8 + bytes.len());
        frame.extend((bytes.len() as u64).to_le_bytes());
        frame.extend(bytes);
        (&self.socket).write_all(&frame).map_err(|e| broken(&e))
    }

    pub(crate) fn receive(&self, beyond: &Beyond) -> Result<Vec<u8>, Error> {
        let mut wait =
            Wait::new(beyond, String::from("waits for the other group's root, to connect with it"));
        let mut length = [0; 8];
        self.read_exact(&mut length, &mut wait).map_err(|e| broken(&e))?;
        let length = u64::from_le_bytes(length);
        if length > PORT_FRAME_MAX_BYTES {
            let detail = format!("the other group's root announces {length} bytes");
            return Err(Error::new(ErrorClass::Intern, "connect", detail));
        }
        // Memory comes with the bytes, not with the length.
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let have = bytes.len();
            let more = (length - have as u64).min(PORT_READ_BYTES as u64) as usize;
            bytes.resize(have + more, 0);
            self.read_exact(&mut bytes[have..], &mut wait).map_err(|e| broken(&e))?;
        }
        Ok(bytes)
    }

    fn read_exact(&self, into: &mut [u8], wait: &mut Wait<'_>) -> io::Result<()> {
        let mut got = 0;
        while got < into.len() {
            match (&self.socket).read(&mut into[got..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => got += n,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => wait.look(),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

fn broken(e: &io::Error) -> Error {
    let detail = match e.kind() {
        ErrorKind::UnexpectedEof => String::from("the other group's root has gone"),
        _ => format!("the connection to the other group's root: {e}"),
    };
    Error::new(ErrorClass::ProcFailed, "connect", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_comes_back_and_is_shown_without_its_key() {
        let longest = ["[fd77:1111:2222:3333:4444:5555:6666:7777]:65535"; PORT_ADDRESSES_MAX].join(",");
        for list in ["127.0.0.1:4711", "[::1]:9", "10.0.0.1:9,[fd00::1]:9", &longest] {
            let addresses = list.split(',').map(|address| address.parse().unwrap()).collect();
            let name = PortName { addresses, key: [0xA5; 32] };
            let text = name.to_string();
            assert_eq!(PortName::parse("connect", &text).unwrap(), name);
            assert!(text.len() <= mpi_wire::limits::PORT_MAX_BYTES);
            assert!(!name.shown().contains("a5a5"));
        }
        let key = "00".repeat(32);
        for list in [String::new(), String::from("127.0.0.1:1,"), format!("{longest},127.0.0.1:1")] {
            assert!(PortName::parse("connect", &format!("mpi-tcp/{list}/{key}")).is_err(), "{list:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_an_error_of_its_class(text: String, tail in "[0-9a-f/:.]{0,80}") {
            for text in [text, format!("mpi-tcp/127.0.0.1:1/{tail}"), format!("mpi-tcp/{tail}")] {
                if let Err(error) = PortName::parse("connect", &text) {
                    prop_assert_eq!(error.class, ErrorClass::Port);
                }
            }
        }
    }
}
