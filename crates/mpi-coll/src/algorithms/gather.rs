//! Gather to one rank.

use super::tree;
use crate::choose::Gather;
use crate::program::{Builder, Built, Data};

/// Everyone's `own` block to the root, which puts that of rank `i` into `blocks[i]`. The root has no `own`
/// when its block is in place already.
pub(crate) fn gather(
    b: &mut Builder,
    own: Option<Data>,
    blocks: &[Data],
    root: usize,
    by: Gather,
) -> Built<()> {
    if b.rank == root {
        if let Some(own) = own {
            b.copy(own, blocks[root]);
        }
    }
    match by {
        Gather::Linear => {
            linear(b, own, blocks, root);
            Ok(())
        }
        Gather::Binomial => binomial(b, own, blocks, root),
    }
}

fn linear(b: &mut Builder, own: Option<Data>, blocks: &[Data], root: usize) {
    if b.rank == root {
        for i in (0..b.size).filter(|i| *i != root) {
            b.recv(i, blocks[i]);
        }
    } else if let Some(own) = own {
        b.send(root, own);
    }
}

/// Up a binomial tree, blocks packed on the way.
fn binomial(b: &mut Builder, own: Option<Data>, blocks: &[Data], root: usize) -> Built<()> {
    let (n, v) = (b.size, (b.rank + b.size - root) % b.size);
    let mine = match own {
        Some(own) => own,
        None => blocks[b.rank],
    };
    let (len, span) = (b.bytes(mine), tree::span(v, n));
    let mut whole = mine;
    if span > 1 {
        whole = b.packed(len.saturating_mul(span))?;
        let coming: Vec<_> = tree::children(v, n)
            .map(|child| {
                b.recv((child + root) % n, whole.part((child - v) * len, tree::span(child, n) * len))
            })
            .collect();
        if v > 0 {
            b.copy(mine, whole.part(0, len));
        }
        b.wait_all(coming);
    }
    match tree::parent(v) {
        Some(parent) => {
            b.send((parent + root) % n, whole);
        }
        None => {
            for i in 1..n {
                b.copy(whole.part(i * len, len), blocks[(i + root) % n]);
            }
        }
    }
    Ok(())
}
