//! What is defined on what, and with which result.

use mpi_datatype::{Datatype, DatatypeError, Op, Primitive, RecvBuf, Scratch, SendBuf, UserOp};
use proptest::prelude::*;
use std::sync::Arc;

const OPS: [Op; 12] = [
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
];

/// `inout = input op inout` over plain values.
fn apply<T: Copy>(op: &Op, p: Primitive, input: &[T], inout: &mut [T]) -> Result<(), DatatypeError> {
    let t = Datatype::predefined(p);
    assert_eq!(size_of::<T>(), t.extent() as usize);
    // SAFETY: slices of the primitive's own layout.
    let (from, to) = unsafe {
        (
            SendBuf::new(input.as_ptr().cast(), input.len(), &t),
            RecvBuf::new(inout.as_mut_ptr().cast(), inout.len(), &t),
        )
    };
    op.apply(from, to)
}

#[test]
fn defined_as_the_standard_says() {
    use Primitive::*;
    let integers = [I8, U8, I16, U16, I32, U32, I64, U64];
    for p in Primitive::ALL {
        for op in &OPS {
            let expected = match op {
                Op::Sum | Op::Prod => integers.contains(&p) || matches!(p, F32 | F64 | Complex32 | Complex64),
                Op::Max | Op::Min => integers.contains(&p) || matches!(p, F32 | F64),
                Op::Land | Op::Lor | Op::Lxor => integers.contains(&p) || p == Bool,
                Op::Band | Op::Bor | Op::Bxor => integers.contains(&p) || p == Byte,
                _ => matches!(p, FloatInt | DoubleInt | LongInt | TwoInt | ShortInt),
            };
            let t = Datatype::predefined(p);
            let (a, b) = (Scratch::new(3, &t).unwrap(), Scratch::new(3, &t).unwrap());
            let applied = op.apply(a.send(), b.recv());
            assert_eq!(applied.is_ok(), expected, "{} on {}: {applied:?}", op.name(), p.name());
        }
    }
    let t = Datatype::predefined(Bool);
    let s = Scratch::new(1, &t).unwrap();
    assert_eq!(
        Op::Sum.apply(s.send(), s.recv()).unwrap_err().to_string(),
        "operation sum is not defined for elements of type bool"
    );
}

#[test]
fn complex_products_and_pairs() {
    let mut inout = [[3.0f64, 4.0], [0.0, 1.0]];
    apply(&Op::Prod, Primitive::Complex64, &[[1.0, 2.0], [0.0, 1.0]], &mut inout).unwrap();
    assert_eq!(inout, [[-5.0, 10.0], [-1.0, 0.0]]);

    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    struct Pair(f64, i32);
    let mut inout = [Pair(1.0, 5), Pair(2.0, 5), Pair(7.0, 1)];
    apply(&Op::MinLoc, Primitive::DoubleInt, &[Pair(1.0, 2), Pair(3.0, 0), Pair(6.0, 9)], &mut inout)
        .unwrap();
    assert_eq!(inout, [Pair(1.0, 2), Pair(2.0, 5), Pair(6.0, 9)]);
    apply(&Op::MaxLoc, Primitive::DoubleInt, &[Pair(1.0, 1), Pair(3.0, 0), Pair(6.0, 10)], &mut inout)
        .unwrap();
    assert_eq!(inout, [Pair(1.0, 1), Pair(3.0, 0), Pair(6.0, 9)]);
}

#[test]
fn user_operations_see_extents_and_order() {
    let t = Datatype::resized(&Datatype::predefined(Primitive::I32), 0, 12).unwrap();
    let minus = |input: *const u8, inout: *mut u8, n: usize, t: &Datatype| {
        for i in 0..n {
            let at = i as isize * t.extent();
            // SAFETY: `n` elements laid out by extent.
            unsafe {
                let (a, b) = (input.offset(at).cast::<i32>(), inout.offset(at).cast::<i32>());
                *b = *a - *b;
            }
        }
    };
    let raw = Op::User(Arc::new(UserOp::new(Box::new(minus), false)));
    let packed = Op::User(Arc::new(UserOp::on_packed(
        Box::new(|input, inout| {
            for (a, b) in input.chunks(4).zip(inout.chunks_mut(4)) {
                let value = |x: &[u8]| i32::from_le_bytes([x[0], x[1], x[2], x[3]]);
                let difference = value(a) - value(b);
                b.copy_from_slice(&difference.to_le_bytes());
            }
        }),
        false,
    )));
    for op in [raw, packed] {
        assert!(!op.commutes());
        let (a, b) = (Scratch::new(4, &t).unwrap(), Scratch::new(4, &t).unwrap());
        let bytes = |values: [i32; 4]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        a.recv().unpack(0, &bytes([10, 20, 30, 40]));
        b.recv().unpack(0, &bytes([1, 2, 3, 4]));
        op.apply(a.send(), b.recv()).unwrap();
        let mut out = [0; 16];
        b.send().pack(0, &mut out);
        assert_eq!(out.to_vec(), bytes([9, 18, 27, 36]));
    }
}

#[test]
fn entries_of_one_primitive_reduce_whatever_the_layout() {
    let f = Datatype::predefined(Primitive::F64);
    let sparse = Datatype::vector(5, 1, 2, &f).unwrap();
    let dense = Datatype::contiguous(5, &f).unwrap();
    let bytes = |k: f64| (0..15).flat_map(|i| (k * f64::from(i)).to_le_bytes()).collect::<Vec<_>>();
    for (t, u) in [(&sparse, &sparse), (&dense, &sparse), (&sparse, &dense), (&dense, &dense)] {
        let (a, b) = (Scratch::new(3, t).unwrap(), Scratch::new(3, u).unwrap());
        a.recv().unpack(0, &bytes(10.0));
        b.recv().unpack(0, &bytes(1.0));
        Op::Sum.apply(a.send(), b.recv()).unwrap();
        let mut out = vec![0; 120];
        b.send().pack(0, &mut out);
        assert_eq!(out, bytes(11.0));
    }
    let mixed = Datatype::structured(&[1, 1], &[0, 8], &[f, Datatype::predefined(Primitive::I64)]).unwrap();
    let s = Scratch::new(1, &mixed).unwrap();
    assert!(matches!(Op::Sum.apply(s.send(), s.recv()), Err(DatatypeError::Op { .. })));
    let (one, two) = (Scratch::new(1, &dense).unwrap(), Scratch::new(2, &dense).unwrap());
    assert!(matches!(Op::Sum.apply(one.send(), two.recv()), Err(DatatypeError::Mismatch { .. })));
}

macro_rules! against_scalars {
    ($name:ident, $t:ty, $p:ident) => {
        proptest! {
            #[test]
            fn $name(pairs in prop::collection::vec(any::<($t, $t)>(), 0..70)) {
                let (input, inout): (Vec<$t>, Vec<$t>) = pairs.iter().copied().unzip();
                let truth = |b: bool| <$t>::from(b);
                let table: [(Op, fn($t, $t) -> $t); 7] = [
                    (Op::Sum, |a, b| a.wrapping_add(b)),
                    (Op::Prod, |a, b| a.wrapping_mul(b)),
                    (Op::Max, |a, b| a.max(b)),
                    (Op::Min, |a, b| a.min(b)),
                    (Op::Band, |a, b| a & b),
                    (Op::Bor, |a, b| a | b),
                    (Op::Bxor, |a, b| a ^ b),
                ];
                for (op, f) in table {
                    let mut out = inout.clone();
                    apply(&op, Primitive::$p, &input, &mut out).unwrap();
                    prop_assert_eq!(out, pairs.iter().map(|(a, b)| f(*a, *b)).collect::<Vec<_>>());
                }
                for (op, f) in [
                    (Op::Land, (|a, b| a && b) as fn(bool, bool) -> bool),
                    (Op::Lor, |a, b| a || b),
                    (Op::Lxor, |a, b| a != b),
                ] {
                    let mut out = inout.clone();
                    apply(&op, Primitive::$p, &input, &mut out).unwrap();
                    let expected: Vec<$t> = pairs.iter().map(|(a, b)| truth(f(*a != 0, *b != 0))).collect();
                    prop_assert_eq!(out, expected);
                }
            }
        }
    };
}

against_scalars!(i8s, i8, I8);
against_scalars!(u8s, u8, U8);
against_scalars!(i16s, i16, I16);
against_scalars!(u16s, u16, U16);
against_scalars!(i32s, i32, I32);
against_scalars!(u32s, u32, U32);
against_scalars!(i64s, i64, I64);
against_scalars!(u64s, u64, U64);

proptest! {
    #[test]
    fn floats(pairs in prop::collection::vec((-1e9f64..1e9, -1e9f64..1e9), 0..70)) {
        let (input, inout): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        type Scalar = fn(f64, f64) -> f64;
        let table: [(Op, Scalar); 4] = [
            (Op::Sum, |a, b| a + b),
            (Op::Prod, |a, b| a * b),
            (Op::Max, f64::max),
            (Op::Min, f64::min),
        ];
        for (op, f) in table {
            let mut out = inout.clone();
            apply(&op, Primitive::F64, &input, &mut out).unwrap();
            prop_assert_eq!(out, pairs.iter().map(|(a, b)| f(*a, *b)).collect::<Vec<_>>());
            let (small, mut out): (Vec<f32>, Vec<f32>) =
                pairs.iter().map(|(a, b)| (*a as f32, *b as f32)).unzip();
            let expected: Vec<f32> = small.iter().zip(&out).map(|(a, b)| match op {
                Op::Sum => a + b,
                Op::Prod => a * b,
                Op::Max => a.max(*b),
                _ => a.min(*b),
            }).collect();
            apply(&op, Primitive::F32, &small, &mut out).unwrap();
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn bools(pairs in prop::collection::vec(any::<(bool, bool)>(), 0..70)) {
        let (input, inout): (Vec<bool>, Vec<bool>) = pairs.iter().copied().unzip();
        for (op, f) in [
            (Op::Land, (|a, b| a && b) as fn(bool, bool) -> bool),
            (Op::Lor, |a, b| a || b),
            (Op::Lxor, |a, b| a != b),
        ] {
            let mut out = inout.clone();
            apply(&op, Primitive::Bool, &input, &mut out).unwrap();
            prop_assert_eq!(out, pairs.iter().map(|(a, b)| f(*a, *b)).collect::<Vec<_>>());
        }
    }
}
