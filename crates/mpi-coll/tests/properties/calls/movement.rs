//! Collectives that move data.

use super::elements::Mem;
use super::{Draw, Form, call, finish};
use mpi_btl_sim::Rng;
use mpi_coll::InPlaceOr::{Buf, InPlace};
use mpi_coll::{Neighborhood, Team};
use mpi_datatype::{Datatype, RecvBlocks, SendBlocks};
use mpi_p2p::Engine;

/// Every second rank sends by the other datatype.
fn other(r: usize) -> bool {
    r % 2 == 1
}

/// Blocks of their own lengths, at their own places, some elements apart, the last first.
pub struct Layout {
    pub counts: Vec<usize>,
    pub places: Vec<isize>,
    /// Elements from the first place to the end.
    pub room: usize,
}

impl Layout {
    pub fn new(lengths: impl Iterator<Item = usize>) -> Layout {
        let counts: Vec<usize> = lengths.collect();
        let mut places = vec![0; counts.len()];
        let mut at = 0;
        for i in (0..counts.len()).rev() {
            places[i] = at as isize;
            at += counts[i] + 1;
        }
        Layout { counts, places, room: at }
    }

    /// Memory with these blocks, by their packed bytes.
    pub fn filled(&self, datatype: &Datatype, block: impl Fn(usize) -> Vec<u8>) -> Mem {
        let mut mem = Mem::room(datatype, self.room);
        for (i, count) in self.counts.iter().enumerate() {
            mem.put(self.places[i] as usize, *count, &block(i));
        }
        mem
    }

    pub fn give<'a>(&'a self, mem: &'a Mem, datatype: &'a Datatype) -> SendBlocks<'a> {
        // SAFETY: the blocks lie in the memory, which outlives the operation.
        unsafe { SendBlocks::new(mem.address(), &self.counts, &self.places, datatype) }.unwrap()
    }

    pub fn take<'a>(&'a self, mem: &'a mut Mem, datatype: &'a Datatype) -> RecvBlocks<'a> {
        // SAFETY: as above, and nobody looks at it meanwhile.
        unsafe { RecvBlocks::new(mem.address_mut(), &self.counts, &self.places, datatype) }.unwrap()
    }
}

pub fn barrier(d: &Draw, e: &Engine, t: &Team, _r: usize) {
    call!(d, e, t, r, barrier, ibarrier, barrier_init());
}

pub fn broadcast(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let data = d.kind.values(d.root, 0, d.count);
    let by_other = other(r + d.root);
    let full = Mem::sent(&d.kind, &data, d.count, by_other);
    let mut mem = match (r == d.root, by_other) {
        (true, _) => full.clone(),
        (false, true) => Mem::room(&d.kind.other.0, d.count * d.kind.other.1),
        (false, false) => Mem::room(&d.kind.datatype, d.count),
    };
    call!(d, e, t, r, broadcast, ibroadcast, broadcast_init(mem.recv(), d.root));
    mem.is(&full);
}

pub fn gather(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (n, at_root) = (t.size(), r == d.root);
    let mine = d.kind.values(r, 0, d.count);
    let own = Mem::sent(&d.kind, &mine, d.count, other(r));
    let mut all = Mem::room(&d.kind.datatype, if at_root { d.count * n } else { 0 });
    let in_place = at_root && d.in_place;
    if in_place {
        all.put(r * d.count, d.count, &mine);
    }
    let from = if in_place { InPlace } else { Buf(own.send()) };
    call!(d, e, t, r, gather, igather, gather_init(from, at_root.then(|| all.recv()), d.root));
    if at_root {
        let expected: Vec<u8> = (0..n).flat_map(|k| d.kind.values(k, 0, d.count)).collect();
        all.is(&Mem::of(&d.kind.datatype, d.count * n, &expected));
    }
}

pub fn gatherv(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (n, at_root) = (t.size(), r == d.root);
    let layout = Layout::new((0..n).map(|k| d.length(k)));
    let block = |k: usize| d.kind.values(k, 0, d.length(k));
    let own = Mem::sent(&d.kind, &block(r), d.length(r), other(r));
    let mut all = Mem::room(&d.kind.datatype, layout.room);
    let in_place = at_root && d.in_place;
    if in_place {
        all.put(layout.places[r] as usize, d.length(r), &block(r));
    }
    let from = if in_place { InPlace } else { Buf(own.send()) };
    let into = at_root.then(|| layout.take(&mut all, &d.kind.datatype));
    call!(d, e, t, r, gatherv, igatherv, gatherv_init(from, into, d.root));
    if at_root {
        all.is(&layout.filled(&d.kind.datatype, block));
    }
}

pub fn scatter(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (n, at_root) = (t.size(), r == d.root);
    let rows = Mem::sent(&d.kind, &d.kind.values(d.root, 0, d.count * n), d.count * n, other(r));
    let mut got = Mem::room(&d.kind.datatype, d.count);
    let in_place = at_root && d.in_place;
    let into = if in_place { InPlace } else { Buf(got.recv()) };
    call!(d, e, t, r, scatter, iscatter, scatter_init(at_root.then(|| rows.send()), into, d.root));
    if !in_place {
        got.is(&Mem::of(&d.kind.datatype, d.count, &d.kind.values(d.root, r * d.count, d.count)));
    }
}

pub fn scatterv(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (n, at_root) = (t.size(), r == d.root);
    let layout = Layout::new((0..n).map(|k| d.length(k)));
    let block = |k: usize| d.kind.values(k, 7, d.length(k));
    let rows = layout.filled(&d.kind.datatype, block);
    let mut got = Mem::room(&d.kind.datatype, d.length(r));
    let in_place = at_root && d.in_place;
    let into = if in_place { InPlace } else { Buf(got.recv()) };
    let from = at_root.then(|| layout.give(&rows, &d.kind.datatype));
    call!(d, e, t, r, scatterv, iscatterv, scatterv_init(from, into, d.root));
    if !in_place {
        got.is(&Mem::of(&d.kind.datatype, d.length(r), &block(r)));
    }
}

pub fn allgather(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let n = t.size();
    let mine = d.kind.values(r, 0, d.count);
    let own = Mem::sent(&d.kind, &mine, d.count, other(r));
    let mut all = Mem::room(&d.kind.datatype, d.count * n);
    if d.in_place {
        all.put(r * d.count, d.count, &mine);
    }
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    call!(d, e, t, r, allgather, iallgather, allgather_init(from, all.recv()));
    let expected: Vec<u8> = (0..n).flat_map(|k| d.kind.values(k, 0, d.count)).collect();
    all.is(&Mem::of(&d.kind.datatype, d.count * n, &expected));
}

pub fn allgatherv(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let layout = Layout::new((0..t.size()).map(|k| d.length(k)));
    let block = |k: usize| d.kind.values(k, 0, d.length(k));
    let own = Mem::sent(&d.kind, &block(r), d.length(r), other(r));
    let mut all = Mem::room(&d.kind.datatype, layout.room);
    if d.in_place {
        all.put(layout.places[r] as usize, d.length(r), &block(r));
    }
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    let into = layout.take(&mut all, &d.kind.datatype);
    call!(d, e, t, r, allgatherv, iallgatherv, allgatherv_init(from, into));
    all.is(&layout.filled(&d.kind.datatype, block));
}

/// What `from` sends to `to`.
fn told(d: &Draw, from: usize, to: usize, count: usize) -> Vec<u8> {
    d.kind.values(from * 20 + to, 0, count)
}

pub fn alltoall(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (n, count) = (t.size(), d.count.min(600));
    let rows: Vec<u8> = (0..n).flat_map(|k| told(d, r, k, count)).collect();
    let own = Mem::sent(&d.kind, &rows, count * n, other(r));
    let mut into = match d.in_place {
        true => Mem::of(&d.kind.datatype, count * n, &rows),
        false => Mem::room(&d.kind.datatype, count * n),
    };
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    call!(d, e, t, r, alltoall, ialltoall, alltoall_init(from, into.recv()));
    let expected: Vec<u8> = (0..n).flat_map(|k| told(d, k, r, count)).collect();
    into.is(&Mem::of(&d.kind.datatype, count * n, &expected));
}

/// Elements that two ranks tell each other; as many both ways, as in place demands.
fn between(d: &Draw, a: usize, b: usize) -> usize {
    d.length(a.min(b) * 17 + a.max(b))
}

pub fn alltoallv(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let n = t.size();
    let layout = Layout::new((0..n).map(|k| between(d, r, k)));
    let own = layout.filled(&d.kind.datatype, |k| told(d, r, k, between(d, r, k)));
    let mut into = if d.in_place { own.clone() } else { Mem::room(&d.kind.datatype, layout.room) };
    let from = if d.in_place { InPlace } else { Buf(layout.give(&own, &d.kind.datatype)) };
    let room = layout.take(&mut into, &d.kind.datatype);
    call!(d, e, t, r, alltoallv, ialltoallv, alltoallv_init(from, room));
    into.is(&layout.filled(&d.kind.datatype, |k| told(d, k, r, between(d, r, k))));
}

/// Places in bytes, and a datatype for each block.
pub fn alltoallw(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (n, extent) = (t.size(), d.kind.datatype.extent());
    let layout = Layout::new((0..n).map(|k| between(d, r, k)));
    let own = layout.filled(&d.kind.datatype, |k| told(d, r, k, between(d, r, k)));
    let mut into = Mem::room(&d.kind.datatype, layout.room);
    let bytes: Vec<isize> = layout.places.iter().map(|place| place * extent).collect();
    let types = vec![d.kind.datatype.clone(); n];
    // SAFETY: as for blocks of one datatype.
    let (from, room) = unsafe {
        (
            SendBlocks::with_types(own.address(), &layout.counts, &bytes, &types).unwrap(),
            RecvBlocks::with_types(into.address_mut(), &layout.counts, &bytes, &types).unwrap(),
        )
    };
    call!(d, e, t, r, alltoallv, ialltoallv, alltoallv_init(Buf(from), room));
    into.is(&layout.filled(&d.kind.datatype, |k| told(d, k, r, between(d, r, k))));
}

/// A graph drawn from the seed, edges several times among them: all four collectives on it.
pub fn neighborhood(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (n, count) = (t.size(), d.count.min(300));
    let mut rng = Rng::new(d.seed);
    let edges: Vec<(usize, usize)> = (0..rng.below(3 * n as u64))
        .map(|_| (rng.below(n as u64) as usize, rng.below(n as u64) as usize))
        .collect();
    let number = |rank: usize| Some(rank as u32);
    let sources: Vec<_> = edges.iter().filter(|e| e.1 == r).map(|e| number(e.0)).collect();
    let destinations: Vec<_> = edges.iter().filter(|e| e.0 == r).map(|e| number(e.1)).collect();
    let hood = Neighborhood { sources: &sources, destinations: &destinations, grid: false };
    // Which of the blocks of a source each edge carries.
    let coming: Vec<(usize, usize)> = (0..edges.len())
        .filter(|i| edges[*i].1 == r)
        .map(|i| (edges[i].0, edges[..i].iter().filter(|e| e.0 == edges[i].0).count()))
        .collect();
    let (ins, outs) = (sources.len(), destinations.len());
    let dt = &d.kind.datatype;

    let own = Mem::sent(&d.kind, &d.kind.values(r, 0, count), count, other(r));
    let mut all = Mem::room(dt, count * ins);
    call!(
        d,
        e,
        t,
        r,
        neighbor_allgather,
        ineighbor_allgather,
        neighbor_allgather_init(hood, own.send(), all.recv())
    );
    let expected: Vec<u8> = coming.iter().flat_map(|(k, _)| d.kind.values(*k, 0, count)).collect();
    all.is(&Mem::of(dt, count * ins, &expected));

    let layout = Layout::new(coming.iter().map(|(k, _)| d.length(*k)));
    let own = Mem::sent(&d.kind, &d.kind.values(r, 0, d.length(r)), d.length(r), other(r));
    let mut all = Mem::room(dt, layout.room);
    let room = layout.take(&mut all, dt);
    call!(
        d,
        e,
        t,
        r,
        neighbor_allgatherv,
        ineighbor_allgatherv,
        neighbor_allgatherv_init(hood, own.send(), room)
    );
    all.is(&layout.filled(dt, |i| d.kind.values(coming[i].0, 0, d.length(coming[i].0))));

    let rows: Vec<u8> = (0..outs).flat_map(|i| told(d, r, i, count)).collect();
    let own = Mem::sent(&d.kind, &rows, count * outs, other(r));
    let mut all = Mem::room(dt, count * ins);
    call!(
        d,
        e,
        t,
        r,
        neighbor_alltoall,
        ineighbor_alltoall,
        neighbor_alltoall_init(hood, own.send(), all.recv())
    );
    let expected: Vec<u8> = coming.iter().flat_map(|(k, i)| told(d, *k, *i, count)).collect();
    all.is(&Mem::of(dt, count * ins, &expected));

    let leaving = Layout::new((0..outs).map(|i| d.length(r * 40 + i)));
    let layout = Layout::new(coming.iter().map(|(k, i)| d.length(k * 40 + i)));
    let own = leaving.filled(dt, |i| told(d, r, i, d.length(r * 40 + i)));
    let mut all = Mem::room(dt, layout.room);
    let (from, room) = (leaving.give(&own, dt), layout.take(&mut all, dt));
    call!(d, e, t, r, neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init(hood, from, room));
    all.is(
        &layout.filled(dt, |i| told(d, coming[i].0, coming[i].1, d.length(coming[i].0 * 40 + coming[i].1)))
    );
}
