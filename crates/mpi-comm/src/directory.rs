//! Who the processes of the world are, and where: what each publishes and how others read it.

use crate::dynamic::Foreign;
use mpi_btl::{Addresses, Ep, PeerInfo};
use mpi_p2p::Directory;
use mpi_pmi::Client;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Key under which a process publishes where it is.
pub(crate) const KEY: &str = "peer";

/// What a process publishes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Card {
    pub(crate) host: String,
    /// Slot in the segment of its node.
    pub(crate) node_slot: Option<u32>,
    /// Number of that segment on its host: hosts may share a name.
    pub(crate) segment: u64,
    pub(crate) addresses: Addresses,
}

/// A published card cannot be read. The peer's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what rank {rank} published about itself is malformed: {what}")]
pub(crate) struct CardError {
    rank: u32,
    what: &'static str,
}

/// First byte of a card.
const VERSION: u8 = 1;
/// Longest card that is read, in bytes.
const CARD_MAX_BYTES: usize = 64 * 1024;
/// The slot of a process that has none.
const NO_SLOT: u32 = u32::MAX;

impl Card {
    /// Version, byte order, slot, segment, host, then name and address of each transport.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(cfg!(target_endian = "big"))];
        out.extend(self.node_slot.unwrap_or(NO_SLOT).to_le_bytes());
        out.extend(self.segment.to_le_bytes());
        put(&mut out, self.host.as_bytes());
        for (name, address) in &self.addresses {
            put(&mut out, name.as_bytes());
            put(&mut out, address);
        }
        out
    }

    pub(crate) fn decode(rank: u32, bytes: &[u8]) -> Result<Card, CardError> {
        let fault = |what| CardError { rank, what };
        if bytes.len() > CARD_MAX_BYTES {
            return Err(fault("it is too long"));
        }
        let (head, mut rest) = bytes.split_at_checked(14).ok_or_else(|| fault("it is too short"))?;
        if head[0] != VERSION {
            return Err(fault("its version is not known here"));
        }
        let slot = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let segment = crate::words::from_bytes(&head[6..]).first().copied().unwrap_or(0);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| fault("a name is no UTF-8"));
        let host = text(take(&mut rest).ok_or_else(|| fault("the host is cut off"))?)?;
        let mut addresses = Addresses::new();
        while !rest.is_empty() {
            let name = take(&mut rest).ok_or_else(|| fault("a transport's name is cut off"))?;
            let address = take(&mut rest).ok_or_else(|| fault("an address is cut off"))?;
            addresses.insert(text(name)?, address.to_vec());
        }
        Ok(Card { host, node_slot: Some(slot).filter(|slot| *slot != NO_SLOT), segment, addresses })
    }
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    // Names and addresses are far below this; what is not would not be read either.
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
}

fn take<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = from.split_at_checked(2)?;
    let (bytes, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([length[0], length[1]])))?;
    *from = rest;
    Some(bytes)
}

/// The processes of the own world.
pub(crate) struct World {
    pub(crate) job: String,
    pub(crate) host: String,
    /// As [`Card::segment`].
    pub(crate) segment: u64,
    pub(crate) size: u32,
    /// Every process is on this host and has published nothing: its slot in the segment is its rank.
    pub(crate) unpublished: bool,
    pub(crate) client: Arc<dyn Client>,
    /// Those of other worlds.
    pub(crate) foreign: Arc<Foreign>,
    /// Nodes of this world's ranks, once they were asked for.
    pub(crate) nodes: Mutex<BTreeMap<u32, u64>>,
}

impl World {
    /// What a rank of this world says of itself.
    fn card(&self, rank: u32) -> Result<Card, String> {
        if self.unpublished {
            let (host, node_slot) = (self.host.clone(), Some(rank));
            return Ok(Card { host, node_slot, segment: self.segment, addresses: Addresses::new() });
        }
        let bytes = self.client.get(rank, KEY).map_err(|e| e.to_string())?;
        let bytes = bytes.ok_or_else(|| format!("rank {rank} has published no address"))?;
        Card::decode(rank, &bytes).map_err(|e| e.to_string())
    }
}

impl Directory for World {
    fn lookup(&self, ep: Ep) -> Result<PeerInfo, String> {
        let rank = ep.0;
        if rank >= self.size {
            return self.foreign.lookup(ep);
        }
        let card = self.card(rank)?;
        // A slot means something only inside one segment.
        let same = (card.segment, &card.host) == (self.segment, &self.host);
        let node_slot = card.node_slot.filter(|_| same);
        Ok(PeerInfo {
            ep,
            job: self.job.clone(),
            world_rank: rank,
            node_slot,
            host: card.host,
            addresses: card.addresses,
            guest_secret: None,
        })
    }

    fn identify(&self, job: &str, world_rank: u32) -> Option<Ep> {
        if job != self.job {
            return self.foreign.identify(job, world_rank);
        }
        (world_rank < self.size).then_some(Ep(world_rank))
    }

    fn node(&self, ep: Ep) -> Result<u64, String> {
        if ep.0 >= self.size {
            return self.foreign.node(ep);
        }
        if let Some(known) = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get(&ep.0) {
            return Ok(*known);
        }
        // The lock is not held while the launcher answers.
        let card = self.card(ep.0)?;
        let number = node_number(&card.host, card.segment);
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(ep.0, number);
        Ok(number)
    }
}

/// A number that stands for a node (64-bit FNV-1a of host and segment, the top bit clear), to tell
/// who shares one.
pub(crate) fn node_number(host: &str, segment: u64) -> u64 {
    let bytes = host.bytes().chain(segment.to_le_bytes());
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    hash >> 1
}

/// The number of a segment on its host: that of its file, which the kernel gives out once. 0 for
/// none.
pub(crate) fn segment_number(segment: Option<RawFd>) -> u64 {
    let metadata = segment.and_then(|fd| std::fs::metadata(format!("/proc/self/fd/{fd}")).ok());
    metadata.map_or(0, |metadata| metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_card_comes_back() {
        let mut addresses = Addresses::new();
        addresses.insert("tcp".into(), vec![1, 2, 3]);
        addresses.insert("x".into(), vec![]);
        for node_slot in [None, Some(3)] {
            let card =
                Card { host: "höst".into(), node_slot, segment: 1 << 40, addresses: addresses.clone() };
            assert_eq!(Card::decode(0, &card.encode()).unwrap(), card);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_card_or_an_error(bytes: Vec<u8>, tail: Vec<u8>) {
            let _ = Card::decode(0, &bytes);
            let mut good = vec![VERSION, 0, 1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9];
            good.extend(tail);
            let _ = Card::decode(0, &good);
        }
    }
}
