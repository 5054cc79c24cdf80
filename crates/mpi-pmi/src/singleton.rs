//! A process without a launcher: rank 0 of 1. The first time it needs one (to spawn, to publish a
//! name) it starts `mpiexec` for itself, on a socket pair, and is rank 0 of that job from then on.

use crate::limits::{LAUNCHER_START_TIMEOUT, PEERS_TIMEOUT};
use crate::native::Native;
use crate::{Bootstrap, Client, Events, Kind, PmiError, host_name};
use mpi_node::spawn::Inheritance;
use mpi_wire::spawn::{NameOutcome, NameRequest, SpawnOutcome, SpawnRequest};
use mpi_wire::waits::Wait;
use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// First word of the command line of a launcher that a process without one starts; the job's id and
/// the number of the inherited socket follow.
pub const LAUNCHER_WORD: &str = "--launcher-of-a-singleton";

/// Names the launcher to start, as a path.
pub(crate) const LAUNCHER_SETTING: &str = "MPI_MPIEXEC";

/// Keeps what the one rank puts.
struct Singleton {
    job: String,
    values: Mutex<HashMap<String, Vec<u8>>>,
    launcher: OnceLock<Native>,
    starting: Mutex<()>,
}

/// The world of one process.
pub(crate) fn start() -> Result<Bootstrap, PmiError> {
    let secret = crate::random_bytes()?;
    let tail: [u8; 4] = crate::random_bytes()?;
    let job = format!("singleton-{}-{:08x}", std::process::id(), u32::from_le_bytes(tail));
    let client = Singleton {
        job: job.clone(),
        values: Mutex::default(),
        launcher: OnceLock::new(),
        starting: Mutex::default(),
    };
    Ok(Bootstrap {
        job,
        secret,
        rank: 0,
        size: 1,
        host: host_name(),
        node_slot: None,
        node_size: 1,
        processors: crate::bootstrap::own_processors(),
        segment: None,
        multihost: false,
        appnum: None,
        universe_size: None,
        parent: None,
        client: Arc::new(client),
        kind: Kind::Singleton,
    })
}

impl Singleton {
    /// The launcher, started if need be.
    fn launcher(&self) -> Result<&Native, PmiError> {
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(launcher) = self.launcher.get() {
            return Ok(launcher);
        }
        let launcher = start_launcher(&self.job)?;
        launcher.started()?;
        Ok(self.launcher.get_or_init(|| launcher))
    }

    fn tell(&self, tell: impl FnOnce(&Native) -> Result<(), PmiError>) -> Result<(), PmiError> {
        self.launcher.get().map_or(Ok(()), tell)
    }
}

fn start_launcher(job: &str) -> Result<Native, PmiError> {
    let path = find_launcher(&|name| std::env::var_os(name))?;
    let failed = |reason: String| PmiError::Refused {
        what: "start of a launcher",
        reason: format!("{}: {reason}; {LAUNCHER_SETTING}=PATH names this project's mpiexec", path.display()),
    };
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(&path);
    command.arg(LAUNCHER_WORD).arg(job).arg(theirs.as_raw_fd().to_string()).stdin(Stdio::null());
    // It outlives this process where others of its job do.
    Inheritance { keep: vec![theirs.as_raw_fd()], own_group: true, ..Inheritance::default() }
        .apply(&mut command)
        .map_err(|e| failed(e.to_string()))?;
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
    drop(theirs);
    match Native::connect_within(ours.into(), 0, PEERS_TIMEOUT, LAUNCHER_START_TIMEOUT) {
        Ok((launcher, _)) => Ok(launcher),
        Err(e) => {
            // Whatever it is, it does not do what was asked.
            let _ = child.kill();
            let _ = child.wait();
            Err(failed(e.to_string()))
        }
    }
}

/// The launcher to start: the one that the setting names, one beside this program or in a directory
/// above it, as Cargo lays them out, or the first in PATH.
fn find_launcher(lookup: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> Result<PathBuf, PmiError> {
    /// Directories above the program's own that are looked at (`target/debug/deps`, `examples`).
    const ABOVE: usize = 2;
    if let Some(path) = lookup(LAUNCHER_SETTING).filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.ancestors().skip(1).take(ABOVE).map(Path::to_path_buf);
    let listed = lookup("PATH").unwrap_or_default();
    let candidates = beside.chain(std::env::split_paths(&listed)).map(|dir| dir.join("mpiexec"));
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| PmiError::Refused {
        what: "start of a launcher",
        reason: format!(
            "no mpiexec is beside {} nor in PATH; {LAUNCHER_SETTING}=PATH names one, or start the program with mpiexec",
            own.display()
        ),
    })
}

impl Client for Singleton {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn fence(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(values.get(key).filter(|_| rank == 0).cloned())
    }

    fn started(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn finalizing(&self) -> Result<(), PmiError> {
        self.tell(Native::finalizing)
    }

    fn finalized(&self) -> Result<(), PmiError> {
        self.tell(Native::finalized)
    }

    fn spawn(&self, request: SpawnRequest) -> Result<SpawnOutcome, PmiError> {
        self.launcher()?.spawn(request)
    }

    fn name(&self, request: NameRequest) -> Result<NameOutcome, PmiError> {
        self.launcher()?.name(request)
    }

    fn linked(&self, job: &str, linked: bool) -> Result<(), PmiError> {
        self.tell(|launcher| launcher.linked(job, linked))
    }

    fn abort(&self, code: i32, message: &str) {
        match self.launcher.get() {
            // It prints the message.
            Some(launcher) => launcher.abort(code, message),
            None => {
                let (pid, words) = (std::process::id(), crate::abort_words(code, message));
                eprintln!("mpi: rank 0 of a job of its own (pid {pid}) {words}");
            }
        }
    }

    fn report(&self, text: &str, waits: &[Wait]) -> Result<(), PmiError> {
        match self.launcher.get() {
            Some(launcher) => launcher.report(text, waits),
            None => {
                eprintln!("{text}");
                Ok(())
            }
        }
    }

    fn events(&self) -> Option<Events> {
        self.launcher.get()?.events()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_names_the_launcher_and_nothing_is_an_error() {
        let named = find_launcher(&|name| (name == LAUNCHER_SETTING).then(|| "/some/mpiexec".into()));
        assert_eq!(named, Ok(PathBuf::from("/some/mpiexec")));
        let empty = std::env::temp_dir().join("no-such-directory-of-launchers");
        let lookup = |name: &str| (name == "PATH").then(|| empty.clone().into_os_string());
        // Beside a test program Cargo puts the workspace's own, once it is built.
        if let Err(error) = find_launcher(&lookup) {
            assert!(error.to_string().contains(LAUNCHER_SETTING), "{error}");
        }
    }

    #[test]
    fn what_speaks_another_language_is_no_launcher() {
        let world = start().unwrap();
        assert!(world.client.events().is_none());
        assert_eq!(world.client.linked("other", true), Ok(()), "nobody is told");
    }
}
