//! Datatypes, packing and operations under their C names (MPI-4.1 §5, §6.9).

use std::os::raw::{c_char, c_int, c_void};
use std::sync::Arc;

use mpi_datatype::{Datatype, Op, UserOp};
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::constants::*;
use super::handles::*;

macro_rules! makers {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = |$old:ident| $made:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The old datatype lives; arrays are as long as the count says; the result's place is writable.
        pub unsafe extern "C" fn $name(
            $($arg: $ty,)*
            oldtype: MPI_Datatype,
            newtype: *mut MPI_Datatype,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call(|| {
                    let $old = datatype(oldtype)?;
                    put(newtype, MPI_Datatype::give($made.map_err(of_type)?));
                    Ok(())
                })
            }
        }
    )*};
}

/// # Safety
/// There are `n` numbers.
unsafe fn counts(values: *const c_int, n: c_int) -> Outcome<Vec<usize>> {
    // SAFETY: the caller's promise.
    unsafe { slice(values, count(n)?) }.iter().map(|&v| count(v)).collect()
}

/// # Safety
/// There are `n` numbers.
unsafe fn distances(values: *const c_int, n: c_int) -> Outcome<Vec<isize>> {
    // SAFETY: the caller's promise.
    Ok(unsafe { slice(values, count(n)?) }.iter().map(|&v| v as isize).collect())
}

makers! {
    /// Elements one after another.
    MPI_Type_contiguous(n: c_int) = |old| Datatype::contiguous(count(n)?, old);
    /// Blocks at a stride in elements.
    MPI_Type_vector(n: c_int, block: c_int, stride: c_int) =
        |old| Datatype::vector(count(n)?, count(block)?, stride as isize, old);
    /// Blocks at a stride in bytes.
    MPI_Type_create_hvector(n: c_int, block: c_int, stride: MPI_Aint) =
        |old| Datatype::hvector(count(n)?, count(block)?, stride, old);
    /// Blocks of different lengths at displacements in elements.
    MPI_Type_indexed(n: c_int, blocks: *const c_int, displacements: *const c_int) =
        |old| Datatype::indexed(&counts(blocks, n)?, &distances(displacements, n)?, old);
    /// Blocks of different lengths at displacements in bytes.
    MPI_Type_create_hindexed(n: c_int, blocks: *const c_int, displacements: *const MPI_Aint) =
        |old| Datatype::hindexed(&counts(blocks, n)?, slice(displacements, count(n)?), old);
    /// Blocks of one length at displacements in elements.
    MPI_Type_create_indexed_block(n: c_int, block: c_int, displacements: *const c_int) =
        |old| Datatype::indexed_block(count(block)?, &distances(displacements, n)?, old);
    /// Blocks of one length at displacements in bytes.
    MPI_Type_create_hindexed_block(n: c_int, block: c_int, displacements: *const MPI_Aint) =
        |old| Datatype::hindexed_block(count(block)?, slice(displacements, count(n)?), old);
    /// The same layout as a new object.
    MPI_Type_dup() = |old| Datatype::dup(old);
}

/// Blocks of different lengths, displacements in bytes, and types.
///
/// # Safety
/// The three arrays have `n` elements, the types live, the result's place is writable.
pub unsafe extern "C" fn MPI_Type_create_struct(
    n: c_int,
    blocks: *const c_int,
    displacements: *const MPI_Aint,
    types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            let len = count(n)?;
            let parts: Outcome<Vec<Datatype>> =
                slice(types, len).iter().map(|&t| datatype(t).cloned()).collect();
            let made = Datatype::structured(&counts(blocks, n)?, slice(displacements, len), &parts?);
            put(newtype, MPI_Datatype::give(made.map_err(of_type)?));
            Ok(())
        })
    }
}

/// The same layout with other bounds.
///
/// # Safety
/// The old datatype lives; the result's place is writable.
pub unsafe extern "C" fn MPI_Type_create_resized(
    oldtype: MPI_Datatype,
    lb: MPI_Aint,
    extent: MPI_Aint,
    newtype: *mut MPI_Datatype,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            let made = Datatype::resized(datatype(oldtype)?, lb, extent).map_err(of_type)?;
            put(newtype, MPI_Datatype::give(made));
            Ok(())
        })
    }
}

/// Makes a datatype fit for communication.
///
/// # Safety
/// `handle` holds a live datatype.
pub unsafe extern "C" fn MPI_Type_commit(handle: *mut MPI_Datatype) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            datatype(*handle)?.commit();
            Ok(())
        })
    }
}

/// Frees a datatype; its handle becomes null. A predefined one cannot be freed.
///
/// # Safety
/// `handle` holds a datatype that the program owns, or a handle that is null or predefined.
pub unsafe extern "C" fn MPI_Type_free(handle: *mut MPI_Datatype) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let given = handle.read();
        if given == MPI_Datatype::NULL || given.is_predefined() {
            let detail = "only a datatype that the program made can be freed";
            return Err(Error::new(ErrorClass::Type, "free datatype", detail));
        }
        drop(handle.replace(MPI_Datatype::NULL).take());
        Ok(())
    })
}

/// Bytes of data in one element.
///
/// # Safety
/// The datatype lives; `size` is writable.
pub unsafe extern "C" fn MPI_Type_size(handle: MPI_Datatype, size: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            put(size, int(datatype(handle)?.size()));
            Ok(())
        })
    }
}

/// Where an element begins, and bytes from one to the next.
///
/// # Safety
/// The datatype lives; both results are writable.
pub unsafe extern "C" fn MPI_Type_get_extent(
    handle: MPI_Datatype,
    lb: *mut MPI_Aint,
    extent: *mut MPI_Aint,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            let datatype = datatype(handle)?;
            put(lb, datatype.lb());
            put(extent, datatype.extent());
            Ok(())
        })
    }
}

/// The address of a place in memory.
///
/// # Safety
/// `address` is writable.
pub unsafe extern "C" fn MPI_Get_address(location: *const c_void, address: *mut MPI_Aint) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { put(address, location.addr() as MPI_Aint) };
    MPI_SUCCESS as c_int
}

/// How many bytes elements take when packed.
///
/// # Safety
/// The datatype lives; `size` is writable.
pub unsafe extern "C" fn MPI_Pack_size(
    n: c_int,
    handle: MPI_Datatype,
    comm: MPI_Comm,
    size: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |_| {
            put(size, int(count(n)?.saturating_mul(datatype(handle)?.size())));
            Ok(())
        })
    }
}

/// Packs elements into bytes from `position` on, which moves behind them.
///
/// # Safety
/// The elements are readable, the bytes and `position` writable.
pub unsafe extern "C" fn MPI_Pack(
    inbuf: *const c_void,
    incount: c_int,
    handle: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: c_int,
    position: *mut c_int,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |_| {
            let data = sent(inbuf, incount, handle)?;
            let out = slice_mut(outbuf.cast::<u8>(), count(outsize)?);
            let part = out.get_mut(count(*position)?..).unwrap_or_default();
            let written = whole(data.pack(0, part), data.bytes())?;
            put(position, *position + written);
            Ok(())
        })
    }
}

/// Unpacks elements from bytes from `position` on, which moves behind them.
///
/// # Safety
/// The bytes are readable, the elements and `position` writable.
pub unsafe extern "C" fn MPI_Unpack(
    inbuf: *const c_void,
    insize: c_int,
    position: *mut c_int,
    outbuf: *mut c_void,
    outcount: c_int,
    handle: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |_| {
            let place = room(outbuf, outcount, handle)?;
            let bytes = slice(inbuf.cast::<u8>(), count(insize)?);
            let part = bytes.get(count(*position)?..).unwrap_or_default();
            let read = whole(place.unpack(0, part), place.bytes())?;
            put(position, *position + read);
            Ok(())
        })
    }
}

/// How long elements are in the form `datarep`, of which there is `external32`.
///
/// # Safety
/// `datarep` is a string that ends with 0; `size` is writable.
pub unsafe extern "C" fn MPI_Pack_external_size(
    datarep: *const c_char,
    n: MPI_Aint,
    handle: MPI_Datatype,
    size: *mut MPI_Aint,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            external32(datarep)?;
            put(size, length(n)?.saturating_mul(datatype(handle)?.size()) as MPI_Aint);
            Ok(())
        })
    }
}

/// Packs elements in the form `external32` (MPI-4.1 §5.3) from `position` on, which moves behind them.
///
/// # Safety
/// The elements and `datarep` are readable, the bytes and `position` writable.
pub unsafe extern "C" fn MPI_Pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: c_int,
    handle: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Aint,
    position: *mut MPI_Aint,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            external32(datarep)?;
            let data = sent(inbuf, incount, handle)?;
            let out = slice_mut(outbuf.cast::<u8>(), length(outsize)?);
            let part = out.get_mut(length(*position)?..).unwrap_or_default();
            let written = whole(data.pack_external(part), data.bytes())?;
            put(position, *position + written as MPI_Aint);
            Ok(())
        })
    }
}

/// Unpacks elements from bytes in the form `external32` from `position` on, which moves behind them.
///
/// # Safety
/// The bytes and `datarep` are readable, the elements and `position` writable.
pub unsafe extern "C" fn MPI_Unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Aint,
    position: *mut MPI_Aint,
    outbuf: *mut c_void,
    outcount: c_int,
    handle: MPI_Datatype,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            external32(datarep)?;
            let place = room(outbuf, outcount, handle)?;
            let bytes = slice(inbuf.cast::<u8>(), length(insize)?);
            let part = bytes.get(length(*position)?..).unwrap_or_default();
            let read = whole(place.unpack_external(part), place.bytes())?;
            put(position, *position + read as MPI_Aint);
            Ok(())
        })
    }
}

fn length(value: MPI_Aint) -> Outcome<usize> {
    usize::try_from(value)
        .map_err(|_| Error::new(ErrorClass::Arg, "pack", format!("{value} is no number of bytes")))
}

/// # Safety
/// A string that ends with 0.
unsafe fn external32(datarep: *const c_char) -> Outcome<()> {
    // SAFETY: the caller's promise.
    let name = unsafe { std::ffi::CStr::from_ptr(datarep) };
    if name == c"external32" {
        return Ok(());
    }
    let detail = format!("{name:?} is no form of data; there is \"external32\"");
    Err(Error::new(ErrorClass::Arg, "pack", detail))
}

fn whole(moved: usize, wanted: usize) -> Outcome<c_int> {
    let fault = || format!("{wanted} bytes do not fit into the {moved} that are left");
    if moved == wanted {
        return Ok(int(moved));
    }
    Err(Error::new(ErrorClass::Truncate, "pack", fault()))
}

/// A reduction in the form of the C binding.
pub type MPI_User_function =
    Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype)>;

/// Makes an operation from a function.
///
/// # Safety
/// The function is good for the elements that the operation is used with; `op` is writable.
pub unsafe extern "C" fn MPI_Op_create(
    function: MPI_User_function,
    commute: c_int,
    op: *mut MPI_Op,
) -> c_int {
    let Some(function) = function else { return MPI_ERR_ARG as c_int };
    // SAFETY: the caller's promise.
    unsafe { put(op, user_op(function, commute != 0)) };
    MPI_SUCCESS as c_int
}

/// An operation that calls a function in the form of the C binding.
///
/// # Safety
/// The function is good for the elements that the operation is used with.
pub(crate) unsafe fn user_op(
    function: unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype),
    commute: bool,
) -> MPI_Op {
    let call = move |input: *const u8, inout: *mut u8, len: usize, datatype: &Datatype| {
        let mut handle = MPI_Datatype::naming(datatype);
        let mut done = 0;
        // The C form counts in `int`, so a longer array takes several calls.
        while done < len {
            let mut part = c_int::try_from(len - done).unwrap_or(c_int::MAX);
            let at = (done as isize).wrapping_mul(datatype.extent());
            let (input, inout) = (input.wrapping_offset(at), inout.wrapping_offset(at));
            done += part as usize;
            // SAFETY: the arrays hold so many elements; the maker of the operation promised the rest.
            unsafe { function(input.cast_mut().cast(), inout.cast(), &mut part, &mut handle) };
        }
    };
    MPI_Op::give(Op::User(Arc::new(UserOp::new(Box::new(call), commute))))
}

/// Frees an operation; its handle becomes null. A predefined one cannot be freed.
///
/// # Safety
/// `op` holds an operation that the program owns, or a handle that is null or predefined.
pub unsafe extern "C" fn MPI_Op_free(op: *mut MPI_Op) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let given = op.read();
        if given == MPI_Op::NULL || given.is_predefined() {
            let detail = "only an operation that the program made can be freed";
            return Err(Error::new(ErrorClass::Op, "free operation", detail));
        }
        drop(op.replace(MPI_Op::NULL).take());
        Ok(())
    })
}

/// Whether operands may change places.
///
/// # Safety
/// The operation lives; `commute` is writable.
pub unsafe extern "C" fn MPI_Op_commutative(op: MPI_Op, commute: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { put(commute, c_int::from(op.get().commutes())) };
    MPI_SUCCESS as c_int
}

/// Combines elements of two buffers, into the second.
///
/// # Safety
/// Both buffers hold `n` elements; datatype and operation live.
pub unsafe extern "C" fn MPI_Reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    n: c_int,
    handle: MPI_Datatype,
    op: MPI_Op,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call(|| op.get().apply(sent(inbuf, n, handle)?, room(inoutbuf, n, handle)?).map_err(of_type)) }
}
