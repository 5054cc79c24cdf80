//! Records from peers that the engine has not named yet, set aside so that they do not hold up
//! the inbox for the others.

use crate::limits::UNNAMED_BYTES;
use mpi_node::ring::{HEAD_WORDS, Message};
use std::collections::{BTreeMap, VecDeque};

/// A record set aside.
pub(crate) struct Record {
    mark: u8,
    head: [u32; HEAD_WORDS],
    body: Vec<u8>,
}

impl Record {
    pub(crate) fn message(&self) -> Message<'_> {
        Message { mark: self.mark, head: self.head, body: &self.body }
    }
}

/// Records by the sender's slot.
#[derive(Default)]
pub(crate) struct Unnamed {
    records: BTreeMap<u32, VecDeque<Record>>,
    bytes: usize,
    gave_up: bool,
}

impl Unnamed {
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// No more is set aside: the inbox waits.
    pub(crate) fn is_full(&self) -> bool {
        self.gave_up || self.bytes >= UNNAMED_BYTES
    }

    /// The inbox cannot be read any more.
    pub(crate) fn give_up(&mut self) {
        self.gave_up = true;
    }

    pub(crate) fn holds(&self, slot: u32) -> bool {
        self.records.contains_key(&slot)
    }

    pub(crate) fn keep(&mut self, slot: u32, message: Message<'_>) {
        self.bytes += size_of::<Record>() + message.body.len();
        let record = Record { mark: message.mark, head: message.head, body: message.body.to_vec() };
        self.records.entry(slot).or_default().push_back(record);
    }

    pub(crate) fn slots(&self) -> Vec<u32> {
        self.records.keys().copied().collect()
    }

    /// The oldest record of a sender.
    pub(crate) fn take(&mut self, slot: u32) -> Option<Record> {
        let records = self.records.get_mut(&slot)?;
        let record = records.pop_front()?;
        if records.is_empty() {
            self.records.remove(&slot);
        }
        self.bytes -= size_of::<Record>() + record.body.len();
        Some(record)
    }
}
