//! Starting processes (MPI-4.1 §11.8).

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use mpi_comm::Comm;

use crate::MpiError;
use crate::topology::{InterCommunicator, Rank};

/// Starts programs, so many processes of each.
pub(super) fn spawn(
    _comm: &Comm,
    _root: Rank,
    programs: &[(&Command, Rank)],
) -> Result<InterCommunicator, MpiError> {
    for (command, _) in programs {
        let changes = command.get_envs().len();
        assert_eq!(changes, 0, "spawned processes inherit the environment; a command cannot change it");
        words(command)?;
    }
    // Dynamic processes are not built yet: all of them fail to start.
    let all = programs.iter().map(|(_, number)| number).sum();
    Err(MpiError::Spawn(all, all))
}

/// The program and its arguments.
fn words(command: &Command) -> Result<Vec<CString>, MpiError> {
    let word = |word: &OsStr| Ok(CString::new(word.as_bytes())?);
    std::iter::once(command.get_program()).chain(command.get_args()).map(word).collect()
}
