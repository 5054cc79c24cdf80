//! Ports, names for them, and groups that connect through them (MPI 4.1 sections 11.9 and 11.10).

use super::dial::dial;
use super::port::{Port, PortName};
use super::{Beyond, lock};
use crate::Comm;
use crate::comm::Team;
use mpi_p2p::{Error, ErrorClass};
use mpi_pmi::{NameOutcome, NameRequest};
use std::io::{Read, Write};
use std::sync::Arc;

/// Opens a port and gives its name, which carries its address and a key: whoever knows it can
/// connect. At most [`PORT_MAX_BYTES`](mpi_wire::limits::PORT_MAX_BYTES) long.
///
/// # Errors
/// `Other` when nothing can be listened on, or MPI is not running.
pub fn open_port() -> Result<String, Error> {
    let beyond = beyond("open port")?;
    let port = Port::open(&beyond)?;
    let name = port.name.to_string();
    lock(&beyond.ports).insert(name.clone(), Arc::new(port));
    Ok(name)
}

/// Closes a port. Whoever accepts on it, or waits to be accepted, gets an error.
///
/// # Errors
/// `Port` when this process has no such port open.
pub fn close_port(name: &str) -> Result<(), Error> {
    const OP: &str = "close port";
    match lock(&beyond(OP)?.ports).remove(name) {
        Some(port) => {
            port.close();
            Ok(())
        }
        None => Err(not_open(OP)),
    }
}

/// Publishes a port under a name, for all that this job's launcher started.
///
/// # Errors
/// `Service` when the name is published already; `Other` when the launcher cannot do it.
pub fn publish_name(service: &str, port: &str) -> Result<(), Error> {
    let request = NameRequest::Publish { service: service.to_owned(), port: port.to_owned() };
    ask("publish name", service, request).map(drop)
}

/// Takes a name back.
///
/// # Errors
/// `Service` when the name is not published; `Other` when the launcher cannot do it.
pub fn unpublish_name(service: &str) -> Result<(), Error> {
    ask("unpublish name", service, NameRequest::Unpublish { service: service.to_owned() }).map(drop)
}

/// The port that was published under a name.
///
/// # Errors
/// `Name` when there is none; `Other` when the launcher cannot do it.
pub fn lookup_name(service: &str) -> Result<String, Error> {
    const OP: &str = "look up name";
    ask(OP, service, NameRequest::Lookup { service: service.to_owned() })?
        .ok_or_else(|| Error::new(ErrorClass::Intern, OP, "the launcher names no port"))
}

fn ask(op: &'static str, service: &str, request: NameRequest) -> Result<Option<String>, Error> {
    let beyond = beyond(op)?;
    let fault = |class, detail: String| Err(Error::new(class, op, detail));
    let absent = match request {
        NameRequest::Lookup { .. } => ErrorClass::Name,
        _ => ErrorClass::Service,
    };
    let outcome = beyond.client.name(request);
    beyond.listen_to_launcher();
    match outcome {
        Ok(NameOutcome::Done(port)) => Ok(port),
        Ok(NameOutcome::Taken) => {
            fault(ErrorClass::Service, format!("the name \"{service}\" is published already"))
        }
        Ok(NameOutcome::Unknown) => fault(absent, format!("no name \"{service}\" is published")),
        Ok(NameOutcome::Full) => {
            fault(ErrorClass::Service, format!("the launcher has no room for the name \"{service}\""))
        }
        Err(e) => fault(ErrorClass::Other, e.to_string()),
    }
}

fn beyond(op: &'static str) -> Result<Arc<Beyond>, Error> {
    crate::process::running(op)?
        .predefined
        .world
        .core()
        .beyond
        .clone()
        .ok_or_else(|| Error::new(ErrorClass::Other, op, "this process has no way to other worlds"))
}

fn not_open(op: &'static str) -> Error {
    Error::new(ErrorClass::Port, op, "this process has no such port open")
}

impl Comm {
    /// Waits for another group to connect to a port of the rank `root`, and gives the
    /// inter-communicator to it. Collective; only the root's port counts.
    ///
    /// # Errors
    /// `Port` when the root has no such port open, or closes it meanwhile; `Root`; `ProcFailed` when
    /// the other group's root goes; those of a new communicator.
    pub fn accept(&self, port: &str, root: i32) -> Result<Comm, Error> {
        const OP: &str = "accept";
        let (beyond, root) = self.for_meeting(OP, root)?;
        let mut team = Team::rooted(self, root)?;
        let wait = || {
            let open = lock(&beyond.ports).get(port).cloned();
            open.ok_or_else(|| not_open(OP))?.accept(&beyond, None)
        };
        let begun = (team.index == 0).then(wait);
        self.meet_behind(&mut team, begun, true, OP, "")
    }

    /// Connects to a port where another group accepts, and gives the inter-communicator to it.
    /// Waits until it does. Collective; only what the rank `root` gives counts.
    ///
    /// # Errors
    /// `Port` when the name is none, or the port is closed; `Root`; `ProcFailed` when the other
    /// group's root goes; those of a new communicator.
    pub fn connect(&self, port: &str, root: i32) -> Result<Comm, Error> {
        const OP: &str = "connect";
        let (beyond, root) = self.for_meeting(OP, root)?;
        let mut team = Team::rooted(self, root)?;
        let begun = (team.index == 0).then(|| dial(&beyond, &PortName::parse(OP, port)?));
        self.meet_behind(&mut team, begun, false, OP, "")
    }

    /// Lets go of the communicator once what this process sent is on its way. Waits for no other
    /// process, so that processes may disconnect in any order. A process without a communicator with
    /// another world is no longer connected with it: neither then ends because of the other.
    ///
    /// # Errors
    /// `Comm` for the world, which is never let go of; as [`Comm::free`].
    pub fn disconnect(self) -> Result<(), Error> {
        if self.is_world() {
            let detail = "the world stays until the end";
            return Err(self.attach(Error::new(ErrorClass::Comm, "disconnect", detail)));
        }
        // What is queued moves on with every call, and with the transports themselves afterwards.
        self.engine().progress();
        self.free()
    }
}

/// Two processes with a socket between them become an inter-communicator (`MPI_Comm_join`). The
/// socket is free again afterwards.
///
/// # Errors
/// `Other` when the socket breaks or the other side says something else; those of
/// [`Comm::connect`].
pub fn join(socket: &mut (impl Read + Write)) -> Result<Comm, Error> {
    const OP: &str = "join";
    /// Start of what each side says, before a number of its choice.
    const GREETING: [u8; 8] = *b"MPI!join";
    let fault = |detail: String| Error::new(ErrorClass::Other, OP, detail);
    let lost = |e: std::io::Error| fault(format!("the socket: {e}"));
    let own = crate::try_self_comm()?;
    let mine: [u8; 8] = mpi_pmi::random_bytes().map_err(|e| fault(e.to_string()))?;
    socket.write_all(&[GREETING, mine].concat()).map_err(lost)?;
    let mut theirs = [0; 16];
    socket.read_exact(&mut theirs).map_err(lost)?;
    let (greeting, number) = theirs.split_at(8);
    if greeting != GREETING || number == mine {
        return Err(fault(String::from("the other side of the socket does not join")));
    }
    // The greater number opens a port.
    if number < &mine[..] {
        let port = open_port()?;
        let mut line = (port.len() as u32).to_le_bytes().to_vec();
        line.extend(port.as_bytes());
        let told = socket.write_all(&line).map_err(lost);
        let met = told.and_then(|()| own.accept(&port, 0));
        close_port(&port)?;
        return met;
    }
    let mut length = [0; 4];
    socket.read_exact(&mut length).map_err(lost)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > mpi_wire::limits::PORT_MAX_BYTES {
        return Err(fault(String::from("the other side of the socket names no port")));
    }
    let mut name = vec![0; length];
    socket.read_exact(&mut name).map_err(lost)?;
    own.connect(&String::from_utf8_lossy(&name), 0)
}
