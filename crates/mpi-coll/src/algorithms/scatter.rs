//! Scatter from one rank.

use super::tree;
use crate::choose::Scatter;
use crate::program::{Builder, Built, Data};

/// The root's `blocks[i]` to the `own` of rank `i`. The root has no `own` when its block stays in place.
pub(crate) fn scatter(
    b: &mut Builder,
    blocks: &[Data],
    own: Option<Data>,
    root: usize,
    by: Scatter,
) -> Built<()> {
    if b.rank == root {
        if let Some(own) = own {
            b.copy(blocks[root], own);
        }
    }
    match by {
        Scatter::Linear => {
            linear(b, blocks, own, root);
            Ok(())
        }
        Scatter::Binomial => binomial(b, blocks, own, root),
    }
}

fn linear(b: &mut Builder, blocks: &[Data], own: Option<Data>, root: usize) {
    if b.rank == root {
        for i in (0..b.size).filter(|i| *i != root) {
            b.send(i, blocks[i]);
        }
    } else if let Some(own) = own {
        b.recv(root, own);
    }
}

/// Down a binomial tree, blocks packed on the way.
fn binomial(b: &mut Builder, blocks: &[Data], own: Option<Data>, root: usize) -> Built<()> {
    let (n, v) = (b.size, (b.rank + b.size - root) % b.size);
    let mine = match own {
        Some(own) => own,
        None => blocks[b.rank],
    };
    let (len, span) = (b.bytes(mine), tree::span(v, n));
    let mut whole = mine;
    if span > 1 {
        whole = b.packed(len.saturating_mul(span))?;
    }
    match tree::parent(v) {
        Some(parent) => {
            let got = b.recv((parent + root) % n, whole);
            b.wait(got);
        }
        None => {
            for i in 1..n {
                b.copy(blocks[(i + root) % n], whole.part(i * len, len));
            }
        }
    }
    for child in tree::children(v, n).rev() {
        b.send((child + root) % n, whole.part((child - v) * len, tree::span(child, n) * len));
    }
    if v > 0 && span > 1 {
        b.copy(whole.part(0, len), mine);
    }
    Ok(())
}
