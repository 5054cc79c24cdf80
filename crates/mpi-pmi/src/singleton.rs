//! A process without a launcher: rank 0 of 1.

use crate::{Bootstrap, Client, Events, Kind, PmiError, host_name};
use mpi_wire::waits::Wait;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps what the one rank puts.
#[derive(Debug, Default)]
struct Singleton {
    values: Mutex<HashMap<String, Vec<u8>>>,
}

/// The world of one process.
pub(crate) fn start() -> Result<Bootstrap, PmiError> {
    let secret = crate::random_bytes()?;
    let tail: [u8; 4] = crate::random_bytes()?;
    Ok(Bootstrap {
        job: format!("singleton-{}-{:08x}", std::process::id(), u32::from_le_bytes(tail)),
        secret,
        rank: 0,
        size: 1,
        host: host_name(),
        node_slot: None,
        node_size: 1,
        processors: crate::bootstrap::own_processors(),
        segment: None,
        multihost: false,
        appnum: None,
        universe_size: None,
        parent: None,
        client: Arc::new(Singleton::default()),
        kind: Kind::Singleton,
    })
}

impl Client for Singleton {
    fn put(&self, key: &str, value: &[u8]) -> Result<(), PmiError> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn fence(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn get(&self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, PmiError> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(values.get(key).filter(|_| rank == 0).cloned())
    }

    fn started(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn finalizing(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn finalized(&self) -> Result<(), PmiError> {
        Ok(())
    }

    fn abort(&self, code: i32, message: &str) {
        eprintln!("abort({code}): {message}");
    }

    fn report(&self, text: &str, _: &[Wait]) -> Result<(), PmiError> {
        eprintln!("{text}");
        Ok(())
    }

    fn events(&self) -> Option<Events> {
        None
    }
}
