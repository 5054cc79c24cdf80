//! The algorithms: each writes the program of one rank.
//!
//! What they share: [`tree`] (binomial trees) and [`Fold`] (any number of ranks onto a power of two).

pub(crate) mod allgather;
pub(crate) mod allreduce;
pub(crate) mod alltoall;
pub(crate) mod barrier;
pub(crate) mod between;
pub(crate) mod broadcast;
pub(crate) mod gather;
pub(crate) mod leaders;
pub(crate) mod neighbors;
pub(crate) mod reduce;
pub(crate) mod reduce_scatter;
pub(crate) mod scan;
pub(crate) mod scatter;

use crate::program::{Builder, Data};

/// A binomial tree over ranks counted from the root. Node `v` has the children `v + m` for every power of
/// two `m` below its lowest set bit (for the root: below the number of nodes); the subtree of child
/// `v + m` is the `m` nodes from there, as far as there are nodes.
pub(crate) mod tree {
    /// The parent of node `v`; the root has none.
    pub fn parent(v: usize) -> Option<usize> {
        if v == 0 { None } else { Some(v & (v - 1)) }
    }

    /// Nodes in the subtree of `v`.
    pub fn span(v: usize, size: usize) -> usize {
        if v == 0 { size } else { (1 << v.trailing_zeros()).min(size - v) }
    }

    /// Children of `v`, the one with the smallest subtree first.
    pub fn children(v: usize, size: usize) -> impl DoubleEndedIterator<Item = usize> {
        let masks = if v == 0 { usize::BITS - (size - 1).leading_zeros() } else { v.trailing_zeros() };
        (0..masks).map(move |k| v + (1 << k)).filter(move |c| *c < size)
    }
}

/// Ranks folded onto the largest power of two: of the first `2 * rem` ranks, each even one hands its
/// data to its odd neighbour and stands aside. Neighbours stay neighbours, so the order of operands
/// is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    pub pow2: usize,
    rem: usize,
}

impl Fold {
    pub fn new(size: usize) -> Fold {
        let pow2 = 1 << size.ilog2();
        Fold { pow2, rem: size - pow2 }
    }

    /// Number of `rank` among those that remain.
    pub fn folded(self, rank: usize) -> Option<usize> {
        match rank {
            _ if rank >= 2 * self.rem => Some(rank - self.rem),
            _ if rank % 2 == 1 => Some(rank / 2),
            _ => None,
        }
    }

    /// Rank of number `new`.
    pub fn rank(self, new: usize) -> usize {
        if new < self.rem { 2 * new + 1 } else { new + self.rem }
    }

    /// First of the ranks that number `new` stands for; `new` may be `pow2`.
    pub fn first(self, new: usize) -> usize {
        if new < self.rem { 2 * new } else { new + self.rem }
    }

    /// The neighbour that stands aside for `rank`, or for which it stands aside.
    pub fn partner(self, rank: usize) -> Option<usize> {
        if rank < 2 * self.rem { Some(rank ^ 1) } else { None }
    }

    /// Combines the data of those that stand aside into their neighbours' `acc`.
    pub fn fold_in(self, b: &mut Builder, acc: Data, tmp: Data) {
        match (self.partner(b.rank), self.folded(b.rank)) {
            (Some(partner), Some(_)) => {
                let got = b.recv(partner, tmp);
                b.wait(got);
                b.reduce(tmp, acc);
            }
            (Some(partner), None) => {
                let sent = b.send(partner, acc);
                b.wait(sent);
            }
            (None, _) => {}
        }
    }

    /// Gives the result `from` to those that stood aside, into `to`.
    pub fn fold_out(self, b: &mut Builder, from: Data, to: Data) {
        match (self.partner(b.rank), self.folded(b.rank)) {
            (Some(partner), Some(_)) => {
                b.send(partner, from);
            }
            (Some(partner), None) => {
                b.recv(partner, to);
            }
            (None, _) => {}
        }
    }
}
