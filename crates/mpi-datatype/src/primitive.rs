//! The predefined datatypes.

use crate::signature::{Run, hash_runs};

/// A predefined datatype. The discriminant is its id on the wire and never changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Primitive {
    /// Packed data (`MPI_PACKED`): bytes whose type is known to the unpacking side only.
    Packed = 1,
    /// Uninterpreted bytes (`MPI_BYTE`).
    Byte = 2,
    /// Rust's `bool`, C's `_Bool` (`MPI_C_BOOL`): one byte, 0 or 1.
    Bool = 3,
    /// Rust's `char`: four bytes, a Unicode scalar value.
    Char = 4,
    /// `i8`.
    I8 = 5,
    /// `u8`.
    U8 = 6,
    /// `i16`.
    I16 = 7,
    /// `u16`.
    U16 = 8,
    /// `i32`.
    I32 = 9,
    /// `u32`.
    U32 = 10,
    /// `i64`.
    I64 = 11,
    /// `u64`.
    U64 = 12,
    /// `f32`.
    F32 = 13,
    /// `f64`.
    F64 = 14,
    /// Two `f32`: real and imaginary part.
    Complex32 = 15,
    /// Two `f64`: real and imaginary part.
    Complex64 = 16,
    /// `{ f32, i32 }` (`MPI_FLOAT_INT`), for `MinLoc` and `MaxLoc`.
    FloatInt = 17,
    /// `{ f64, i32 }` (`MPI_DOUBLE_INT`): 12 bytes of data in 16.
    DoubleInt = 18,
    /// `{ i64, i32 }` (`MPI_LONG_INT`): 12 bytes of data in 16.
    LongInt = 19,
    /// `{ i32, i32 }` (`MPI_2INT`).
    TwoInt = 20,
    /// `{ i16, i32 }` (`MPI_SHORT_INT`): 6 bytes of data in 8, the `i32` at byte 4.
    ShortInt = 21,
}

use Primitive::*;

impl Primitive {
    /// All of them.
    pub const ALL: [Primitive; 21] = [
        Packed, Byte, Bool, Char, I8, U8, I16, U16, I32, U32, I64, U64, F32, F64, Complex32, Complex64,
        FloatInt, DoubleInt, LongInt, TwoInt, ShortInt,
    ];

    /// Bytes of data in one element.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Packed | Byte | Bool | I8 | U8 => 1,
            I16 | U16 => 2,
            Char | I32 | U32 | F32 => 4,
            I64 | U64 | F64 | Complex32 | FloatInt | TwoInt => 8,
            Complex64 => 16,
            DoubleInt | LongInt => 12,
            ShortInt => 6,
        }
    }

    /// Bytes from one element to the next.
    #[inline]
    pub const fn extent(self) -> usize {
        match self {
            DoubleInt | LongInt => 16,
            ShortInt => 8,
            other => other.size(),
        }
    }

    /// Alignment in memory, in bytes.
    pub const fn alignment(self) -> usize {
        match self {
            Complex32 | FloatInt | TwoInt | ShortInt => 4,
            Complex64 | DoubleInt | LongInt => 8,
            other => other.size(),
        }
    }

    /// True when elements follow each other without gaps inside or between.
    #[inline]
    pub const fn is_dense(self) -> bool {
        !matches!(self, DoubleInt | LongInt | ShortInt)
    }

    /// The two halves of a pair type with the displacement of the second, in bytes.
    pub const fn pair(self) -> Option<(Primitive, Primitive, usize)> {
        match self {
            FloatInt => Some((F32, I32, 4)),
            DoubleInt => Some((F64, I32, 8)),
            LongInt => Some((I64, I32, 8)),
            TwoInt => Some((I32, I32, 4)),
            ShortInt => Some((I16, I32, 4)),
            _ => None,
        }
    }

    /// Bytes that are swapped as one when the byte order changes (pair types: of the first half).
    pub(crate) const fn unit(self) -> usize {
        match self {
            Complex32 => 4,
            Complex64 => 8,
            other => match other.pair() {
                Some((first, _, _)) => first.size(),
                None => other.size(),
            },
        }
    }

    /// Signature of one element on the wire.
    #[inline]
    pub const fn signature(self) -> u32 {
        match self {
            TwoInt => I32 as u32,
            FloatInt => const { hash_runs(&[Run::new(F32, 1), Run::new(I32, 1)]) },
            DoubleInt => const { hash_runs(&[Run::new(F64, 1), Run::new(I32, 1)]) },
            LongInt => const { hash_runs(&[Run::new(I64, 1), Run::new(I32, 1)]) },
            ShortInt => const { hash_runs(&[Run::new(I16, 1), Run::new(I32, 1)]) },
            other => other as u32,
        }
    }

    /// Its name, as errors print it.
    pub const fn name(self) -> &'static str {
        match self {
            Packed => "packed",
            Byte => "byte",
            Bool => "bool",
            Char => "char",
            I8 => "i8",
            U8 => "u8",
            I16 => "i16",
            U16 => "u16",
            I32 => "i32",
            U32 => "u32",
            I64 => "i64",
            U64 => "u64",
            F32 => "f32",
            F64 => "f64",
            Complex32 => "complex32",
            Complex64 => "complex64",
            FloatInt => "(f32, i32)",
            DoubleInt => "(f64, i32)",
            LongInt => "(i64, i32)",
            TwoInt => "(i32, i32)",
            ShortInt => "(i16, i32)",
        }
    }

    /// The predefined type with this id on the wire.
    pub const fn from_id(id: u32) -> Option<Primitive> {
        if id >= 1 && id <= Self::ALL.len() as u32 { Some(Self::ALL[id as usize - 1]) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_and_stable() {
        for (i, p) in Primitive::ALL.iter().enumerate() {
            assert_eq!(*p as usize, i + 1);
            assert_eq!(Primitive::from_id(*p as u32), Some(*p));
            assert!(p.size() <= p.extent() && p.extent() % p.alignment() == 0);
        }
        assert_eq!(Primitive::from_id(0), None);
        assert_eq!(Primitive::from_id(22), None);
    }
}
