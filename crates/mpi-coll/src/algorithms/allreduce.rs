//! Allreduce. Recursive doubling, and reduce-scatter with allgather: Rabenseifner, "Optimization of collective
//! reduction operations", 2004. Ring: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//! workstations", 2009.
//!
//! Every element is either computed on one rank, or on all in the same order of operands: all ranks get the same
//! bits, in every run.

use super::{Fold, allgather};
use crate::choose::Allreduce;
use crate::program::{Builder, Built, Data, cut};

/// Reduces everyone's `own` into everyone's `result`; in place, both are the same.
pub(crate) fn allreduce(b: &mut Builder, own: Data, result: Data, by: Allreduce) -> Built<()> {
    b.copy(own, result);
    if b.size == 1 || result.count == 0 {
        return Ok(());
    }
    match by {
        Allreduce::Doubling => doubling(b, result),
        Allreduce::Rabenseifner => rabenseifner(b, result),
        Allreduce::Ring => ring(b, result),
    }
}

fn doubling(b: &mut Builder, result: Data) -> Built<()> {
    let fold = Fold::new(b.size);
    let (mut acc, mut tmp) = (result, b.like(result)?);
    fold.fold_in(b, acc, tmp);
    if let Some(new) = fold.folded(b.rank) {
        let mut mask = 1;
        while mask < fold.pow2 {
            let partner = fold.rank(new ^ mask);
            b.exchange(partner, acc, partner, tmp);
            // The lower ranks' part is the left operand on both sides.
            if partner < b.rank {
                b.reduce(tmp, acc);
            } else {
                b.reduce(acc, tmp);
                (acc, tmp) = (tmp, acc);
            }
            mask *= 2;
        }
        b.copy(acc, result);
    }
    fold.fold_out(b, result, result);
    Ok(())
}

fn rabenseifner(b: &mut Builder, result: Data) -> Built<()> {
    let fold = Fold::new(b.size);
    let tmp = b.like(result)?;
    fold.fold_in(b, result, tmp);
    if let Some(new) = fold.folded(b.rank) {
        let ranges = halve(b, fold, new, result, tmp);
        for (k, pair) in ranges.windows(2).enumerate().rev() {
            let partner = fold.rank(new ^ (1 << k));
            let ((lo, hi), (low, high)) = (pair[0], pair[1]);
            // My half and the other half of the range that we shared.
            let theirs = if low == lo { (high, hi) } else { (lo, low) };
            let part = |(lo, hi): (usize, usize)| result.part(lo, hi - lo);
            b.exchange(partner, part(pair[1]), partner, part(theirs));
        }
    }
    fold.fold_out(b, result, result);
    Ok(())
}

/// Reduce-scatter by vector halving and distance doubling. Partners are first neighbours, then pairs of pairs: what
/// is combined are adjacent groups, so the order of operands is kept. Returns the ranges that `new` held, from
/// the whole to the last, which holds the result.
pub(crate) fn halve(b: &mut Builder, fold: Fold, new: usize, acc: Data, tmp: Data) -> Vec<(usize, usize)> {
    let mut ranges = vec![(0, acc.count)];
    let mut mask = 1;
    while mask < fold.pow2 {
        let partner = fold.rank(new ^ mask);
        let (keep, give) = split(ranges[ranges.len() - 1], new & mask == 0);
        let kept = tmp.part(keep.0, keep.1 - keep.0);
        let sum = acc.part(keep.0, keep.1 - keep.0);
        b.exchange(partner, acc.part(give.0, give.1 - give.0), partner, kept);
        if b.commutes() || partner < b.rank {
            b.reduce(kept, sum);
        } else {
            b.reduce(sum, kept);
            b.copy(kept, sum);
        }
        ranges.push(keep);
        mask *= 2;
    }
    ranges
}

/// The halves that one keeps and gives away.
fn split((lo, hi): (usize, usize), keeps_low: bool) -> ((usize, usize), (usize, usize)) {
    let mid = lo + (hi - lo) / 2;
    if keeps_low { ((lo, mid), (mid, hi)) } else { ((mid, hi), (lo, mid)) }
}

/// The range that `new` holds after [`halve`].
pub(crate) fn last_range(fold: Fold, new: usize, count: usize) -> (usize, usize) {
    (0..fold.pow2.ilog2()).fold((0, count), |range, k| split(range, new & (1 << k) == 0).0)
}

fn ring(b: &mut Builder, result: Data) -> Built<()> {
    let (n, r) = (b.size, b.rank);
    let block = |i: usize| {
        let (from, to) = (cut(result.count, n, i % n), cut(result.count, n, i % n + 1));
        result.part(from, to - from)
    };
    let longest = block(0);
    let tmp = b.like(longest)?;
    let (next, before) = ((r + 1) % n, (r + n - 1) % n);
    for s in 0..n - 1 {
        let into = block(r + n - s - 1);
        let part = tmp.part(0, into.count);
        b.exchange(next, block(r + n - s), before, part);
        b.reduce(part, into);
    }
    // Rank r holds block r + 1.
    allgather::ring(b, r, |i| block(i + 1), |r| r);
    Ok(())
}
