//! The inner loops of reductions: one per operation and primitive, plain enough for the compiler to vectorise.
//!
//! Elements are read and written without regard to alignment, which costs nothing on the machines of today
//! and frees everyone above of it.

use crate::{Op, Primitive};
use std::ops::{Add, Mul};

/// From so many elements on it is worth asking what the processor can do.
#[cfg(target_arch = "x86_64")]
const WIDE_MIN_ELEMENTS: usize = 32;
#[cfg(target_arch = "x86_64")]
const WIDEST_MIN_ELEMENTS: usize = 128;

/// `inout[i] = f(input[i], inout[i])`.
///
/// # Safety
/// Both are valid for `n` elements and do not overlap.
#[inline(always)]
unsafe fn zip<T: Copy>(input: *const u8, inout: *mut u8, n: usize, f: impl Fn(T, T) -> T) {
    let (input, inout) = (input.cast::<T>(), inout.cast::<T>());
    for i in 0..n {
        // SAFETY: `i < n`; every bit pattern is a value of the types this is used with.
        unsafe {
            let value = f(input.add(i).read_unaligned(), inout.add(i).read_unaligned());
            inout.add(i).write_unaligned(value);
        }
    }
}

macro_rules! integer {
    ($t:ty, $op:expr, $input:expr, $inout:expr, $n:expr) => {
        match $op {
            Op::Sum => zip::<$t>($input, $inout, $n, |a, b| a.wrapping_add(b)),
            Op::Prod => zip::<$t>($input, $inout, $n, |a, b| a.wrapping_mul(b)),
            Op::Max => zip::<$t>($input, $inout, $n, |a, b| a.max(b)),
            Op::Min => zip::<$t>($input, $inout, $n, |a, b| a.min(b)),
            Op::Land => zip::<$t>($input, $inout, $n, |a, b| <$t>::from(a != 0 && b != 0)),
            Op::Lor => zip::<$t>($input, $inout, $n, |a, b| <$t>::from(a != 0 || b != 0)),
            Op::Lxor => zip::<$t>($input, $inout, $n, |a, b| <$t>::from((a != 0) != (b != 0))),
            Op::Band => zip::<$t>($input, $inout, $n, |a, b| a & b),
            Op::Bor => zip::<$t>($input, $inout, $n, |a, b| a | b),
            Op::Bxor => zip::<$t>($input, $inout, $n, |a, b| a ^ b),
            _ => {}
        }
    };
}

macro_rules! float {
    ($t:ty, $op:expr, $input:expr, $inout:expr, $n:expr) => {
        match $op {
            Op::Sum => zip::<$t>($input, $inout, $n, |a, b| a + b),
            Op::Prod => zip::<$t>($input, $inout, $n, |a, b| a * b),
            Op::Max => zip::<$t>($input, $inout, $n, |a, b| if a > b { a } else { b }),
            Op::Min => zip::<$t>($input, $inout, $n, |a, b| if a < b { a } else { b }),
            _ => {}
        }
    };
}

macro_rules! complex {
    ($t:ty, $op:expr, $input:expr, $inout:expr, $n:expr) => {
        match $op {
            Op::Sum => zip::<Complex<$t>>($input, $inout, $n, |a, b| a + b),
            Op::Prod => zip::<Complex<$t>>($input, $inout, $n, |a, b| a * b),
            _ => {}
        }
    };
}

/// Applies a predefined operation to `n` touching primitives. Pairs that [`Op::defined_on`] excludes do
/// nothing.
///
/// # Safety
/// Both are valid for `n` primitives `p` and do not overlap.
pub(crate) unsafe fn combine(op: &Op, p: Primitive, input: *const u8, inout: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match width(n) {
            #[cfg(target_arch = "x86_64")]
            Width::Widest => combine_widest(op, p, input, inout, n),
            #[cfg(target_arch = "x86_64")]
            Width::Wide => combine_wide(op, p, input, inout, n),
            Width::Any => combine_all(op, p, input, inout, n),
        }
    }
}

/// Registers that the processor has, as far as they pay for so many elements.
enum Width {
    Any,
    #[cfg(target_arch = "x86_64")]
    Wide,
    #[cfg(target_arch = "x86_64")]
    Widest,
}

#[inline]
fn width(n: usize) -> Width {
    #[cfg(target_arch = "x86_64")]
    {
        if n >= WIDEST_MIN_ELEMENTS && has_widest() {
            return Width::Widest;
        }
        if n >= WIDE_MIN_ELEMENTS && std::arch::is_x86_feature_detected!("avx2") {
            return Width::Wide;
        }
    }
    _ = n;
    Width::Any
}

/// AVX-512 on a processor that does not slow down for it: those that do lack the later part.
#[cfg(target_arch = "x86_64")]
#[rustversion::since(1.89)]
fn has_widest() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512vbmi2")
}

/// The compiler cannot make use of it.
#[cfg(target_arch = "x86_64")]
#[rustversion::before(1.89)]
fn has_widest() -> bool {
    false
}

/// The same loops with registers twice as wide. Results are the same to the bit: elements are independent, and no
/// multiplication is fused with an addition.
///
/// # Safety
/// As [`combine`], on a processor with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn combine_wide(op: &Op, p: Primitive, input: *const u8, inout: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { combine_all(op, p, input, inout, n) }
}

/// And twice as wide again.
///
/// # Safety
/// As [`combine`], where [`has_widest`] says so.
#[cfg(target_arch = "x86_64")]
#[rustversion::attr(since(1.89), target_feature(enable = "avx512f"))]
unsafe fn combine_widest(op: &Op, p: Primitive, input: *const u8, inout: *mut u8, n: usize) {
    // SAFETY: the caller's promise.
    unsafe { combine_all(op, p, input, inout, n) }
}

/// # Safety
/// As [`combine`].
#[inline(always)]
unsafe fn combine_all(op: &Op, p: Primitive, input: *const u8, inout: *mut u8, n: usize) {
    use Primitive::*;
    // SAFETY: the caller's promise; the type matches the primitive. A `bool` is worked on as the byte it is.
    unsafe {
        match p {
            I8 => integer!(i8, op, input, inout, n),
            U8 | Byte | Bool => integer!(u8, op, input, inout, n),
            I16 => integer!(i16, op, input, inout, n),
            U16 => integer!(u16, op, input, inout, n),
            I32 => integer!(i32, op, input, inout, n),
            U32 => integer!(u32, op, input, inout, n),
            I64 => integer!(i64, op, input, inout, n),
            U64 => integer!(u64, op, input, inout, n),
            F32 => float!(f32, op, input, inout, n),
            F64 => float!(f64, op, input, inout, n),
            Complex32 => complex!(f32, op, input, inout, n),
            Complex64 => complex!(f64, op, input, inout, n),
            Packed | Char => {}
            FloatInt | DoubleInt | LongInt | TwoInt | ShortInt => locate(op, p, input, inout, n),
        }
    }
}

/// A complex number as it stands in memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Complex<T>(T, T);

impl<T: Add<Output = T>> Add for Complex<T> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Complex(self.0 + other.0, self.1 + other.1)
    }
}

impl<T: Copy + Mul<Output = T> + Add<Output = T> + std::ops::Sub<Output = T>> Mul for Complex<T> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Complex(self.0 * other.0 - self.1 * other.1, self.0 * other.1 + self.1 * other.0)
    }
}

/// A value and its index as they stand in memory.
#[derive(Clone, Copy)]
#[repr(C)]
struct Pair<T>(T, i32);

/// `MinLoc` and `MaxLoc` over `n` elements of a pair type, laid out by extent. Padding is not written.
///
/// # Safety
/// Both are valid for `n` elements of `p` and do not overlap.
pub(crate) unsafe fn locate(op: &Op, p: Primitive, input: *const u8, inout: *mut u8, n: usize) {
    // SAFETY: the caller's promise; the type matches the primitive.
    unsafe {
        match p {
            Primitive::FloatInt => pairs::<f32>(op, input, inout, n),
            Primitive::DoubleInt => pairs::<f64>(op, input, inout, n),
            Primitive::LongInt => pairs::<i64>(op, input, inout, n),
            Primitive::TwoInt => pairs::<i32>(op, input, inout, n),
            Primitive::ShortInt => pairs::<i16>(op, input, inout, n),
            _ => {}
        }
    }
}

/// # Safety
/// As [`locate`], with `T` the primitive's first half.
unsafe fn pairs<T: Copy + PartialOrd>(op: &Op, input: *const u8, inout: *mut u8, n: usize) {
    let least = matches!(op, Op::MinLoc);
    let (input, inout) = (input.cast::<Pair<T>>(), inout.cast::<Pair<T>>());
    for i in 0..n {
        // SAFETY: `i < n`. Fields are read and written one by one, so padding stays untouched.
        unsafe {
            let (from, to) = (input.add(i), inout.add(i));
            let (a, b) = ((&raw const (*from).0).read_unaligned(), (&raw const (*to).0).read_unaligned());
            let (at, bt) = ((&raw const (*from).1).read_unaligned(), (&raw const (*to).1).read_unaligned());
            let wins = if least { a < b } else { a > b };
            if wins || (a == b && at < bt) {
                (&raw mut (*to).0).write_unaligned(a);
                (&raw mut (*to).1).write_unaligned(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever registers a processor has, the bits are the same, and nothing behind the last element is touched.
    #[test]
    fn wide_registers_change_no_bit() {
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
        for p in Primitive::ALL {
            for op in OPS.iter().filter(|op| op.defined_on(p)) {
                for n in [0, 1, 31, 32, 100, 128, 131, 257, 1000] {
                    let bytes = n * p.extent();
                    // Small exponents: numbers that are neither infinite nor none.
                    let byte = |i: usize, salt: usize| (i * 7 + i / 3 + salt) as u8 & 0x3f;
                    let input: Vec<u8> = (0..bytes + 5).map(|i| byte(i, 1)).collect();
                    let start: Vec<u8> = (0..bytes + 69).map(|i| byte(i, 5)).collect();
                    let (mut plain, mut chosen) = (start.clone(), start.clone());
                    // SAFETY: both have `n` elements behind byte 3, to no alignment.
                    unsafe {
                        combine_all(op, p, input.as_ptr().add(3), plain.as_mut_ptr().add(3), n);
                        combine(op, p, input.as_ptr().add(3), chosen.as_mut_ptr().add(3), n);
                    }
                    assert!(plain == chosen, "{op:?} on {n} of {p:?}");
                    assert!(chosen[..3] == start[..3] && chosen[bytes + 3..] == start[bytes + 3..]);
                }
            }
        }
    }
}
