//! Processes that are spawned or connect, under their C names (MPI-4.1 §11.8 to §11.10).

use std::ffi::{CStr, OsStr, OsString};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;

use mpi_comm::{Comm, Info, SpawnCommand};
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::constants::*;
use super::handles::*;

/// # Safety
/// A text with its closing 0.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// # Safety
/// A text with its closing 0.
unsafe fn word(text: *const c_char) -> OsString {
    // SAFETY: the caller's promise.
    OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()).to_owned()
}

/// # Safety
/// Null, or texts with a null pointer behind the last.
unsafe fn words(argv: *const *mut c_char) -> Vec<OsString> {
    let mut words = Vec::new();
    if !argv.is_null() {
        let mut at = argv;
        // SAFETY: the caller's promise; the list is left at its null pointer.
        unsafe {
            while !(*at).is_null() {
                words.push(word(*at));
                at = at.add(1);
            }
        }
    }
    words
}

/// The hints of an info object, none for the null one.
///
/// # Safety
/// The handle is null, or the object lives.
unsafe fn hints(info: MPI_Info) -> Outcome<Info> {
    if info == MPI_Info::NULL {
        return Ok(Info::new());
    }
    // SAFETY: the caller's promise.
    unsafe { info.get().cloned() }
}

/// What all calls that spawn end with.
///
/// # Safety
/// `result` is writable, `codes` null or writable for `count` numbers.
unsafe fn spawned(
    comm: &Comm,
    root: c_int,
    commands: &[SpawnCommand],
    result: *mut MPI_Comm,
    codes: *mut c_int,
    count: usize,
) -> Outcome {
    let outcome = comm.spawn(root, commands);
    let code = outcome.as_ref().map_or_else(|error| error.class as c_int, |_| MPI_SUCCESS as c_int);
    if !codes.is_null() {
        for at in 0..count {
            // SAFETY: the caller's promise.
            unsafe { codes.add(at).write(code) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { put(result, outcome.map(MPI_Comm::give)?) };
    Ok(())
}

/// Starts processes of a program.
///
/// # Safety
/// At the root `command` is a text with its closing 0 and `argv` null or such texts with a null pointer behind them;
/// the communicator and the info object live; `intercomm` is writable, `array_of_errcodes` null or writable for `maxprocs` numbers.
pub unsafe extern "C" fn MPI_Comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let mut commands = Vec::new();
            if is_root(comm, root) {
                let (program, arguments) = (word(command), words(argv));
                commands.push(SpawnCommand { program, arguments, count: maxprocs, info: hints(info)? });
            }
            let count = usize::try_from(maxprocs).unwrap_or(0);
            spawned(comm, root, &commands, intercomm, array_of_errcodes, count)
        })
    }
}

/// Starts processes of several programs.
///
/// # Safety
/// As [`MPI_Comm_spawn`], for `count` programs; `array_of_argv` and `array_of_info` may be null. `array_of_errcodes` is null or writable
/// for as many numbers as all of `array_of_maxprocs` together.
pub unsafe extern "C" fn MPI_Comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let count = super::call::count(count)?;
            let number = |at: usize| *array_of_maxprocs.add(at);
            let mut commands = Vec::new();
            if is_root(comm, root) {
                for at in 0..count {
                    let program = word(*array_of_commands.add(at));
                    let argv =
                        if array_of_argv.is_null() { std::ptr::null_mut() } else { *array_of_argv.add(at) };
                    let info = if array_of_info.is_null() { MPI_Info::NULL } else { *array_of_info.add(at) };
                    let (arguments, count, info) = (words(argv), number(at), hints(info)?);
                    commands.push(SpawnCommand { program, arguments, count, info });
                }
            }
            // Elsewhere than at the root the numbers need not be there, unless the codes are wanted.
            let wanted = !array_of_errcodes.is_null() && !array_of_maxprocs.is_null();
            let each = (0..count).filter(|_| wanted).map(|at| usize::try_from(number(at)).unwrap_or(0));
            spawned(comm, root, &commands, intercomm, array_of_errcodes, each.sum())
        })
    }
}

fn is_root(comm: &Comm, root: c_int) -> bool {
    u32::try_from(root) == Ok(comm.rank())
}

/// Opens a port. No hint is known here, nor by the calls below: which are reserved may be ignored (MPI-4.1 §11.8.2).
///
/// # Safety
/// `port_name` has room for `MPI_MAX_PORT_NAME` bytes.
pub unsafe extern "C" fn MPI_Open_port(_info: MPI_Info, port_name: *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(MPI_Comm::SELF, |_| {
            let mut length = 0;
            put_text(&mpi_comm::open_port()?, port_name, MPI_MAX_PORT_NAME as usize, &mut length);
            Ok(())
        })
    }
}

/// Closes a port.
///
/// # Safety
/// `port_name` is a text with its closing 0.
pub unsafe extern "C" fn MPI_Close_port(port_name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call_on(MPI_Comm::SELF, |_| mpi_comm::close_port(&text(port_name))) }
}

macro_rules! meeters {
    ($($(#[$doc:meta])* $name:ident = $call:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// At the root `port_name` is a text with its closing 0; the communicator lives; `newcomm` is writable.
        pub unsafe extern "C" fn $name(
            port_name: *const c_char,
            _info: MPI_Info,
            root: c_int,
            comm: MPI_Comm,
            newcomm: *mut MPI_Comm,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |comm| {
                    let port = if is_root(comm, root) { text(port_name) } else { String::new() };
                    put(newcomm, MPI_Comm::give(comm.$call(&port, root)?));
                    Ok(())
                })
            }
        }
    )*};
}

meeters! {
    /// Waits for another group at a port of the root.
    MPI_Comm_accept = accept;
    /// Connects to the group that waits at a port.
    MPI_Comm_connect = connect;
}

/// Publishes a port under a name.
///
/// # Safety
/// Both are texts with their closing 0.
pub unsafe extern "C" fn MPI_Publish_name(
    service_name: *const c_char,
    _info: MPI_Info,
    port_name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call_on(MPI_Comm::SELF, |_| mpi_comm::publish_name(&text(service_name), &text(port_name))) }
}

/// Takes a published name back.
///
/// # Safety
/// As [`MPI_Publish_name`]; the port is not looked at.
pub unsafe extern "C" fn MPI_Unpublish_name(
    service_name: *const c_char,
    _info: MPI_Info,
    _port_name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call_on(MPI_Comm::SELF, |_| mpi_comm::unpublish_name(&text(service_name))) }
}

/// The port that was published under a name.
///
/// # Safety
/// `service_name` is a text with its closing 0; `port_name` has room for `MPI_MAX_PORT_NAME` bytes.
pub unsafe extern "C" fn MPI_Lookup_name(
    service_name: *const c_char,
    _info: MPI_Info,
    port_name: *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(MPI_Comm::SELF, |_| {
            let mut length = 0;
            let port = mpi_comm::lookup_name(&text(service_name))?;
            put_text(&port, port_name, MPI_MAX_PORT_NAME as usize, &mut length);
            Ok(())
        })
    }
}

/// Two processes with a socket between them become an inter-communicator.
///
/// # Safety
/// `fd` is a connected stream socket that nobody else uses meanwhile; `intercomm` is writable.
pub unsafe extern "C" fn MPI_Comm_join(fd: c_int, intercomm: *mut MPI_Comm) -> c_int {
    // SAFETY: the caller's promise; a stream of another family reads and writes in the same way, and the caller keeps
    // the descriptor.
    unsafe {
        call_on(MPI_Comm::SELF, |_| {
            if fd < 0 {
                return Err(Error::new(ErrorClass::Arg, "join", format!("{fd} is no descriptor")));
            }
            let mut socket = ManuallyDrop::new(UnixStream::from_raw_fd(fd));
            put(intercomm, MPI_Comm::give(mpi_comm::join(&mut *socket)?));
            Ok(())
        })
    }
}
