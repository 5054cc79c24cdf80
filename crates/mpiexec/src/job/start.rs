//! Starts one rank: its streams, its control channel, its environment.

use super::control::Control;
use super::end::End;
use super::input::Source;
use super::terminal;
use crate::error::LaunchError;
use crate::plan::{Place, Ready};
use mpi_node::Image;
use mpi_node::spawn::Inheritance;
use mpi_pmi::server::Inbox;
use mpi_pmi::variables;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// What all ranks of a job have in common.
pub struct Common {
    /// Id of the job.
    pub id: String,
    /// Ranks in the world.
    pub size: usize,
    /// Those of them on this machine.
    pub node_size: usize,
    /// The job has several hosts, so that worlds may be, or come to be, on more than one.
    pub several: bool,
    /// The environment to begin with; `None`: the launcher's own.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// The node segment.
    pub segment: Option<OwnedFd>,
    /// The memory for records, where some are wanted.
    pub records: Option<OwnedFd>,
    /// Variables for all ranks.
    pub env: Vec<(String, String)>,
    /// The error handler that ranks start with.
    pub errhandler: Option<String>,
    /// Variables of other launchers and jobs, which ranks must not see.
    pub scrub: Vec<OsString>,
    /// The soft limit of open files that the launcher itself was started with.
    pub open_files: Option<u64>,
    /// A rank spawned it.
    pub spawned: bool,
}

impl Common {
    /// The same for another world, which gets its id, size and segment from the caller.
    pub fn for_another(&self) -> Common {
        Common {
            id: String::new(),
            size: 0,
            node_size: 0,
            several: self.several,
            environment: self.environment.clone(),
            segment: None,
            records: None,
            env: self.env.clone(),
            errhandler: self.errhandler.clone(),
            scrub: self.scrub.clone(),
            open_files: self.open_files,
            spawned: self.spawned,
        }
    }
}

/// A rank that was started.
pub struct Rank {
    /// Its world, among those of the job.
    pub world: usize,
    /// Its rank there.
    pub rank: u32,
    /// Its program, among those of its world.
    pub program: usize,
    /// Worlds with whose processes it has communicators.
    pub links: BTreeSet<usize>,
    /// It is not the launcher's child: it started the launcher.
    pub foreign: bool,
    /// Index of its host in the plan.
    pub host: usize,
    /// It runs under a daemon.
    pub far: Option<Far>,
    /// Its process, and the number of its process group; 0 until the daemon has told it.
    pub pid: u32,
    /// Standard output and error, while they are open.
    pub streams: [Option<OwnedFd>; 2],
    /// Its control channel, while it is open.
    pub control: Option<Control>,
    /// The channel is registered for writing too.
    pub control_writes: bool,
    /// How it ended.
    pub end: Option<End>,
    /// It ended after its world was told to end.
    pub was_told: bool,
    /// Processes of its group may be left although it has ended.
    pub group_left: bool,
}

/// What the launcher keeps of a rank on another host.
#[derive(Debug)]
pub struct Far {
    /// The number of its host's daemon.
    pub daemon: u32,
    /// What it says.
    pub inbox: Inbox,
    /// The processors that it may use.
    pub processors: Vec<usize>,
}

impl Rank {
    /// Nothing is known of the process but its place.
    fn new(world: usize, rank: u32, program: usize, host: usize) -> Rank {
        Rank {
            world,
            rank,
            program,
            links: BTreeSet::new(),
            foreign: false,
            host,
            far: None,
            pid: 0,
            streams: [None, None],
            control: None,
            control_writes: false,
            end: None,
            was_told: false,
            group_left: false,
        }
    }

    /// A rank that will be started: by a daemon, or here.
    pub fn planned(world: usize, rank: usize, place: &Place, daemon: Option<u32>) -> Rank {
        let far = |daemon| Far { daemon, inbox: Inbox::default(), processors: Vec::new() };
        Rank { far: daemon.map(far), ..Rank::new(world, rank as u32, place.program, place.host) }
    }
}

/// Starts `rank`; gives it and the pipe to its standard input, if it has one.
///
/// # Errors
/// [`LaunchError`] naming what could not be done.
pub fn start(
    common: &Common,
    world: usize,
    rank: usize,
    place: &Place,
    program: &Ready,
    input: Source,
    host: &str,
) -> Result<(Rank, Option<OwnedFd>), LaunchError> {
    let (ours, theirs) = UnixStream::pair().map_err(LaunchError::system("control channel of a rank"))?;
    ours.set_nonblocking(true).map_err(LaunchError::system("control channel of a rank"))?;
    let mut command = Command::new(&program.executable);
    if let Some(wdir) = &program.wdir {
        command.current_dir(wdir);
    }
    environment(&mut command, common, rank, place, program, theirs.as_raw_fd());
    let terminal = match input {
        Source::Terminal(size) => {
            let opened = terminal::open(size).and_then(|terminal| terminal.given_to(&mut command));
            Some(opened.map_err(LaunchError::system(format!("a terminal for rank {rank}")))?)
        }
        _ => None,
    };
    if terminal.is_none() {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(match input {
            Source::Inherit => Stdio::inherit(),
            Source::Pipe => Stdio::piped(),
            Source::Null | Source::Terminal(_) => Stdio::null(),
        });
    }
    let segment = common.segment.as_ref().map(AsRawFd::as_raw_fd);
    let records = common.records.as_ref().map(AsRawFd::as_raw_fd);
    Inheritance {
        keep: [Some(theirs.as_raw_fd()), segment, records].into_iter().flatten().collect(),
        own_group: true,
        own_terminal: terminal.is_some(),
        die_with_parent: true,
        processors: place.processors.clone(),
        open_files: common.open_files,
        image: Some(
            image(&command, common, program).map_err(LaunchError::system(format!("starting rank {rank}")))?,
        ),
    }
    .apply(&mut command)
    .map_err(LaunchError::system(format!("processors of rank {rank}")))?;
    let mut child = command.spawn().map_err(|error| spawn_failed(error, rank, program, host))?;
    let pipe = |fd: Option<OwnedFd>| -> Result<Option<OwnedFd>, LaunchError> {
        fd.map(nonblocking).transpose().map_err(LaunchError::system("streams of a rank"))
    };
    // The child has the terminal's other side now: the command's copies go, so that its end is seen.
    drop(command);
    let (streams, stdin) = match terminal {
        Some(ours) => {
            let keyboard = ours.try_clone().map_err(LaunchError::system("terminal of a rank"))?;
            ([pipe(Some(ours))?, None], pipe(Some(keyboard))?)
        }
        None => (
            [pipe(child.stdout.take().map(Into::into))?, pipe(child.stderr.take().map(Into::into))?],
            pipe(child.stdin.take().map(Into::into))?,
        ),
    };
    let control = Some(Control::new(ours));
    let pid = child.id();
    let started = Rank::new(world, rank as u32, place.program, place.host);
    let rank = Rank { pid, streams, control, group_left: true, ..started };
    Ok((rank, stdin))
}

/// The rank that started this launcher for itself, at the other end of `socket`.
///
/// # Errors
/// The socket cannot be used.
pub fn attach(socket: OwnedFd, pid: u32, host: usize) -> Result<Rank, LaunchError> {
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(true).map_err(LaunchError::system("control channel of a rank"))?;
    let control = Some(Control::new(socket));
    Ok(Rank { foreign: true, pid, control, ..Rank::new(0, 0, 0, host) })
}

/// The program that a command was made for, with all that the command was told of its environment.
fn image(command: &Command, common: &Common, program: &Ready) -> std::io::Result<Image> {
    let mut environment: BTreeMap<OsString, OsString> = match &common.environment {
        Some(given) => given.iter().cloned().collect(),
        None => std::env::vars_os().collect(),
    };
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => _ = environment.insert(name.to_owned(), value.to_owned()),
            None => _ = environment.remove(name),
        }
    }
    let arguments = [program.name.as_ref()].into_iter().chain(program.arguments.iter().map(AsRef::as_ref));
    Image::new(&program.executable, arguments, environment.into_iter())
}

fn environment(
    command: &mut Command,
    common: &Common,
    rank: usize,
    place: &Place,
    program: &Ready,
    control: RawFd,
) {
    if let Some(environment) = &common.environment {
        command.env_clear().envs(environment.iter().map(|(n, v)| (n, v)));
    }
    for name in &common.scrub {
        command.env_remove(name);
    }
    command.envs(common.env.iter().map(|(n, v)| (n, v)));
    command.envs(program.env.iter().map(|(n, v)| (n, v)));
    if let Some(handler) = &common.errhandler {
        command.env("MPI_INITIAL_ERRHANDLER", handler);
    }
    command.env(variables::ROOT, format!("fd:{control}"));
    command.env(variables::RANK, rank.to_string());
    command.env(variables::SIZE, common.size.to_string());
    command.env(variables::JOB, &common.id);
    // For programs that are linked with another MPI: the same socket speaks PMI-1 to them.
    command.env("PMI_FD", control.to_string());
    command.env("PMI_RANK", rank.to_string());
    command.env("PMI_SIZE", common.size.to_string());
    if common.spawned {
        command.env(variables::SPAWN, "1");
        command.env("PMI_SPAWNED", "1");
    }
    if common.several {
        command.env(variables::MULTIHOST, "1");
    }
    command.env(variables::NODE_SIZE, common.node_size.to_string());
    if let Some(segment) = &common.segment {
        command.env(variables::NODE_FD, segment.as_raw_fd().to_string());
        command.env(variables::NODE_SLOT, place.node_slot.to_string());
    }
    if let Some(records) = &common.records {
        command.env(variables::RECORD_FD, records.as_raw_fd().to_string());
    }
}

/// Variables that belong to a host: a rank there has those of its own host, and the launcher's of all
/// others.
pub const OF_THE_HOST: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "MAIL",
    "HOSTNAME",
    "TMPDIR",
    "DISPLAY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_ID",
    "DBUS_SESSION_BUS_ADDRESS",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "SSH_AUTH_SOCK",
    "MPI_HOST_IP",
];

/// The variables of this process that tell a rank of a job, of whatever launcher, who it is.
pub fn foreign_variables() -> Vec<OsString> {
    const PREFIXES: &[&str] = &["PMI_", "PMI2_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "HYDRA_"];
    const NAMES: &[&str] = &["MPI_LOCALNRANKS", "MPI_LOCALRANKID"];
    std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| {
            let name = name.to_string_lossy();
            PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || NAMES.contains(&&*name)
                || variables::OF_A_JOB.contains(&&*name)
        })
        .collect()
}

const ENOENT: i32 = nix::errno::Errno::ENOENT as i32;
const EACCES: i32 = nix::errno::Errno::EACCES as i32;
const ENOEXEC: i32 = nix::errno::Errno::ENOEXEC as i32;

fn spawn_failed(error: std::io::Error, rank: usize, program: &Ready, host: &str) -> LaunchError {
    let path = program.executable.clone();
    let host = host.to_owned();
    match error.raw_os_error() {
        // The program was there a moment ago: what is missing is what its first line names.
        Some(ENOENT) => LaunchError::NotExecutable {
            path,
            host,
            detail: format!("{error} (the interpreter named in its first line, or its loader, is missing)"),
        },
        Some(ENOEXEC) => LaunchError::NotExecutable {
            path,
            host,
            detail: format!("{} ({error})", crate::find::why_unknown(&program.executable)),
        },
        Some(EACCES) => LaunchError::NotExecutable { path, host, detail: error.to_string() },
        _ => LaunchError::System { what: format!("starting rank {rank} on {host}"), error },
    }
}

fn nonblocking(fd: OwnedFd) -> std::io::Result<OwnedFd> {
    let flags = OFlag::from_bits_retain(fcntl(fd.as_fd(), FcntlArg::F_GETFL)?);
    fcntl(fd.as_fd(), FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(fd)
}
