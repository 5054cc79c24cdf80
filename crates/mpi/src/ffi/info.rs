//! Info objects under their C names (MPI-4.1 §10).

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

use mpi_comm::Info;
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::constants::*;
use super::handles::*;

/// A text of the caller's.
///
/// # Safety
/// It ends with a 0 and stays as it is for `'a`.
unsafe fn text<'a>(place: *const c_char, class: ErrorClass) -> Outcome<&'a str> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(place) };
    bytes.to_str().map_err(|fault| Error::new(class, "info", format!("{bytes:?}: {fault}")))
}

/// An empty info object.
///
/// # Safety
/// `info` is writable.
pub unsafe extern "C" fn MPI_Info_create(info: *mut MPI_Info) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { put(info, MPI_Info::give(Info::new())) };
    MPI_SUCCESS as c_int
}

/// A copy of an info object.
///
/// # Safety
/// The object lives; `newinfo` is writable.
pub unsafe extern "C" fn MPI_Info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        put(newinfo, MPI_Info::give(info.get()?.clone()));
        Ok(())
    })
}

/// Frees an info object.
///
/// # Safety
/// The handle is null, or lives and is not used again.
pub unsafe extern "C" fn MPI_Info_free(info: *mut MPI_Info) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        info.read().get()?;
        info.replace(MPI_Info::NULL).drop_object();
        Ok(())
    })
}

/// Sets a hint.
///
/// # Safety
/// The object lives, and no other call uses it meanwhile; both texts end with a 0.
pub unsafe extern "C" fn MPI_Info_set(info: MPI_Info, key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let (key, value) = (text(key, ErrorClass::InfoKey)?, text(value, ErrorClass::InfoValue)?);
        info.get_mut()?.set(key, value)
    })
}

/// Removes a hint.
///
/// # Safety
/// The object lives, and no other call uses it meanwhile; the key ends with a 0.
pub unsafe extern "C" fn MPI_Info_delete(info: MPI_Info, key: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe { info.get_mut()?.delete(text(key, ErrorClass::InfoKey)?) })
}

/// The hint under a key, cut to the room that there is; `buflen` becomes the length that it needs with its closing 0.
///
/// # Safety
/// The object lives; the key ends with a 0; `value` has room for `*buflen` bytes, and `flag` for a number.
pub unsafe extern "C" fn MPI_Info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let found = info.get()?.get(text(key, ErrorClass::InfoKey)?);
        put(flag, c_int::from(found.is_some()));
        if let Some(found) = found {
            if let Ok(room @ 1..) = usize::try_from(buflen.read()) {
                put_text(found, value, room, std::ptr::null_mut());
            }
            put(buflen, int(found.len() + 1));
        }
        Ok(())
    })
}

/// The hint under a key, cut to `valuelen` bytes without the closing 0.
///
/// # Safety
/// The object lives; the key ends with a 0; `value` has room for `valuelen + 1` bytes, and `flag` for a number.
pub unsafe extern "C" fn MPI_Info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let found = info.get()?.get(text(key, ErrorClass::InfoKey)?);
        put(flag, c_int::from(found.is_some()));
        if let Some(found) = found {
            put_text(found, value, count(valuelen)? + 1, std::ptr::null_mut());
        }
        Ok(())
    })
}

/// The length of the hint under a key.
///
/// # Safety
/// The object lives; the key ends with a 0; both results are writable.
pub unsafe extern "C" fn MPI_Info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let found = info.get()?.get(text(key, ErrorClass::InfoKey)?);
        put(flag, c_int::from(found.is_some()));
        if let Some(found) = found {
            put(valuelen, int(found.len()));
        }
        Ok(())
    })
}

/// How many hints there are.
///
/// # Safety
/// The object lives; `nkeys` is writable.
pub unsafe extern "C" fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        put(nkeys, int(info.get()?.len()));
        Ok(())
    })
}

/// The key of the `n`th hint.
///
/// # Safety
/// The object lives; `key` has room for `MPI_MAX_INFO_KEY` bytes.
pub unsafe extern "C" fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        let found = info.get()?;
        let Some(name) = usize::try_from(n).ok().and_then(|n| found.key(n)) else {
            let detail = format!("there is no key of number {n} among {}", found.len());
            return Err(Error::new(ErrorClass::Arg, "info get nthkey", detail));
        };
        put_text(name, key, MPI_MAX_INFO_KEY as usize, std::ptr::null_mut());
        Ok(())
    })
}
