//! Receives that wait for their message.

use super::{Bins, Chain, Chains, Ends, Link, NONE, pair};
use crate::limits::HASH_AFTER_STEPS;
use crate::status::ANY;

/// What a posted receive is found by; part of the caller's slab entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostedKey {
    /// Rank, or [`ANY`].
    pub source: i32,
    /// Tag, or [`ANY`].
    pub tag: i32,
    /// Orders entries of different lists: posted earlier is smaller.
    stamp: u64,
    link: Link,
}

impl PostedKey {
    pub const fn new(source: i32, tag: i32) -> PostedKey {
        PostedKey { source, tag, stamp: 0, link: Link::LOOSE }
    }
}

/// The slab that holds the keys.
pub(crate) trait PostedNodes {
    fn key(&mut self, i: u32) -> &mut PostedKey;
}

struct Line<'a, N>(&'a mut N);

impl<N: PostedNodes> Chain for Line<'_, N> {
    #[inline]
    fn link(&mut self, i: u32) -> &mut Link {
        &mut self.0.key(i).link
    }
}

/// The queue of posted receives of one context. An entry is in exactly one list: of its source
/// (or the wildcard's), or, once hashed, of its (source, tag) pair, wildcards included.
#[derive(Debug)]
pub(crate) struct Posted {
    bins: Bins,
    any: Ends,
    chains: Chains,
    hashed: bool,
    len: u32,
    stamp: u64,
}

impl Posted {
    pub fn new() -> Posted {
        Posted {
            bins: Bins::default(),
            any: Ends::EMPTY,
            chains: Chains::default(),
            hashed: false,
            len: 0,
            stamp: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True when a message from `source` cannot match anything posted, whatever its tag.
    #[inline]
    pub fn is_clear_for(&self, source: i32) -> bool {
        self.len == 0 || (!self.hashed && self.any.is_empty() && self.bins.get(source).is_empty())
    }

    /// Queues entry `i` behind all others.
    #[inline]
    pub fn post(&mut self, nodes: &mut impl PostedNodes, i: u32) {
        self.stamp += 1;
        self.len += 1;
        let key = nodes.key(i);
        key.stamp = self.stamp;
        let (source, tag) = (key.source, key.tag);
        if self.hashed {
            let ends = self.chains.entry(pair(source, tag)).or_insert(Ends::EMPTY);
            Line(nodes).push_back(ends, i);
        } else {
            let ends = if source == ANY { &mut self.any } else { self.bins.get_mut(source) };
            Line(nodes).push_back(ends, i);
        }
    }

    /// Takes the earliest entry that a message from `source` with `tag` matches.
    #[inline]
    pub fn take(&mut self, nodes: &mut impl PostedNodes, source: i32, tag: i32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        // The usual case: the first receive of this source is the one.
        if !self.hashed && self.any.is_empty() {
            let head = self.bins.get(source).head;
            if head != NONE && nodes.key(head).tag == tag {
                Line(nodes).unlink(self.bins.get_mut(source), head);
                self.len -= 1;
                return Some(head);
            }
        }
        self.take_searching(nodes, source, tag)
    }

    fn take_searching(&mut self, nodes: &mut impl PostedNodes, source: i32, tag: i32) -> Option<u32> {
        let found = if self.hashed {
            self.find_hashed(nodes, source, tag)
        } else {
            let mut steps = 0;
            let named = find_in(nodes, self.bins.get(source), tag, &mut steps);
            let found = if self.any.is_empty() {
                named
            } else {
                let wild = find_in(nodes, self.any, tag, &mut steps);
                earlier(nodes, named, wild)
            };
            if steps >= HASH_AFTER_STEPS {
                self.hash(nodes);
            }
            found
        };
        if found == NONE {
            return None;
        }
        self.remove(nodes, found);
        Some(found)
    }

    /// Takes out entry `i`, which is queued.
    pub fn remove(&mut self, nodes: &mut impl PostedNodes, i: u32) {
        let PostedKey { source, tag, .. } = *nodes.key(i);
        if self.hashed {
            let key = pair(source, tag);
            if let Some(ends) = self.chains.get_mut(&key) {
                Line(nodes).unlink(ends, i);
                if ends.is_empty() {
                    self.chains.remove(&key);
                }
            }
        } else {
            let ends = if source == ANY { &mut self.any } else { self.bins.get_mut(source) };
            Line(nodes).unlink(ends, i);
        }
        self.len -= 1;
        self.hashed &= self.len != 0;
    }

    fn find_hashed(&self, nodes: &mut impl PostedNodes, source: i32, tag: i32) -> u32 {
        let mut best = NONE;
        for key in [pair(source, tag), pair(source, ANY), pair(ANY, tag), pair(ANY, ANY)] {
            if let Some(ends) = self.chains.get(&key) {
                best = earlier(nodes, best, ends.head);
            }
        }
        best
    }

    /// Moves every entry from the lists to the chains. A chain's entries all come from one list
    /// and so keep their order.
    #[cold]
    fn hash(&mut self, nodes: &mut impl PostedNodes) {
        for list in 0..=self.bins.0.len() {
            let ends = match self.bins.0.get_mut(list) {
                Some(bin) => std::mem::replace(bin, Ends::EMPTY),
                None => std::mem::replace(&mut self.any, Ends::EMPTY),
            };
            let mut i = ends.head;
            while i != NONE {
                let PostedKey { source, tag, link, .. } = *nodes.key(i);
                Line(nodes).push_back(self.chains.entry(pair(source, tag)).or_insert(Ends::EMPTY), i);
                i = link.next;
            }
        }
        self.hashed = true;
    }

    /// All entries, in no particular order.
    #[cfg(test)]
    pub fn entries(&self, nodes: &mut impl PostedNodes) -> Vec<u32> {
        let mut all = Vec::with_capacity(self.len());
        let lists = self.bins.0.iter().chain([&self.any]).chain(self.chains.values());
        for ends in lists {
            let mut i = ends.head;
            while i != NONE {
                all.push(i);
                i = Line(nodes).link(i).next;
            }
        }
        all
    }
}

#[inline]
fn find_in(nodes: &mut impl PostedNodes, ends: Ends, tag: i32, steps: &mut u32) -> u32 {
    let mut i = ends.head;
    while i != NONE {
        let key = nodes.key(i);
        if key.tag == tag || key.tag == ANY {
            return i;
        }
        i = key.link.next;
        *steps += 1;
    }
    NONE
}

#[inline]
fn earlier(nodes: &mut impl PostedNodes, a: u32, b: u32) -> u32 {
    match (a, b) {
        (NONE, x) | (x, NONE) => x,
        _ if nodes.key(a).stamp < nodes.key(b).stamp => a,
        _ => b,
    }
}
