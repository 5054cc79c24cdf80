//! Info objects: ordered sets of hints, key to value (MPI 4.1 chapter 10).

use crate::limits::{MAX_INFO_KEY_BYTES, MAX_INFO_VALUE_BYTES};
use mpi_p2p::{Error, ErrorClass};

/// Hints for a call: text under a key, in the order in which the keys were first set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Info {
    entries: Vec<(String, String)>,
}

impl Info {
    /// No hints.
    pub fn new() -> Info {
        Info::default()
    }

    /// Sets or replaces a hint.
    ///
    /// # Errors
    /// `InfoKey` or `InfoValue` when a text is empty (keys only) or too long.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        let fault = |class, detail| Err(Error::new(class, "info set", detail));
        if key.is_empty() || key.len() > MAX_INFO_KEY_BYTES {
            let detail = format!("a key has 1 to {MAX_INFO_KEY_BYTES} bytes, this one {}", key.len());
            return fault(ErrorClass::InfoKey, detail);
        }
        if value.len() > MAX_INFO_VALUE_BYTES {
            let detail =
                format!("the value of \"{key}\" has {} bytes of at most {MAX_INFO_VALUE_BYTES}", value.len());
            return fault(ErrorClass::InfoValue, detail);
        }
        match self.entries.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.entries.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// The hint under a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    /// Removes a hint.
    ///
    /// # Errors
    /// `InfoNokey` when there is none under that key.
    pub fn delete(&mut self, key: &str) -> Result<(), Error> {
        match self.entries.iter().position(|(k, _)| k == key) {
            Some(at) => {
                self.entries.remove(at);
                Ok(())
            }
            None => {
                Err(Error::new(ErrorClass::InfoNokey, "info delete", format!("there is no key \"{key}\"")))
            }
        }
    }

    /// Number of hints.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without hints.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The key at a position (`MPI_Info_get_nthkey`).
    pub fn key(&self, nth: usize) -> Option<&str> {
        self.entries.get(nth).map(|(key, _)| key.as_str())
    }

    /// All hints in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_keep_their_order_and_can_be_replaced() {
        let mut info = Info::new();
        info.set("host", "a").unwrap();
        info.set("wdir", "/").unwrap();
        info.set("host", "b").unwrap();
        assert_eq!(info.iter().collect::<Vec<_>>(), [("host", "b"), ("wdir", "/")]);
        assert_eq!(info.key(1), Some("wdir"));
        info.delete("host").unwrap();
        assert_eq!(info.get("host"), None);
        assert!(info.delete("host").unwrap_err().to_string().contains("\"host\""));
        assert!(info.set("", "x").is_err());
        assert!(info.set(&"k".repeat(256), "x").is_err());
    }
}
