//! Messages that came before their receive.

use super::{Bins, Chain, Chains, Ends, Link, NONE, pair};
use crate::limits::HASH_AFTER_STEPS;
use crate::status::ANY;

/// What an unexpected message is found by; part of the caller's slab entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnexpectedKey {
    /// Rank of the sender.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    all: Link,
    by_source: Link,
    by_both: Link,
    by_tag: Link,
}

impl UnexpectedKey {
    pub const fn new(source: i32, tag: i32) -> UnexpectedKey {
        let l = Link::LOOSE;
        UnexpectedKey { source, tag, all: l, by_source: l, by_both: l, by_tag: l }
    }
}

/// The slab that holds the keys.
pub(crate) trait UnexpectedNodes {
    fn key(&mut self, i: u32) -> &mut UnexpectedKey;
}

macro_rules! chain {
    ($name:ident, $field:ident) => {
        struct $name<'a, N>(&'a mut N);
        impl<N: UnexpectedNodes> Chain for $name<'_, N> {
            #[inline]
            fn link(&mut self, i: u32) -> &mut Link {
                &mut self.0.key(i).$field
            }
        }
    };
}
chain!(All, all);
chain!(BySource, by_source);
chain!(ByBoth, by_both);
chain!(ByTag, by_tag);

/// The queue of unexpected messages of one context, in order of arrival. Every entry is in the
/// list of all and in that of its source; once hashed also in the chain of its (source, tag) pair
/// and in that of its tag, so that every kind of receive finds its message without a search.
#[derive(Debug)]
pub(crate) struct Unexpected {
    all: Ends,
    bins: Bins,
    both: Chains,
    tags: Chains,
    hashed: bool,
    len: u32,
}

impl Unexpected {
    pub fn new() -> Unexpected {
        Unexpected {
            all: Ends::EMPTY,
            bins: Bins::default(),
            both: Chains::default(),
            tags: Chains::default(),
            hashed: false,
            len: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Queues message `i` behind all others.
    pub fn push(&mut self, nodes: &mut impl UnexpectedNodes, i: u32) {
        let UnexpectedKey { source, tag, .. } = *nodes.key(i);
        All(nodes).push_back(&mut self.all, i);
        BySource(nodes).push_back(self.bins.get_mut(source), i);
        self.len += 1;
        if self.hashed {
            self.chain(nodes, i, source, tag);
        }
    }

    /// The earliest message that a receive from `source` with `tag` (or [`ANY`]) matches.
    #[inline]
    pub fn find(&mut self, nodes: &mut impl UnexpectedNodes, source: i32, tag: i32) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut steps = 0;
        let head = |chains: &Chains, key| chains.get(&key).map_or(NONE, |e| e.head);
        let found = match (source, tag) {
            (ANY, ANY) => self.all.head,
            (source, ANY) => self.bins.get(source).head,
            (ANY, tag) if self.hashed => head(&self.tags, pair(0, tag)),
            (source, tag) if self.hashed => head(&self.both, pair(source, tag)),
            (ANY, tag) => first(&mut All(nodes), self.all, &mut steps, |n, i| n.0.key(i).tag == tag),
            (source, tag) => {
                first(&mut BySource(nodes), self.bins.get(source), &mut steps, |n, i| n.0.key(i).tag == tag)
            }
        };
        if steps >= HASH_AFTER_STEPS {
            self.hash(nodes);
        }
        (found != NONE).then_some(found)
    }

    /// Takes out message `i`, which is queued.
    pub fn remove(&mut self, nodes: &mut impl UnexpectedNodes, i: u32) {
        let UnexpectedKey { source, tag, .. } = *nodes.key(i);
        All(nodes).unlink(&mut self.all, i);
        BySource(nodes).unlink(self.bins.get_mut(source), i);
        if self.hashed {
            unchain(&mut ByBoth(nodes), &mut self.both, pair(source, tag), i);
            unchain(&mut ByTag(nodes), &mut self.tags, pair(0, tag), i);
        }
        self.len -= 1;
        self.hashed &= self.len != 0;
    }

    /// All messages in order of arrival.
    pub fn entries(&self, nodes: &mut impl UnexpectedNodes) -> Vec<u32> {
        let mut all = Vec::with_capacity(self.len());
        let mut i = self.all.head;
        while i != NONE {
            all.push(i);
            i = nodes.key(i).all.next;
        }
        all
    }

    fn chain(&mut self, nodes: &mut impl UnexpectedNodes, i: u32, source: i32, tag: i32) {
        ByBoth(nodes).push_back(self.both.entry(pair(source, tag)).or_insert(Ends::EMPTY), i);
        ByTag(nodes).push_back(self.tags.entry(pair(0, tag)).or_insert(Ends::EMPTY), i);
    }

    #[cold]
    fn hash(&mut self, nodes: &mut impl UnexpectedNodes) {
        let mut i = self.all.head;
        while i != NONE {
            let UnexpectedKey { source, tag, all, .. } = *nodes.key(i);
            self.chain(nodes, i, source, tag);
            i = all.next;
        }
        self.hashed = true;
    }
}

fn unchain(nodes: &mut impl Chain, chains: &mut Chains, key: u64, i: u32) {
    if let Some(ends) = chains.get_mut(&key) {
        nodes.unlink(ends, i);
        if ends.is_empty() {
            chains.remove(&key);
        }
    }
}

#[inline]
fn first<C: Chain>(
    nodes: &mut C,
    ends: Ends,
    steps: &mut u32,
    mut matches: impl FnMut(&mut C, u32) -> bool,
) -> u32 {
    let mut i = ends.head;
    while i != NONE && !matches(nodes, i) {
        i = nodes.link(i).next;
        *steps += 1;
    }
    i
}
