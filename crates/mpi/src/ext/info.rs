//! Hints to the library (MPI-4.1 §10).

use std::fmt;

use super::Error;
use super::error::caught;

/// Hints: text under keys, in the order in which the keys were first set (`MPI_Info`).
///
/// ```
/// let mut info = mpi::ext::Info::new();
/// info.set("host", "node7").unwrap();
/// assert_eq!(info.get("host"), Some("node7"));
/// assert!(info.set(&"k".repeat(1000), "").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Info(mpi_comm::Info);

impl Info {
    /// No hints (`MPI_Info_create`).
    pub fn new() -> Info {
        Info::default()
    }

    /// Sets or replaces a hint (`MPI_Info_set`).
    ///
    /// # Errors
    /// `InfoKey` or `InfoValue` for a text that is too long, or an empty key.
    #[track_caller]
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        caught(self.0.set(key, value))
    }

    /// The hint under a key (`MPI_Info_get_string`).
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }

    /// Removes a hint (`MPI_Info_delete`).
    ///
    /// # Errors
    /// `InfoNokey` where there is none under the key.
    #[track_caller]
    pub fn delete(&mut self, key: &str) -> Result<(), Error> {
        caught(self.0.delete(key))
    }

    /// How many hints there are (`MPI_Info_get_nkeys`).
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All hints in order (`MPI_Info_get_nthkey`).
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter()
    }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
