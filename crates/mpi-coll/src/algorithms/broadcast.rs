//! Broadcast. Scatter and allgather: van de Geijn and others, "Interprocessor collective communication
//! library", 1994; choice by size: Thakur, Rabenseifner, Gropp, "Optimization of collective
//! communication operations in MPICH", 2005.

use super::{allgather, tree};
use crate::choose::Broadcast;
use crate::limits::BROADCAST_PIECE_BYTES;
use crate::program::{Builder, Built, Data, cut};

pub(crate) fn broadcast(b: &mut Builder, data: Data, root: usize, by: Broadcast) -> Built<()> {
    if b.size == 1 {
        return Ok(());
    }
    if by == Broadcast::Binomial {
        binomial(b, data, root);
        return Ok(());
    }
    let root_here = b.rank == root;
    flat(b, data, root_here, |b, flat| match by {
        Broadcast::ScatterAllgather => scatter_allgather(b, flat, root),
        _ => pipelined(b, flat, root, BROADCAST_PIECE_BYTES),
    })
}

/// What `data` holds, on one rank, goes to all others as bytes, as `write` says: messages are cut by bytes, as ranks
/// may count elements differently.
fn flat(b: &mut Builder, data: Data, has: bool, write: impl FnOnce(&mut Builder, Data)) -> Built<()> {
    let (flat, packed) = match b.flat(data) {
        Some(flat) => (flat, false),
        None => (b.packed(b.bytes(data))?, true),
    };
    if packed && has {
        b.copy(data, flat);
    }
    write(b, flat);
    if packed && !has {
        b.copy(flat, data);
    }
    Ok(())
}

/// In pieces from rank to rank: to all of `to`, after it came from `from`, if it does not stand here already.
pub(crate) fn handed_on(b: &mut Builder, data: Data, from: Option<usize>, to: &[usize]) -> Built<()> {
    flat(b, data, from.is_none(), |b, flat| stream(b, flat, from, to, BROADCAST_PIECE_BYTES))
}

fn binomial(b: &mut Builder, data: Data, root: usize) {
    let (n, v) = (b.size, (b.rank + b.size - root) % b.size);
    if let Some(parent) = tree::parent(v) {
        let got = b.recv((parent + root) % n, data);
        b.wait(got);
    }
    for child in tree::children(v, n).rev() {
        b.send((child + root) % n, data);
    }
}

fn scatter_allgather(b: &mut Builder, data: Data, root: usize) {
    let (n, v) = (b.size, (b.rank + b.size - root) % b.size);
    let blocks = |from: usize, to: usize| {
        let (from, to) = (cut(data.count, n, from), cut(data.count, n, to));
        data.part(from, to - from)
    };
    if let Some(parent) = tree::parent(v) {
        let mine = blocks(v, v + tree::span(v, n));
        if mine.count > 0 {
            let got = b.recv((parent + root) % n, mine);
            b.wait(got);
        }
    }
    for child in tree::children(v, n).rev() {
        let theirs = blocks(child, child + tree::span(child, n));
        if theirs.count > 0 {
            b.send((child + root) % n, theirs);
        }
    }
    allgather::ring(b, v, blocks(v, v + 1), |i| blocks(i, i + 1), |v| (v + root) % n);
}

/// Down a chain, piece by piece.
fn pipelined(b: &mut Builder, data: Data, root: usize, piece: usize) {
    let (n, v) = (b.size, (b.rank + b.size - root) % b.size);
    let (before, next) = ((b.rank + n - 1) % n, (b.rank + 1) % n);
    let to = if v + 1 < n { &[next][..] } else { &[] };
    stream(b, data, (v > 0).then_some(before), to, piece);
}

/// Piece by piece: while one is passed on the next comes in.
fn stream(b: &mut Builder, data: Data, from: Option<usize>, to: &[usize], piece: usize) {
    const AHEAD: usize = 4;
    let pieces = data.count.div_ceil(piece).max(1);
    let part = |i: usize| data.part(i * piece, piece.min(data.count - i * piece));
    let mut coming = std::collections::VecDeque::new();
    let mut leaving = std::collections::VecDeque::new();
    let mut posted = 0;
    for i in 0..pieces {
        if let Some(from) = from {
            while posted < pieces.min(i + AHEAD) {
                coming.push_back(b.recv(from, part(posted)));
                posted += 1;
            }
            if let Some(got) = coming.pop_front() {
                b.wait(got);
            }
        }
        if leaving.len() == AHEAD * to.len() {
            let oldest: Vec<_> = leaving.drain(..to.len()).collect();
            b.wait_all(oldest);
        }
        leaving.extend(to.iter().map(|to| b.send(*to, part(i))));
    }
}
