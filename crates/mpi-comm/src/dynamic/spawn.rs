//! Spawning processes, and being one that was spawned (MPI 4.1 section 11.8).

use super::Beyond;
use super::dial::dial;
use super::port::{Port, PortName, Stream};
use super::waiting::Wait;
use crate::comm::{Bridge, Team, broken};
use crate::limits::{SPAWN_CONNECT_TIMEOUT, SPAWN_PROCESSES_MAX};
use crate::{Comm, Info};
use mpi_p2p::{Error, ErrorClass};
use mpi_pmi::{SpawnCommand as Wanted, SpawnOutcome, SpawnRequest};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Instant;

const OP: &str = "spawn";

/// Name of the inter-communicator to the parent.
const PARENT_NAME: &str = "MPI_COMM_PARENT";

/// A program that is to run in a new world.
///
/// Hints that are understood, the others are ignored: `wdir` (directory, by default that of the
/// process that asks), `path` (directories to look for the program in, before PATH), `host` (hosts
/// of the job, as in `-host`: `a,b:2`; without it the processes go where there is room), `soft` (numbers of processes that will do, as `a:b:c` ranges), `env`
/// (`NAME=VALUE`, one a line), `file` (a file of further hints, `key = value` a line), `arch`
/// (accepted).
#[derive(Clone, Debug, Default)]
pub struct SpawnCommand {
    /// Name or path. A relative path starts in the directory of the process that asks.
    pub program: OsString,
    /// Its arguments, without the name.
    pub arguments: Vec<OsString>,
    /// How many processes (`maxprocs`).
    pub count: i32,
    /// Hints.
    pub info: Info,
}

/// Largest number of processes that one call may ask for.
pub const fn spawn_limit() -> usize {
    SPAWN_PROCESSES_MAX
}

impl Comm {
    /// Starts the programs as one new world, of which each process finds its way back by
    /// [`parent`](crate::parent), and gives the inter-communicator to it. Collective; only what the
    /// rank `root` gives counts. Returns when every new process has initialised MPI. All of them
    /// start, or none does.
    ///
    /// # Errors
    /// `Spawn`, the same on every process, naming program and reason; `Root`, `Arg` for arguments
    /// that make no sense; those of a new communicator.
    pub fn spawn(&self, root: i32, commands: &[SpawnCommand]) -> Result<Comm, Error> {
        self.spawn_or_refuse(root, Ok(commands))
    }

    /// As [`Comm::spawn`], where a face may find that what the root was given cannot be started: all get its error.
    ///
    /// # Errors
    /// As there, and the root's.
    pub fn spawn_or_refuse(
        &self,
        root: i32,
        commands: Result<&[SpawnCommand], Error>,
    ) -> Result<Comm, Error> {
        let (beyond, root) = self.for_meeting(OP, root)?;
        let mut team = Team::rooted(self, root)?;
        let begun = (team.index == 0).then(|| begin(&beyond, commands?));
        self.meet_behind(&mut team, begun, true, OP, "")
    }

    /// What a call that meets another group needs.
    pub(super) fn for_meeting(&self, op: &'static str, root: i32) -> Result<(Arc<Beyond>, u32), Error> {
        mpi_p2p::within(op);
        let fault = |class, detail: String| self.attach(Error::new(class, op, detail));
        if self.is_inter() {
            let detail = String::from("an inter-communicator has no one group to do it");
            return Err(fault(ErrorClass::Comm, detail));
        }
        let Some(beyond) = self.core().beyond.clone() else {
            return Err(fault(ErrorClass::Other, String::from("this process has no way to other worlds")));
        };
        let rank = u32::try_from(root).ok().filter(|rank| *rank < self.size());
        match rank {
            Some(rank) => Ok((beyond, rank)),
            None => {
                Err(fault(ErrorClass::Root, format!("root {root} is not among the {} ranks", self.size())))
            }
        }
    }

    /// The root has a stream to the other group's root, or an error, which all get; others give
    /// nothing.
    pub(super) fn meet_behind(
        &self,
        team: &mut Team<'_>,
        begun: Option<Result<Stream, Error>>,
        upper: bool,
        op: &'static str,
        name: &str,
    ) -> Result<Comm, Error> {
        let verdict = match &begun {
            Some(Err(error)) => encode_error(error),
            _ => Vec::new(),
        };
        let verdict = team.tell_bytes(&verdict)?;
        match begun {
            Some(Err(error)) => return Err(self.attach(error)),
            Some(Ok(stream)) => team.bridge = Some(Bridge::Stream(stream)),
            None if !verdict.is_empty() => return Err(self.attach(decode_error(op, &verdict)?)),
            None => {}
        }
        self.meet(team, upper, op, name)
    }

    /// The way to the processes that spawned this world, over the port that they wait at.
    /// Collective over the world.
    pub(crate) fn join_parent(&self, beyond: &Beyond, port: &str) -> Result<Comm, Error> {
        mpi_p2p::within("init");
        let mut team = Team::all(self)?;
        let reach = || dial(beyond, &PortName::parse("init", port)?);
        let begun = (team.index == 0).then(reach);
        self.meet_behind(&mut team, begun, false, "init", PARENT_NAME)
    }
}

/// At the root: starts the processes and waits for their root.
fn begin(beyond: &Beyond, commands: &[SpawnCommand]) -> Result<Stream, Error> {
    if commands.iter().any(|command| command.program.is_empty()) {
        return Err(spawn_error(String::from("the name of the program is an empty word (\"\")")));
    }
    // Before anything is started: without a transport to other worlds nothing comes of it.
    beyond.widen().map_err(|e| spawn_error(e.detail.clone()))?;
    let port = Port::open(beyond)?;
    let request = request(commands, port.name.to_string())?;
    let outcome = {
        let _wait = Wait::new(beyond, format!("spawn waits for {} to start", names(commands)));
        beyond.client.spawn(request).map_err(|e| spawn_error(e.to_string()))?
    };
    beyond.listen_to_launcher();
    match outcome {
        SpawnOutcome::Failed { reason, .. } => Err(spawn_error(reason)),
        SpawnOutcome::Started { .. } => {
            let deadline = Instant::now() + SPAWN_CONNECT_TIMEOUT;
            port.accept(beyond, Some(deadline)).map_err(|e| {
                spawn_error(format!("{} started and does not connect: {}", names(commands), e.detail))
            })
        }
    }
}

fn spawn_error(detail: String) -> Error {
    Error::new(ErrorClass::Spawn, OP, detail)
}

fn names(commands: &[SpawnCommand]) -> String {
    commands.iter().map(|c| c.program.to_string_lossy()).collect::<Vec<_>>().join(", ")
}

fn request(commands: &[SpawnCommand], port: String) -> Result<SpawnRequest, Error> {
    let directory = std::env::current_dir()
        .map_err(|e| Error::new(ErrorClass::Other, OP, format!("the current directory: {e}")))?;
    let directory = directory.into_os_string().into_vec();
    let mut total = 0;
    let wanted = |command: &SpawnCommand| {
        let info = hints(&command.info)?;
        let count = soft_count(command, info.iter().find(|(key, _)| key == "soft").map(|(_, v)| v.as_str()))?;
        total += count as usize;
        Ok(Wanted {
            program: command.program.clone().into_vec(),
            arguments: command.arguments.iter().cloned().map(OsStringExt::into_vec).collect(),
            count,
            directory: directory.clone(),
            info,
        })
    };
    let commands = commands.iter().map(wanted).collect::<Result<Vec<_>, Error>>()?;
    if total == 0 || total > SPAWN_PROCESSES_MAX {
        let detail = format!("{total} processes; a call starts 1 to {SPAWN_PROCESSES_MAX}");
        return Err(Error::new(ErrorClass::Arg, OP, detail));
    }
    Ok(SpawnRequest { commands, port })
}

/// The hints, those of a `file` first, so that those given themselves win.
fn hints(info: &Info) -> Result<Vec<(String, String)>, Error> {
    let mut all = Vec::new();
    if let Some(path) = info.get("file") {
        let bad = |why: String| Error::new(ErrorClass::Arg, OP, format!("file={path}: {why}"));
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (key, value) =
                line.split_once('=').ok_or_else(|| bad(format!("{line:?} is no key = value")))?;
            all.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    all.extend(info.iter().filter(|(key, _)| *key != "file").map(|(k, v)| (k.to_owned(), v.to_owned())));
    Ok(all)
}

/// How many processes to start: as many as asked for, or the most of `soft` that are no more.
fn soft_count(command: &SpawnCommand, soft: Option<&str>) -> Result<u32, Error> {
    let bad = |detail: String| Error::new(ErrorClass::Arg, OP, detail);
    let name = command.program.to_string_lossy();
    let most = u32::try_from(command.count)
        .map_err(|_| bad(format!("{name}: {} is no number of processes", command.count)))?;
    let Some(soft) = soft.filter(|soft| !soft.trim().is_empty()) else { return Ok(most) };
    let wrong = || bad(format!("{name}: soft={soft:?}: expected numbers or ranges FIRST:LAST[:STEP]"));
    let mut best = None;
    for part in soft.split(',') {
        let numbers = part.split(':').map(|n| n.trim().parse::<u32>());
        let numbers = numbers.collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
        let (first, last, step) = match numbers.as_slice() {
            [one] => (*one, *one, 1),
            [first, last] => (*first, *last, 1),
            [first, last, step] if *step > 0 => (*first, *last, *step),
            _ => return Err(wrong()),
        };
        let end = last.min(most);
        if first <= end {
            best = best.max(Some(first + (end - first) / step * step));
        }
    }
    best.ok_or_else(|| bad(format!("{name}: soft={soft:?} allows no number up to {most}")))
}

// ---- an error on its way from the root to the others

fn encode_error(error: &Error) -> Vec<u8> {
    let mut out = (error.class as i32).to_le_bytes().to_vec();
    out.extend(error.detail.as_bytes());
    out
}

fn decode_error(op: &'static str, bytes: &[u8]) -> Result<Error, Error> {
    let (class, detail) = bytes.split_first_chunk::<4>().ok_or_else(|| broken("an exchange came short"))?;
    let classes =
        [ErrorClass::Spawn, ErrorClass::Port, ErrorClass::Arg, ErrorClass::ProcFailed, ErrorClass::Intern];
    let class = i32::from_le_bytes(*class);
    let class = classes.into_iter().find(|known| *known as i32 == class).unwrap_or(ErrorClass::Other);
    Ok(Error::new(class, op, String::from_utf8_lossy(detail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(count: i32, soft: &str) -> Result<u32, String> {
        let command = SpawnCommand { program: "p".into(), count, ..SpawnCommand::default() };
        soft_count(&command, Some(soft)).map_err(|e| e.detail.clone())
    }

    #[test]
    fn soft_numbers_are_followed() {
        assert_eq!(counted(8, ""), Ok(8));
        assert_eq!(counted(8, "1:100"), Ok(8));
        assert_eq!(counted(8, "1:100:3"), Ok(7));
        assert_eq!(counted(8, "2,4, 16"), Ok(4));
        assert_eq!(counted(8, "0:6:4,5"), Ok(5));
        for (count, soft) in [(8, "9:12"), (8, "x"), (8, "1:2:0"), (8, "1:2:3:4"), (-1, "1")] {
            assert!(counted(count, soft).is_err(), "{count} {soft}");
        }
    }

    #[test]
    fn an_error_is_the_same_everywhere() {
        let error = Error::new(ErrorClass::Spawn, OP, "no such program");
        assert_eq!(decode_error(OP, &encode_error(&error)).unwrap(), error);
        assert!(decode_error(OP, b"abc").is_err());
    }

    #[test]
    fn hints_of_a_file_come_first() {
        let path = std::env::temp_dir().join(format!("hints-{}", std::process::id()));
        std::fs::write(&path, "# further\nwdir = /tmp\n\narch=any\n").unwrap();
        let mut info = Info::new();
        info.set("file", path.to_str().unwrap()).unwrap();
        info.set("wdir", "/").unwrap();
        let all = hints(&info);
        std::fs::write(&path, "nonsense\n").unwrap();
        let wrong = hints(&info);
        std::fs::remove_file(&path).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(all.unwrap(), [pair("wdir", "/tmp"), pair("arch", "any"), pair("wdir", "/")]);
        assert!(wrong.unwrap_err().detail.contains("nonsense"));
        assert!(hints(&info).unwrap_err().detail.contains("No such file"));
    }
}
