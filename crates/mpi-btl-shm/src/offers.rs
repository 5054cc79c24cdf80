//! Memory that this rank offers to peers: which slots are in use, helping the taker, noticing the end.

use crate::limits::OFFERS_PER_POLL;
use crate::shared::{Event, Peer};
use mpi_btl::{OpId, RegionKey, Span};
use mpi_node::doorbell::Ringer;
use mpi_node::limits::REGION_SLOTS;
use mpi_node::segment::{Offer, Offered, Segment};
use std::collections::VecDeque;
use std::sync::Arc;

/// Names an offer inside a [`RegionKey`]: slot, index, generation, nothing, address, length,
/// little-endian.
pub(crate) fn encode(offer: &Offered) -> RegionKey {
    let mut bytes = [0; RegionKey::LEN];
    bytes[0..4].copy_from_slice(&offer.slot.to_le_bytes());
    bytes[4..8].copy_from_slice(&(offer.index as u32).to_le_bytes());
    bytes[8..12].copy_from_slice(&offer.generation.to_le_bytes());
    bytes[16..24].copy_from_slice(&offer.address.to_le_bytes());
    bytes[24..32].copy_from_slice(&offer.length.to_le_bytes());
    RegionKey { bytes }
}

pub(crate) fn decode(key: &RegionKey) -> Option<Offered> {
    let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| key.bytes[at + i]));
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    let (slot, index, generation) = (word(0), word(4) as usize, word(8));
    let offer = Offered { slot, index, generation, address: long(16), length: long(24) };
    (word(12) == 0 && long(32) == 0).then_some(offer)
}

struct Open {
    index: usize,
    generation: u32,
    peer: Arc<Peer>,
    op: OpId,
}

/// All open offers, oldest first.
#[derive(Default)]
pub(crate) struct Offers {
    open: VecDeque<Open>,
    /// Slots that are free again; fresh ones come after `used`.
    free: Vec<usize>,
    used: usize,
    /// The one beyond the oldest that is looked at next.
    cursor: usize,
    ringer: Ringer,
}

impl Offers {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Offers `mem`; `None` when all slots are in use.
    pub(crate) fn add(
        &mut self,
        segment: &Segment,
        peer: &Arc<Peer>,
        mem: Span,
        op: OpId,
    ) -> Option<RegionKey> {
        let index = self.free.pop().or_else(|| {
            let fresh = self.used;
            (fresh < REGION_SLOTS).then(|| {
                self.used += 1;
                fresh
            })
        })?;
        let (address, length) = (mem.ptr() as u64, mem.len() as u64);
        let generation = segment.offer(index, address, length)?;
        self.open.push_back(Open { index, generation, peer: peer.clone(), op });
        Some(encode(&Offered { slot: segment.slot(), index, generation, address, length }))
    }

    pub(crate) fn withdraw(&mut self, segment: &Segment, peer: &Peer, op: OpId) -> bool {
        let Some(at) = self.open.iter().position(|o| o.op == op && o.peer.ep == peer.ep) else {
            return false;
        };
        let withdrawn = segment.withdraw(self.open[at].index, self.open[at].generation);
        if withdrawn {
            self.remove(at);
        }
        withdrawn
    }

    fn remove(&mut self, at: usize) {
        if let Some(open) = self.open.remove(at) {
            self.free.push(open.index);
        }
    }

    /// Helps takers and collects ends. True when a piece was copied.
    pub(crate) fn look(&mut self, segment: &Segment, events: &mut Vec<Event>) -> bool {
        let mut helped = false;
        let mut at = 0;
        while at < self.open.len().min(OFFERS_PER_POLL) {
            if self.look_at(segment, at, &mut helped, events) {
                self.remove(at);
            } else {
                at += 1;
            }
        }
        if self.open.len() > OFFERS_PER_POLL {
            self.cursor += 1;
            if self.cursor < OFFERS_PER_POLL || self.cursor >= self.open.len() {
                self.cursor = OFFERS_PER_POLL;
            }
            if self.look_at(segment, self.cursor, &mut helped, events) {
                self.remove(self.cursor);
            }
        }
        helped
    }

    /// Looks at one offer; true when it is done with.
    fn look_at(&mut self, segment: &Segment, at: usize, helped: &mut bool, events: &mut Vec<Event>) -> bool {
        let open = &self.open[at];
        match segment.look_at_offer(open.index) {
            Offer::Waiting | Offer::Refused => false,
            Offer::Begun => {
                // SAFETY: whoever exposed the memory keeps it valid until the end is reported,
                // which happens below and in `fail` only.
                while unsafe { segment.help(open.index) } {
                    *helped = true;
                }
                if *helped {
                    // The taker may sleep until our piece is there.
                    open.peer.sleeper.wake_if_asleep(&mut self.ringer);
                }
                false
            }
            Offer::Taken => {
                events.push(Event::Completed(open.peer.ep, open.op, Ok(())));
                true
            }
        }
    }

    pub(crate) fn has_work(&self, segment: &Segment) -> bool {
        self.open.iter().any(|open| match segment.look_at_offer(open.index) {
            Offer::Waiting | Offer::Refused => false,
            Offer::Begun => segment.wants_help(open.index),
            Offer::Taken => true,
        })
    }

    /// The peer is gone: its offers end, with an error unless it had taken them.
    pub(crate) fn fail(&mut self, segment: &Segment, peer: &Peer, why: &str, events: &mut Vec<Event>) {
        let mut at = 0;
        while at < self.open.len() {
            let open = &self.open[at];
            if open.peer.ep != peer.ep {
                at += 1;
                continue;
            }
            let result = match segment.look_at_offer(open.index) {
                Offer::Taken => Ok(()),
                _ => Err(why.to_owned()),
            };
            events.push(Event::Completed(open.peer.ep, open.op, result));
            segment.reclaim(open.index, open.generation);
            self.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_and_noise_is_refused() {
        let (address, length) = (u64::MAX - 1, 1 << 40);
        let offer = Offered { slot: 3, index: 255, generation: u32::MAX, address, length };
        let key = encode(&offer);
        assert_eq!(decode(&key), Some(offer));
        for at in [12, 39] {
            let mut key = key;
            key.bytes[at] = 1;
            assert_eq!(decode(&key), None);
        }
    }
}
