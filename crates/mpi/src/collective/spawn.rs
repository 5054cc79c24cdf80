//! Starting processes (MPI-4.1 §11.8).

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use mpi_comm::{Comm, Info, SpawnCommand};

use crate::MpiError;
use crate::topology::{InterCommunicator, Rank};

/// Starts programs, so many processes of each.
///
/// Whatever goes wrong is told as so many processes that did not start, all that the error has room for; the root
/// prints the rest, in one line.
pub(super) fn spawn(
    comm: &Comm,
    root: Rank,
    programs: &[(&Command, Rank)],
) -> Result<InterCommunicator, MpiError> {
    attempt(comm, root, programs)?.map_err(|error| {
        if comm.rank() as Rank == root {
            eprintln!("mpi: {error}");
        }
        let all = programs.iter().map(|(_, count)| *count).sum();
        MpiError::Spawn(all, all)
    })
}

/// The same with everything that is known of what went wrong. The outer error: a word of a command holds a byte of
/// value 0, and nothing was tried.
pub(crate) fn attempt(
    comm: &Comm,
    root: Rank,
    programs: &[(&Command, Rank)],
) -> Result<Result<InterCommunicator, mpi_p2p::Error>, MpiError> {
    let commands = programs.iter().map(|&(command, count)| wanted(command, count));
    let commands = commands.collect::<Result<Vec<_>, MpiError>>()?;
    Ok(comm.spawn(root, &commands).map(InterCommunicator::made))
}

fn wanted(command: &Command, count: Rank) -> Result<SpawnCommand, MpiError> {
    let arguments = command.get_args().map(word).collect::<Result<_, MpiError>>()?;
    Ok(SpawnCommand { program: word(command.get_program())?, arguments, count, info: hints(command)? })
}

/// A word, which must not hold a byte of value 0: a program could not receive it.
fn word(word: &OsStr) -> Result<OsString, MpiError> {
    CString::new(word.as_bytes())?;
    Ok(word.to_owned())
}

/// The command's directory and variables.
fn hints(command: &Command) -> Result<Info, MpiError> {
    let mut info = Info::new();
    let mut set = |key: &str, value: &str| {
        info.set(key, value).unwrap_or_else(|error| panic!("{key} of a command to spawn: {error}"));
    };
    if let Some(directory) = command.get_current_dir() {
        set("wdir", &word(directory.as_os_str())?.to_string_lossy());
    }
    let mut lines = String::new();
    for (name, value) in command.get_envs() {
        let value =
            value.unwrap_or_else(|| panic!("a spawned process cannot be denied {name:?}: it inherits it"));
        let line = format!("{}={}", name.to_string_lossy(), value.to_string_lossy());
        assert!(!line.contains('\n'), "the variable {name:?} of a command to spawn has several lines");
        word(OsStr::new(&line))?;
        lines.push_str(&line);
        lines.push('\n');
    }
    if !lines.is_empty() {
        set("env", &lines);
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_passed_on_whole() {
        let mut command = Command::new("program");
        command.args(["a", "b c"]).env("NAME", "value").current_dir("/tmp");
        let wanted = wanted(&command, 3).unwrap();
        assert_eq!((wanted.program, wanted.count), ("program".into(), 3));
        assert_eq!(wanted.arguments, ["a", "b c"]);
        assert_eq!((wanted.info.get("wdir"), wanted.info.get("env")), (Some("/tmp"), Some("NAME=value\n")));
    }

    #[test]
    fn a_zero_byte_is_an_error() {
        // A `Command` puts a text of its own in the place of such a word, so this guards what else comes here.
        assert!(matches!(word(OsStr::from_bytes(b"a\0b")), Err(MpiError::StringNul(_))));
    }
}
