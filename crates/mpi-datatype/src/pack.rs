//! Packing, unpacking and typed copies: bytes between a layout in memory and packed form.
//!
//! Packed form is the type map's order, little-endian. Every function may stop and resume at any byte.

use crate::buffer::PACKED;
use crate::layout::{Check, Kind, Placed, SWAPS, Values, Visit, each_block, walk_repeat};
use crate::limits::{COPY_PIECE_BYTES, PREFETCH_BLOCKS, PREFETCH_STRIDE_BYTES};
use crate::{Datatype, DatatypeError, RecvBuf, SendBuf, Signature};

impl SendBuf<'_> {
    /// Packs from byte `from` of the packed form until `out` is full or the data ends; how many bytes.
    pub fn pack(&self, from: usize, out: &mut [u8]) -> usize {
        let take = self.bytes().saturating_sub(from).min(out.len());
        if let Some(bytes) = self.contiguous() {
            out[..take].copy_from_slice(&bytes[from.min(bytes.len())..][..take]);
        } else {
            let mut gather = Gather { base: self.ptr(), out, swaps: SWAPS };
            walk(self.datatype(), self.count(), from, from + take, &mut gather);
        }
        take
    }

    /// Packs the data in the standard's portable form `external32` (big-endian) until `out` is full or the data ends;
    /// how many bytes. All predefined datatypes here have the same size there (MPI 4.1, section 14.5.2).
    pub fn pack_external(&self, out: &mut [u8]) -> usize {
        let take = self.bytes().min(out.len());
        let out = &mut out[..take];
        walk(self.datatype(), self.count(), 0, take, &mut Gather { base: self.ptr(), out, swaps: !SWAPS });
        take
    }
}

impl RecvBuf<'_> {
    /// Unpacks `bytes` as bytes `from ..` of the packed form, until they or the room end; how many.
    /// Holes between elements are never touched.
    pub fn unpack(&self, from: usize, bytes: &[u8]) -> usize {
        let take = self.bytes().saturating_sub(from).min(bytes.len());
        if take == 0 {
            return 0;
        }
        if let Some((ptr, _)) = self.contiguous() {
            // SAFETY: `from + take` bytes lie inside the room, which `RecvBuf::new` promised to be writable
            // and looked at by nobody else, so it does not overlap `bytes`.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), ptr.add(from), take) };
        } else {
            let mut scatter = Scatter { base: self.ptr(), bytes: &bytes[..take], swaps: SWAPS };
            walk(self.datatype(), self.count(), from, from + take, &mut scatter);
        }
        take
    }

    /// Unpacks `bytes`, which are in the form `external32`, until they or the room end; how many. Holes are not touched.
    pub fn unpack_external(&self, bytes: &[u8]) -> usize {
        let take = self.bytes().min(bytes.len());
        let mut scatter = Scatter { base: self.ptr(), bytes: &bytes[..take], swaps: !SWAPS };
        walk(self.datatype(), self.count(), 0, take, &mut scatter);
        take
    }

    /// Checks the first `received` bytes of data for values that Rust does not know (a `bool` that is
    /// neither 0 nor 1, a `char` that is none) and replaces them by `false` and `'\0'`.
    ///
    /// # Errors
    /// The first such value; the peer's fault.
    pub fn sanitize(&self, received: usize) -> Result<(), DatatypeError> {
        if !self.datatype().needs_validation() {
            return Ok(());
        }
        let mut clean = Sanitize { base: self.ptr(), found: None };
        walk(self.datatype(), self.count(), 0, received.min(self.bytes()), &mut clean);
        clean.found.map_or(Ok(()), Err)
    }
}

impl Datatype {
    /// Checks packed bytes, which start at an element's begin, for values that Rust does not know.
    ///
    /// # Errors
    /// The first such value; the peer's fault.
    pub fn validate(&self, bytes: &[u8]) -> Result<(), DatatypeError> {
        if !self.needs_validation() || self.size() == 0 {
            return Ok(());
        }
        let mut validate = Validate { bytes, found: None };
        walk(self, bytes.len().div_ceil(self.size()), 0, bytes.len(), &mut validate);
        validate.found.map_or(Ok(()), Err)
    }
}

/// Copies data from one layout to another, as a message to oneself does. The buffers do not overlap, except that
/// they may be the same.
///
/// # Errors
/// More data than room; types that do not agree.
#[inline]
pub fn copy(from: SendBuf<'_>, to: RecvBuf<'_>) -> Result<(), DatatypeError> {
    if let (Datatype::Predefined(p), Datatype::Predefined(q)) = (from.datatype(), to.datatype()) {
        if p == q && p.is_dense() && from.count() <= to.count() && from.count() > 0 {
            // SAFETY: both are `count` touching elements, valid by the promises of the two buffers.
            unsafe { std::ptr::copy(from.ptr(), to.ptr(), from.bytes()) };
            return Ok(());
        }
    }
    copy_any(from, to)
}

fn copy_any(from: SendBuf<'_>, to: RecvBuf<'_>) -> Result<(), DatatypeError> {
    let (have, room) = (from.bytes(), to.bytes());
    if have > room {
        return Err(DatatypeError::Truncated { have, room });
    }
    if have == 0 || (from.ptr() == to.ptr().cast_const() && from.datatype().same(to.datatype())) {
        return Ok(());
    }
    if !Signature::agree(from.datatype().signature(), to.datatype().signature()) {
        let (from, to) = (from.datatype().signature(), to.datatype().signature());
        return Err(DatatypeError::Mismatch { from: Signature::describe(from), to: Signature::describe(to) });
    }
    // Packed data stands in wire order, everything else in the host's.
    let swaps = SWAPS && from.datatype().same(&PACKED) != to.datatype().same(&PACKED);
    let (dense_from, dense_to) = (!swaps && from.datatype().is_dense(), !swaps && to.datatype().is_dense());
    if dense_from && dense_to {
        // SAFETY: both are `have` touching bytes, valid by the promises of the two buffers.
        unsafe { std::ptr::copy(from.ptr(), to.ptr(), have) };
    } else if dense_from {
        // SAFETY: as above for the source; nobody changes it.
        let bytes = unsafe { std::slice::from_raw_parts(from.ptr(), have) };
        walk(to.datatype(), to.count(), 0, have, &mut Scatter { base: to.ptr(), bytes, swaps: false });
    } else if dense_to {
        // SAFETY: as above for the destination; nobody else looks at it.
        let out = unsafe { std::slice::from_raw_parts_mut(to.ptr(), have) };
        walk(from.datatype(), from.count(), 0, have, &mut Gather { base: from.ptr(), out, swaps: false });
    } else {
        through_pieces(from, to, have, swaps);
    }
    Ok(())
}

/// Both sides have holes (or bytes are swapped): piece by piece.
fn through_pieces(from: SendBuf<'_>, to: RecvBuf<'_>, have: usize, swaps: bool) {
    let mut piece = [0u8; COPY_PIECE_BYTES];
    let packed = |d: &Datatype| d.same(&PACKED);
    let mut at = 0;
    while at < have {
        let out = &mut piece[..COPY_PIECE_BYTES.min(have - at)];
        let len = out.len();
        let swaps_out = swaps && !packed(from.datatype());
        walk(
            from.datatype(),
            from.count(),
            at,
            at + len,
            &mut Gather { base: from.ptr(), out, swaps: swaps_out },
        );
        let swaps_in = swaps && !packed(to.datatype());
        let bytes = &piece[..len];
        walk(
            to.datatype(),
            to.count(),
            at,
            at + len,
            &mut Scatter { base: to.ptr(), bytes, swaps: swaps_in },
        );
        at += len;
    }
}

/// Walks bytes `from .. to` of the packed form of `count` elements.
pub(crate) fn walk(datatype: &Datatype, count: usize, from: usize, to: usize, visit: &mut impl Visit) {
    if from >= to {
        return;
    }
    let placed = datatype.placed();
    match placed.piece.node {
        // Elements without gaps: one block of the whole buffer.
        crate::layout::Node::Block(kind) if datatype.is_dense() => {
            debug_assert!(to <= count.saturating_mul(datatype.size()));
            visit.part(placed.offset, from, to - from, kind);
        }
        _ => walk_repeat(&placed.piece, datatype.extent(), placed.offset, from, to, visit),
    }
}

/// Memory to packed bytes. `out` is shortened from the front as it fills.
struct Gather<'a> {
    base: *const u8,
    out: &'a mut [u8],
    swaps: bool,
}

/// Packed bytes to memory. `bytes` is shortened from the front as they go.
struct Scatter<'a> {
    base: *mut u8,
    bytes: &'a [u8],
    swaps: bool,
}

impl Gather<'_> {
    fn next(&mut self, len: usize) -> *mut u8 {
        let (now, rest) = std::mem::take(&mut self.out).split_at_mut(len);
        self.out = rest;
        now.as_mut_ptr()
    }
}

impl Scatter<'_> {
    fn next(&mut self, len: usize) -> *const u8 {
        let (now, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        now.as_ptr()
    }
}

impl Visit for Gather<'_> {
    fn blocks(&mut self, offset: isize, stride: isize, count: usize, len: usize, kind: Kind) {
        if self.swaps && kind.unit > 1 {
            return (0..count).for_each(|i| self.part(offset + stride * i as isize, 0, len, kind));
        }
        let src = self.base.wrapping_offset(offset);
        let dst = self.next(count * len);
        // SAFETY: the walk visits only bytes of the type map, which the buffer's promise covers; `next` made
        // room for `count * len` bytes.
        unsafe { copy_blocks(src, stride, dst, len as isize, count, len) }
    }

    fn structs(&mut self, offset: isize, stride: isize, count: usize, list: &[Placed]) {
        if self.swaps {
            return each_block(self, offset, stride, count, list);
        }
        let mut src = self.base.wrapping_offset(offset);
        let mut dst = self.next(count * list.iter().map(|p| p.piece.size).sum::<usize>());
        for _ in 0..count {
            for placed in list {
                // SAFETY: as in `blocks`.
                unsafe { copy_one(src.wrapping_offset(placed.offset), dst, placed.piece.size) };
                dst = dst.wrapping_add(placed.piece.size);
            }
            src = src.wrapping_offset(stride);
        }
    }

    fn part(&mut self, offset: isize, skip: usize, len: usize, kind: Kind) {
        let unit = usize::from(kind.unit);
        let src = self.base.wrapping_offset(offset);
        let dst = self.next(len);
        if self.swaps && unit > 1 {
            for (i, at) in (skip..skip + len).enumerate() {
                // SAFETY: as in `blocks`; a byte's mirror image lies in the same primitive.
                unsafe { *dst.add(i) = *src.wrapping_add(mirror(at, unit)) };
            }
        } else {
            // SAFETY: as in `blocks`.
            unsafe { std::ptr::copy_nonoverlapping(src.wrapping_add(skip), dst, len) };
        }
    }
}

impl Visit for Scatter<'_> {
    fn blocks(&mut self, offset: isize, stride: isize, count: usize, len: usize, kind: Kind) {
        if self.swaps && kind.unit > 1 {
            return (0..count).for_each(|i| self.part(offset + stride * i as isize, 0, len, kind));
        }
        let dst = self.base.wrapping_offset(offset);
        let src = self.next(count * len);
        // SAFETY: the walk visits only bytes of the type map, which the buffer's promise covers; `next`
        // checked that there are `count * len` bytes.
        unsafe { copy_blocks(src, len as isize, dst, stride, count, len) }
    }

    fn structs(&mut self, offset: isize, stride: isize, count: usize, list: &[Placed]) {
        if self.swaps {
            return each_block(self, offset, stride, count, list);
        }
        let mut dst = self.base.wrapping_offset(offset);
        let mut src = self.next(count * list.iter().map(|p| p.piece.size).sum::<usize>());
        for _ in 0..count {
            for placed in list {
                // SAFETY: as in `blocks`.
                unsafe { copy_one(src, dst.wrapping_offset(placed.offset), placed.piece.size) };
                src = src.wrapping_add(placed.piece.size);
            }
            dst = dst.wrapping_offset(stride);
        }
    }

    fn part(&mut self, offset: isize, skip: usize, len: usize, kind: Kind) {
        let unit = usize::from(kind.unit);
        let dst = self.base.wrapping_offset(offset);
        let src = self.next(len);
        if self.swaps && unit > 1 {
            for (i, at) in (skip..skip + len).enumerate() {
                // SAFETY: as in `blocks`; a byte's mirror image lies in the same primitive.
                unsafe { *dst.wrapping_add(mirror(at, unit)) = *src.add(i) };
            }
        } else {
            // SAFETY: as in `blocks`.
            unsafe { std::ptr::copy_nonoverlapping(src, dst.wrapping_add(skip), len) };
        }
    }
}

/// Where byte `at` of a block stands when each `unit` bytes are reversed.
fn mirror(at: usize, unit: usize) -> usize {
    at / unit * unit + (unit - 1 - at % unit)
}

/// Copies `count` blocks of `len` bytes; the usual sizes as single loads and stores.
///
/// # Safety
/// All blocks on both sides are valid and no source overlaps a destination.
#[inline]
unsafe fn copy_blocks(src: *const u8, from: isize, dst: *mut u8, to: isize, count: usize, len: usize) {
    // SAFETY: the caller's promise, unchanged.
    unsafe {
        match len {
            1 => copy_sized::<1>(src, from, dst, to, count),
            2 => copy_sized::<2>(src, from, dst, to, count),
            4 => copy_sized::<4>(src, from, dst, to, count),
            8 => copy_sized::<8>(src, from, dst, to, count),
            12 => copy_sized::<12>(src, from, dst, to, count),
            16 => copy_sized::<16>(src, from, dst, to, count),
            24 => copy_sized::<24>(src, from, dst, to, count),
            32 => copy_sized::<32>(src, from, dst, to, count),
            _ => {
                for i in 0..count as isize {
                    let (s, d) = (src.wrapping_offset(from * i), dst.wrapping_offset(to * i));
                    std::ptr::copy_nonoverlapping(s, d, len);
                }
            }
        }
    }
}

/// Copies one block; the usual sizes as single loads and stores.
///
/// # Safety
/// Both are valid for `len` bytes and do not overlap.
#[inline(always)]
unsafe fn copy_one(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise; arrays of bytes have no alignment.
    unsafe {
        match len {
            4 => dst.cast::<[u8; 4]>().write(src.cast::<[u8; 4]>().read()),
            8 => dst.cast::<[u8; 8]>().write(src.cast::<[u8; 8]>().read()),
            12 => dst.cast::<[u8; 12]>().write(src.cast::<[u8; 12]>().read()),
            16 => dst.cast::<[u8; 16]>().write(src.cast::<[u8; 16]>().read()),
            24 => dst.cast::<[u8; 24]>().write(src.cast::<[u8; 24]>().read()),
            _ => std::ptr::copy_nonoverlapping(src, dst, len),
        }
    }
}

/// # Safety
/// As [`copy_blocks`] with `len` = `N`.
#[inline]
unsafe fn copy_sized<const N: usize>(src: *const u8, from: isize, dst: *mut u8, to: isize, count: usize) {
    // SAFETY: the caller's promise, unchanged.
    unsafe {
        match (from.unsigned_abs() >= PREFETCH_STRIDE_BYTES, to.unsigned_abs() >= PREFETCH_STRIDE_BYTES) {
            (false, false) => copy_ahead::<N, false, false>(src, from, dst, to, count),
            (true, _) => copy_ahead::<N, true, false>(src, from, dst, to, count),
            (false, true) => copy_ahead::<N, false, true>(src, from, dst, to, count),
        }
    }
}

/// Where blocks lie further apart than the processor looks ahead by itself, it is told what comes.
///
/// # Safety
/// As [`copy_blocks`] with `len` = `N`.
#[inline]
unsafe fn copy_ahead<const N: usize, const READ: bool, const WRITE: bool>(
    mut src: *const u8,
    from: isize,
    mut dst: *mut u8,
    to: isize,
    count: usize,
) {
    for _ in 0..count {
        if READ {
            prefetch_read(src.wrapping_offset(from.wrapping_mul(PREFETCH_BLOCKS)));
        }
        if WRITE {
            prefetch_write(dst.wrapping_offset(to.wrapping_mul(PREFETCH_BLOCKS)));
        }
        // SAFETY: the caller's promise; arrays of bytes have no alignment.
        unsafe { dst.cast::<[u8; N]>().write(src.cast::<[u8; N]>().read()) };
        src = src.wrapping_offset(from);
        dst = dst.wrapping_offset(to);
    }
}

/// Asks for a line that will be read. Any address will do: nothing is read by it.
#[inline(always)]
fn prefetch_read(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for a line that will be written. Any address will do: nothing is written by it.
#[inline(always)]
fn prefetch_write(at: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(at.cast_const().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

fn wrong(check: Check, bytes: &[u8]) -> Option<DatatypeError> {
    match (check, bytes) {
        (Check::Bool, [b]) if *b > 1 => Some(DatatypeError::Value { what: "bool", value: u64::from(*b) }),
        _ => None,
    }
}

fn wrong_char(value: u32) -> Option<DatatypeError> {
    if char::from_u32(value).is_some() {
        return None;
    }
    Some(DatatypeError::Value { what: "char", value: u64::from(value) })
}

/// `bytes` are one value of an enum, in this host's order or reversed from it.
fn wrong_enum(values: &Values, bytes: &[u8], reversed: bool) -> Option<DatatypeError> {
    let mut wide = [0; 8];
    let start = if cfg!(target_endian = "big") { 8 - bytes.len() } else { 0 };
    wide[start..start + bytes.len()].copy_from_slice(bytes);
    if reversed {
        wide[start..start + bytes.len()].reverse();
    }
    let value = u64::from_ne_bytes(wide);
    let known = values.bits.contains(&value);
    if known { None } else { Some(DatatypeError::Value { what: values.name, value }) }
}

/// Looks at values in memory and replaces wrong ones.
struct Sanitize {
    base: *mut u8,
    found: Option<DatatypeError>,
}

impl Visit for Sanitize {
    fn blocks(&mut self, offset: isize, stride: isize, count: usize, len: usize, kind: Kind) {
        if kind.check != Check::Nothing {
            (0..count).for_each(|i| self.part(offset + stride * i as isize, 0, len, kind));
        }
    }

    fn part(&mut self, offset: isize, skip: usize, len: usize, kind: Kind) {
        let at = self.base.wrapping_offset(offset).wrapping_add(skip);
        if kind.check == Check::Nothing {
            return;
        }
        // SAFETY: bytes of the type map, which the buffer's promise covers.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at, len) };
        if kind.check == Check::Bool {
            for b in bytes.iter_mut() {
                if let Some(error) = wrong(Check::Bool, &[*b]) {
                    *b = 0;
                    self.found.get_or_insert(error);
                }
            }
            return;
        }
        if let Check::OneOf(values) = kind.check {
            for v in bytes.chunks_exact_mut(usize::from(kind.unit)) {
                if let Some(error) = wrong_enum(values, v, false) {
                    let good = values.bits.first().copied().unwrap_or(0).to_le_bytes();
                    v.copy_from_slice(&good[..v.len()]);
                    if SWAPS {
                        v.reverse();
                    }
                    self.found.get_or_insert(error);
                }
            }
            return;
        }
        for c in bytes.chunks_exact_mut(4) {
            if let Some(error) = wrong_char(u32::from_ne_bytes([c[0], c[1], c[2], c[3]])) {
                c.fill(0);
                self.found.get_or_insert(error);
            }
        }
    }
}

/// Looks at values in packed bytes.
struct Validate<'a> {
    bytes: &'a [u8],
    found: Option<DatatypeError>,
}

impl Visit for Validate<'_> {
    fn blocks(&mut self, _: isize, _: isize, count: usize, len: usize, kind: Kind) {
        self.part(0, 0, count * len, kind);
    }

    fn part(&mut self, _: isize, _: usize, len: usize, kind: Kind) {
        let (now, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        if self.found.is_some() {
            return;
        }
        self.found = match kind.check {
            Check::Nothing => None,
            Check::Bool => now.iter().find_map(|b| wrong(Check::Bool, &[*b])),
            Check::OneOf(values) => {
                now.chunks_exact(usize::from(kind.unit)).find_map(|v| wrong_enum(values, v, SWAPS))
            }
            Check::Char => {
                now.chunks_exact(4).find_map(|c| wrong_char(u32::from_le_bytes([c[0], c[1], c[2], c[3]])))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Primitive;
    use crate::layout::of_primitive;

    #[test]
    fn values_that_an_enum_does_not_have_are_named_and_replaced() {
        static VALUES: Values = Values { name: "Phase", bits: &[3, 0xFFFE] };
        let phase = Datatype::one_of(Primitive::I16, &VALUES).unwrap();
        assert_eq!(phase.signature(), Datatype::predefined(Primitive::I16).signature());
        assert!(phase.needs_validation() && phase.is_contiguous());
        let mut memory = [3_i16, -2, 4, -1];
        // SAFETY: four elements of two bytes.
        let room = unsafe { RecvBuf::new(memory.as_mut_ptr().cast(), 4, &phase) };
        assert_eq!(room.sanitize(4), Ok(()));
        assert_eq!(room.sanitize(8), Err(DatatypeError::Value { what: "Phase", value: 4 }));
        assert_eq!(memory, [3, -2, 3, 3]);
        assert_eq!(phase.validate(&[3, 0, 0xFE, 0xFF]), Ok(()));
        assert_eq!(phase.validate(&[3, 0, 9, 1]), Err(DatatypeError::Value { what: "Phase", value: 0x109 }));
        let pair = Datatype::contiguous(2, &phase).unwrap();
        assert!(crate::Op::Sum.check(&pair).is_err() && pair.validate(&[3, 0, 5, 0]).is_err());
        assert!(Datatype::one_of(Primitive::F32, &VALUES).is_err());
    }

    /// What a host of the other byte order does, tried on this one.
    #[test]
    fn swapping_reverses_each_primitive_wherever_it_is_cut() {
        let bytes: Vec<u8> = (0..60).collect();
        for p in Primitive::ALL {
            let one = of_primitive(p, true);
            let many = one.repeat(3, p.extent() as isize, true);
            let (size, mut expected) = (many.piece.size, Vec::new());
            for i in 0..3 {
                let at = i * p.extent();
                let units = match p.pair() {
                    Some((a, b, second)) => vec![(at, a.size()), (at + second, b.size())],
                    None => (0..p.size() / p.unit()).map(|k| (at + k * p.unit(), p.unit())).collect(),
                };
                units.iter().for_each(|(at, len)| expected.extend(bytes[*at..at + len].iter().rev()));
            }
            for cut in 0..=size {
                let mut packed = vec![0; size];
                let (left, right) = packed.split_at_mut(cut);
                for (out, from, to) in [(left, 0, cut), (right, cut, size)] {
                    let mut gather = Gather { base: bytes.as_ptr(), out, swaps: true };
                    many.piece.walk(many.offset, from, to, &mut gather);
                }
                assert_eq!(packed, expected, "{} cut at {cut}", p.name());
                let mut back = vec![0u8; 60];
                for (from, to) in [(0, cut), (cut, size)] {
                    let mut scatter =
                        Scatter { base: back.as_mut_ptr(), bytes: &packed[from..to], swaps: true };
                    many.piece.walk(many.offset, from, to, &mut scatter);
                }
                let mut plain = vec![0; size];
                let out = &mut plain[..];
                many.piece.walk(many.offset, 0, size, &mut Gather { base: back.as_ptr(), out, swaps: false });
                let mut original = vec![0; size];
                let out = &mut original[..];
                many.piece.walk(
                    many.offset,
                    0,
                    size,
                    &mut Gather { base: bytes.as_ptr(), out, swaps: false },
                );
                assert_eq!(plain, original, "{} cut at {cut}", p.name());
            }
        }
    }
}
