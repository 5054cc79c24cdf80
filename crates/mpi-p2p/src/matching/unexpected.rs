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
/// list of all and in that of its source. Once a search from a named source was long, also in the
/// chain of its (source, tag) pair, and once one from any source was, in that of its tag, so that
/// every kind of receive finds its message without a search and pays for no other kind.
#[derive(Debug)]
pub(crate) struct Unexpected {
    all: Ends,
    bins: Bins,
    /// Chains by source and tag, while there are some.
    both: Option<Chains>,
    /// Chains by tag, while there are some.
    tags: Option<Chains>,
    len: u32,
}

impl Unexpected {
    pub fn new() -> Unexpected {
        Unexpected { all: Ends::EMPTY, bins: Bins::default(), both: None, tags: None, len: 0 }
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
        if let Some(both) = &mut self.both {
            ByBoth(nodes).push_back(both.entry(pair(source, tag)).or_insert(Ends::EMPTY), i);
        }
        if let Some(tags) = &mut self.tags {
            ByTag(nodes).push_back(tags.entry(pair(0, tag)).or_insert(Ends::EMPTY), i);
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
        let found = match (source, tag, &self.both, &self.tags) {
            (ANY, ANY, ..) => self.all.head,
            (source, ANY, ..) => self.bins.get(source).head,
            (ANY, tag, _, Some(tags)) => head(tags, pair(0, tag)),
            (ANY, tag, _, None) => first(&mut All(nodes), self.all, &mut steps, |n, i| n.0.key(i).tag == tag),
            (source, tag, Some(both), _) => head(both, pair(source, tag)),
            (source, tag, None, _) => {
                first(&mut BySource(nodes), self.bins.get(source), &mut steps, |n, i| n.0.key(i).tag == tag)
            }
        };
        if steps >= HASH_AFTER_STEPS {
            self.hash(nodes, source == ANY);
        }
        (found != NONE).then_some(found)
    }

    /// Finds a message as [`find`](Self::find) does and takes it out.
    #[inline]
    pub fn take(&mut self, nodes: &mut impl UnexpectedNodes, source: i32, tag: i32) -> Option<u32> {
        let found = self.find(nodes, source, tag)?;
        self.remove(nodes, found);
        Some(found)
    }

    /// Takes out message `i`, which is queued.
    pub fn remove(&mut self, nodes: &mut impl UnexpectedNodes, i: u32) {
        let UnexpectedKey { source, tag, .. } = *nodes.key(i);
        All(nodes).unlink(&mut self.all, i);
        BySource(nodes).unlink(self.bins.get_mut(source), i);
        if let Some(both) = &mut self.both {
            unchain(&mut ByBoth(nodes), both, pair(source, tag), i);
        }
        if let Some(tags) = &mut self.tags {
            unchain(&mut ByTag(nodes), tags, pair(0, tag), i);
        }
        self.len -= 1;
        if self.len == 0 {
            (self.both, self.tags) = (None, None);
        }
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

    /// Chains what is queued: by tag, or by source and tag.
    #[cold]
    fn hash(&mut self, nodes: &mut impl UnexpectedNodes, any_source: bool) {
        let mut chains = Chains::default();
        chains.reserve(self.len());
        let mut i = self.all.head;
        while i != NONE {
            let UnexpectedKey { source, tag, all, .. } = *nodes.key(i);
            if any_source {
                ByTag(nodes).push_back(chains.entry(pair(0, tag)).or_insert(Ends::EMPTY), i);
            } else {
                ByBoth(nodes).push_back(chains.entry(pair(source, tag)).or_insert(Ends::EMPTY), i);
            }
            i = all.next;
        }
        *(if any_source { &mut self.tags } else { &mut self.both }) = Some(chains);
    }
}

fn unchain(nodes: &mut impl Chain, chains: &mut Chains, key: u64, i: u32) {
    let Link { prev, next } = *nodes.link(i);
    if prev == NONE && next == NONE {
        // Alone in its chain, as most are.
        chains.remove(&key);
    } else if let Some(ends) = chains.get_mut(&key) {
        nodes.unlink(ends, i);
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
