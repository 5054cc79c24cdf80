//! Put and get on memory that is reached directly, and the bounds of what they touch.
//! One of the files with `unsafe`.

use crate::accumulate::{Place, Trouble};
use crate::limits::{TURN_BLOCK_BYTES, TURN_MIN_BYTES};
use mpi_datatype::{Datatype, Primitive, RecvBuf, SendBuf, Strip};
use mpi_node::cross_copy;
use mpi_wire::rma::Run;
use std::cell::Cell;

/// First byte of data of `count` elements and the end of the last, as displacements in bytes.
#[inline]
pub(crate) fn span(count: usize, datatype: &Datatype) -> Option<(isize, isize)> {
    if datatype.is_contiguous() {
        return Some((0, isize::try_from(count.checked_mul(datatype.size())?).ok()?));
    }
    span_with_gaps(count, datatype)
}

fn span_with_gaps(count: usize, datatype: &Datatype) -> Option<(isize, isize)> {
    if count == 0 || datatype.size() == 0 {
        return Some((0, 0));
    }
    let last = isize::try_from(count - 1).ok()?.checked_mul(datatype.extent())?;
    let first = datatype.true_lb().checked_add(last.min(0))?;
    let end = datatype.true_lb().checked_add(datatype.true_extent())?.checked_add(last.max(0))?;
    Some((first, end))
}

/// Copies bytes; a word is one load and one store.
///
/// # Safety
/// Both are valid for `len` bytes.
#[inline]
pub(crate) unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len {
            8 => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
            0..TURN_MIN_BYTES => std::ptr::copy(from, to, len),
            _ => copy_turning(from, to, len),
        }
    }
}

thread_local! {
    /// The last large transfer went upwards.
    static UPWARDS: Cell<bool> = const { Cell::new(false) };
}

/// Which way the next large transfer of this thread goes.
pub(crate) fn go_upwards() -> bool {
    UPWARDS.with(|last| !last.replace(!last.get()))
}

/// Copies much, from the first byte up and from the last down by turns. A program that moves the same memory again and
/// again, as most do, finds what the processor's caches kept of the last time at the end at which that ended.
///
/// # Safety
/// As [`copy_bytes`].
unsafe fn copy_turning(from: *const u8, to: *mut u8, len: usize) {
    let (up, blocks) = (go_upwards(), len.div_ceil(TURN_BLOCK_BYTES));
    for i in 0..blocks {
        let at = TURN_BLOCK_BYTES * if up { i } else { blocks - 1 - i };
        let (from, to) = (from.wrapping_add(at), to.wrapping_add(at));
        // SAFETY: the caller's promise: a block of it.
        unsafe { std::ptr::copy(from, to, TURN_BLOCK_BYTES.min(len - at)) };
    }
}

/// Copies what is mapped here. Signatures may differ where one side is of bytes: the packed form is what counts.
fn copy_elements(from: SendBuf<'_>, to: RecvBuf<'_>) {
    if mpi_datatype::copy(from, to).is_err() {
        let mut packed = vec![0; from.bytes()];
        from.pack(0, &mut packed);
        to.unpack(0, &packed);
    }
}

/// Writes the data of `from` to `count` elements of `datatype` at byte `offset` of the target.
///
/// # Safety
/// All of those lie inside the target's memory; sizes agree.
#[inline]
pub(crate) unsafe fn put(
    place: Place,
    offset: usize,
    from: &SendBuf<'_>,
    count: usize,
    datatype: &Datatype,
) -> Result<(), Trouble> {
    match (place, from.contiguous(), datatype.is_contiguous()) {
        // SAFETY: the caller's promise, and that of `from`.
        (Place::Here(base), Some(bytes), true) => unsafe {
            copy_bytes(bytes.as_ptr(), base.wrapping_add(offset), bytes.len());
            Ok(())
        },
        // SAFETY: the caller's promise.
        _ => unsafe { put_slowly(place, offset, from, count, datatype) },
    }
}

/// # Safety
/// As [`put`].
unsafe fn put_slowly(
    place: Place,
    offset: usize,
    from: &SendBuf<'_>,
    count: usize,
    datatype: &Datatype,
) -> Result<(), Trouble> {
    match place {
        Place::Here(base) => {
            // SAFETY: the caller's promise: the elements are inside the target's memory, mapped here.
            let to = unsafe { RecvBuf::new(base.wrapping_add(offset), count, datatype) };
            copy_elements(*from, to);
            Ok(())
        }
        Place::There { pid, address } => {
            let mut packed = Vec::new();
            let bytes = match from.contiguous() {
                Some(bytes) => bytes,
                None => {
                    packed.resize(from.bytes(), 0);
                    from.pack(0, &mut packed);
                    &packed[..]
                }
            };
            each_block(count, datatype, bytes.len(), |at, skip, len| {
                let there = address.wrapping_add(offset as u64).wrapping_add(at as u64);
                // SAFETY: inside `bytes`; the kernel checks the other side, whose owner made a window of it.
                unsafe { cross_copy::write(pid, there, bytes[skip..skip + len].as_ptr(), len) }
            })
        }
    }
}

/// Reads `count` elements of `datatype` at byte `offset` of the target into `to`.
///
/// # Safety
/// As [`put`].
#[inline]
pub(crate) unsafe fn get(
    place: Place,
    offset: usize,
    to: &RecvBuf<'_>,
    count: usize,
    datatype: &Datatype,
) -> Result<(), Trouble> {
    match (place, to.contiguous(), datatype.is_contiguous()) {
        (Place::Here(base), Some((room, _)), true) => {
            // SAFETY: the caller's promise, and that of `to`; the target's data are not more than the room.
            unsafe { copy_bytes(base.wrapping_add(offset), room, count * datatype.size()) };
            Ok(())
        }
        // SAFETY: the caller's promise.
        _ => unsafe { get_slowly(place, offset, to, count, datatype) },
    }
}

/// # Safety
/// As [`put`].
unsafe fn get_slowly(
    place: Place,
    offset: usize,
    to: &RecvBuf<'_>,
    count: usize,
    datatype: &Datatype,
) -> Result<(), Trouble> {
    match place {
        Place::Here(base) => {
            // SAFETY: the caller's promise.
            let from = unsafe { SendBuf::new(base.wrapping_add(offset), count, datatype) };
            copy_elements(from, *to);
            Ok(())
        }
        Place::There { pid, address } => {
            let mut packed = vec![0; count * datatype.size()];
            let len = packed.len();
            each_block(count, datatype, len, |at, skip, len| {
                let there = address.wrapping_add(offset as u64).wrapping_add(at as u64);
                // SAFETY: inside of `packed`.
                unsafe { cross_copy::read(pid, there, packed[skip..skip + len].as_mut_ptr(), len) }
            })?;
            to.unpack(0, &packed);
            Ok(())
        }
    }
}

/// Calls `f` for every block of the type map: displacement, bytes before it in packed form, bytes.
fn each_block(
    count: usize,
    datatype: &Datatype,
    bytes: usize,
    mut f: impl FnMut(isize, usize, usize) -> std::io::Result<()>,
) -> Result<(), Trouble> {
    let (mut skip, mut result) = (0, Ok(()));
    datatype.strips(count, 0, bytes, &mut |strip: Strip| {
        for i in 0..strip.repeat as isize {
            if result.is_ok() {
                let at = strip.offset.wrapping_add(strip.stride.wrapping_mul(i));
                result = f(at, skip, strip.bytes);
                skip += strip.bytes;
            }
        }
    });
    result.map_err(Trouble::Kernel)
}

/// Where a block of a run lies: byte and length, when it is inside a part of `size` bytes.
pub(crate) fn block_of(run: &Run, i: u32, at: i128, size: usize) -> Option<(usize, Primitive)> {
    let p = Primitive::from_id(run.primitive.into())?;
    let first = at + i128::from(run.offset) + i128::from(run.stride) * i128::from(i);
    let end = first + i128::from(run.count) * p.extent() as i128;
    (first >= 0 && end <= size as i128).then_some((first as usize, p))
}

/// Writes packed bytes to a block.
///
/// # Safety
/// `count` elements of `p` at `base + offset` lie inside this process's part.
pub(crate) unsafe fn write_block(base: *mut u8, offset: usize, p: Primitive, count: usize, bytes: &[u8]) {
    let d = Datatype::predefined(p);
    // SAFETY: the caller's promise.
    let room = unsafe { RecvBuf::new(base.wrapping_add(offset), count, &d) };
    room.unpack(0, bytes);
}

/// Reads a block as packed bytes.
///
/// # Safety
/// As [`write_block`].
pub(crate) unsafe fn read_block(base: *mut u8, offset: usize, p: Primitive, count: usize, out: &mut [u8]) {
    let d = Datatype::predefined(p);
    // SAFETY: the caller's promise.
    let data = unsafe { SendBuf::new(base.wrapping_add(offset), count, &d) };
    data.pack(0, out);
}

/// `n` elements of a primitive one after the other, made of packed bytes or to become such.
pub(crate) struct Laid {
    words: Vec<u64>,
    p: Primitive,
    n: usize,
}

impl Laid {
    pub fn new(p: Primitive, n: usize) -> Laid {
        Laid { words: vec![0; (n * p.extent()).div_ceil(8)], p, n }
    }

    pub fn of_packed(p: Primitive, n: usize, bytes: &[u8]) -> Laid {
        let mut laid = Laid::new(p, n);
        // SAFETY: its own memory, of `n` elements.
        unsafe { write_block(laid.ptr(), 0, p, n, bytes) };
        laid
    }

    pub fn ptr(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast()
    }

    pub fn pack(&mut self) -> Vec<u8> {
        let mut out = vec![0; self.n * self.p.size()];
        // SAFETY: as above.
        unsafe { read_block(self.ptr(), 0, self.p, self.n, &mut out) };
        out
    }
}
