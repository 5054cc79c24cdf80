//! Kinds of elements, memory that holds them, and what stands around them there.

use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf, UserOp};
use std::sync::Arc;

/// What one element consists of, for its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Parts {
    /// So many `u32`.
    Words(usize),
    /// A small whole number as `f64`: sums are exact.
    Double,
    /// A small whole number as `f64`, and an `i32`.
    Pair,
    /// An `i32`, and a small whole number as `f64`.
    Struct,
}

/// A kind of elements.
#[derive(Clone, Debug)]
pub struct Kind {
    pub name: &'static str,
    pub datatype: Datatype,
    /// Another datatype of the same signature, and how many of it are one of the other.
    pub other: (Datatype, usize),
    parts: Parts,
}

fn primitive(p: Primitive) -> Datatype {
    Datatype::predefined(p)
}

/// Primitives, holes, a lower bound below zero, backward order, pairs, a struct, nothing at all.
pub fn kinds() -> Vec<Kind> {
    let word = primitive(Primitive::U32);
    let kind = |name, datatype: &Datatype, other: (Datatype, usize), parts| Kind {
        name,
        datatype: datatype.commit(),
        other,
        parts,
    };
    let holes = Datatype::vector(2, 1, 3, &word).unwrap();
    let below = Datatype::resized(&word, -8, 20).unwrap();
    let backward = Datatype::hindexed(&[1, 2], &[12, -4], &word).unwrap();
    let both = [primitive(Primitive::I32), primitive(Primitive::F64)];
    let record = Datatype::structured(&[1, 1], &[0, 8], &both).unwrap();
    let dense = Datatype::structured(&[1, 1], &[0, 4], &both).unwrap();
    vec![
        kind("u32", &word, (below.clone(), 1), Parts::Words(1)),
        kind("f64", &primitive(Primitive::F64), (primitive(Primitive::F64), 1), Parts::Double),
        kind("words with holes", &holes, (word.clone(), 2), Parts::Words(2)),
        kind("words from below", &below, (word.clone(), 1), Parts::Words(1)),
        kind("words backward", &backward, (word.clone(), 3), Parts::Words(3)),
        kind("pairs", &primitive(Primitive::DoubleInt), (primitive(Primitive::DoubleInt), 1), Parts::Pair),
        kind("structs", &record, (dense, 1), Parts::Struct),
        kind(
            "nothing",
            &Datatype::contiguous(0, &word).unwrap(),
            (Datatype::contiguous(0, &word).unwrap(), 1),
            Parts::Words(0),
        ),
    ]
}

impl Kind {
    /// Packed bytes of one element.
    pub fn size(&self) -> usize {
        self.datatype.size()
    }

    /// The packed elements `first .. first + count` of process `r`'s data.
    pub fn values(&self, r: usize, first: usize, count: usize) -> Vec<u8> {
        (first..first + count).flat_map(|i| self.value(r, i)).collect()
    }

    fn value(&self, r: usize, i: usize) -> Vec<u8> {
        let number = (r * 7919 + i * 31 + 3) as u32;
        let small = f64::from((r * 5 + i * 3) as u32 % 97);
        let index = (r * 1000 + i) as i32;
        match self.parts {
            Parts::Words(n) => {
                (0..n as u32).flat_map(|k| (number.wrapping_mul(2 * k + 1) | 1).to_ne_bytes()).collect()
            }
            Parts::Double => small.to_ne_bytes().to_vec(),
            Parts::Pair => [&small.to_ne_bytes()[..], &index.to_ne_bytes()].concat(),
            Parts::Struct => [&index.to_ne_bytes()[..], &small.to_ne_bytes()].concat(),
        }
    }

    /// Operations on it: MPI's own, and user-defined ones, which commute or do not.
    pub fn operations(&self) -> Vec<Op> {
        let mut all = match self.parts {
            Parts::Words(_) => {
                vec![Op::Sum, Op::Prod, Op::Max, Op::Min, Op::Band, Op::Bor, Op::Bxor, Op::Land]
            }
            Parts::Double => vec![Op::Sum, Op::Max, Op::Min],
            Parts::Pair => vec![Op::MinLoc, Op::MaxLoc],
            Parts::Struct => vec![],
        };
        if matches!(self.parts, Parts::Words(_)) {
            all.push(halves(compose, false));
        }
        all.push(halves(|a, b| (a.0.max(b.0), a.1 ^ b.1), true));
        all.push(halves(|a, _| a, false));
        all
    }
}

type Half = (u16, u16);

/// First the left map `x -> a x + b`, then the right one: associative, does not commute.
fn compose((a, b): Half, (c, d): Half) -> Half {
    (a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d))
}

/// An operation on every four bytes, seen as two halves.
fn halves(f: fn(Half, Half) -> Half, commutes: bool) -> Op {
    let apply = move |input: &[u8], inout: &mut [u8]| {
        let half = |b: &[u8]| (u16::from_le_bytes([b[0], b[1]]), u16::from_le_bytes([b[2], b[3]]));
        for (left, right) in input.chunks(4).zip(inout.chunks_mut(4)) {
            let (first, second) = f(half(left), half(right));
            right[..2].copy_from_slice(&first.to_le_bytes());
            right[2..].copy_from_slice(&second.to_le_bytes());
        }
    };
    Op::User(Arc::new(UserOp::on_packed(Box::new(apply), commutes)))
}

/// Bytes in front of elements and behind them, that nothing may touch.
const GUARD_BYTES: usize = 64;
const UNTOUCHED: u8 = 0xA5;

/// Room for elements, guarded.
#[derive(Clone)]
pub struct Mem {
    /// Bytes, as words: elements are where their type wants them.
    words: Vec<u64>,
    /// Byte where the elements begin.
    origin: usize,
    count: usize,
    datatype: Datatype,
}

impl Mem {
    /// Room for `count` elements, untouched.
    pub fn room(datatype: &Datatype, count: usize) -> Mem {
        let below = datatype.lb().min(datatype.true_lb()).min(0).unsigned_abs();
        let origin = (GUARD_BYTES + below).next_multiple_of(8);
        let span = datatype.extent().unsigned_abs() * count + datatype.true_extent().unsigned_abs();
        let words = vec![u64::from_ne_bytes([UNTOUCHED; 8]); (origin + span + GUARD_BYTES).div_ceil(8)];
        Mem { words, origin, count, datatype: datatype.clone() }
    }

    /// Elements by their packed bytes.
    pub fn of(datatype: &Datatype, count: usize, packed: &[u8]) -> Mem {
        let mut mem = Mem::room(datatype, count);
        mem.put(0, count, packed);
        mem
    }

    /// Elements of a kind; by its other datatype where `other`.
    pub fn sent(kind: &Kind, packed: &[u8], count: usize, other: bool) -> Mem {
        match other {
            true => Mem::of(&kind.other.0, count * kind.other.1, packed),
            false => Mem::of(&kind.datatype, count, packed),
        }
    }

    /// Writes elements `first .. first + count`.
    pub fn put(&mut self, first: usize, count: usize, packed: &[u8]) {
        assert_eq!(self.recv().part(first, count).unpack(0, packed), packed.len());
    }

    pub fn address(&self) -> *const u8 {
        self.words.as_ptr().cast::<u8>().wrapping_add(self.origin)
    }

    pub fn address_mut(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.origin)
    }

    pub fn send(&self) -> SendBuf<'_> {
        // SAFETY: `count` elements lie between the guards; they outlive the operation in these tests.
        unsafe { SendBuf::new(self.address(), self.count, &self.datatype) }
    }

    pub fn recv(&mut self) -> RecvBuf<'_> {
        let (at, count) = (self.address_mut(), self.count);
        // SAFETY: as above, and nobody looks at them meanwhile.
        unsafe { RecvBuf::new(at, count, &self.datatype) }
    }

    /// Fails unless all of the memory, guards and holes too, is as in `expected`.
    #[track_caller]
    pub fn is(&self, expected: &Mem) {
        let bytes = |mem: &Mem| -> Vec<u8> {
            let all = mem.words.iter().flat_map(|word| word.to_ne_bytes());
            all.skip(mem.origin - GUARD_BYTES).collect()
        };
        let (a, b) = (bytes(self), bytes(expected));
        if let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) {
            let from = at as isize - GUARD_BYTES as isize;
            panic!("byte {from} of {} elements is {:#x}, expected {:#x}", self.count, a[at], b[at]);
        }
    }
}
