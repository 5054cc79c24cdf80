//! Collectives that combine data.

use super::elements::Mem;
use super::{Draw, Form, call, finish};
use mpi_btl_sim::Rng;
use mpi_coll::InPlaceOr::{Buf, InPlace};
use mpi_coll::Team;
use mpi_datatype::{Datatype, Op, Primitive};
use mpi_p2p::Engine;

/// The operation of a call.
pub fn operation(d: &Draw) -> Op {
    let all = d.kind.operations();
    all[Rng::new(d.seed).below(all.len() as u64) as usize].clone()
}

/// By the definition: the operands of processes one after the other.
pub fn combined(d: &Draw, op: &Op, of: impl Iterator<Item = usize>, first: usize, count: usize) -> Vec<u8> {
    let mut sum: Option<Mem> = None;
    for r in of {
        let mut next = Mem::of(&d.kind.datatype, count, &d.kind.values(r, first, count));
        if let Some(left) = &sum {
            op.apply(left.send(), next.recv()).unwrap();
        }
        sum = Some(next);
    }
    let mut packed = vec![0; count * d.kind.size()];
    if let Some(sum) = sum {
        sum.send().pack(0, &mut packed);
    }
    packed
}

/// The operand of a rank, and its memory for the result: the operand stands there in place.
fn operands(d: &Draw, r: usize, count: usize, in_place: bool, room: usize) -> (Mem, Mem) {
    let own = Mem::of(&d.kind.datatype, count, &d.kind.values(r, 0, count));
    let result = if in_place { own.clone() } else { Mem::room(&d.kind.datatype, room) };
    (own, result)
}

pub fn reduce(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (op, at_root) = (operation(d), r == d.root);
    let in_place = at_root && d.in_place;
    let (own, mut result) = operands(d, r, d.count, in_place, d.count);
    let from = if in_place { InPlace } else { Buf(own.send()) };
    call!(d, e, t, r, reduce, ireduce, reduce_init(from, at_root.then(|| result.recv()), &op, d.root));
    if at_root {
        result.is(&Mem::of(&d.kind.datatype, d.count, &combined(d, &op, 0..t.size(), 0, d.count)));
    }
}

pub fn allreduce(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let op = operation(d);
    let (own, mut result) = operands(d, r, d.count, d.in_place, d.count);
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    call!(d, e, t, r, allreduce, iallreduce, allreduce_init(from, result.recv(), &op));
    result.is(&Mem::of(&d.kind.datatype, d.count, &combined(d, &op, 0..t.size(), 0, d.count)));
}

pub fn scan(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let op = operation(d);
    let (own, mut result) = operands(d, r, d.count, d.in_place, d.count);
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    call!(d, e, t, r, scan, iscan, scan_init(from, result.recv(), &op));
    result.is(&Mem::of(&d.kind.datatype, d.count, &combined(d, &op, 0..r + 1, 0, d.count)));
}

pub fn exscan(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let op = operation(d);
    let (own, mut result) = operands(d, r, d.count, d.in_place, d.count);
    let before = result.clone();
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    call!(d, e, t, r, exscan, iexscan, exscan_init(from, result.recv(), &op));
    match r {
        // The first has no result: its memory is left as it is.
        0 => result.is(&before),
        _ => result.is(&Mem::of(&d.kind.datatype, d.count, &combined(d, &op, 0..r, 0, d.count))),
    }
}

/// In place, the memory behind the result may hold anything.
fn part_is(d: &Draw, result: &Mem, own: &Mem, count: usize, expected: &[u8]) {
    if !d.in_place {
        return result.is(&Mem::of(&d.kind.datatype, count, expected));
    }
    let mut rest = result.clone();
    let mut whole = own.clone();
    let mut got = vec![0; count * d.kind.size()];
    result.send().part(0, count).pack(0, &mut got);
    assert!(got == expected, "the result in place of {count} elements");
    let (all, mut bytes) = (own.send().bytes(), Vec::new());
    bytes.resize(all, 0);
    let count = bytes.len() / d.kind.size().max(1);
    if d.kind.size() > 0 {
        rest.put(0, count, &bytes);
        whole.put(0, count, &bytes);
        rest.is(&whole);
    }
}

pub fn reduce_scatter_block(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (op, n, count) = (operation(d), t.size(), d.count.min(900));
    let (own, mut result) = operands(d, r, count * n, d.in_place, count);
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    call!(
        d,
        e,
        t,
        r,
        reduce_scatter_block,
        ireduce_scatter_block,
        reduce_scatter_block_init(from, result.recv(), &op)
    );
    part_is(d, &result, &own, count, &combined(d, &op, 0..n, r * count, count));
}

pub fn reduce_scatter(d: &Draw, e: &Engine, t: &Team, r: usize) {
    let (op, n) = (operation(d), t.size());
    let counts: Vec<usize> = (0..n).map(|k| d.length(k)).collect();
    let (total, first) = (counts.iter().sum(), counts[..r].iter().sum());
    let (own, mut result) = operands(d, r, total, d.in_place, counts[r]);
    let from = if d.in_place { InPlace } else { Buf(own.send()) };
    call!(
        d,
        e,
        t,
        r,
        reduce_scatter,
        ireduce_scatter,
        reduce_scatter_init(from, result.recv(), &counts, &op)
    );
    part_is(d, &result, &own, counts[r], &combined(d, &op, 0..n, first, counts[r]));
}

/// The bits of a sum that depends on the order of additions, in three forms.
pub fn inexact(e: &Engine, t: &Team, r: usize, count: usize) -> Vec<u8> {
    let doubles = Datatype::predefined(Primitive::F64);
    let own: Vec<u8> =
        (0..count).flat_map(|i| (1.0 / (1.0 + (r * 31 + i * 7) as f64)).to_ne_bytes()).collect();
    let own = Mem::of(&doubles, count, &own);
    let mut results = Vec::new();
    for form in 0..3 {
        let mut sum = Mem::room(&doubles, count);
        match form {
            0 => mpi_coll::allreduce(e, t, Buf(own.send()), sum.recv(), &Op::Sum).unwrap(),
            1 => {
                let id = mpi_coll::iallreduce(e, t, Buf(own.send()), sum.recv(), &Op::Sum);
                finish(e, Form::Immediate, false, id);
            }
            _ => {
                let id = mpi_coll::allreduce_init(e, t, Buf(own.send()), sum.recv(), &Op::Sum);
                finish(e, Form::Persistent, true, id);
            }
        }
        let mut bits = vec![0; count * 8];
        sum.send().pack(0, &mut bits);
        results.push(bits);
    }
    assert!(results.iter().all(|bits| *bits == results[0]), "every form gives the same bits");
    results.remove(0)
}
