//! Allreduce. Recursive doubling, and reduce-scatter with allgather: Rabenseifner, "Optimization of collective
//! reduction operations", 2004. Ring: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//! workstations", 2009.
//!
//! Every element is either computed on one rank, or on all in the same order of operands: all ranks get the same
//! bits, in every run.

use super::{Fold, allgather};
use crate::choose::Allreduce;
use crate::limits::{ALLREDUCE_PIECE_BYTES, ALLREDUCE_PIECES_MAX};
use crate::program::{Builder, Built, Data, cut};

/// Reduces everyone's `own` into everyone's `result`; in place, both are the same.
pub(crate) fn allreduce(b: &mut Builder, own: Data, result: Data, by: Allreduce) -> Built<()> {
    if b.size == 1 || result.count == 0 {
        b.copy(own, result);
        return Ok(());
    }
    match by {
        Allreduce::Doubling => doubling(b, own, result),
        Allreduce::Rabenseifner | Allreduce::Direct | Allreduce::Staged if b.size == 2 => {
            pair(b, own, result)
        }
        Allreduce::Rabenseifner | Allreduce::Direct | Allreduce::Staged => rabenseifner(b, own, result),
        Allreduce::Ring => ring(b, own, result),
    }
}

/// `own`, if the first round can be taken straight from there: all ranks take part, in any order. Else it is
/// copied.
pub(crate) fn first_operand(b: &mut Builder, own: Data, acc: Data) -> Data {
    if b.size > 1 && b.size.is_power_of_two() && b.commutes() {
        return own;
    }
    b.copy(own, acc);
    acc
}

fn doubling(b: &mut Builder, own: Data, result: Data) -> Built<()> {
    let own = first_operand(b, own, result);
    let fold = Fold::new(b.size);
    let (mut acc, mut tmp, mut mask) = (result, b.like(result)?, 1);
    fold.fold_in(b, acc, tmp);
    if let Some(new) = fold.folded(b.rank) {
        if own != result {
            first_exchange(b, own, result, tmp);
            mask = 2;
        }
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

/// The first round of doubling without a copy beforehand; the lower rank's part is the left operand.
fn first_exchange(b: &mut Builder, own: Data, result: Data, tmp: Data) {
    let partner = b.rank ^ 1;
    if partner > b.rank {
        b.exchange(partner, own, partner, result);
        b.reduce(own, result);
        return;
    }
    let got = b.recv(partner, tmp);
    let sent = b.send(partner, own);
    b.copy(own, result);
    b.wait_all([got, sent]);
    b.reduce(tmp, result);
}

/// Two ranks: each reduces one half, in pieces that stay in the processor's cache, and hands each piece back while
/// the next one comes.
fn pair(b: &mut Builder, own: Data, result: Data) -> Built<()> {
    let partner = b.rank ^ 1;
    let mid = result.count - result.count / 2;
    let halves = [(0, mid), (mid, result.count)];
    let (keep, give) = (halves[b.rank], halves[partner]);
    let most = halves.iter().map(|(from, to)| b.bytes(result.part(*from, to - from))).max().unwrap_or(0);
    let pieces = (most / ALLREDUCE_PIECE_BYTES).clamp(1, ALLREDUCE_PIECES_MAX);
    let piece = |whole: Data, (from, to): (usize, usize), i: usize| {
        let (first, past) = (cut(to - from, pieces, i), cut(to - from, pieces, i + 1));
        whole.part(from + first, past - first)
    };
    // `own op theirs` can be computed where theirs arrives, if that is the right order.
    let straight = own != result && (b.commutes() || b.rank == 0);
    let (into, at) = match straight {
        true => (result, keep),
        false => {
            let tmp = b.scratch_like(result, keep.1 - keep.0)?;
            b.copy(result_part(own, keep), result_part(result, keep));
            (tmp, (0, keep.1 - keep.0))
        }
    };
    let coming: Vec<_> = (0..pieces).map(|i| b.recv_some(partner, piece(into, at, i))).collect();
    for i in 0..pieces {
        b.send_some(partner, piece(own, give, i));
    }
    // Each comes after the partner has read what stood there.
    for i in 0..pieces {
        b.recv_some(partner, piece(result, give, i));
    }
    for (i, got) in coming.into_iter().enumerate() {
        b.wait_all(got);
        let (theirs, sum) = (piece(into, at, i), piece(result, keep, i));
        if straight {
            b.reduce(piece(own, keep, i), sum);
        } else if b.commutes() || b.rank == 1 {
            b.reduce(theirs, sum);
        } else {
            b.reduce(sum, theirs);
            b.copy(theirs, sum);
        }
        b.send_some(partner, sum);
    }
    Ok(())
}

fn result_part(whole: Data, (from, to): (usize, usize)) -> Data {
    whole.part(from, to - from)
}

fn rabenseifner(b: &mut Builder, own: Data, result: Data) -> Built<()> {
    let own = first_operand(b, own, result);
    let fold = Fold::new(b.size);
    if fold.pow2 < b.size {
        let tmp = b.like(result)?;
        fold.fold_in(b, result, tmp);
    }
    if let Some(new) = fold.folded(b.rank) {
        let ranges = halve(b, fold, new, own, result)?;
        for (k, pair) in ranges.windows(2).enumerate().rev() {
            let partner = fold.rank(new ^ (1 << k));
            let ((lo, hi), (low, high)) = (pair[0], pair[1]);
            // My half and the other half of the range that we shared.
            let theirs = if low == lo { (high, hi) } else { (lo, low) };
            b.exchange(partner, result_part(result, pair[1]), partner, result_part(result, theirs));
        }
    }
    fold.fold_out(b, result, result);
    Ok(())
}

/// Reduce-scatter by vector halving and distance doubling. Partners are first neighbours, then pairs of pairs: what
/// is combined are adjacent groups, so the order of operands is kept. The operand is `own`, from which the first
/// round is taken, or stands in `acc`, which is the same then. Returns the ranges that `new` held, from the
/// whole to the last, which holds the result.
pub(crate) fn halve(
    b: &mut Builder,
    fold: Fold,
    new: usize,
    own: Data,
    acc: Data,
) -> Built<Vec<(usize, usize)>> {
    let mut ranges = vec![(0, acc.count)];
    let (mut mask, mut from) = (1, own);
    let mut spare = None;
    while mask < fold.pow2 {
        let partner = fold.rank(new ^ mask);
        let (keep, give) = split(ranges[ranges.len() - 1], new & mask == 0);
        let sum = result_part(acc, keep);
        if from != acc {
            b.exchange(partner, result_part(from, give), partner, sum);
            b.reduce(result_part(from, keep), sum);
        } else {
            let tmp = match spare {
                Some(tmp) => tmp,
                None => b.scratch_like(acc, keep.1 - keep.0 + 1)?,
            };
            spare = Some(tmp);
            let kept = tmp.part(0, keep.1 - keep.0);
            b.exchange(partner, result_part(acc, give), partner, kept);
            if b.commutes() || partner < b.rank {
                b.reduce(kept, sum);
            } else {
                b.reduce(sum, kept);
                b.copy(kept, sum);
            }
        }
        from = acc;
        ranges.push(keep);
        mask *= 2;
    }
    Ok(ranges)
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

/// What comes is combined with one's own part of it, where it arrives if that is free.
fn ring(b: &mut Builder, own: Data, result: Data) -> Built<()> {
    let (n, r) = (b.size, b.rank);
    let block = |whole: Data, i: usize| {
        let (from, to) = (cut(whole.count, n, i % n), cut(whole.count, n, i % n + 1));
        whole.part(from, to - from)
    };
    let tmp = if own == result { Some(b.like(block(result, 0))?) } else { None };
    let (next, before) = ((r + 1) % n, (r + n - 1) % n);
    for s in 0..n - 1 {
        let out = block(if s == 0 { own } else { result }, r + n - s);
        let into = block(result, r + n - s - 1);
        match tmp {
            Some(tmp) => {
                let part = tmp.part(0, into.count);
                b.exchange(next, out, before, part);
                b.reduce(part, into);
            }
            None => {
                b.exchange(next, out, before, into);
                b.reduce(block(own, r + n - s - 1), into);
            }
        }
    }
    // Rank r holds block r + 1.
    allgather::ring(b, r, block(result, r + 1), |i| block(result, i + 1), |r| r);
    Ok(())
}
