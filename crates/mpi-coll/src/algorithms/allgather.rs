//! Allgather. Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in multiport
//! message-passing systems", 1997.

use crate::choose::Allgather;
use crate::program::{Builder, Built, Data};

/// Everyone's block to everyone. `blocks[i]` is rank `i`'s; one's own is in place already. `whole` is all blocks in
/// a row, where they are equal parts of one buffer.
pub(crate) fn allgather(b: &mut Builder, blocks: &[Data], whole: Option<Data>, by: Allgather) -> Built<()> {
    match (by, whole) {
        (Allgather::Doubling, Some(whole)) if b.size.is_power_of_two() => {
            doubling(b, whole);
            Ok(())
        }
        (Allgather::Ring, _) => {
            ring(b, b.rank, |i| blocks[i % blocks.len()], |r| r);
            Ok(())
        }
        _ => bruck(b, blocks),
    }
}

/// Round a ring: n - 1 rounds, each block passes every rank once. `me` is this rank's place in the ring, `rank`
/// tells who stands at a place. Block `i` (taken modulo n) starts at place `i`.
pub(crate) fn ring(b: &mut Builder, me: usize, block: impl Fn(usize) -> Data, rank: impl Fn(usize) -> usize) {
    let n = b.size;
    let (next, before) = (rank((me + 1) % n), rank((me + n - 1) % n));
    for s in 0..n - 1 {
        let (out, into) = (block((me + n - s) % n), block((me + n - s - 1) % n));
        let got = (into.count > 0).then(|| b.recv(before, into));
        if out.count > 0 {
            // Complete by the end of the program: nothing writes to it any more.
            b.send(next, out);
        }
        b.wait_all(got);
    }
}

/// Groups of doubling size exchange all they have.
fn doubling(b: &mut Builder, whole: Data) {
    let len = whole.count / b.size;
    let mut mask = 1;
    while mask < b.size {
        let partner = b.rank ^ mask;
        let (mine, theirs) = (b.rank & !(mask - 1), partner & !(mask - 1));
        b.exchange(
            partner,
            whole.part(mine * len, mask * len),
            partner,
            whole.part(theirs * len, mask * len),
        );
        mask *= 2;
    }
}

/// Blocks in the order of who is how far ahead, packed: in each round the first ones go to the rank
/// `distance` behind.
fn bruck(b: &mut Builder, blocks: &[Data]) -> Built<()> {
    let (n, r) = (b.size, b.rank);
    let mut start = vec![0usize];
    for i in 0..n {
        start.push(start[i].saturating_add(b.bytes(blocks[(r + i) % n])));
    }
    let all = b.packed(start[n])?;
    let part = |from: usize, to: usize| all.part(start[from], start[to] - start[from]);
    b.copy(blocks[r], part(0, 1));
    let mut distance = 1;
    while distance < n {
        let blocks = distance.min(n - distance);
        b.exchange(
            (r + n - distance) % n,
            part(0, blocks),
            (r + distance) % n,
            part(distance, distance + blocks),
        );
        distance *= 2;
    }
    for i in 1..n {
        b.copy(part(i, i + 1), blocks[(r + i) % n]);
    }
    Ok(())
}
