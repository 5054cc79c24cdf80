//! Which message goes to which receive. One [`Posted`] and one [`Unexpected`] queue per context.
//!
//! Entries live in the caller's slabs and are linked through themselves, so that queueing never
//! allocates and removing one from the middle is cheap. A queue is lists, one per source, until a
//! search passes over [`HASH_AFTER_STEPS`](crate::limits::HASH_AFTER_STEPS) entries; then it is chains
//! found by hashing on source and tag, until it runs empty. Messages in the order of their receives,
//! however many, are found at the head of a list and never pay for a hash.

mod posted;
mod unexpected;

pub(crate) use posted::{Posted, PostedKey, PostedNodes};
pub(crate) use unexpected::{Unexpected, UnexpectedKey, UnexpectedNodes};

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub prev: u32,
    pub next: u32,
}

impl Link {
    pub const LOOSE: Link = Link { prev: NONE, next: NONE };
}

/// A list: its first and last entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub head: u32,
    pub tail: u32,
}

impl Ends {
    pub const EMPTY: Ends = Ends { head: NONE, tail: NONE };

    #[inline]
    pub fn is_empty(self) -> bool {
        self.head == NONE
    }
}

/// Access to the links of one list through the slab of entries.
trait Chain {
    fn link(&mut self, i: u32) -> &mut Link;

    #[inline]
    fn push_back(&mut self, ends: &mut Ends, i: u32) {
        *self.link(i) = Link { prev: ends.tail, next: NONE };
        if ends.tail == NONE {
            ends.head = i;
        } else {
            self.link(ends.tail).next = i;
        }
        ends.tail = i;
    }

    #[inline]
    fn unlink(&mut self, ends: &mut Ends, i: u32) {
        let Link { prev, next } = std::mem::replace(self.link(i), Link::LOOSE);
        if prev == NONE {
            ends.head = next;
        } else {
            self.link(prev).next = next;
        }
        if next == NONE {
            ends.tail = prev;
        } else {
            self.link(next).prev = prev;
        }
    }
}

/// Lists by source, made on first use.
#[derive(Debug, Default)]
struct Bins(Vec<Ends>);

impl Bins {
    #[inline]
    fn get(&self, source: i32) -> Ends {
        self.0.get(source as usize).copied().unwrap_or(Ends::EMPTY)
    }

    #[inline]
    fn get_mut(&mut self, source: i32) -> &mut Ends {
        let at = source as usize;
        if at >= self.0.len() {
            self.grow(at);
        }
        &mut self.0[at]
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.0.resize(at + 1, Ends::EMPTY);
    }
}

/// Multiplies and folds: enough for small integers that no stranger chooses (Fibonacci hashing,
/// Knuth, volume 3, 6.4).
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }
    fn write_u64(&mut self, n: u64) {
        let wide = u128::from(self.0 ^ n ^ 0x51_7c_c1_b7_27_22_0a_95) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

/// Chains by key. A key packs source and tag.
type Chains = HashMap<u64, Ends, BuildHasherDefault<Fold>>;

#[inline]
fn pair(source: i32, tag: i32) -> u64 {
    u64::from(source as u32) << 32 | u64::from(tag as u32)
}

#[cfg(test)]
mod tests;
