//! Operations as they stand in messages: runs of primitives, numbers of operations and of error classes.

use crate::messages::Errand;
use mpi_datatype::{Op, Primitive, Strip};
use mpi_p2p::ErrorClass;
use mpi_wire::limits::RMA_RUNS_MAX;
use mpi_wire::rma::{RUN_LEN, Run};
use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    static HEAD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static RUNS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Room for the head of a message, which is there from the last one.
#[inline]
pub(crate) fn with_head<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    lend(&HEAD, f)
}

/// The same for the runs of a message.
#[inline]
pub(crate) fn with_runs<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    lend(&RUNS, f)
}

#[inline]
fn lend<R>(spare: &'static LocalKey<Cell<Vec<u8>>>, f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    // Who asks again meanwhile gets an empty one.
    let mut lent = spare.take();
    lent.clear();
    let result = f(&mut lent);
    spare.set(lent);
    result
}

/// The run of a compare-and-swap, whose comparand and new value travel together.
pub(crate) fn pair_run(e: &Errand<'_>) -> Run {
    Run { primitive: prim_id(e.primitive), offset: 0, count: 1, stride: 0, repeat: 1 }
}

/// The runs of an operation from byte `from` of its packed data on that fit `room` bytes together with the
/// data; where they end.
pub(crate) fn flatten(e: &Errand<'_>, from: usize, room: usize, out: &mut Vec<u8>) -> usize {
    let item = e.primitive.map_or(1, Primitive::size);
    let most = room.saturating_sub(RUN_LEN).max(item) / item * item;
    let to = e.bytes.min(from + most);
    if let Some(p) = e.primitive.filter(|p| p.pair().is_some()) {
        // Values with their index are not taken apart.
        let (first, n) = (from / item, (to - from) / item);
        let offset = (first * p.extent()) as i64;
        Run { primitive: p as u8, offset, count: n as u32, stride: 0, repeat: 1 }.encode(out);
        return to;
    }
    let (mut end, mut runs, mut full) = (from, 0, false);
    e.datatype.strips(e.count, from, to, &mut |mut strip: Strip| {
        if strip.repeat == 1 {
            // What is swapped as one is not taken apart, wherever the walk was cut.
            strip.bytes -= strip.bytes % strip.unit;
        }
        let bytes = strip.bytes * strip.repeat;
        let fits = (runs + 1) * RUN_LEN + (end - from) + bytes <= room && runs < RMA_RUNS_MAX;
        full |= !fits || bytes == 0;
        if full {
            return;
        }
        let (primitive, size) = match e.primitive {
            Some(p) => (p as u8, p.size()),
            None => by_unit(strip.unit),
        };
        let (count, repeat) = ((strip.bytes / size) as u32, strip.repeat as u32);
        let (offset, stride) = (strip.offset as i64, strip.stride as i64);
        Run { primitive, offset, count, stride, repeat }.encode(out);
        runs += 1;
        end += bytes;
    });
    end
}

/// A primitive that is swapped as the unit is, and its size.
fn by_unit(unit: usize) -> (u8, usize) {
    match unit {
        2 => (Primitive::U16 as u8, 2),
        4 => (Primitive::U32 as u8, 4),
        8 => (Primitive::U64 as u8, 8),
        _ => (Primitive::Byte as u8, 1),
    }
}

fn prim_id(p: Option<Primitive>) -> u8 {
    p.map_or(0, |p| p as u8)
}

/// Predefined operations by their number on the wire.
const OPS: [Op; 14] = [
    Op::Sum,
    Op::Prod,
    Op::Max,
    Op::Min,
    Op::Land,
    Op::Lor,
    Op::Lxor,
    Op::Band,
    Op::Bor,
    Op::Bxor,
    Op::MinLoc,
    Op::MaxLoc,
    Op::Replace,
    Op::NoOp,
];

pub(crate) fn op_id(op: &Op) -> u8 {
    let same = |o: &Op| std::mem::discriminant(o) == std::mem::discriminant(op);
    OPS.iter().position(same).unwrap_or(OPS.len()) as u8
}

pub(crate) fn op_of(id: u8) -> Option<Op> {
    OPS.get(usize::from(id)).cloned()
}

/// Classes that a target may answer with.
const CLASSES: [ErrorClass; 8] = [
    ErrorClass::RmaRange,
    ErrorClass::RmaSync,
    ErrorClass::RmaAttach,
    ErrorClass::RmaConflict,
    ErrorClass::Op,
    ErrorClass::Type,
    ErrorClass::ProcFailed,
    ErrorClass::Win,
];

pub(crate) fn class_of(class: i32) -> ErrorClass {
    CLASSES.into_iter().find(|c| *c as i32 == class).unwrap_or(ErrorClass::Other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Deed;
    use mpi_datatype::Datatype;
    use mpi_wire::rma::Runs;

    #[test]
    fn operations_have_numbers() {
        for (i, op) in OPS.iter().enumerate() {
            assert_eq!(usize::from(op_id(op)), i);
            assert_eq!(op_of(i as u8).unwrap().name(), op.name());
        }
        assert!(op_of(14).is_none());
    }

    #[test]
    fn long_and_ragged_types_are_cut_where_they_fit() {
        let double = Datatype::predefined(Primitive::F64);
        let ragged: Vec<isize> = (0..300).map(|i| i * 3 + i % 2).collect();
        let ragged = Datatype::indexed_block(1, &ragged, &double).unwrap();
        for (datatype, count) in [(&double, 1000), (&ragged, 3)] {
            let e = Errand {
                name: "put",
                deed: Deed::Put,
                target: 0,
                at: 0,
                count,
                datatype,
                data: None,
                to: None,
                bytes: count * datatype.size(),
                primitive: None,
                request: None,
            };
            let (mut from, mut parts) = (0, 0);
            while from < e.bytes {
                let mut out = Vec::new();
                let to = flatten(&e, from, 900, &mut out);
                assert!(to > from && out.len() + to - from <= 900);
                let sum: usize =
                    Runs::new(&out).unwrap().iter().map(|r| r.count as usize * r.repeat as usize * 8).sum();
                assert_eq!(sum, to - from);
                (from, parts) = (to, parts + 1);
            }
            assert_eq!(from, e.bytes);
            assert!(parts > 1);
        }
    }
}
