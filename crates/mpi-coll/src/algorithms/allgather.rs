//! Allgather. Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all communications in multiport
//! message-passing systems", 1997.

use crate::choose::Allgather;
use crate::program::{Builder, Built, Data};

/// Everyone's block to everyone. `blocks[i]` is rank `i`'s; one's own is in place already, or comes from `own`.
/// `whole` is all blocks in a row, where they are equal parts of one buffer.
pub(crate) fn allgather(
    b: &mut Builder,
    own: Option<Data>,
    blocks: &[Data],
    whole: Option<Data>,
    by: Allgather,
) -> Built<()> {
    let first = match own {
        Some(own) => own,
        None => blocks[b.rank],
    };
    match (by, whole) {
        _ if b.size == 1 => b.copy(first, blocks[b.rank]),
        (Allgather::Doubling, Some(whole)) if b.size.is_power_of_two() => doubling(b, first, whole),
        (Allgather::Ring, _) => ring(b, b.rank, first, |i| blocks[i % blocks.len()], |r| r),
        _ => return bruck(b, first, blocks),
    }
    Ok(())
}

/// Round a ring: n - 1 rounds, each block passes every rank once. `me` is this rank's place in the ring, `rank`
/// tells who stands at a place. Block `i` (taken modulo n) starts at place `i`, where it comes from `own`: what goes
/// out first need not wait for its copy.
pub(crate) fn ring(
    b: &mut Builder,
    me: usize,
    own: Data,
    block: impl Fn(usize) -> Data,
    rank: impl Fn(usize) -> usize,
) {
    let n = b.size;
    let (next, before) = (rank((me + 1) % n), rank((me + n - 1) % n));
    for s in 0..n - 1 {
        let (out, into) = (block((me + n - s) % n), block((me + n - s - 1) % n));
        let got = b.recv_some(before, into);
        // Complete by the end of the program: nothing writes to it any more.
        b.send_some(next, if s == 0 { own } else { out });
        if s == 0 {
            b.copy(own, out);
        }
        b.wait_all(got);
    }
}

/// Groups of doubling size exchange all they have.
fn doubling(b: &mut Builder, own: Data, whole: Data) {
    let len = whole.count / b.size;
    let block = |rank: usize| whole.part(rank * len, len);
    let partner = b.rank ^ 1;
    let got = b.recv_some(partner, block(partner));
    let sent = b.send_some(partner, own);
    b.copy(own, block(b.rank));
    b.wait_all(got);
    b.wait_all(sent);
    let mut mask = 2;
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
fn bruck(b: &mut Builder, own: Data, blocks: &[Data]) -> Built<()> {
    let (n, r) = (b.size, b.rank);
    let mut start = vec![0usize];
    for i in 0..n {
        start.push(start[i].saturating_add(b.bytes(blocks[(r + i) % n])));
    }
    let all = b.packed(start[n])?;
    let part = |from: usize, to: usize| all.part(start[from], start[to] - start[from]);
    b.copy(own, part(0, 1));
    b.copy(own, blocks[r]);
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
