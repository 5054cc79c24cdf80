//! Connecting to a port: all of its addresses side by side, until one answers with proof.

use super::Beyond;
use super::port::{PortName, Stream};
use super::waiting::Wait;
use crate::limits::PORT_CONNECT_TIMEOUT;
use mpi_p2p::{Error, ErrorClass};
use mpi_wire::hello::{Dialer, HELLO_REPLY_LEN, Identity, JobTag};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// While connections are still being made, those that are there are looked at so often.
const LOOK: Duration = Duration::from_millis(20);

/// A connection that waits for the port's answer.
struct Attempt {
    address: SocketAddr,
    socket: TcpStream,
    dialer: Option<Dialer>,
    reply: [u8; HELLO_REPLY_LEN],
    got: usize,
}

/// Connects to a port. Several addresses may lead to other processes, or nowhere: they do not hold up the one
/// that leads there.
pub(super) fn dial(beyond: &Beyond, name: &PortName) -> Result<Stream, Error> {
    let shown = name.shown();
    let fault = |detail: String| Error::new(ErrorClass::Port, "connect", format!("port {shown}: {detail}"));
    let me = Identity { job: JobTag::of(&beyond.own.job), rank: beyond.own.rank };
    let mut wait = Wait::new(beyond, format!("connect waits until port {shown} accepts"));
    let coming = connect_all(&name.addresses);
    let (mut left, mut attempts, mut facts) = (name.addresses.len(), Vec::<Attempt>::new(), Vec::new());
    loop {
        while let Some((address, connected)) = next(&coming, left > 0 && attempts.is_empty(), &mut wait) {
            left -= 1;
            let begun = connected.and_then(|socket| {
                let nonce = mpi_pmi::random_bytes().map_err(io::Error::other)?;
                let dialer = Dialer::new(name.key, me, name.identity(), nonce);
                (&socket).write_all(&dialer.hello())?;
                socket.set_nonblocking(true)?;
                let reply = [0; HELLO_REPLY_LEN];
                Ok(Attempt { address, socket, dialer: Some(dialer), reply, got: 0 })
            });
            match begun {
                Ok(attempt) => attempts.push(attempt),
                Err(e) => facts.push((address, told(&e))),
            }
        }
        for index in (0..attempts.len()).rev() {
            match attempts[index].step() {
                Ok(false) => {}
                Ok(true) => {
                    let Attempt { socket, .. } = attempts.swap_remove(index);
                    return Stream::new(socket).map_err(|e| fault(told(&e)));
                }
                Err(e) => facts.push((attempts.swap_remove(index).address, told(&e))),
            }
        }
        if attempts.is_empty() && left == 0 {
            return Err(fault(joined(&facts)));
        }
        wait.look();
        sleep(&attempts, if left > 0 { LOOK } else { wait.slice() });
    }
}

/// Connects to every address in a thread of its own; what comes of it comes through the channel.
fn connect_all(addresses: &[SocketAddr]) -> Receiver<(SocketAddr, io::Result<TcpStream>)> {
    let (results, coming) = channel();
    for address in addresses.iter().copied() {
        let thread_results = results.clone();
        let connect = move || {
            // Whoever does not listen any more has another connection.
            let _ =
                thread_results.send((address, TcpStream::connect_timeout(&address, PORT_CONNECT_TIMEOUT)));
        };
        let started = std::thread::Builder::new().name(String::from("mpi-connect")).spawn(connect);
        if let Err(e) = started {
            let _ = results.send((address, Err(e)));
        }
    }
    coming
}

/// The next connection that is made, or is not; waits for it where there is nothing else to do.
fn next<T>(coming: &Receiver<T>, waits: bool, wait: &mut Wait<'_>) -> Option<T> {
    if !waits {
        return coming.try_recv().ok();
    }
    loop {
        match coming.recv_timeout(wait.slice()) {
            Ok(one) => return Some(one),
            Err(RecvTimeoutError::Timeout) => wait.look(),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn sleep(attempts: &[Attempt], time: Duration) {
    let mut fds: Vec<PollFd<'_>> =
        attempts.iter().map(|attempt| PollFd::new(attempt.socket.as_fd(), PollFlags::POLLIN)).collect();
    // What a signal cuts short is looked at again.
    let _ = poll(&mut fds, PollTimeout::try_from(time.as_millis()).unwrap_or(PollTimeout::MAX));
}

impl Attempt {
    /// Takes what has come; true: the port has proved itself, and so have we.
    fn step(&mut self) -> io::Result<bool> {
        while self.got < HELLO_REPLY_LEN {
            match self.socket.read(&mut self.reply[self.got..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.got += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let Some(dialer) = self.dialer.take() else { return Ok(false) };
        let proof = dialer.reply(&self.reply).map_err(io::Error::other)?;
        self.socket.write_all(&proof)?;
        Ok(true)
    }
}

fn told(e: &io::Error) -> String {
    match e.kind() {
        ErrorKind::ConnectionRefused => {
            String::from("nobody listens there: it was closed, or its process is gone")
        }
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            String::from("it was closed, or its process is gone, before the connection was accepted")
        }
        _ => e.to_string(),
    }
}

/// One address stands in the port's name already.
fn joined(facts: &[(SocketAddr, String)]) -> String {
    match facts {
        [(_, fact)] => fact.clone(),
        several => several.iter().map(|(at, fact)| format!("{at}: {fact}")).collect::<Vec<_>>().join("; "),
    }
}
