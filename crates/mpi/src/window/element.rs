//! What a window is made of.

use crate::datatype::Equivalence;

/// A type that the elements of a window may have.
///
/// # Safety
/// All bytes zero is a value, and so is whatever comes of any bytes: others may write while this rank reads. The type
/// has no padding that its datatype does not cover.
pub unsafe trait Element: Equivalence + Copy + Send + 'static {}

/// An element with which a processor can do an operation at once.
///
/// # Safety
/// `Atomic` has the size, the alignment and the values of the type.
pub unsafe trait AtomicElement: Element {
    /// Its atomic twin of the standard library.
    type Atomic: Sync;
}

macro_rules! elements {
    ($($ty:ty $(=> $atomic:ident)?),*) => {
        $(
            // SAFETY: a number: any bytes are one.
            unsafe impl Element for $ty {}
            $(
                // SAFETY: as the standard library says.
                unsafe impl AtomicElement for $ty {
                    type Atomic = std::sync::atomic::$atomic;
                }
            )?
        )*
    };
}

elements!(
    i8 => AtomicI8, i16 => AtomicI16, i32 => AtomicI32, i64 => AtomicI64, isize => AtomicIsize,
    u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64, usize => AtomicUsize,
    f32, f64
);

#[cfg(feature = "complex")]
elements!(num_complex::Complex32, num_complex::Complex64);
