//! Reduce to one rank. Reduce-scatter then gather: Rabenseifner, "Optimization of collective reduction
//! operations", 2004.

use super::{Fold, allreduce, tree};
use crate::choose::Reduce;
use crate::program::{Builder, Built, Data};

/// Reduces everyone's `own` into `result`, which the root has. In place, both are the same at the root.
pub(crate) fn reduce(b: &mut Builder, own: Data, result: Option<Data>, root: usize, by: Reduce) -> Built<()> {
    match by {
        Reduce::Binomial | Reduce::Staged => binomial(b, own, result, root),
        Reduce::Rabenseifner => rabenseifner(b, own, result, root),
    }
}

/// Up a binomial tree. The subtree of a node is the nodes right behind it, so operands keep their order; where
/// order matters the tree stands on rank 0, which hands the result on.
fn binomial(b: &mut Builder, own: Data, result: Option<Data>, root: usize) -> Built<()> {
    let (n, commutes) = (b.size, b.commutes());
    let top = if commutes { root } else { 0 };
    let v = (b.rank + n - top) % n;
    // Only the top may use the result's memory: elsewhere it is still to be received.
    let place = result.filter(|_| v == 0);
    let mut acc: Option<Data> = None;
    let mut spare: Option<Data> = None;
    if place == Some(own) {
        acc = place;
    }
    for child in tree::children(v, n) {
        let into = match (acc, spare) {
            (None, _) => match place {
                Some(place) => place,
                None => b.like(own)?,
            },
            (Some(_), Some(spare)) => spare,
            (Some(_), None) => b.like(own)?,
        };
        let got = b.recv((child + top) % n, into);
        b.wait(got);
        match acc {
            // The first time it lands where the sum is to be.
            None => {
                b.reduce(own, into);
                acc = Some(into);
            }
            Some(sum) if commutes => {
                b.reduce(into, sum);
                spare = Some(into);
            }
            Some(sum) => {
                b.reduce(sum, into);
                (acc, spare) = (Some(into), Some(sum));
            }
        }
    }
    let sum = acc.unwrap_or(own);
    match (tree::parent(v), result) {
        (Some(parent), _) => {
            let sent = b.send((parent + top) % n, sum);
            b.wait(sent);
        }
        (None, Some(result)) if top == root => b.copy(sum, result),
        (None, _) => {
            b.send(root, sum);
        }
    }
    if let (true, Some(result)) = (top != root, result) {
        b.recv(top, result);
    }
    Ok(())
}

/// Reduce-scatter by halving, then every block straight to the root. Commutative operations.
fn rabenseifner(b: &mut Builder, own: Data, result: Option<Data>, root: usize) -> Built<()> {
    let acc = match result {
        Some(result) => result,
        None => b.like(own)?,
    };
    let own = allreduce::first_operand(b, own, acc);
    let fold = Fold::new(b.size);
    if fold.pow2 < b.size {
        let tmp = b.like(own)?;
        fold.fold_in(b, acc, tmp);
    }
    let mut mine = None;
    if let Some(new) = fold.folded(b.rank) {
        mine = allreduce::halve(b, fold, new, own, acc)?.pop();
    }
    if b.rank != root {
        if let Some((lo, hi)) = mine {
            if hi > lo {
                b.send(root, acc.part(lo, hi - lo));
            }
        }
        return Ok(());
    }
    for new in (0..fold.pow2).filter(|new| fold.rank(*new) != root) {
        let (lo, hi) = allreduce::last_range(fold, new, acc.count);
        if hi > lo {
            b.recv(fold.rank(new), acc.part(lo, hi - lo));
        }
    }
    Ok(())
}
