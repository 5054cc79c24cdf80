//! Messages that arrived before their receive, kept in memory of the engine.

use crate::limits::{KEPT_BESIDE_KEY_BYTES, KEPT_MESSAGE_BYTES};
use crate::matching::{UnexpectedKey, UnexpectedNodes};
use mpi_btl::{Ep, RegionKey};

/// A message handed out by a matched probe; taken by `mrecv` or `imrecv`.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Message {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) context: u32,
}

impl Message {
    /// The message as a number, for a face that hands out plain handles.
    pub fn into_raw(self) -> (u64, u32) {
        (u64::from(self.generation) << 32 | u64::from(self.index), self.context)
    }

    /// The message from its number.
    pub fn from_raw((id, context): (u64, u32)) -> Message {
        Message { index: id as u32, generation: (id >> 32) as u32, context }
    }
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub source: i32,
    pub tag: i32,
    pub signature: u32,
    pub total: u64,
}

/// Bytes of a message that is kept: a few beside its key, so that taking it touches one place and
/// frees nothing.
#[derive(Debug)]
pub(crate) enum Kept {
    Short(u8, [u8; KEPT_BESIDE_KEY_BYTES]),
    Long(Vec<u8>),
}

impl Kept {
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> Kept {
        if bytes.len() > KEPT_BESIDE_KEY_BYTES {
            return Kept::Long(bytes.to_vec());
        }
        let mut short = [0; KEPT_BESIDE_KEY_BYTES];
        short[..bytes.len()].copy_from_slice(bytes);
        Kept::Short(bytes.len() as u8, short)
    }
}

impl std::ops::Deref for Kept {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Kept::Short(len, bytes) => &bytes[..usize::from(*len)],
            Kept::Long(bytes) => bytes,
        }
    }
}

/// Where the data of an unexpected message is.
#[derive(Debug)]
pub(crate) enum Body {
    /// Here, all of it.
    Here(Kept),
    /// Here; the sender waits for an acknowledgement under this name.
    Acknowledged(Vec<u8>, u64),
    /// On its way into this memory; a receive may have taken it already.
    Coming(Vec<u8>, Option<u32>),
    /// At the sender, under this name, perhaps to be pulled.
    Announced(u64, Option<RegionKey>),
    /// In a send of this very process.
    Own(u32),
}

/// An unexpected message.
#[derive(Debug)]
pub(crate) struct Stored {
    pub key: UnexpectedKey,
    generation: u32,
    /// Taken out of its queue by a matched probe.
    pub probed: bool,
    pub from: Ep,
    pub context: u32,
    pub signature: u32,
    pub total: u64,
    pub body: Body,
}

impl Stored {
    pub fn envelope(&self) -> Envelope {
        let (source, tag) = (self.key.source, self.key.tag);
        Envelope { source, tag, signature: self.signature, total: self.total }
    }

    /// Bytes of engine memory that it occupies. The same as long as it is here, also when the rest of its body has come.
    fn held(&self) -> u64 {
        match &self.body {
            Body::Here(b) => b.len() as u64 + KEPT_MESSAGE_BYTES,
            Body::Acknowledged(b, _) | Body::Coming(b, _) => b.len() as u64 + KEPT_MESSAGE_BYTES,
            // The sender of what is announced waits for it, and so bounds it.
            Body::Announced(..) | Body::Own(_) => 0,
        }
    }
}

/// What a message adds to the memory held for its sender when it comes into the store, and takes off when it leaves. Both
/// come from the store and nowhere else, so that the two are equal.
#[must_use = "the accounts of unexpected memory need every charge"]
#[derive(Debug)]
pub(crate) struct Charge {
    from: Ep,
    bytes: u64,
}

impl Charge {
    #[inline]
    fn of(stored: &Stored) -> Charge {
        Charge { from: stored.from, bytes: stored.held() }
    }

    pub fn from(&self) -> Ep {
        self.from
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// All unexpected messages of an engine.
#[derive(Default)]
pub(crate) struct Store {
    slots: Vec<Option<Stored>>,
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl Store {
    pub fn insert(&mut self, from: Ep, context: u32, e: Envelope, body: Body) -> (u32, Charge) {
        let i = match self.free.pop() {
            Some(i) => i,
            None => {
                self.slots.push(None);
                self.generations.push(1);
                (self.slots.len() - 1) as u32
            }
        };
        let generation = self.generations[i as usize];
        let key = UnexpectedKey::new(e.source, e.tag);
        let stored = Stored {
            key,
            generation,
            probed: false,
            from,
            context,
            signature: e.signature,
            total: e.total,
            body,
        };
        let charge = Charge::of(&stored);
        self.slots[i as usize] = Some(stored);
        (i, charge)
    }

    pub fn get(&self, i: u32) -> Option<&Stored> {
        self.slots.get(i as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, i: u32) -> Option<&mut Stored> {
        self.slots.get_mut(i as usize)?.as_mut()
    }

    pub fn take(&mut self, i: u32) -> Option<(Stored, Charge)> {
        let stored = self.slots.get_mut(i as usize)?.take()?;
        self.freed(i);
        let charge = Charge::of(&stored);
        Some((stored, charge))
    }

    /// Drops a message in place.
    #[inline]
    pub fn discard(&mut self, i: u32) -> Option<Charge> {
        let slot = self.slots.get_mut(i as usize)?;
        let charge = slot.as_ref().map(Charge::of)?;
        *slot = None;
        self.freed(i);
        Some(charge)
    }

    #[inline]
    fn freed(&mut self, i: u32) {
        let generation = &mut self.generations[i as usize];
        *generation = generation.wrapping_add(1);
        self.free.push(i);
    }

    /// The slot behind a handle of a matched probe.
    pub fn probed(&self, m: &Message) -> Option<u32> {
        let stored = self.get(m.index)?;
        (stored.generation == m.generation && stored.probed).then_some(m.index)
    }

    pub fn handle(&self, i: u32) -> Option<Message> {
        let s = self.get(i)?;
        Some(Message { index: i, generation: s.generation, context: s.context })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn all(&self) -> impl Iterator<Item = (u32, &Stored)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| Some((i as u32, s.as_ref()?)))
    }
}

impl UnexpectedNodes for Store {
    #[inline]
    fn key(&mut self, i: u32) -> &mut UnexpectedKey {
        match &mut self.slots[i as usize] {
            Some(stored) => &mut stored.key,
            None => unreachable!("a queued message is in the store"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_finds_its_message_and_no_later_one() {
        let mut all = Store::default();
        let e = Envelope { source: 1, tag: 2, signature: 3, total: 4 };
        let kept = |all: &mut Store| {
            let (i, charge) = all.insert(Ep(1), 0, e, Body::Here(Kept::copy_of(&[0; 4])));
            assert_eq!((charge.from(), charge.bytes()), (Ep(1), 4 + KEPT_MESSAGE_BYTES));
            all.get_mut(i).expect("kept").probed = true;
            (i, all.handle(i).expect("kept"))
        };
        all.generations.push(u32::MAX);
        all.slots.push(None);
        all.free.push(0);
        // The generation goes round here.
        let (i, last) = kept(&mut all);
        assert_eq!(all.probed(&last), Some(i));
        assert_eq!(all.take(i).expect("kept").1.bytes(), 4 + KEPT_MESSAGE_BYTES);
        let (again, first) = kept(&mut all);
        assert_eq!(again, i);
        assert_eq!((all.probed(&last), all.probed(&first)), (None, Some(i)));
        assert_eq!(all.discard(i).expect("kept").bytes(), 4 + KEPT_MESSAGE_BYTES);
        assert!(all.discard(i).is_none() && all.probed(&first).is_none());
    }
}
