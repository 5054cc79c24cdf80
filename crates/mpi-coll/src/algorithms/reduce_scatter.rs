//! Reduce-scatter. Choice by size: Thakur, Rabenseifner, Gropp, 2005.

use super::{Fold, reduce, scatter};
use crate::choose::{Reduce, ReduceScatter, Scatter};
use crate::program::{Builder, Built, Data};

/// Reduces everyone's `own` (all blocks in a row, `counts[i]` elements for rank `i`) and gives block `i`
/// to the `result` of rank `i`. In place `own` and `result` share their beginning.
pub(crate) fn reduce_scatter(
    b: &mut Builder,
    own: Data,
    counts: &[usize],
    result: Data,
    by: ReduceScatter,
) -> Built<()> {
    let mut start = vec![0];
    for count in counts {
        start.push(start[start.len() - 1] + count);
    }
    match by {
        ReduceScatter::Halving => halving(b, own, &start, result),
        ReduceScatter::Pairwise => pairwise(b, own, &start, result),
        ReduceScatter::ReduceThenScatter => reduce_then_scatter(b, own, &start, result),
    }
}

fn blocks(data: Data, start: &[usize], from: usize, to: usize) -> Data {
    data.part(start[from], start[to] - start[from])
}

/// Recursive halving, the farthest partner first, so that what is kept are blocks in a row. Changes the order of
/// operands.
fn halving(b: &mut Builder, own: Data, start: &[usize], result: Data) -> Built<()> {
    let fold = Fold::new(b.size);
    let (acc, tmp) = (b.like(own)?, b.like(own)?);
    b.copy(own, acc);
    fold.fold_in(b, acc, tmp);
    if let Some(new) = fold.folded(b.rank) {
        let (mut low, mut mask) = (0, fold.pow2 / 2);
        while mask > 0 {
            let partner = fold.rank(new ^ mask);
            let (mid, high) = (low + mask, low + 2 * mask);
            let halves = [(low, mid), (mid, high)];
            let (keep, give) = if new & mask == 0 { (halves[0], halves[1]) } else { (halves[1], halves[0]) };
            let part = |data: Data, (from, to)| blocks(data, start, fold.first(from), fold.first(to));
            b.exchange(partner, part(acc, give), partner, part(tmp, keep));
            b.reduce(part(tmp, keep), part(acc, keep));
            low = keep.0;
            mask /= 2;
        }
        b.copy(blocks(acc, start, b.rank, b.rank + 1), result);
    }
    let neighbour = fold.partner(b.rank).unwrap_or(b.rank);
    fold.fold_out(b, blocks(acc, start, neighbour, neighbour + 1), result);
    Ok(())
}

/// Each block straight to its rank, one exchange after the other. Changes the order of operands.
fn pairwise(b: &mut Builder, own: Data, start: &[usize], result: Data) -> Built<()> {
    let (n, r) = (b.size, b.rank);
    // In place, the result lies on data that is still to be sent.
    let acc = b.like(result)?;
    let mut tmp = [b.like(result)?, b.like(result)?];
    b.copy(blocks(own, start, r, r + 1), acc);
    let mut coming = (n > 1).then(|| b.recv((r + n - 1) % n, tmp[0]));
    for i in 1..n {
        let to = (r + i) % n;
        let sent = b.send(to, blocks(own, start, to, to + 1));
        let now = coming.take();
        if i + 1 < n {
            coming = Some(b.recv((r + n - i - 1) % n, tmp[1]));
        }
        b.wait_all(now);
        b.reduce(tmp[0], acc);
        b.wait(sent);
        tmp.swap(0, 1);
    }
    b.copy(acc, result);
    Ok(())
}

/// Keeps the order of operands.
fn reduce_then_scatter(b: &mut Builder, own: Data, start: &[usize], result: Data) -> Built<()> {
    let all = if b.rank == 0 { Some(b.like(own)?) } else { None };
    reduce::reduce(b, own, all, 0, Reduce::Binomial)?;
    let parts: Vec<Data> = match all {
        Some(all) => (0..b.size).map(|i| blocks(all, start, i, i + 1)).collect(),
        None => Vec::new(),
    };
    scatter::scatter(b, &parts, Some(result), 0, Scatter::Linear)
}
