//! Prefix reductions at doubling distances: Hillis and Steele, "Data parallel algorithms", 1986.

use crate::program::{Builder, Built, Data};

/// `result` of rank r: everyone's `own` up to and with r.
pub(crate) fn scan(b: &mut Builder, own: Data, result: Data) -> Built<()> {
    b.copy(own, result);
    let tmp = b.like(result)?;
    doubling(b, result, tmp, 0);
    Ok(())
}

/// `result` of rank r: everyone's `own` before r; rank 0 has none.
pub(crate) fn exscan(b: &mut Builder, own: Data, result: Data) -> Built<()> {
    let mut out = own;
    if own == result {
        out = b.like(own)?;
        b.copy(own, out);
    }
    let before = (b.rank > 0).then(|| b.recv(b.rank - 1, result));
    if b.rank + 1 < b.size {
        b.send(b.rank + 1, out);
    }
    b.wait_all(before);
    if b.rank > 0 {
        let tmp = b.like(result)?;
        doubling(b, result, tmp, 1);
    }
    Ok(())
}

/// In each round, what one has goes `distance` ranks up, and what comes from as far below is put in front.
/// Ranks below `first` take no part.
fn doubling(b: &mut Builder, acc: Data, tmp: Data, first: usize) {
    let mut distance = 1;
    while distance < b.size {
        let below = (b.rank >= first + distance).then(|| b.recv(b.rank - distance, tmp));
        let above = (b.rank + distance < b.size).then(|| b.send(b.rank + distance, acc));
        b.wait_all(below);
        b.wait_all(above);
        if below.is_some() {
            b.reduce(tmp, acc);
        }
        distance *= 2;
    }
}
