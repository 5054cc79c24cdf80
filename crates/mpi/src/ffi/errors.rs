//! Error handlers, classes and texts under their C names (MPI-4.1 §9.3 to §9.5).

use std::os::raw::{c_char, c_int};
use std::sync::Arc;

use mpi_comm::ErrorHandler;
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::constants::*;
use super::handles::*;

/// An error handler of the program's own: the communicator, and the error code. Further arguments, which the C binding
/// allows, are never given.
pub type MPI_Comm_errhandler_function = unsafe extern "C" fn(*mut MPI_Comm, *mut c_int);

/// Makes an error handler.
///
/// # Safety
/// The function may be called with a live communicator and a code, from any thread, as long as a communicator has the
/// handler; `errhandler` is writable.
pub unsafe extern "C" fn MPI_Comm_create_errhandler(
    function: MPI_Comm_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    let handler = move |comm: &mpi_comm::Comm, error: &Error, _: mpi_comm::Place| {
        let (mut comm, mut code) = (MPI_Comm::naming(comm), error.class as c_int);
        // SAFETY: the promise of whoever made the handler.
        unsafe { function(&mut comm, &mut code) };
    };
    // SAFETY: the caller's promise.
    unsafe { put(errhandler, MPI_Errhandler::give(ErrorHandler::User(Arc::new(handler)))) };
    MPI_SUCCESS as c_int
}

/// What happens to errors on a communicator.
///
/// # Safety
/// Both live.
pub unsafe extern "C" fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            comm.set_error_handler(errhandler.get()?);
            Ok(())
        })
    }
}

/// The error handler of a communicator, to be freed.
///
/// # Safety
/// The communicator lives; `errhandler` is writable.
pub unsafe extern "C" fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put(errhandler, MPI_Errhandler::give(comm.error_handler()));
            Ok(())
        })
    }
}

/// Frees an error handler; communicators keep theirs. So is what [`MPI_Comm_get_errhandler`] gave, though it be
/// predefined.
///
/// # Safety
/// The handle is null, or lives and is not used again.
pub unsafe extern "C" fn MPI_Errhandler_free(errhandler: *mut MPI_Errhandler) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        errhandler.read().get()?;
        errhandler.replace(MPI_Errhandler::NULL).drop_object();
        Ok(())
    })
}

/// Calls the error handler of a communicator; succeeds where that returns.
///
/// # Safety
/// The communicator lives.
pub unsafe extern "C" fn MPI_Comm_call_errhandler(comm: MPI_Comm, code: c_int) -> c_int {
    let class = ErrorClass::from_code(code).unwrap_or(ErrorClass::Unknown);
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let error = Error::new(class, "call error handler", text_of(code));
            Err(error.on(comm.name(), comm.context().id()))
        });
    }
    MPI_SUCCESS as c_int
}

/// The class of an error code: here they are the same.
///
/// # Safety
/// `class` is writable.
pub unsafe extern "C" fn MPI_Error_class(code: c_int, class: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { put(class, code) };
    MPI_SUCCESS as c_int
}

/// What an error code means.
///
/// # Safety
/// `string` has room for `MPI_MAX_ERROR_STRING` bytes; `len` is writable.
pub unsafe extern "C" fn MPI_Error_string(code: c_int, string: *mut c_char, len: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { put_text(&text_of(code), string, MPI_MAX_ERROR_STRING as usize, len) };
    MPI_SUCCESS as c_int
}

fn text_of(code: c_int) -> String {
    match ErrorClass::from_code(code) {
        Some(class) => format!("{}: {}", class.name(), class.text()),
        None => format!("error code {code} is not known"),
    }
}
