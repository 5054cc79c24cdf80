//! Many immediate collectives under way at once, complete in any order.

use super::elements::Mem;
use mpi_btl_sim::Rng;
use mpi_coll::InPlaceOr::Buf;
use mpi_coll::Team;
use mpi_datatype::{Datatype, Op, Primitive};
use mpi_p2p::{Engine, RequestId};

/// A small whole number as bytes of a double.
fn value(of: usize) -> [u8; 8] {
    ((of % 1000) as f64).to_ne_bytes()
}

fn vector(count: usize, of: impl Fn(usize) -> usize) -> Vec<u8> {
    (0..count).flat_map(|i| value(of(i))).collect()
}

/// One that was started, and what must come of it.
struct Open {
    id: RequestId,
    /// Kept until it is complete.
    _own: Mem,
    result: Mem,
    expected: Option<Mem>,
}

/// Starts `many`, the same on all ranks, and waits for them in an order of one's own: some by tests, some by waits.
pub fn at_once(e: &Engine, t: &Team, r: usize, many: usize, seed: u64) {
    let mut rng = Rng::new(seed ^ 0x5EED);
    let mut open: Vec<Open> = (0..many).map(|i| start(e, t, r, i, &mut rng)).collect();
    let mut own_order = Rng::new(seed ^ (r as u64) << 20);
    while !open.is_empty() {
        let at = own_order.below(open.len() as u64) as usize;
        // The others go on, whether this one is only looked at or waited for.
        match own_order.chance(500) {
            true if e.test(open[at].id).unwrap().is_none() => continue,
            true => {}
            false => drop(e.wait(open[at].id).unwrap()),
        }
        let done = open.swap_remove(at);
        if let Some(expected) = &done.expected {
            done.result.is(expected);
        }
    }
}

fn start(e: &Engine, t: &Team, r: usize, i: usize, rng: &mut Rng) -> Open {
    let n = t.size();
    let doubles = Datatype::predefined(Primitive::F64);
    let most = if rng.chance(200) { 9000 } else { 30 };
    let count = 1 + rng.below(most) as usize;
    let root = rng.below(n as u64) as usize;
    let of = move |rank: usize| move |k: usize| rank * 7 + k + i;
    let own = Mem::of(&doubles, count, &vector(count, of(r)));
    let sum = |ranks: usize| {
        let total = |k: usize| (0..ranks).map(|rank| (of(rank)(k) % 1000) as f64).sum::<f64>();
        Mem::of(&doubles, count, &(0..count).flat_map(|k| total(k).to_ne_bytes()).collect::<Vec<u8>>())
    };
    let mut result = Mem::room(&doubles, count);
    let (id, expected) = match rng.below(6) {
        0 => (mpi_coll::ibarrier(e, t), None),
        1 => {
            let full = Mem::of(&doubles, count, &vector(count, of(root)));
            if r == root {
                result = full.clone();
            }
            (mpi_coll::ibroadcast(e, t, result.recv(), root), Some(full))
        }
        2 => (mpi_coll::iallreduce(e, t, Buf(own.send()), result.recv(), &Op::Sum), Some(sum(n))),
        3 => (mpi_coll::iscan(e, t, Buf(own.send()), result.recv(), &Op::Sum), Some(sum(r + 1))),
        4 => {
            let into = (r == root).then(|| result.recv());
            let id = mpi_coll::ireduce(e, t, Buf(own.send()), into, &Op::Sum, root);
            (id, (r == root).then(|| sum(n)))
        }
        _ => {
            let all: Vec<u8> = (0..n).flat_map(|rank| vector(count, of(rank))).collect();
            result = Mem::room(&doubles, count * n);
            let id = mpi_coll::iallgather(e, t, Buf(own.send()), result.recv());
            (id, Some(Mem::of(&doubles, count * n, &all)))
        }
    };
    // Both memories stay where they are when this is moved.
    Open { id: id.unwrap(), _own: own, result, expected }
}
