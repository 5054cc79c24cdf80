//! How a rank ended, and what that means for the job.

use mpi_pmi::server::Phase;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use std::fmt;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It exited.
    Exit(i32),
    /// A signal killed it.
    Signal(Signal),
    /// It is gone; how, only its own parent knows.
    Gone,
}

impl End {
    /// From what the kernel says; `None` where the process goes on.
    pub fn of(status: WaitStatus) -> Option<End> {
        match status {
            WaitStatus::Exited(_, code) => Some(End::Exit(code)),
            WaitStatus::Signaled(_, signal, _) => Some(End::Signal(signal)),
            _ => None,
        }
    }

    /// As a shell would say it.
    pub fn status(self) -> i32 {
        match self {
            End::Exit(code) => code,
            End::Signal(signal) => 128 + signal as i32,
            End::Gone => 1,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exit(code) => write!(f, "exited with status {code}"),
            End::Signal(signal) => write!(f, "was killed by signal {} ({signal})", *signal as i32),
            End::Gone => f.write_str("is gone"),
        }
    }
}

/// Why the job fails, by the fault of one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Whose fault: its number among all processes of the job.
    pub rank: usize,
    /// What it did, as the predicate of a sentence.
    pub how: String,
    /// The job's status.
    pub status: i32,
}

/// Whether the end of a rank is a failure: `others` ranks still run.
pub fn failure(rank: usize, end: End, phase: Phase, others: usize) -> Option<Failure> {
    match end {
        End::Gone if !phase.owes_finalize() => None,
        End::Gone => Some(Failure { rank, how: String::from("is gone without finalizing MPI"), status: 1 }),
        End::Exit(0) if !phase.owes_finalize() || others == 0 => None,
        End::Exit(0) => {
            let go = if others == 1 { "1 other rank goes" } else { "the others go" };
            let how = format!("exited with status 0 without finalizing MPI, while {go} on");
            Some(Failure { rank, how, status: 1 })
        }
        _ => Some(Failure { rank, how: end.to_string(), status: end.status() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_statuses() {
        let status = |end, phase, others| failure(0, end, phase, others).map(|f| f.status);
        assert_eq!(status(End::Exit(0), Phase::Silent, 3), None, "never initialised");
        assert_eq!(status(End::Exit(0), Phase::Finalized, 3), None);
        assert_eq!(status(End::Exit(0), Phase::Started, 3), Some(1));
        assert_eq!(status(End::Exit(0), Phase::Finalizing, 1), Some(1));
        assert_eq!(status(End::Exit(0), Phase::Started, 0), None, "nobody goes on");
        assert_eq!(status(End::Exit(7), Phase::Finalized, 0), Some(7));
        assert_eq!(status(End::Gone, Phase::Finalized, 3), None);
        assert_eq!(status(End::Gone, Phase::Started, 0), Some(1));
        assert_eq!(status(End::Signal(Signal::SIGKILL), Phase::Silent, 1), Some(137));
    }

    #[test]
    fn ends_are_told_in_words() {
        assert_eq!(End::Exit(3).to_string(), "exited with status 3");
        assert_eq!(End::Signal(Signal::SIGSEGV).to_string(), "was killed by signal 11 (SIGSEGV)");
    }
}
