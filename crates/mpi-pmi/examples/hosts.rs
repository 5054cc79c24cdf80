//! The smallest launcher of a job over several hosts, where each host is a network namespace of this machine:
//!
//! `hosts -n RANKS [--round-robin] HOST[=PROCESSORS]... -- PROGRAM [ARGUMENT]...`
//!
//! The namespaces are there already. Ranks go to them in blocks, or one after the other; those of one host share a
//! node segment, those of two have none in common and speak over the network. `PROCESSORS` (`0`, `0+1`) binds a
//! host's ranks. Exits with the status of the first rank that fails, with 124 after `HOSTS_TIMEOUT_SECONDS` (120).

use mpi_node::spawn::Inheritance;
use mpi_pmi::server::{Action, Server};
use mpi_pmi::variables;
use mpi_wire::startup::{Frames, STARTUP_VERSION, ToLauncher, ToRank, Welcome};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

const TIMEOUT_SETTING: &str = "HOSTS_TIMEOUT_SECONDS";
const TIMEOUT_SECONDS: u64 = 120;
const POLL_INTERVAL: Duration = Duration::from_millis(2);
const STATUS_TIMEOUT: u8 = 124;

struct Host {
    namespace: String,
    processors: Option<Vec<usize>>,
    segment: OwnedFd,
    ranks: Vec<u32>,
}

struct Job {
    size: u32,
    hosts: Vec<Host>,
    program: Vec<String>,
}

fn main() -> ExitCode {
    match job().and_then(|job| run(&job)) {
        Ok(status) => ExitCode::from(status),
        Err(why) => {
            eprintln!("hosts: {why}");
            ExitCode::from(2)
        }
    }
}

fn job() -> Result<Job, Failure> {
    let mut words = std::env::args().skip(1);
    let (mut size, mut round_robin, mut names) = (0, false, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "-n" => size = words.next().ok_or("-n wants a number")?.parse::<u32>()?,
            "--round-robin" => round_robin = true,
            "--" => break,
            _ => names.push(word),
        }
    }
    let count = names.len() as u32;
    if count == 0 || size < count {
        return Err(format!("{size} ranks for {count} hosts").into());
    }
    let mut hosts = Vec::new();
    for (at, name) in (0..count).zip(names) {
        let on = |rank: u32| if round_robin { rank % count } else { rank * count / size };
        let ranks: Vec<u32> = (0..size).filter(|rank| on(*rank) == at).collect();
        let (namespace, processors) = match name.split_once('=') {
            None => (name, None),
            Some((name, list)) => {
                let list = list.split('+').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
                (name.to_owned(), Some(list))
            }
        };
        let segment = mpi_node::segment::create(ranks.len() as u32)?;
        hosts.push(Host { namespace, processors, segment, ranks });
    }
    Ok(Job { size, hosts, program: words.collect() })
}

/// What all threads of the launcher share.
struct Shared {
    server: Mutex<Server>,
    sockets: Vec<UnixStream>,
    /// Status that a rank asked for.
    aborted: Mutex<Option<u8>>,
}

fn run(job: &Job) -> Result<u8, Failure> {
    let id = format!("hosts-{}", std::process::id());
    let secret = mpi_pmi::random_bytes()?;
    let processors = std::thread::available_parallelism()?.get() as u32;
    let mut world = vec![Welcome::default(); job.size as usize];
    let pairs = (0..job.size).map(|_| UnixStream::pair()).collect::<Result<Vec<_>, _>>()?;
    let (sockets, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let mut ranks: Vec<(u32, Child)> = Vec::new();
    for host in &job.hosts {
        let own = host.processors.as_ref().map_or(processors, |list| list.len() as u32);
        for (slot, rank) in (0..).zip(&host.ranks) {
            world[*rank as usize] = Welcome {
                version: STARTUP_VERSION,
                job: id.clone(),
                secret,
                rank: *rank,
                size: job.size,
                host: host.namespace.clone(),
                node_slot: Some(slot),
                node_size: host.ranks.len() as u32,
                node_processors: own,
                own_processors: own,
                multihost: true,
                ..Welcome::default()
            };
            ranks.push((*rank, start(job, host, *rank, slot, &id, &theirs[*rank as usize])?));
        }
    }
    drop(theirs);
    let shared =
        Arc::new(Shared { server: Mutex::new(Server::new(world)), sockets, aborted: Mutex::new(None) });
    for rank in 0..job.size {
        let shared = shared.clone();
        std::thread::spawn(move || shared.serve(rank));
    }
    shared.watch(ranks)
}

fn start(
    job: &Job,
    host: &Host,
    rank: u32,
    slot: u32,
    id: &str,
    socket: &UnixStream,
) -> Result<Child, Failure> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &host.namespace]).args(&job.program);
    variables::OF_A_JOB.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
        .env(variables::ROOT, format!("fd:{}", socket.as_raw_fd()))
        .env(variables::RANK, rank.to_string())
        .env(variables::SIZE, job.size.to_string())
        .env(variables::JOB, id)
        .env(variables::MULTIHOST, "1")
        .env(variables::NODE_SIZE, host.ranks.len().to_string())
        .env(variables::NODE_FD, host.segment.as_raw_fd().to_string())
        .env(variables::NODE_SLOT, slot.to_string());
    Inheritance {
        keep: vec![socket.as_raw_fd(), host.segment.as_raw_fd()],
        own_group: false,
        die_with_parent: true,
        processors: host.processors.clone(),
        open_files: None,
    }
    .apply(&mut command)?;
    Ok(command.spawn()?)
}

impl Shared {
    /// Reads what a rank says until it is gone.
    fn serve(&self, rank: u32) {
        let mut frames = Frames::default();
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = (&self.sockets[rank as usize]).read(&mut bytes) {
            frames.push(&bytes[..read]);
            while let Ok(Some(body)) = frames.pop() {
                match ToLauncher::decode(body) {
                    Ok(message) => self.act(|server| server.receive(rank, message)),
                    Err(why) => self.abort(3, &format!("rank {rank}: {why}")),
                }
            }
        }
        self.act(|server| server.gone(rank));
    }

    fn act(&self, what: impl FnOnce(&mut Server) -> Vec<Action>) {
        // Held while the answers are written: each rank hears them in order.
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        for action in what(&mut server) {
            match action {
                Action::Send { rank, message } => self.say(rank, &message),
                Action::Abort { rank, code, message } => {
                    let status = mpi_pmi::exit_status(code) as u8;
                    self.abort(status, &format!("rank {rank} {}", mpi_pmi::abort_words(code, &message)));
                }
                Action::Broken { rank, reason } => self.abort(3, &format!("rank {rank}: {reason}")),
                Action::Report { rank, text, .. } => eprintln!("hosts: rank {rank}: {text}"),
                Action::Spawn { rank, .. } | Action::Name { rank, .. } => {
                    self.abort(3, &format!("rank {rank} wants what is not served here"));
                }
                // The native protocol alone is spoken here.
                Action::Linked { .. } | Action::Text { .. } => {}
            }
        }
    }

    fn say(&self, rank: u32, message: &ToRank) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        // Who is gone needs no answer.
        let _ = (&self.sockets[rank as usize]).write_all(&bytes);
    }

    fn abort(&self, status: u8, why: &str) {
        eprintln!("hosts: {why}");
        self.aborted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(status);
    }

    /// Waits for the ranks; the first that fails ends the others.
    fn watch(&self, mut ranks: Vec<(u32, Child)>) -> Result<u8, Failure> {
        let seconds = std::env::var(TIMEOUT_SETTING).ok().map(|text| text.parse()).transpose()?;
        let deadline = Instant::now() + Duration::from_secs(seconds.unwrap_or(TIMEOUT_SECONDS));
        let mut status = 0;
        while !ranks.is_empty() && status == 0 {
            let mut left = Vec::new();
            for (rank, mut child) in ranks {
                match child.try_wait()? {
                    None => left.push((rank, child)),
                    Some(end) if end.success() => {}
                    Some(end) => {
                        eprintln!("hosts: rank {rank}: {end}");
                        let code = end.code().unwrap_or(128 + end.signal().unwrap_or(0));
                        status = mpi_pmi::exit_status(code) as u8;
                    }
                }
            }
            ranks = left;
            if let Some(asked) = *self.aborted.lock().unwrap_or_else(PoisonError::into_inner) {
                status = asked;
            } else if Instant::now() > deadline {
                eprintln!("hosts: {} ranks are still running", ranks.len());
                status = STATUS_TIMEOUT;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        for (_, child) in &mut ranks {
            child.kill()?;
            child.wait()?;
        }
        Ok(status)
    }
}
