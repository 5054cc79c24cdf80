//! From the environment to a [`Bootstrap`]: which launcher is there, and what it says.

use crate::limits::{PEERS_TIMEOUT, PEERS_TIMEOUT_SETTING, WORLD_MAX_RANKS};
use crate::native::Native;
use crate::{Bootstrap, Kind, PmiError, foreign, pmi, singleton};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

/// Names of the variables of the native protocol.
pub mod variables {
    /// Where the launcher is: `fd:N` names an inherited socket.
    pub const ROOT: &str = "MPI_PMI_ROOT";
    /// Rank of the process.
    pub const RANK: &str = "MPI_PMI_RANK";
    /// Processes in the world.
    pub const SIZE: &str = "MPI_PMI_SIZE";
    /// Id of the job.
    pub const JOB: &str = "MPI_JOBID";
    /// Inherited descriptor of the node segment.
    pub const NODE_FD: &str = "MPI_NODE_FD";
    /// Slot in the node segment.
    pub const NODE_SLOT: &str = "MPI_NODE_SLOT";
    /// Ranks on the node.
    pub const NODE_SIZE: &str = "MPI_NODE_SIZE";
    /// Set to 1 where several hosts are in the job.
    pub const MULTIHOST: &str = "MPI_MULTIHOST";
    /// Set in spawned worlds.
    pub const SPAWN: &str = "MPI_SPAWN";
    /// Set to 1 to run alone although a foreign launcher is there.
    pub const ALLOW_SINGLETON: &str = "MPI_ALLOW_SINGLETON";

    /// Inherited descriptor of the memory for records, where some are wanted.
    pub const RECORD_FD: &str = "MPI_RECORD_FD";

    /// Those that one launcher sets for its ranks and that must not reach the ranks of another.
    pub const OF_A_JOB: &[&str] =
        &[ROOT, RANK, SIZE, JOB, NODE_FD, NODE_SLOT, NODE_SIZE, MULTIHOST, SPAWN, RECORD_FD];
}

/// Looks up a variable; the process environment, or a table in tests.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the environment, connects to the launcher and shakes hands with it.
///
/// In this order: the native launcher (`MPI_PMI_ROOT`), PMI by descriptor or port (`PMI_FD`,
/// `PMI_PORT`), alone. Alone is refused where a foreign launcher's variables show that it is a
/// mistake, unless `MPI_ALLOW_SINGLETON=1`.
///
/// # Errors
/// [`PmiError`]; at once for what stands in the environment.
pub fn bootstrap() -> Result<Bootstrap, PmiError> {
    let lookup: Lookup<'_> = &|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    if lookup(variables::ROOT).is_some() {
        return native(lookup);
    }
    for name in [variables::RANK, variables::SIZE] {
        if lookup(name).is_some() {
            return Err(PmiError::Missing { present: name, missing: variables::ROOT });
        }
    }
    if let Some(world) = pmi::start(lookup)? {
        return Ok(world);
    }
    foreign::check(lookup)?;
    singleton::start()
}

fn native(lookup: Lookup<'_>) -> Result<Bootstrap, PmiError> {
    let root = Root::read(lookup)?;
    let timeout = match number::<u64>(lookup, PEERS_TIMEOUT_SETTING)? {
        Some(seconds) => Duration::from_secs(seconds),
        None => PEERS_TIMEOUT,
    };
    let socket = inherit(variables::ROOT, &root.value, root.fd)?;
    be_the_only_one(&socket, root.rank)?;
    let (client, welcome) = Native::connect(socket, root.rank, timeout)?;
    if (welcome.rank, welcome.size) != (root.rank, root.size) {
        return Err(PmiError::Protocol {
            what: "hello",
            reason: format!(
                "the environment says rank {} of {}, the launcher rank {} of {}",
                root.rank, root.size, welcome.rank, welcome.size
            ),
        });
    }
    let segment = match number::<RawFd>(lookup, variables::NODE_FD)? {
        Some(fd) => Some(inherit(variables::NODE_FD, &fd.to_string(), fd)?.into_raw_fd()),
        None => None,
    };
    Ok(Bootstrap {
        job: welcome.job,
        secret: welcome.secret,
        rank: welcome.rank,
        size: welcome.size,
        host: welcome.host,
        node_slot: welcome.node_slot,
        node_size: welcome.node_size,
        processors: processors(welcome.node_processors, welcome.own_processors),
        segment,
        multihost: welcome.multihost,
        appnum: welcome.appnum,
        universe_size: welcome.universe_size,
        parent: welcome.parent,
        client: Arc::new(client),
        kind: Kind::Native,
    })
}

/// The launcher's word holds as long as this process may use what the launcher gave it: whoever was
/// bound more tightly on the way (`taskset` in front of the program) trusts its own mask.
fn processors(of_node: u32, own: u32) -> u32 {
    let allowed = own_processors();
    if allowed == own { of_node.max(1) } else { allowed }
}

/// Processors that this process may use, at least 1.
pub(crate) fn own_processors() -> u32 {
    u32::try_from(mpi_node::cpuset::allowed_count()).unwrap_or(u32::MAX).max(1)
}

/// The native variables, read and checked.
#[derive(Debug)]
struct Root {
    value: String,
    fd: RawFd,
    rank: u32,
    size: u32,
}

impl Root {
    fn read(lookup: Lookup<'_>) -> Result<Root, PmiError> {
        let value = lookup(variables::ROOT).unwrap_or_default();
        let bad = |reason: &str| PmiError::Setting {
            name: variables::ROOT,
            value: value.clone(),
            reason: reason.to_owned(),
        };
        let fd = value
            .strip_prefix("fd:")
            .ok_or_else(|| bad("expected fd:N, N being the number of an inherited socket"))?
            .parse::<RawFd>()
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(|| bad("what follows fd: is not the number of a descriptor"))?;
        let missing = |missing| PmiError::Missing { present: variables::ROOT, missing };
        let size = number::<u32>(lookup, variables::SIZE)?.ok_or_else(|| missing(variables::SIZE))?;
        let rank = number::<u32>(lookup, variables::RANK)?.ok_or_else(|| missing(variables::RANK))?;
        if size == 0 || size > WORLD_MAX_RANKS {
            return Err(PmiError::Setting {
                name: variables::SIZE,
                value: size.to_string(),
                reason: format!("a world has 1 to {WORLD_MAX_RANKS} ranks"),
            });
        }
        if rank >= size {
            return Err(PmiError::Setting {
                name: variables::RANK,
                value: rank.to_string(),
                reason: format!("ranks of a world of {size} go from 0 to {}", size - 1),
            });
        }
        Ok(Root { value, fd, rank, size })
    }
}

/// The socket to the launcher carries one conversation. A lock on it, which is a process's own and ends with it, keeps
/// a second program of the same rank from listening to the first one's, which both would wait for for ever.
fn be_the_only_one(socket: &OwnedFd, rank: u32) -> Result<(), PmiError> {
    let whole =
        |l_type| libc::flock { l_type, l_whence: libc::SEEK_SET as _, l_start: 0, l_len: 0, l_pid: 0 };
    let mut lock = whole(libc::F_WRLCK as _);
    match fcntl(socket, FcntlArg::F_SETLK(&lock)) {
        Err(Errno::EAGAIN | Errno::EACCES) => {}
        // Without locks two programs are not told apart; one alone is as well off.
        Ok(_) | Err(_) => return Ok(()),
    }
    let known = fcntl(socket, FcntlArg::F_GETLK(&mut lock));
    let pid = known.ok().and_then(|_| u32::try_from(lock.l_pid).ok()).filter(|pid| *pid > 0);
    Err(PmiError::Occupied { rank, pid })
}

fn inherit(name: &'static str, value: &str, fd: RawFd) -> Result<OwnedFd, PmiError> {
    mpi_node::spawn::inherited(fd).map_err(|e| PmiError::Setting {
        name,
        value: value.to_owned(),
        reason: format!(
            "descriptor {fd} is not open ({e}); a process that a rank starts is no rank: start it with \
             mpiexec, or take the MPI_* variables out of its environment"
        ),
    })
}

/// A variable that holds a number.
pub(crate) fn number<T: std::str::FromStr<Err: std::fmt::Display>>(
    lookup: Lookup<'_>,
    name: &'static str,
) -> Result<Option<T>, PmiError> {
    let Some(value) = lookup(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(number) => Ok(Some(number)),
        Err(e) => Err(PmiError::Setting { name, reason: format!("not a number that fits: {e}"), value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Root, String> {
        let lookup =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Root::read(&lookup).map_err(|e| e.to_string())
    }

    #[test]
    fn good_variables_are_read() {
        let root = read(&[("MPI_PMI_ROOT", "fd:5"), ("MPI_PMI_RANK", "2"), ("MPI_PMI_SIZE", "4")]).unwrap();
        assert_eq!((root.fd, root.rank, root.size), (5, 2, 4));
    }

    #[test]
    fn bad_variables_are_named_with_their_value() {
        for (root, rank, size, expected) in [
            ("fd:5", "x", "4", "MPI_PMI_RANK=\"x\""),
            ("fd:5", "4", "4", "MPI_PMI_RANK=\"4\""),
            ("fd:5", "-1", "4", "MPI_PMI_RANK=\"-1\""),
            ("fd:5", "0", "0", "MPI_PMI_SIZE=\"0\""),
            ("fd:5", "0", "4294967295", "MPI_PMI_SIZE=\"4294967295\""),
            ("fd:-1", "0", "4", "MPI_PMI_ROOT=\"fd:-1\""),
            ("fd:", "0", "4", "MPI_PMI_ROOT=\"fd:\""),
            ("10.0.0.1:9", "0", "4", "MPI_PMI_ROOT=\"10.0.0.1:9\""),
        ] {
            let error =
                read(&[("MPI_PMI_ROOT", root), ("MPI_PMI_RANK", rank), ("MPI_PMI_SIZE", size)]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = read(&[("MPI_PMI_ROOT", "fd:5"), ("MPI_PMI_SIZE", "4")]).unwrap_err();
        assert!(error.contains("MPI_PMI_RANK is not"), "{error}");
    }
}
