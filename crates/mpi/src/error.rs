//! What happens to errors and to broken promises.
//!
//! The layers below return errors; the plain operations of rsmpi return none. So an error goes through the
//! communicator's error handler, whose default prints one line and ends the job (MPI-4.1 §9.3).

use std::os::raw::c_int;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use mpi_comm::Comm;
use mpi_datatype::DatatypeError;
use mpi_p2p::{Error, ErrorClass};

/// Status with which a job ends that a panic ended, as a Rust program's own would be.
pub(crate) const PANIC_EXIT_CODE: c_int = 101;

/// The value, or what the communicator's error handler does.
///
/// # Panics
/// With the error's text, where the handler returns: a plain operation has no other way to hand it on.
#[track_caller]
#[inline(always)]
pub(crate) fn ok<T>(comm: &Comm, result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => handled(comm, error),
    }
}

/// As [`ok`], where only the error says which communicator it concerns. One that concerns none goes to the handler of the
/// process's own (MPI-4.1 §9.3).
#[track_caller]
#[inline(always)]
pub(crate) fn ok_world<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => handled_somewhere(error),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn handled_somewhere(error: Error) -> ! {
    let error = mpi_comm::handle_by_context(error);
    panic!("{error}")
}

#[cold]
#[inline(never)]
#[track_caller]
fn handled(comm: &Comm, error: Error) -> ! {
    match comm.handle::<()>(Err(error)) {
        Err(error) => panic!("{error}"),
        Ok(()) => unreachable!("an error handler makes no error good"),
    }
}

/// Prints the error and ends the job.
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn fatal(error: &Error) -> ! {
    mpi_comm::fatal(error)
}

/// What the error handler of the process's own communicator does with what is wrong with a datatype.
///
/// # Panics
/// As [`ok`].
#[cold]
#[inline(never)]
#[track_caller]
pub(crate) fn refused_datatype(operation: &'static str, fault: &DatatypeError) -> ! {
    handled_somewhere(Error::new(ErrorClass::Type, operation, fault.to_string()))
}

/// Ends the job because the program asked for it.
#[cold]
pub(crate) fn abort_called(comm: &Comm, code: c_int) -> ! {
    mpi_comm::abort(code, &format!("on \"{}\"", comm.name()))
}

/// Ends the job if a panic unwinds: its message is out, and what it leaves running uses memory that is about to go.
#[inline]
pub(crate) fn abort_if_unwinding(left: &str) {
    if thread::panicking() {
        mpi_comm::abort(PANIC_EXIT_CODE, &format!("panicked, and {left}"));
    }
}

/// Ends the job because a scope ended while requests of it run.
#[cold]
#[inline(never)]
pub(crate) fn abort_scope(running: usize) -> ! {
    // The panic is for its message and its place in the program; nothing may unwind from here.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| {
        if !thread::panicking() {
            panic!("at least one request was dropped without being completed: {running} still run");
        }
    }));
    mpi_comm::abort(PANIC_EXIT_CODE, &format!("a scope ended while {running} of its requests ran"))
}
