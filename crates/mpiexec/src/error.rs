//! Why a job does not start, or cannot go on; each with its exit status.

use crate::cli::UsageError;
use std::path::PathBuf;

/// Nothing runs (any more); the launcher's own fault or the user's, never a rank's.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Options, settings, placement.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// No such program.
    #[error("{program} is not found on {host}: {detail}")]
    NotFound {
        /// As the user wrote it.
        program: String,
        /// Where.
        host: String,
        /// Where it was looked for.
        detail: String,
    },
    /// It is there and cannot be run.
    #[error("{path} on {host} cannot be run: {detail}")]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// Where.
        host: String,
        /// The fact.
        detail: String,
    },
    /// The working directory cannot be used.
    #[error("working directory {path} on {host}: {detail}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Where.
        host: String,
        /// The fact.
        detail: String,
    },
    /// A Cargo target that cannot be built.
    #[error("{0}")]
    Build(String),
    /// A host cannot be reached, or something is missing there; the reason names it.
    #[error("{reason}")]
    Host {
        /// Exit status of the launcher.
        status: i32,
        /// What, where.
        reason: String,
    },
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: String,
        /// The errno.
        error: std::io::Error,
    },
}

impl LaunchError {
    /// The launcher's exit status for it.
    pub fn status(&self) -> i32 {
        match self {
            LaunchError::Usage(_) => 2,
            LaunchError::NotFound { .. } => 127,
            LaunchError::NotExecutable { .. } => 126,
            LaunchError::Host { status, .. } => *status,
            LaunchError::Directory { .. } | LaunchError::Build(_) | LaunchError::System { .. } => 3,
        }
    }

    /// For mapping the error of a system call.
    pub fn system<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> LaunchError {
        let what = what.into();
        move |error| LaunchError::System { what, error: error.into() }
    }
}
