//! What can go wrong between a rank and its launcher.

/// Start-up failed, or the launcher is gone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PmiError {
    /// A variable that the launcher sets has a value that makes no sense. Whoever set it is at fault.
    #[error("{name}={value:?}: {reason}")]
    Setting {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A variable is missing that must stand beside another one.
    #[error(
        "{present} is set and {missing} is not: the environment of a launcher must reach its ranks whole"
    )]
    Missing {
        /// The variable that is there.
        present: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// A launcher started this process that speaks no protocol known here. The user's to mend.
    #[error(
        "started by {launcher} ({evidence}) without a start-up protocol that this library speaks; \
         {advice}; MPI_ALLOW_SINGLETON=1 runs each process alone, as rank 0 of 1"
    )]
    Foreign {
        /// Name of the launcher.
        launcher: &'static str,
        /// The variables that show it.
        evidence: String,
        /// The command to use instead.
        advice: String,
    },
    /// Another program runs MPI as this rank. The user's to mend.
    #[error(
        "{} runs MPI as rank {rank} already: the MPI programs of one rank run one after the other; \
         mpiexec starts those that run together",
        pid.map_or_else(|| String::from("another process"), |pid| format!("process {pid}"))
    )]
    Occupied {
        /// The rank.
        rank: u32,
        /// The other process, where the kernel tells.
        pid: Option<u32>,
    },
    /// Launcher and library speak different versions.
    #[error("the launcher speaks start-up protocol {theirs}, this program {ours}: {reason}")]
    Version {
        /// This library's version.
        ours: String,
        /// The launcher's version.
        theirs: String,
        /// What the launcher said.
        reason: String,
    },
    /// The launcher does not answer.
    #[error("no answer from the launcher to \"{what}\" within {seconds} s")]
    Timeout {
        /// What was asked.
        what: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The connection to the launcher ended.
    #[error("the launcher is gone ({reason}) while \"{what}\" was under way")]
    Lost {
        /// What was under way.
        what: &'static str,
        /// The fact, with errno.
        reason: String,
    },
    /// The launcher sent what it must not. The launcher's fault.
    #[error("the launcher sent a malformed answer to \"{what}\": {reason}")]
    Protocol {
        /// What was asked.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The launcher said no.
    #[error("the launcher refused \"{what}\": {reason}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Its words.
        reason: String,
    },
    /// A key or value that does not fit. The caller's fault.
    #[error("{what} of {length} bytes, the limit is {limit}")]
    TooLong {
        /// Key or value.
        what: &'static str,
        /// Bytes.
        length: usize,
        /// What is allowed.
        limit: usize,
    },
}
