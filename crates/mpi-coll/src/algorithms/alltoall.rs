//! Alltoall. Bruck and others as for allgather; choice by size: Thakur, Rabenseifner, Gropp, 2005.

use crate::choose::Alltoall;
use crate::program::{Builder, Built, Data};

/// `from[i]` to rank `i`, what rank `i` sends into `into[i]`.
pub(crate) fn alltoall(b: &mut Builder, from: &[Data], into: &[Data], by: Alltoall) -> Built<()> {
    match by {
        Alltoall::Bruck => return bruck(b, from, into),
        Alltoall::Scattered => scattered(b, from, into),
        Alltoall::Pairwise | Alltoall::Staged => pairwise(b, from, into),
    }
    Ok(())
}

/// All messages at once; whom each rank starts with differs, so that no rank is flooded.
fn scattered(b: &mut Builder, from: &[Data], into: &[Data]) {
    let (n, r) = (b.size, b.rank);
    for i in 1..n {
        let peer = (r + n - i) % n;
        if b.bytes(into[peer]) > 0 {
            b.recv(peer, into[peer]);
        }
    }
    for i in 1..n {
        let peer = (r + i) % n;
        if b.bytes(from[peer]) > 0 {
            b.send(peer, from[peer]);
        }
    }
    b.copy(from[r], into[r]);
}

/// One exchange after the other: every rank sends one message and receives one at any time.
fn pairwise(b: &mut Builder, from: &[Data], into: &[Data]) {
    let (n, r) = (b.size, b.rank);
    b.copy(from[r], into[r]);
    for i in 1..n {
        let (to, source) = ((r + i) % n, (r + n - i) % n);
        let got = (b.bytes(into[source]) > 0).then(|| b.recv(source, into[source]));
        let sent = (b.bytes(from[to]) > 0).then(|| b.send(to, from[to]));
        b.wait_all(got);
        b.wait_all(sent);
    }
}

/// Block i is i ranks from its goal: in round k those with bit k set move 2^k ranks on, packed into one
/// message.
fn bruck(b: &mut Builder, from: &[Data], into: &[Data]) -> Built<()> {
    let (n, r) = (b.size, b.rank);
    let len = b.bytes(into[r]);
    let all = b.packed(len.saturating_mul(n))?;
    let half = b.packed(len.saturating_mul(n.div_ceil(2)))?;
    let got = b.packed(len.saturating_mul(n.div_ceil(2)))?;
    let block = |i: usize| all.part(i * len, len);
    for i in 1..n {
        b.copy(from[(r + i) % n], block(i));
    }
    let mut distance = 1;
    while distance < n {
        let moving: Vec<usize> = (1..n).filter(|i| i & distance != 0).collect();
        for (k, i) in moving.iter().enumerate() {
            b.copy(block(*i), half.part(k * len, len));
        }
        let bytes = moving.len() * len;
        b.exchange((r + distance) % n, half.part(0, bytes), (r + n - distance) % n, got.part(0, bytes));
        for (k, i) in moving.iter().enumerate() {
            b.copy(got.part(k * len, len), block(*i));
        }
        distance *= 2;
    }
    b.copy(from[r], into[r]);
    for i in 1..n {
        b.copy(block(i), into[(r + n - i) % n]);
    }
    Ok(())
}
