//! Collectives between the two groups of an inter-communicator: inside a group by the algorithms of one, between the
//! groups by their ranks 0, or straight from rank to rank. Graham and others, "Characteristics of intercommunicator
//! collectives" is the shape of MPICH's and Open MPI's too; what is sent follows from MPI 4.1, section 6.2.3.

use super::{broadcast, reduce, scatter, tree};
use crate::choose::{Broadcast, Reduce, Scatter};
use crate::program::{Builder, Built, Data};

/// Nobody leaves before all of the other group have entered: up a tree, across, down again.
pub(crate) fn barrier(b: &mut Builder) -> Built<()> {
    let token = b.packed(0)?;
    for child in tree::children(b.rank, b.size) {
        let got = b.recv(child, token);
        b.wait(got);
    }
    match tree::parent(b.rank) {
        Some(parent) => {
            b.send(parent, token);
            let got = b.recv(parent, token);
            b.wait(got);
        }
        None => {
            b.send(b.far(0), token);
            let got = b.recv(b.far(0), token);
            b.wait(got);
        }
    }
    for child in tree::children(b.rank, b.size).rev() {
        b.send(child, token);
    }
    Ok(())
}

/// In the group that receives: from `root` to rank 0, and from there to all.
pub(crate) fn broadcast_in(b: &mut Builder, data: Data, root: usize, by: Broadcast) -> Built<()> {
    if b.bytes(data) == 0 {
        return Ok(());
    }
    if b.rank == 0 {
        let got = b.recv(b.far(root), data);
        b.wait(got);
    }
    broadcast::broadcast(b, data, 0, by)
}

/// `own` to every rank of the other group, as `blocks` from each of them; empty ones are no messages.
pub(crate) fn exchange(b: &mut Builder, own: &[Data], blocks: &[Data], at_once: bool) {
    let (n, me) = (b.size.max(b.far_size), b.rank);
    // In each round every rank has one partner to send to and one to receive from, at most.
    for i in 0..n {
        let (from, to) = ((n + me - i) % n, (me + i) % n);
        let got = blocks.get(from).filter(|d| b.bytes(**d) > 0).map(|d| b.recv(b.far(from), *d));
        let sent = own.get(to).filter(|d| b.bytes(**d) > 0).map(|d| b.send(b.far(to), *d));
        if !at_once {
            b.wait_all(got);
            b.wait_all(sent);
        }
    }
}

/// Everyone's `own` to rank 0 of the other group, and what comes from there to all of this one.
pub(crate) fn allgather(
    b: &mut Builder,
    own: Data,
    blocks: &[Data],
    by: impl Fn(usize) -> Broadcast,
) -> Built<()> {
    if b.bytes(own) > 0 {
        b.send(b.far(0), own);
    }
    let total = blocks.iter().fold(0, |sum: usize, d| sum.saturating_add(b.bytes(*d)));
    if total == 0 {
        return Ok(());
    }
    // Ranks may lay the same data out differently: what is told inside the group is packed.
    let all = b.packed(total)?;
    let mut at = 0;
    let mut parts = Vec::with_capacity(blocks.len());
    for block in blocks {
        let len = b.bytes(*block);
        parts.push(all.part(at, len));
        at += len;
    }
    if b.rank == 0 {
        let coming: Vec<_> =
            (0..blocks.len()).filter(|i| parts[*i].count > 0).map(|i| b.recv(b.far(i), parts[i])).collect();
        b.wait_all(coming);
    }
    broadcast::broadcast(b, all, 0, by(total))?;
    for (part, block) in parts.into_iter().zip(blocks) {
        b.copy(part, *block);
    }
    Ok(())
}

/// Everyone's `own`, combined, from rank 0 of this group to rank `to` of the other.
pub(crate) fn reduce_out(b: &mut Builder, own: Data, to: usize, by: Reduce) -> Built<()> {
    if own.count == 0 {
        return Ok(());
    }
    let sum = if b.rank == 0 { Some(b.like(own)?) } else { None };
    reduce::reduce(b, own, sum, 0, by)?;
    if let Some(sum) = sum {
        // Parts of it may still be on their way.
        b.settle();
        b.send(b.far(to), sum);
    }
    Ok(())
}

/// Each group's `own`, combined, into the `result` of everyone in the other.
pub(crate) fn allreduce(b: &mut Builder, own: Data, result: Data, by: Reduce, down: Broadcast) -> Built<()> {
    reduce_out(b, own, 0, by)?;
    broadcast_in(b, result, 0, down)
}

/// Each group's `own`, combined, dealt out in the other: `counts[i]` elements to rank `i`.
pub(crate) fn reduce_scatter(
    b: &mut Builder,
    own: Data,
    counts: &[usize],
    result: Data,
    by: Reduce,
) -> Built<()> {
    reduce_out(b, own, 0, by)?;
    let mut parts = Vec::new();
    if b.rank == 0 && own.count > 0 {
        let all = b.like(own)?;
        let got = b.recv(b.far(0), all);
        b.wait(got);
        let mut at = 0;
        for count in counts {
            parts.push(all.part(at, *count));
            at += count;
        }
    }
    if own.count == 0 {
        return Ok(());
    }
    scatter::scatter(b, &parts, Some(result), 0, Scatter::Linear)
}
