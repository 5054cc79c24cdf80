//! Collectives between two groups: what comes is the other group's.

use crate::calls::elements::Mem;
use crate::calls::movement::Layout;
use crate::calls::reductions::{combined, operation};
use crate::calls::{Draw, Form, call, finish, named};
use crate::settings;
use crate::world::World;
use mpi_btl::Ep;
use mpi_btl_sim::{Rng, SimConfig};
use mpi_coll::InPlaceOr::Buf;
use mpi_coll::{Root, Team};
use mpi_p2p::{ContextSpec, Engine};
use std::sync::Arc;

/// A process as it sees the two groups; ranks of both are counted through, the low group first.
struct Side {
    team: Team,
    /// This process.
    me: usize,
    /// First process and number of the other group.
    far: (usize, usize),
    /// Processes of the own group.
    near: (usize, usize),
}

impl Side {
    fn theirs(&self) -> std::ops::Range<usize> {
        self.far.0..self.far.0 + self.far.1
    }

    /// The root of a call, as this process sees it, and the process that it is; it may be of either group.
    fn root(&self, d: &Draw) -> (Root, usize) {
        let low = d.seed & 1 == 0;
        let here = (self.near.0 == 0) == low;
        let (first, count) = if here { self.near } else { self.far };
        let at = d.root % count;
        let root = match here {
            true if first + at == self.me => Root::Root,
            true => Root::Null,
            false => Root::Rank(at),
        };
        (root, first + at)
    }
}

/// A world cut into two groups, and every collective between them.
pub fn round(seed: u64) {
    let mut rng = Rng::new(seed);
    let (low, high) = (1 + rng.below(6) as usize, 1 + rng.below(6) as usize);
    let n = low + high;
    let settings = settings(&mut rng);
    let w = World::new(n, seed, SimConfig::calm(n), &settings);
    let peers = |(first, count): (usize, usize)| -> Arc<[Ep]> {
        (first..first + count).map(|p| Ep(p as u32)).collect()
    };
    let sides: Vec<Side> = (0..n)
        .map(|me| {
            let (near, far) = if me < low { ((0, low), (low, high)) } else { ((low, high), (0, low)) };
            let context = |id, of| {
                let (rank, name) = ((me - near.0) as u32, "between".to_owned());
                w.engines[me].add_context(ContextSpec { id, rank, name, peers: peers(of) }).unwrap()
            };
            let team = Team::between(context(6, near), context(5, far), Arc::new(settings.clone()));
            Side { team, me, far, near }
        })
        .collect();
    let all: [fn(&Draw, &Engine, &Side); 6] = [to_all, rooted, varying, reduced, all_reduced, dealt_out];
    let draws: Vec<Draw> = all.iter().map(|_| Draw { in_place: false, ..Draw::new(&mut rng, n) }).collect();
    let what = format!("MPI_TEST_SEED={seed}, {low} and {high} ranks");
    w.threads(&what, |e, _, r| {
        for (body, draw) in all.iter().zip(&draws) {
            named(&what, r, "between two groups", draw, || body(draw, e, &sides[r]));
        }
    });
}

fn to_all(d: &Draw, e: &Engine, s: &Side) {
    let (t, count, far) = (&s.team, d.count.min(900), s.far.1);
    call!(d, e, t, s.me, barrier, ibarrier, barrier_init());
    let own = Mem::of(&d.kind.datatype, count, &d.kind.values(s.me, 0, count));
    let mut all = Mem::room(&d.kind.datatype, count * far);
    call!(d, e, t, s.me, allgather, iallgather, allgather_init(Buf(own.send()), all.recv()));
    let expected: Vec<u8> = s.theirs().flat_map(|p| d.kind.values(p, 0, count)).collect();
    all.is(&Mem::of(&d.kind.datatype, count * far, &expected));

    let told = |from: usize, to: usize| d.kind.values(from * 20 + to, 0, count);
    let rows: Vec<u8> = s.theirs().flat_map(|p| told(s.me, p)).collect();
    let own = Mem::of(&d.kind.datatype, count * far, &rows);
    let mut into = Mem::room(&d.kind.datatype, count * far);
    call!(d, e, t, s.me, alltoall, ialltoall, alltoall_init(Buf(own.send()), into.recv()));
    let expected: Vec<u8> = s.theirs().flat_map(|p| told(p, s.me)).collect();
    into.is(&Mem::of(&d.kind.datatype, count * far, &expected));
}

fn rooted(d: &Draw, e: &Engine, s: &Side) {
    let (t, far, dt) = (&s.team, s.far.1, &d.kind.datatype);
    let (root, process) = s.root(d);
    let at_root = root == Root::Root;
    let full = Mem::of(dt, d.count, &d.kind.values(process, 0, d.count));
    let mut data = if at_root { full.clone() } else { Mem::room(dt, d.count) };
    call!(d, e, t, s.me, broadcast, ibroadcast, broadcast_init(data.recv(), root));
    data.is(&if root == Root::Null { Mem::room(dt, d.count) } else { full });

    let own = Mem::of(dt, d.count, &d.kind.values(s.me, 0, d.count));
    let mut all = Mem::room(dt, d.count * far);
    call!(d, e, t, s.me, gather, igather, gather_init(Buf(own.send()), at_root.then(|| all.recv()), root));
    if at_root {
        let expected: Vec<u8> = s.theirs().flat_map(|p| d.kind.values(p, 0, d.count)).collect();
        all.is(&Mem::of(dt, d.count * far, &expected));
    }

    let rows = Mem::of(dt, d.count * far, &d.kind.values(process, 0, d.count * far));
    let mut got = Mem::room(dt, d.count);
    let from = at_root.then(|| rows.send());
    call!(d, e, t, s.me, scatter, iscatter, scatter_init(from, Buf(got.recv()), root));
    if let Root::Rank(_) = root {
        got.is(&Mem::of(dt, d.count, &d.kind.values(process, (s.me - s.near.0) * d.count, d.count)));
    }
}

/// Blocks of their own lengths.
fn varying(d: &Draw, e: &Engine, s: &Side) {
    let (t, dt) = (&s.team, &d.kind.datatype);
    let (root, _) = s.root(d);
    let at_root = root == Root::Root;
    let block = |p: usize| d.kind.values(p, 0, d.length(p));
    let theirs: Vec<usize> = s.theirs().collect();
    let layout = Layout::new(theirs.iter().map(|p| d.length(*p)));
    let own = Mem::of(dt, d.length(s.me), &block(s.me));
    let full = layout.filled(dt, |i| block(theirs[i]));

    let mut all = Mem::room(dt, layout.room);
    let into = layout.take(&mut all, dt);
    call!(d, e, t, s.me, allgatherv, iallgatherv, allgatherv_init(Buf(own.send()), into));
    all.is(&full);

    let mut all = Mem::room(dt, layout.room);
    let into = at_root.then(|| layout.take(&mut all, dt));
    call!(d, e, t, s.me, gatherv, igatherv, gatherv_init(Buf(own.send()), into, root));
    if at_root {
        all.is(&full);
    }

    let mut got = Mem::room(dt, d.length(s.me));
    let from = at_root.then(|| layout.give(&full, dt));
    call!(d, e, t, s.me, scatterv, iscatterv, scatterv_init(from, Buf(got.recv()), root));
    if let Root::Rank(_) = root {
        got.is(&own);
    }

    // Everyone tells everyone of the other group what it has of the pair's length.
    let pair = |p: usize| d.length(p.min(s.me) * 13 + p.max(s.me));
    let told = |from: usize, to: usize, count: usize| d.kind.values(from * 20 + to, 0, count);
    let layout = Layout::new(theirs.iter().map(|p| pair(*p)));
    let rows = layout.filled(dt, |i| told(s.me, theirs[i], pair(theirs[i])));
    let mut into = Mem::room(dt, layout.room);
    let (from, room) = (layout.give(&rows, dt), layout.take(&mut into, dt));
    call!(d, e, t, s.me, alltoallv, ialltoallv, alltoallv_init(Buf(from), room));
    into.is(&layout.filled(dt, |i| told(theirs[i], s.me, pair(theirs[i]))));
}

fn reduced(d: &Draw, e: &Engine, s: &Side) {
    let (t, op) = (&s.team, operation(d));
    let (root, _) = s.root(d);
    let at_root = root == Root::Root;
    let own = Mem::of(&d.kind.datatype, d.count, &d.kind.values(s.me, 0, d.count));
    let mut result = Mem::room(&d.kind.datatype, d.count);
    let into = at_root.then(|| result.recv());
    call!(d, e, t, s.me, reduce, ireduce, reduce_init(Buf(own.send()), into, &op, root));
    if at_root {
        result.is(&Mem::of(&d.kind.datatype, d.count, &combined(d, &op, s.theirs(), 0, d.count)));
    }
}

fn all_reduced(d: &Draw, e: &Engine, s: &Side) {
    let (t, op) = (&s.team, operation(d));
    let own = Mem::of(&d.kind.datatype, d.count, &d.kind.values(s.me, 0, d.count));
    let mut result = Mem::room(&d.kind.datatype, d.count);
    call!(d, e, t, s.me, allreduce, iallreduce, allreduce_init(Buf(own.send()), result.recv(), &op));
    result.is(&Mem::of(&d.kind.datatype, d.count, &combined(d, &op, s.theirs(), 0, d.count)));
}

/// What the other group combines is dealt out here: as many elements in both groups.
fn dealt_out(d: &Draw, e: &Engine, s: &Side) {
    let (t, op, dt) = (&s.team, operation(d), &d.kind.datatype);
    let at = s.me - s.near.0;
    let each = d.count.min(40) * s.far.1;
    let total = each * s.near.1;
    let own = Mem::of(dt, total, &d.kind.values(s.me, 0, total));
    let mut result = Mem::room(dt, each);
    call!(
        d,
        e,
        t,
        s.me,
        reduce_scatter_block,
        ireduce_scatter_block,
        reduce_scatter_block_init(Buf(own.send()), result.recv(), &op)
    );
    result.is(&Mem::of(dt, each, &combined(d, &op, s.theirs(), at * each, each)));

    // All to one rank of each group.
    let mut counts = vec![0; s.near.1];
    counts[d.root % s.near.1] = total;
    let mut result = Mem::room(dt, counts[at]);
    call!(
        d,
        e,
        t,
        s.me,
        reduce_scatter,
        ireduce_scatter,
        reduce_scatter_init(Buf(own.send()), result.recv(), &counts, &op)
    );
    result.is(&Mem::of(dt, counts[at], &combined(d, &op, s.theirs(), 0, counts[at])));
}
