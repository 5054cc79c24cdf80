//! Collectives over several nodes: inside each node, between the nodes' leaders, inside again. What the levels do is
//! done by the algorithms of one group. Karonis and others, "Exploiting hierarchy in parallel computer networks to optimize
//! collective operation performance", 2000; several leaders for long vectors: Kandalla and others, "Designing
//! multi-leader-based allgather algorithms for multi-core clusters", 2009.
//!
//! A rank may be in three parts one after the other. Each is settled before the next touches its data.

use super::{
    allgather, allreduce, alltoall, barrier, broadcast, reduce, reduce_scatter, scan, scatter, tree,
};
use crate::choose::{Alltoall, Scatter, Settings};
use crate::limits::{LEADERS_ALLGATHER_PACKED_MAX_BYTES, LEADERS_PARTS_MIN_BYTES, LEADERS_STREAM_MIN_BYTES};
use crate::nodes::Nodes;
use crate::program::{Builder, Built, Data, cut};

/// Where the ranks are, and how the algorithms of the levels are chosen.
pub(crate) struct Leaders<'a> {
    pub nodes: &'a Nodes,
    pub settings: &'a Settings,
}

impl Leaders<'_> {
    fn mates(&self, b: &Builder) -> &[u32] {
        self.nodes.mates(b.rank)
    }

    /// The place of a node's leader among its ranks.
    fn seat(&self, leader: u32) -> usize {
        self.nodes.place(leader as usize)
    }

    /// Up the tree of each node, between the leaders, down again.
    pub fn barrier(&self, b: &mut Builder) -> Built<()> {
        let token = b.packed(0)?;
        b.among(self.mates(b), |b| {
            let coming: Vec<_> = tree::children(b.rank, b.size).map(|child| b.recv(child, token)).collect();
            b.wait_all(coming);
            if let Some(parent) = tree::parent(b.rank) {
                b.send(parent, token);
            }
            Ok(())
        })?;
        b.among(&self.nodes.across(0), barrier::dissemination)?;
        b.among(self.mates(b), |b| {
            if let Some(parent) = tree::parent(b.rank) {
                let got = b.recv(parent, token);
                b.wait(got);
            }
            tree::children(b.rank, b.size).rev().for_each(|child| {
                b.send(child, token);
            });
            Ok(())
        })
    }

    pub fn broadcast(&self, b: &mut Builder, data: Data, root: usize) -> Built<()> {
        let leaders = self.nodes.leaders(root);
        let (bytes, node) = (b.bytes(data), self.nodes.of(b.rank));
        if bytes >= LEADERS_STREAM_MIN_BYTES {
            return self.chains(b, data, root, &leaders);
        }
        let (home, seat) = (self.nodes.of(root), self.seat(leaders[node]));
        let by = |b: &Builder| self.settings.choose_broadcast(b.size, bytes);
        b.among(&leaders, |b| broadcast::broadcast(b, data, home, by(b)))?;
        b.among(self.mates(b), |b| broadcast::broadcast(b, data, seat, by(b)))
    }

    /// Piece by piece down a chain of leaders, and from each of them down one of its node.
    fn chains(&self, b: &mut Builder, data: Data, root: usize, leaders: &[u32]) -> Built<()> {
        let node = self.nodes.of(b.rank);
        let leader = leaders[node];
        let next = |chain: &[u32], first: usize, n: usize| chain.get((first + n) % chain.len()).copied();
        let (count, home) = (leaders.len(), self.nodes.of(root));
        let (mates, seat) = (self.mates(b), self.seat(leader));
        // How far down its chains this rank is.
        let (down, along) =
            ((node + count - home) % count, (self.nodes.place(b.rank) + mates.len() - seat) % mates.len());
        let leads = b.rank == leader as usize;
        let from = match (leads, down) {
            (true, 0) => None,
            (true, down) => next(leaders, home, down - 1),
            (false, _) => next(mates, seat, along - 1),
        };
        let further = (leads && down + 1 < count).then(|| next(leaders, home, down + 1)).flatten();
        let inside = (along + 1 < mates.len()).then(|| next(mates, seat, along + 1)).flatten();
        let to: Vec<usize> = further.into_iter().chain(inside).map(|rank| rank as usize).collect();
        broadcast::handed_on(b, data, from.map(|rank| rank as usize), &to)
    }

    pub fn reduce(&self, b: &mut Builder, own: Data, result: Option<Data>, root: usize) -> Built<()> {
        let leaders = self.nodes.leaders(root);
        let (leader, home) = (leaders[self.nodes.of(b.rank)], self.nodes.of(root));
        let sum = self.reduce_on_node(b, own, result, leader)?;
        let commutes = b.commutes();
        b.among(&leaders, |b| {
            let by = self.settings.choose_reduce(b.size, own.count, b.bytes(own), commutes);
            reduce::reduce(b, sum, result, home, by)
        })
    }

    /// Each node's operands combined at its leader: where. In `result`, if there is room.
    fn reduce_on_node(&self, b: &mut Builder, own: Data, result: Option<Data>, leader: u32) -> Built<Data> {
        let (mates, seat) = (self.mates(b), self.seat(leader));
        if mates.len() == 1 {
            return Ok(own);
        }
        let leads = b.rank == leader as usize;
        let sum = match result {
            _ if !leads => own,
            Some(result) => result,
            None => b.like(own)?,
        };
        let commutes = b.commutes();
        b.among(mates, |b| {
            let by = self.settings.choose_reduce(b.size, own.count, b.bytes(own), commutes);
            reduce::reduce(b, own, leads.then_some(sum), seat, by)
        })?;
        b.settle();
        Ok(sum)
    }

    pub fn allreduce(&self, b: &mut Builder, own: Data, result: Data) -> Built<()> {
        let parts = self.nodes.least().min(own.count);
        if b.commutes() && parts > 1 && b.bytes(own) >= LEADERS_PARTS_MIN_BYTES {
            return self.allreduce_by_parts(b, own, result, parts);
        }
        let (leader, commutes) = (self.mates(b)[0], b.commutes());
        let bytes = b.bytes(own);
        let sum = self.reduce_on_node(b, own, Some(result), leader)?;
        b.among(&self.nodes.across(0), |b| {
            let by = self.settings.choose_allreduce(b.size, own.count, bytes, commutes);
            allreduce::allreduce(b, sum, result, by)
        })?;
        if self.mates(b).len() > 1 {
            b.settle();
        }
        b.among(self.mates(b), |b| {
            let by = self.settings.choose_broadcast(b.size, bytes);
            broadcast::broadcast(b, result, 0, by)
        })
    }

    /// The first `parts` ranks of each node lead, each for a part of the vector: all of them work at the same time, and
    /// no byte crosses between nodes more often than with one leader.
    fn allreduce_by_parts(&self, b: &mut Builder, own: Data, result: Data, parts: usize) -> Built<()> {
        let (mates, place) = (self.mates(b), self.nodes.place(b.rank));
        let part = |whole: Data, i: usize| {
            let (from, to) = match i < parts {
                true => (cut(whole.count, parts, i), cut(whole.count, parts, i + 1)),
                false => (0, 0),
            };
            whole.part(from, to - from)
        };
        let mine = part(result, place);
        let mut sum = mine;
        if place < parts && own != result {
            sum = b.like(mine)?;
        }
        b.among(mates, |b| gather_parts(b, own, sum, part))?;
        if place < parts {
            b.among(&self.nodes.across(place), |b| {
                let by = self.settings.choose_allreduce(b.size, mine.count, b.bytes(mine), true);
                allreduce::allreduce(b, sum, mine, by)
            })?;
        }
        b.settle();
        b.among(mates, |b| {
            allgather::ring(b, b.rank, mine, |i| part(result, i % mates.len()), |rank| rank);
            Ok(())
        })
    }

    /// Blocks of one length; `bytes` of each.
    pub fn gather(
        &self,
        b: &mut Builder,
        own: Option<Data>,
        blocks: &[Data],
        root: usize,
        bytes: usize,
    ) -> Built<()> {
        let leaders = self.nodes.leaders(root);
        let (node, home) = (self.nodes.of(b.rank), self.nodes.of(root));
        let (leader, mates) = (leaders[node] as usize, self.mates(b));
        let mine = own.unwrap_or_else(|| blocks[b.rank]);
        if b.rank != leader {
            b.send(leader, mine);
            return Ok(());
        }
        if b.rank != root {
            let bundle = b.packed(bytes.saturating_mul(mates.len()))?;
            let slot = |i: usize| bundle.part(i * bytes, bytes);
            self.receive_mates(b, mine, slot);
            b.send(root, bundle);
            return Ok(());
        }
        let places: Vec<Data> = mates.iter().map(|mate| blocks[*mate as usize]).collect();
        let mut coming = Vec::new();
        for other in (0..self.nodes.count()).filter(|other| *other != home) {
            let bundle = b.packed(bytes.saturating_mul(self.nodes.ranks(other).len()))?;
            coming.push((other, bundle, b.recv(leaders[other] as usize, bundle)));
        }
        self.receive_mates(b, mine, |i| places[i]);
        for (other, bundle, got) in coming {
            b.wait(got);
            for (i, rank) in self.nodes.ranks(other).iter().enumerate() {
                b.copy(bundle.part(i * bytes, bytes), blocks[*rank as usize]);
            }
        }
        Ok(())
    }

    /// The blocks of all ranks of the node, one's own among them, into their slots.
    fn receive_mates(&self, b: &mut Builder, own: Data, slot: impl Fn(usize) -> Data) {
        let mut coming = Vec::new();
        for (i, mate) in self.mates(b).iter().enumerate() {
            match *mate as usize {
                mate if mate == b.rank => b.copy(own, slot(i)),
                mate => coming.push(b.recv(mate, slot(i))),
            }
        }
        b.wait_all(coming);
    }

    /// Blocks of one length; `bytes` of each.
    pub fn scatter(
        &self,
        b: &mut Builder,
        blocks: &[Data],
        own: Option<Data>,
        root: usize,
        bytes: usize,
    ) -> Built<()> {
        let leaders = self.nodes.leaders(root);
        let (leader, mates) = (leaders[self.nodes.of(b.rank)] as usize, self.mates(b));
        let mine = own.unwrap_or_else(|| blocks[b.rank]);
        if b.rank != leader {
            b.recv(leader, mine);
            return Ok(());
        }
        if b.rank != root {
            let bundle = b.packed(bytes.saturating_mul(mates.len()))?;
            let got = b.recv(root, bundle);
            b.wait(got);
            self.send_mates(b, mine, |i| bundle.part(i * bytes, bytes));
            return Ok(());
        }
        // What goes far leaves first.
        for other in (0..self.nodes.count()).filter(|other| *other != self.nodes.of(root)) {
            let ranks = self.nodes.ranks(other);
            let bundle = b.packed(bytes.saturating_mul(ranks.len()))?;
            for (i, rank) in ranks.iter().enumerate() {
                b.copy(blocks[*rank as usize], bundle.part(i * bytes, bytes));
            }
            b.send(leaders[other] as usize, bundle);
        }
        let places: Vec<Data> = mates.iter().map(|mate| blocks[*mate as usize]).collect();
        self.send_mates(b, mine, |i| places[i]);
        Ok(())
    }

    /// The blocks of all ranks of the node out of their slots, one's own into its place.
    fn send_mates(&self, b: &mut Builder, own: Data, slot: impl Fn(usize) -> Data) {
        for (i, mate) in self.mates(b).iter().enumerate() {
            match *mate as usize {
                mate if mate == b.rank => b.copy(slot(i), own),
                mate => {
                    b.send(mate, slot(i));
                }
            }
        }
    }

    /// Blocks of any lengths; all ranks know them.
    pub fn allgather(&self, b: &mut Builder, own: Option<Data>, blocks: &[Data]) -> Built<()> {
        let order: Vec<usize> = self.nodes.by_node().collect();
        let mine = own.unwrap_or_else(|| blocks[b.rank]);
        let mut start = vec![0_usize];
        for rank in &order {
            start.push(start[start.len() - 1].saturating_add(b.bytes(blocks[*rank])));
        }
        let total = start[order.len()];
        if total > LEADERS_ALLGATHER_PACKED_MAX_BYTES {
            // Round a ring that enters every node once.
            let me = order.iter().position(|rank| *rank == b.rank).unwrap_or(0);
            let n = order.len();
            allgather::ring(b, me, mine, |i| blocks[order[i % n]], |place| order[place]);
            return Ok(());
        }
        let all = b.packed(total)?;
        let part = |from: usize, to: usize| all.part(start[from], start[to] - start[from]);
        let mut first = vec![0];
        for node in 0..self.nodes.count() {
            first.push(first[node] + self.nodes.ranks(node).len());
        }
        let (node, leader) = (self.nodes.of(b.rank), self.mates(b)[0] as usize);
        match b.rank == leader {
            true => self.receive_mates(b, mine, |i| part(first[node] + i, first[node] + i + 1)),
            false => {
                b.send(leader, mine);
            }
        }
        let bundles: Vec<Data> = first.windows(2).map(|pair| part(pair[0], pair[1])).collect();
        b.among(&self.nodes.across(0), |b| {
            let by = self.settings.choose_allgather(b.size, total, false);
            allgather::allgather(b, None, &bundles, None, by)
        })?;
        b.among(self.mates(b), |b| {
            let by = self.settings.choose_broadcast(b.size, total);
            broadcast::broadcast(b, all, 0, by)
        })?;
        for (i, rank) in order.iter().enumerate() {
            b.copy(part(i, i + 1), blocks[*rank]);
        }
        Ok(())
    }

    /// Equal blocks: those for other nodes go packed by the leaders, in one message from each rank to its leader, one between
    /// every two leaders, and one to each rank; those within a node go straight.
    pub fn alltoall(&self, b: &mut Builder, from: &[Data], into: &[Data]) -> Built<()> {
        let (mates, node, len) = (self.mates(b), self.nodes.of(b.rank), b.bytes(into[b.rank]));
        let of_mates = |all: &[Data]| mates.iter().map(|mate| all[*mate as usize]).collect::<Vec<_>>();
        let (near_from, near_into) = (of_mates(from), of_mates(into));
        b.among(mates, |b| alltoall::alltoall(b, &near_from, &near_into, Alltoall::Scattered))?;
        let far: Vec<usize> = self.nodes.by_node().filter(|rank| self.nodes.of(*rank) != node).collect();
        let (leader, row, m) = (mates[0] as usize, len.saturating_mul(far.len()), mates.len());
        let (goes, comes) = if b.rank == leader { (m, m) } else { (1, 1) };
        let (out, back) = (b.packed(row.saturating_mul(goes))?, b.packed(row.saturating_mul(comes))?);
        let block = |all: Data, i: usize, k: usize| all.part(i * row + k * len, len);
        for (k, rank) in far.iter().enumerate() {
            b.copy(from[*rank], block(out, 0, k));
        }
        if b.rank == leader {
            self.receive_mates(b, out.part(0, row), |i| out.part(i * row, row));
            self.alltoall_of_leaders(b, (m, len), |i, k| block(out, i, k), |i, k| block(back, i, k))?;
            for (i, mate) in mates.iter().enumerate().skip(1) {
                b.send(*mate as usize, back.part(i * row, row));
            }
        } else {
            b.send(leader, out);
            let got = b.recv(leader, back);
            b.wait(got);
        }
        for (k, rank) in far.iter().enumerate() {
            b.copy(block(back, 0, k), into[*rank]);
        }
        Ok(())
    }

    /// Between the leaders: `out(i, k)` is what the `i`-th rank of the node has for the `k`-th one elsewhere, `back(i, k)`
    /// is for what that one has for it.
    fn alltoall_of_leaders(
        &self,
        b: &mut Builder,
        (m, len): (usize, usize),
        out: impl Fn(usize, usize) -> Data,
        back: impl Fn(usize, usize) -> Data,
    ) -> Built<()> {
        let (nodes, node) = (self.nodes.count(), self.nodes.of(b.rank));
        let (mut sends, mut receives, mut first) = (Vec::new(), Vec::new(), 0);
        for there in 0..nodes {
            let ranks = if there == node { 0 } else { self.nodes.ranks(there).len() };
            let (packed, coming) = (b.packed(len * m * ranks)?, b.packed(len * m * ranks)?);
            for (i, k) in (0..m).flat_map(|i| (0..ranks).map(move |k| (i, k))) {
                b.copy(out(i, first + k), packed.part((i * ranks + k) * len, len));
            }
            sends.push(packed);
            receives.push((coming, first, ranks));
            first += ranks;
        }
        let rooms: Vec<Data> = receives.iter().map(|(coming, ..)| *coming).collect();
        b.among(&self.nodes.across(0), |b| alltoall::alltoall(b, &sends, &rooms, Alltoall::Scattered))?;
        b.settle();
        for (coming, first, ranks) in receives {
            for (i, k) in (0..m).flat_map(|i| (0..ranks).map(move |k| (i, k))) {
                // The other leader packed it rank by rank of its own node.
                b.copy(coming.part((k * m + i) * len, len), back(i, first + k));
            }
        }
        Ok(())
    }

    /// Each node's operands are combined at its leader, dealt out between the leaders, and from there to the ranks.
    pub fn reduce_scatter(&self, b: &mut Builder, own: Data, counts: &[usize], result: Data) -> Built<()> {
        let mates = self.mates(b);
        let leader = mates[0];
        let mut sum = self.reduce_on_node(b, own, None, leader)?;
        let mut parts = Vec::new();
        if b.rank == leader as usize {
            sum = self.node_by_node(b, sum, counts)?;
            let total = |ranks: &[u32]| ranks.iter().map(|rank| counts[*rank as usize]).sum::<usize>();
            let of_nodes: Vec<usize> = (0..self.nodes.count()).map(|n| total(self.nodes.ranks(n))).collect();
            let here = b.scratch_like(own, of_nodes[self.nodes.of(b.rank)])?;
            let commutes = b.commutes();
            b.among(&self.nodes.across(0), |b| {
                let by = self.settings.choose_reduce_scatter(b.size, b.bytes(sum), commutes);
                reduce_scatter::reduce_scatter(b, sum, &of_nodes, here, by)
            })?;
            b.settle();
            let mut at = 0;
            for mate in mates {
                parts.push(here.part(at, counts[*mate as usize]));
                at += counts[*mate as usize];
            }
        }
        b.among(mates, |b| scatter::scatter(b, &parts, Some(result), 0, Scatter::Linear))
    }

    /// All blocks in the order of nodes.
    fn node_by_node(&self, b: &mut Builder, all: Data, counts: &[usize]) -> Built<Data> {
        if self.nodes.in_order() {
            return Ok(all);
        }
        let mut start = vec![0];
        for count in counts {
            start.push(start[start.len() - 1] + count);
        }
        let sorted = b.like(all)?;
        let mut at = 0;
        for rank in self.nodes.by_node() {
            b.copy(all.part(start[rank], counts[rank]), sorted.part(at, counts[rank]));
            at += counts[rank];
        }
        Ok(sorted)
    }

    /// Of nodes that stand in order: what the nodes before this one hold goes in front of what its ranks have.
    pub fn scan(&self, b: &mut Builder, own: Data, result: Data, exclusive: bool) -> Built<()> {
        let mates = self.mates(b);
        let last = mates[mates.len() - 1] as usize;
        let mut kept = own;
        if exclusive && own == result && b.rank == last {
            kept = b.like(own)?;
            b.copy(own, kept);
        }
        b.among(mates, |b| match exclusive {
            true => scan::exscan(b, own, result),
            false => scan::scan(b, own, result),
        })?;
        b.settle();
        let before = b.like(result)?;
        let lasts: Vec<u32> =
            (0..self.nodes.count()).filter_map(|n| self.nodes.ranks(n).last().copied()).collect();
        if b.rank == last {
            let mut total = result;
            if exclusive {
                total = kept;
                if mates.len() > 1 {
                    total = b.like(own)?;
                    b.copy(kept, total);
                    b.reduce(result, total);
                }
            }
            b.among(&lasts, |b| scan::exscan(b, total, before))?;
            b.settle();
        }
        if self.nodes.of(b.rank) == 0 {
            return Ok(());
        }
        let bytes = b.bytes(before);
        b.among(mates, |b| {
            let by = self.settings.choose_broadcast(b.size, bytes);
            broadcast::broadcast(b, before, b.size - 1, by)
        })?;
        match exclusive && self.nodes.place(b.rank) == 0 {
            true => b.copy(before, result),
            false => b.reduce(before, result),
        }
        Ok(())
    }
}

/// Everyone's part `i` to rank `i`, which combines them in `sum`. The operation commutes.
fn gather_parts(b: &mut Builder, own: Data, sum: Data, part: impl Fn(Data, usize) -> Data) -> Built<()> {
    let (n, r) = (b.size, b.rank);
    let (mine, others) = (part(own, r), (1..n).map(|i| (r + n - i) % n));
    let mut coming = Vec::new();
    if mine.count > 0 {
        for from in others {
            // What comes first lands where the sum is to be, if nothing stands there.
            let into = if coming.is_empty() && sum != mine { sum } else { b.like(mine)? };
            coming.push((into, b.recv(from, into)));
        }
    }
    for i in 1..n {
        b.send_some((r + i) % n, part(own, (r + i) % n));
    }
    if coming.is_empty() && mine.count > 0 {
        b.copy(mine, sum);
    }
    for (into, got) in coming {
        b.wait(got);
        b.reduce(if into == sum { mine } else { into }, sum);
    }
    Ok(())
}
