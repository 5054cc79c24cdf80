//! Start-up of an MPI job: how a process learns who it is, and how it talks to its launcher.
//!
//! [`bootstrap()`] reads the environment, connects and shakes hands; its [`Bootstrap`] says who this
//! process is and carries a [`Client`] for the rest of the job. For the layer that initialises MPI:
//!
//! ```no_run
//! # fn main() -> Result<(), mpi_pmi::PmiError> {
//! let world = mpi_pmi::bootstrap()?;
//! world.client.put("btl", b"where I am")?;
//! world.client.started()?; // no fence: `get` waits for the one peer that it asks about
//! if let Some(events) = world.client.events() {
//!     std::thread::spawn(move || {
//!         for event in events { /* Abort and LauncherGone end this process */ let _ = event; }
//!     });
//! }
//! let _peer = world.client.get(0, "btl")?;
//! world.client.finalizing()?;
//! world.client.finalized()?;
//! # Ok(())
//! # }
//! ```
//!
//! Rules for that layer:
//! - Under PMI ([`Kind::Pmi1`], [`Kind::Pmi2`]) a [`Client::fence`] must stand between `put` and
//!   `get`; under the native protocol none is needed.
//! - A rank that finds a peer's connection broken waits a second for [`Event::Abort`] before it
//!   reports a failure of its own: the launcher knows better which rank failed first.
//! - After [`Client::abort`] the process exits with [`exit_status`] of the code.
//! - A rank that has called [`Client::started`] and exits 0 without [`Client::finalized`] while
//!   others go on fails the job.
//!
//! What never happens: nothing here knows a communicator, a transport or a request; nothing that a
//! launcher or the environment says makes it panic, hang, or allocate without bound.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bootstrap;
mod client;
mod error;
#[cfg(test)]
mod fake;
mod foreign;
pub mod limits;
pub mod names;
mod native;
mod pmi;
mod pmi1;
mod pmi2;
pub mod server;
pub mod settings;
mod singleton;

pub use bootstrap::{bootstrap, variables};
pub use client::{Bootstrap, Client, Event, Events, Kind};
pub use error::PmiError;
pub use mpi_wire::spawn::{NameOutcome, NameRequest, SpawnCommand, SpawnOutcome, SpawnRequest};
pub use singleton::LAUNCHER_WORD;

/// The exit status of a process that called abort with `code`: its low byte, and 1 where that is 0.
#[must_use]
pub fn exit_status(code: i32) -> i32 {
    match code & 255 {
        0 => 1,
        status => status,
    }
}

/// How an abort is told of: an error that ends its job begins with its class by the name of the C binding; any other
/// message is the program's own.
#[must_use]
pub fn abort_words(code: i32, message: &str) -> String {
    let message = message.trim();
    match message {
        "" => format!("called abort({code})"),
        error if error.starts_with("MPI_ERR_") || error.starts_with("MPIX_ERR_") => {
            format!("failed with {error}")
        }
        // Where it was called, not why.
        place if place.starts_with("on \"") => format!("called abort({code}) {place}"),
        message => format!("called abort({code}): {message}"),
    }
}

/// Name of this host, for people; no look-up is made.
#[must_use]
pub fn host_name() -> String {
    nix::unistd::gethostname()
        .map_or_else(|_| String::from("localhost"), |n| n.to_string_lossy().into_owned())
}

/// Bytes from the kernel's random source.
///
/// # Errors
/// [`PmiError::Refused`] where the kernel gives none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], PmiError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| PmiError::Refused { what: "random bytes", reason: e.to_string() })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_error_is_told_by_its_class() {
        let words = super::abort_words;
        assert_eq!(words(7, " "), "called abort(7)");
        assert_eq!(words(7, "on \"grid\""), "called abort(7) on \"grid\"");
        assert_eq!(words(7, "why"), "called abort(7): why");
        assert_eq!(words(4, "MPI_ERR_TAG: send: tag -5"), "failed with MPI_ERR_TAG: send: tag -5");
    }

    #[test]
    fn abort_never_looks_like_success() {
        assert_eq!([0, 1, 256, 257, -1, 255].map(super::exit_status), [1, 1, 1, 1, 255, 255]);
    }
}
