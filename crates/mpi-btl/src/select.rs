//! Backends by name and priority, and the choice between them (`MPI_BTL`).

use crate::{Addresses, BtlRx, BtlTx};
use std::os::fd::RawFd;

/// What a backend may know of the process when it opens.
#[derive(Clone, Debug)]
pub struct OpenEnv {
    /// Id of the job.
    pub job: String,
    /// The job's secret, for the hello.
    pub secret: [u8; 32],
    /// This process's rank in its world.
    pub world_rank: u32,
    /// Size of its world.
    pub world_size: u32,
    /// This process's slot in the node segment, if there is one.
    pub node_slot: Option<u32>,
    /// Descriptor of the node segment, inherited from the launcher.
    pub segment: Option<RawFd>,
    /// Several hosts are in the job: addresses other than loopback are offered.
    pub multihost: bool,
    /// Look up a setting (environment), already validated as UTF-8.
    pub settings: fn(&str) -> Option<String>,
}

/// A backend cannot open.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// Not available here, and that is no fault (no segment, say).
    #[error("{backend} is not available: {reason}")]
    Unavailable {
        /// Name of the backend.
        backend: &'static str,
        /// The fact.
        reason: String,
    },
    /// It should work here and does not.
    #[error("{backend} cannot open: {reason}")]
    Failed {
        /// Name of the backend.
        backend: &'static str,
        /// The fact, with errno.
        reason: String,
    },
}

/// An open backend.
pub struct Opened {
    /// Sending half.
    pub tx: Box<dyn BtlTx>,
    /// Receiving half.
    pub rx: Box<dyn BtlRx>,
    /// What peers need to reach this process, to be published; `None` when nothing is.
    pub address: Option<Vec<u8>>,
}

impl Opened {
    /// The address under the backend's name, added to `all`.
    pub fn publish(&self, name: &str, all: &mut Addresses) {
        if let Some(address) = &self.address {
            all.insert(name.to_owned(), address.clone());
        }
    }
}

/// A backend that can be opened.
pub trait Btl: Send + Sync {
    /// Its name in `MPI_BTL`.
    fn name(&self) -> &'static str;
    /// Higher is asked first.
    fn priority(&self) -> i32;
    /// Checks its settings, whether it will be opened or not, before anything is started. `settings` looks a
    /// variable up.
    ///
    /// # Errors
    /// `NAME=VALUE: what is allowed`.
    fn check(&self, _settings: fn(&str) -> Option<String>) -> Result<(), String> {
        Ok(())
    }
    /// Opens it for this process.
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(&self, env: &OpenEnv) -> Result<Opened, OpenError>;
}

/// `MPI_BTL` cannot be followed. The user's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SelectError {
    /// A name that no backend has.
    #[error("MPI_BTL={setting}: no transport is called \"{name}\"; there are: {known}")]
    Unknown {
        /// The whole setting.
        setting: String,
        /// The name.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Names with and without `^` together.
    #[error("MPI_BTL={setting}: \"^\" excludes all that follow it and stands only at the start")]
    Mixed {
        /// The whole setting.
        setting: String,
    },
    /// Nothing is left.
    #[error("MPI_BTL={setting}: no transport is left; there are: {known}")]
    Empty {
        /// The whole setting.
        setting: String,
        /// The names there are.
        known: String,
    },
}

/// The chosen backends, best first.
pub type Selection<'a> = Vec<&'a dyn Btl>;

/// Chooses among `all` by `setting` (`shm,tcp` lists, `^shm` excludes, none takes all), ordered by
/// priority, highest first.
///
/// # Errors
/// [`SelectError`].
pub fn select<'a>(all: &[&'a dyn Btl], setting: Option<&str>) -> Result<Selection<'a>, SelectError> {
    let known = || all.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
    let mut chosen: Selection<'a> = match setting.map(str::trim).filter(|s| !s.is_empty()) {
        None => all.to_vec(),
        Some(setting) => {
            let (exclude, list) = match setting.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, setting),
            };
            let names: Vec<&str> = list.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
            if names.iter().any(|n| n.starts_with('^')) {
                return Err(SelectError::Mixed { setting: setting.to_owned() });
            }
            // "self" is always there: a rank reaches itself inside the engine.
            if let Some(name) = names.iter().find(|n| **n != "self" && all.iter().all(|b| b.name() != **n)) {
                return Err(SelectError::Unknown {
                    setting: setting.to_owned(),
                    name: (*name).to_owned(),
                    known: known(),
                });
            }
            all.iter().copied().filter(|b| names.contains(&b.name()) != exclude).collect()
        }
    };
    chosen.sort_by_key(|b| std::cmp::Reverse(b.priority()));
    if chosen.is_empty() {
        return Err(SelectError::Empty { setting: setting.unwrap_or_default().to_owned(), known: known() });
    }
    Ok(chosen)
}
