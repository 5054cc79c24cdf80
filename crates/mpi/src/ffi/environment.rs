//! Start, end and inquiries under their C names (MPI-4.1 §9, §11).

use std::os::raw::{c_char, c_double, c_int};

use super::call::*;
use super::constants::*;
use crate::environment::{self, Threading};

/// Initialises MPI for a use of threads, and says what is provided.
///
/// # Safety
/// `provided` is writable. The arguments are not used.
pub unsafe extern "C" fn MPI_Init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let Some((universe, level)) = environment::initialize_with_threading(Threading::from(required)) else {
        return MPI_ERR_OTHER as c_int;
    };
    std::mem::forget(universe); // `MPI_Finalize` ends what a value would
    // SAFETY: the caller's promise.
    unsafe { put(provided, level.as_raw()) };
    MPI_SUCCESS as c_int
}

/// Initialises MPI for one thread.
///
/// # Safety
/// None: the arguments are not used.
pub unsafe extern "C" fn MPI_Init(argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    // SAFETY: null is allowed for the result.
    unsafe { MPI_Init_thread(argc, argv, 0, std::ptr::null_mut()) }
}

/// Finalises MPI.
///
/// # Safety
/// Nothing of MPI is used after it.
pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    call(mpi_comm::finalize)
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `result` is writable.
        pub unsafe extern "C" fn $name(result: *mut c_int) -> c_int {
            // SAFETY: the caller's promise.
            unsafe { put(result, $value) };
            MPI_SUCCESS as c_int
        }
    )*};
}

numbers! {
    /// Whether MPI has been initialised.
    MPI_Initialized = c_int::from(environment::is_initialized());
    /// Whether MPI has been finalised.
    MPI_Finalized = c_int::from(environment::is_finalized());
    /// What use of threads is provided.
    MPI_Query_thread = environment::threading_support().as_raw();
}

/// The version of the standard.
///
/// # Safety
/// Both results are writable.
pub unsafe extern "C" fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    let (major, minor) = environment::version();
    // SAFETY: the caller's promise.
    unsafe {
        put(version, major);
        put(subversion, minor);
    }
    MPI_SUCCESS as c_int
}

/// What this library calls itself.
///
/// # Safety
/// `text` has room for `MPI_MAX_LIBRARY_VERSION_STRING` bytes; `len` is writable.
pub unsafe extern "C" fn MPI_Get_library_version(text: *mut c_char, len: *mut c_int) -> c_int {
    let version = environment::library_version().unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { put_text(&version, text, MPI_MAX_LIBRARY_VERSION_STRING as usize, len) };
    MPI_SUCCESS as c_int
}

/// The name of this machine.
///
/// # Safety
/// `text` has room for `MPI_MAX_PROCESSOR_NAME` bytes; `len` is writable.
pub unsafe extern "C" fn MPI_Get_processor_name(text: *mut c_char, len: *mut c_int) -> c_int {
    let name = environment::processor_name().unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { put_text(&name, text, MPI_MAX_PROCESSOR_NAME as usize, len) };
    MPI_SUCCESS as c_int
}

/// Seconds since some time in the past.
///
/// # Safety
/// None.
pub unsafe extern "C" fn RSMPI_Wtime() -> c_double {
    environment::time()
}

/// The resolution of [`RSMPI_Wtime`], in seconds.
///
/// # Safety
/// None.
pub unsafe extern "C" fn RSMPI_Wtick() -> c_double {
    environment::time_resolution()
}
