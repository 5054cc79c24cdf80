//! One-sided communication under its C names (MPI-4.1 §12).

use std::cell::Cell;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use mpi_comm::{ErrorHandler, Info};
use mpi_datatype::Datatype;
use mpi_p2p::{Error, ErrorClass};
use mpi_rma::{Assert, Flavor, Keyval, LockKind, Options, Target, Window};

use super::call::*;
use super::constants::*;
use super::handles::*;

/// Lock of a window: alone.
pub const MPI_LOCK_EXCLUSIVE: c_int = 301;
/// Lock of a window: together with others.
pub const MPI_LOCK_SHARED: c_int = 302;
/// A window on memory of the user's.
pub const MPI_WIN_FLAVOR_CREATE: c_int = 311;
/// A window with memory of its own.
pub const MPI_WIN_FLAVOR_ALLOCATE: c_int = 312;
/// A window without memory at first.
pub const MPI_WIN_FLAVOR_DYNAMIC: c_int = 313;
/// A window of shared memory.
pub const MPI_WIN_FLAVOR_SHARED: c_int = 314;
/// The unified memory model.
pub const MPI_WIN_UNIFIED: c_int = 321;
/// Attribute of a window: its address.
pub const MPI_WIN_BASE: c_int = 601;
/// Attribute of a window: bytes per unit of displacement.
pub const MPI_WIN_DISP_UNIT: c_int = 602;
/// Attribute of a window: its size in bytes.
pub const MPI_WIN_SIZE: c_int = 603;
/// Attribute of a window: how it was made.
pub const MPI_WIN_CREATE_FLAVOR: c_int = 604;
/// Attribute of a window: its memory model.
pub const MPI_WIN_MODEL: c_int = 605;
/// Promise: no conflicting lock, or the matching post has been made.
pub const MPI_MODE_NOCHECK: c_int = 1024;
/// Promise: this rank's memory was not stored to.
pub const MPI_MODE_NOSTORE: c_int = 8192;
/// Promise: nobody puts to this rank's memory.
pub const MPI_MODE_NOPUT: c_int = 4096;
/// Promise: no operation precedes the fence.
pub const MPI_MODE_NOPRECEDE: c_int = 2048;
/// Promise: no operation follows the fence.
pub const MPI_MODE_NOSUCCEED: c_int = 16384;

/// Told that an attribute of a window is deleted.
pub type MPI_Win_delete_attr_function =
    Option<unsafe extern "C" fn(MPI_Win, c_int, *mut c_void, *mut c_void) -> c_int>;
/// What a duplicate of a window would get: never called, as there are none.
pub type MPI_Win_copy_attr_function =
    Option<unsafe extern "C" fn(MPI_Win, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int>;
/// An error handler of the program's own: the window, and the error code.
pub type MPI_Win_errhandler_function = unsafe extern "C" fn(*mut MPI_Win, *mut c_int);

/// Keys of the program's own begin here, behind the predefined ones.
const FIRST_KEY: c_int = 0x1000;

thread_local! {
    /// The window that this thread is calling on, for callbacks.
    static CALLED: Cell<MPI_Win> = const { Cell::new(MPI_Win::NULL) };
}

/// What a window handle names: the window, and its attributes as C wants to point to them.
pub struct WindowObject {
    window: Window,
    size: isize,
    unit: c_int,
    flavor: c_int,
    model: c_int,
}

impl MPI_Win {
    fn give(window: Window) -> MPI_Win {
        let flavor = match window.flavor() {
            Flavor::Create => MPI_WIN_FLAVOR_CREATE,
            Flavor::Allocate => MPI_WIN_FLAVOR_ALLOCATE,
            Flavor::Shared => MPI_WIN_FLAVOR_SHARED,
            Flavor::Dynamic => MPI_WIN_FLAVOR_DYNAMIC,
        };
        let (size, unit, model) = (window.size() as isize, int(window.unit()), MPI_WIN_UNIFIED);
        MPI_Win(Box::into_raw(Box::new(WindowObject { window, size, unit, flavor, model })).cast_const())
    }

    /// # Safety
    /// The handle is null or names a live window.
    unsafe fn get<'a>(self) -> Outcome<&'a WindowObject> {
        if self == MPI_Win::NULL || self.0.is_null() {
            return Err(Error::new(ErrorClass::Win, "call", "the null window has no memory"));
        }
        // SAFETY: the caller's promise.
        Ok(unsafe { &*self.0 })
    }
}

/// Runs a call on a window: an error goes to its handler, and to the caller where that returns.
///
/// # Safety
/// The handle is null or names a live window.
unsafe fn call_in(win: MPI_Win, body: impl FnOnce(&Window) -> Outcome) -> c_int {
    // SAFETY: the caller's promise.
    let window = match unsafe { win.get() } {
        Ok(object) => &object.window,
        Err(error) => return failed(error),
    };
    let outer = CALLED.replace(win);
    let code = handled(window, body(window));
    CALLED.set(outer);
    code
}

/// The code of a result, after the window's error handler has seen its error.
fn handled(window: &Window, result: Outcome) -> c_int {
    match result {
        Ok(()) => MPI_SUCCESS as c_int,
        Err(error) => {
            match window.error_handler() {
                ErrorHandler::Fatal | ErrorHandler::Abort => mpi_comm::fatal_at(&error, None),
                ErrorHandler::User(handler) => handler(window.comm(), &error, None),
                ErrorHandler::Return => {}
            }
            error.class as c_int
        }
    }
}

/// # Safety
/// The info object is null or lives.
unsafe fn hints(info: MPI_Info) -> Outcome<Info> {
    match info {
        MPI_Info::NULL => Ok(Info::new()),
        // SAFETY: the caller's promise.
        given => unsafe { given.get() }.cloned(),
    }
}

/// The key of the layer below; one that nobody made for what cannot be one.
fn own_key(key: c_int) -> Keyval {
    Keyval(key.checked_sub(FIRST_KEY).and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX))
}

/// A key for attributes of windows (§7.7.3).
///
/// # Safety
/// The function is good for the values that are set under the key; `key` is writable.
pub unsafe extern "C" fn MPI_Win_create_keyval(
    _copy: MPI_Win_copy_attr_function,
    delete: MPI_Win_delete_attr_function,
    key: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let extra = extra_state.expose_provenance();
    let on_delete = delete.map(|delete| -> mpi_rma::DeleteCallback {
        Box::new(move |_, key, value| {
            let (value, extra) =
                (ptr::with_exposed_provenance_mut(value), ptr::with_exposed_provenance_mut(extra));
            // SAFETY: the maker of the key promised that the function is good for its values.
            let code = unsafe { delete(CALLED.get(), FIRST_KEY + key.0 as c_int, value, extra) };
            if code != 0 { Err(code) } else { Ok(()) }
        })
    });
    // SAFETY: the caller's promise.
    unsafe { put(key, FIRST_KEY + mpi_rma::create_keyval(on_delete).0 as c_int) };
    MPI_SUCCESS as c_int
}

/// Frees an attribute key.
///
/// # Safety
/// `key` holds a key.
pub unsafe extern "C" fn MPI_Win_free_keyval(key: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let value = unsafe { key.replace(MPI_KEYVAL_INVALID) };
    call(|| mpi_rma::free_keyval(own_key(value)))
}

/// Makes an error handler for windows.
///
/// # Safety
/// The function may be called with a live window and a code, from any thread, as long as a window has the handler;
/// `errhandler` is writable.
pub unsafe extern "C" fn MPI_Win_create_errhandler(
    function: MPI_Win_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    let handler = move |_: &mpi_comm::Comm, error: &Error, _: mpi_comm::Place| {
        let (mut win, mut code) = (CALLED.get(), error.class as c_int);
        // SAFETY: the promise of whoever made the handler.
        unsafe { function(&mut win, &mut code) };
    };
    // SAFETY: the caller's promise.
    unsafe { put(errhandler, MPI_Errhandler::give(ErrorHandler::User(Arc::new(handler)))) };
    MPI_SUCCESS as c_int
}

fn options(size: MPI_Aint, unit: c_int, info: Info) -> Outcome<Options> {
    let size = usize::try_from(size)
        .map_err(|_| Error::new(ErrorClass::Size, "create window", format!("a size of {size} bytes")))?;
    let unit = usize::try_from(unit)
        .map_err(|_| Error::new(ErrorClass::Disp, "create window", format!("units of {unit} bytes")))?;
    Ok(Options { info, ..Options::new(size, unit) })
}

fn promises(assert: c_int) -> Assert {
    Assert {
        no_check: assert & MPI_MODE_NOCHECK != 0,
        no_precede: assert & MPI_MODE_NOPRECEDE != 0,
        no_succeed: assert & MPI_MODE_NOSUCCEED != 0,
    }
}

fn rank_of(rank: c_int) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

/// # Safety
/// The datatype's handle is null or names a live one.
unsafe fn there<'a>(rank: c_int, at: MPI_Aint, n: c_int, handle: MPI_Datatype) -> Outcome<Target<'a>> {
    // SAFETY: the caller's promise.
    let datatype: &Datatype = unsafe { datatype(handle) }?;
    Ok(Target { rank: to(rank), at: at as i64, count: count(n)?, datatype })
}

/// Ranks of a group in a window's communicator.
///
/// # Safety
/// The handle is null or names a live group.
unsafe fn members(window: &Window, group: MPI_Group) -> Outcome<Vec<u32>> {
    // SAFETY: the caller's promise.
    let group = unsafe { group.get() }?;
    let all: Vec<i32> = (0..group.size() as i32).collect();
    let ranks = group.translate_all(&all, &window.group())?;
    let outside = || Error::new(ErrorClass::Group, "call", "the group has processes that the window has not");
    ranks.into_iter().map(|rank| rank.ok_or_else(outside)).collect()
}

/// Calls the error handler of a window; succeeds where that returns.
///
/// # Safety
/// The window lives.
pub unsafe extern "C" fn MPI_Win_call_errhandler(win: MPI_Win, code: c_int) -> c_int {
    let class = ErrorClass::from_code(code).unwrap_or(ErrorClass::Unknown);
    // SAFETY: the caller's promise.
    unsafe { call_in(win, |w| Err(Error::new(class, "call error handler", w.name()))) };
    MPI_SUCCESS as c_int
}

macro_rules! windows {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Handles name live objects; memory is as the standard asks.
            #[allow(clippy::too_many_arguments, reason = "the C binding's")]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { $body }
            }
        )*
    };
}

windows! {
    /// A window on memory of the user's (§12.2.1).
    fn MPI_Win_create(base: *mut c_void, size: MPI_Aint, unit: c_int, info: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win)
        call_on(comm, |comm| {
            put(win, MPI_Win::give(Window::create(comm, base.cast(), &options(size, unit, hints(info)?)?)?));
            Ok(())
        });

    /// A window with memory of its own (§12.2.2).
    fn MPI_Win_allocate(size: MPI_Aint, unit: c_int, info: MPI_Info, comm: MPI_Comm, base: *mut c_void, win: *mut MPI_Win)
        call_on(comm, |comm| {
            let window = Window::allocate(comm, &options(size, unit, hints(info)?)?)?;
            put(base.cast::<*mut u8>(), window.base());
            put(win, MPI_Win::give(window));
            Ok(())
        });

    /// A window of shared memory (§12.2.3).
    fn MPI_Win_allocate_shared(size: MPI_Aint, unit: c_int, info: MPI_Info, comm: MPI_Comm, base: *mut c_void, win: *mut MPI_Win)
        call_on(comm, |comm| {
            let window = Window::allocate_shared(comm, &options(size, unit, hints(info)?)?)?;
            put(base.cast::<*mut u8>(), window.base());
            put(win, MPI_Win::give(window));
            Ok(())
        });

    /// A window without memory (§12.2.5).
    fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win)
        call_on(comm, |comm| {
            put(win, MPI_Win::give(Window::dynamic(comm, hints(info)?)?));
            Ok(())
        });

    /// Attaches memory to a dynamic window (§12.2.5).
    fn MPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint)
        call_in(win, |w| w.attach(base.cast(), options(size, 1, Info::new())?.size));

    /// Detaches it.
    fn MPI_Win_detach(win: MPI_Win, base: *const c_void) call_in(win, |w| w.detach(base.cast()));

    /// Where a rank's memory is (§12.2.3).
    fn MPI_Win_shared_query(win: MPI_Win, rank: c_int, size: *mut MPI_Aint, unit: *mut c_int, base: *mut c_void)
        call_in(win, |w| {
            let rank = if rank == MPI_PROC_NULL { None } else { Some(rank_of(rank)) };
            let found = w.shared_query(rank)?;
            put(size, found.size as MPI_Aint);
            put(unit, int(found.unit));
            put(base.cast::<*mut u8>(), found.base);
            Ok(())
        });

    /// Frees a window (§12.2.6).
    fn MPI_Win_free(win: *mut MPI_Win)
        call_in(*win, |w| w.free().map(|()| {
            drop(Box::from_raw((*win).0.cast_mut()));
            win.write(MPI_Win::NULL);
        }));

    /// The group of a window's ranks; the caller frees it.
    fn MPI_Win_get_group(win: MPI_Win, group: *mut MPI_Group)
        call_in(win, |w| {
            put(group, MPI_Group::give(w.group()));
            Ok(())
        });

    /// An attribute (§12.2.7). A predefined one points to its value, except the address, which is it.
    fn MPI_Win_get_attr(win: MPI_Win, key: c_int, value: *mut c_void, flag: *mut c_int)
        call_in(win, |_| {
            let o = win.get()?;
            let found: *const c_void = match key {
                MPI_WIN_BASE => o.window.base().cast_const().cast(),
                MPI_WIN_SIZE => (&raw const o.size).cast(),
                MPI_WIN_DISP_UNIT => (&raw const o.unit).cast(),
                MPI_WIN_CREATE_FLAVOR => (&raw const o.flavor).cast(),
                MPI_WIN_MODEL => (&raw const o.model).cast(),
                own => match o.window.attribute(own_key(own))? {
                    Some(word) => ptr::with_exposed_provenance(word),
                    None => {
                        put(flag, 0);
                        return Ok(());
                    }
                },
            };
            put(value.cast::<*const c_void>(), found);
            put(flag, 1);
            Ok(())
        });

    /// Names a window.
    fn MPI_Win_set_name(win: MPI_Win, name: *const c_char)
        call_in(win, |w| {
            w.set_name(&std::ffi::CStr::from_ptr(name).to_string_lossy());
            Ok(())
        });

    /// The name of a window.
    fn MPI_Win_get_name(win: MPI_Win, name: *mut c_char, len: *mut c_int)
        call_in(win, |w| {
            put_text(&w.name(), name, MPI_MAX_OBJECT_NAME as usize, len);
            Ok(())
        });

    /// Sets an attribute (§7.7.3).
    fn MPI_Win_set_attr(win: MPI_Win, key: c_int, value: *mut c_void)
        call_in(win, |w| w.set_attribute(own_key(key), value.expose_provenance()));

    /// Deletes an attribute.
    fn MPI_Win_delete_attr(win: MPI_Win, key: c_int) call_in(win, |w| w.delete_attribute(own_key(key)));

    /// Changes the hints of a window (§12.2.8): those that are known and may change.
    fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info)
        call_in(win, |w| {
            w.set_info(&hints(info)?);
            Ok(())
        });

    /// The hints in use; the caller frees the object.
    fn MPI_Win_get_info(win: MPI_Win, info: *mut MPI_Info)
        call_in(win, |w| {
            put(info, MPI_Info::give(w.info()));
            Ok(())
        });

    /// What is done with errors of a window.
    fn MPI_Win_set_errhandler(win: MPI_Win, handler: MPI_Errhandler)
        call_in(win, |w| {
            w.set_error_handler(handler.get()?);
            Ok(())
        });

    /// The error handler of a window, to be freed.
    fn MPI_Win_get_errhandler(win: MPI_Win, handler: *mut MPI_Errhandler)
        call_in(win, |w| {
            put(handler, MPI_Errhandler::give(w.error_handler()));
            Ok(())
        });

    /// Closes and opens epochs on all ranks (§12.5.1).
    fn MPI_Win_fence(assert: c_int, win: MPI_Win) call_in(win, |w| w.fence(promises(assert)));

    /// Exposes memory to a group (§12.5.2).
    fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win)
        call_in(win, |w| w.post(&members(w, group)?, promises(assert)));

    /// Opens access to a group's memory (§12.5.2).
    fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win)
        call_in(win, |w| w.start(&members(w, group)?, promises(assert)));

    /// Ends it.
    fn MPI_Win_complete(win: MPI_Win) call_in(win, Window::complete);

    /// Waits until an exposure is over.
    fn MPI_Win_wait(win: MPI_Win) call_in(win, Window::wait);

    /// Asks whether it is.
    fn MPI_Win_test(win: MPI_Win, flag: *mut c_int)
        call_in(win, |w| {
            put(flag, c_int::from(w.test()?));
            Ok(())
        });

    /// Opens a passive epoch (§12.5.3).
    fn MPI_Win_lock(kind: c_int, rank: c_int, assert: c_int, win: MPI_Win)
        call_in(win, |w| {
            let kind = match kind {
                MPI_LOCK_SHARED => LockKind::Shared,
                MPI_LOCK_EXCLUSIVE => LockKind::Exclusive,
                other => return Err(Error::new(ErrorClass::Locktype, "lock", format!("lock type {other}"))),
            };
            w.lock(kind, rank_of(rank), promises(assert))
        });

    /// Closes it.
    fn MPI_Win_unlock(rank: c_int, win: MPI_Win) call_in(win, |w| w.unlock(rank_of(rank)));

    /// Opens a shared passive epoch on all ranks.
    fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) call_in(win, |w| w.lock_all(promises(assert)));

    /// Closes it.
    fn MPI_Win_unlock_all(win: MPI_Win) call_in(win, Window::unlock_all);

    /// Waits until operations on a target are done (§12.5.4).
    fn MPI_Win_flush(rank: c_int, win: MPI_Win) call_in(win, |w| w.flush(rank_of(rank)));

    /// The same for all targets.
    fn MPI_Win_flush_all(win: MPI_Win) call_in(win, Window::flush_all);

    /// Waits until buffers may be used again.
    fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) call_in(win, |w| w.flush_local(rank_of(rank)));

    /// The same for all targets.
    fn MPI_Win_flush_local_all(win: MPI_Win) call_in(win, Window::flush_local_all);

    /// Orders plain accesses with those of others.
    fn MPI_Win_sync(win: MPI_Win) call_in(win, Window::sync);

    /// Writes to a target (§12.3.1).
    fn MPI_Put(from: *const c_void, n: c_int, d: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, win: MPI_Win)
        call_in(win, |w| w.put(sent(from, n, d)?, there(rank, at, tn, td)?));

    /// Reads from a target (§12.3.2).
    fn MPI_Get(into: *mut c_void, n: c_int, d: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, win: MPI_Win)
        call_in(win, |w| w.get(room(into, n, d)?, there(rank, at, tn, td)?));

    /// Combines with a target's memory (§12.3.4).
    fn MPI_Accumulate(from: *const c_void, n: c_int, d: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, op: MPI_Op, win: MPI_Win)
        call_in(win, |w| w.accumulate(sent(from, n, d)?, there(rank, at, tn, td)?, op.get()));

    /// Reads, then combines.
    fn MPI_Get_accumulate(from: *const c_void, n: c_int, d: MPI_Datatype, into: *mut c_void, rn: c_int, rd: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, op: MPI_Op, win: MPI_Win)
        call_in(win, |w| w.get_accumulate(sent(from, n, d)?, room(into, rn, rd)?, there(rank, at, tn, td)?, op.get()));

    /// The same for one element.
    fn MPI_Fetch_and_op(from: *const c_void, into: *mut c_void, d: MPI_Datatype, rank: c_int, at: MPI_Aint, op: MPI_Op, win: MPI_Win)
        call_in(win, |w| w.fetch_and_op(sent(from, 1, d)?, room(into, 1, d)?, to(rank), at as i64, op.get()));

    /// Puts an element in where another stands.
    fn MPI_Compare_and_swap(new: *const c_void, compare: *const c_void, into: *mut c_void, d: MPI_Datatype, rank: c_int, at: MPI_Aint, win: MPI_Win)
        call_in(win, |w| w.compare_and_swap(sent(new, 1, d)?, sent(compare, 1, d)?, room(into, 1, d)?, to(rank), at as i64));

    /// [`MPI_Put`] with a request (§12.3.5).
    fn MPI_Rput(from: *const c_void, n: c_int, d: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, win: MPI_Win, request: *mut MPI_Request)
        call_in(win, |w| put_request(request, w.rput(sent(from, n, d)?, there(rank, at, tn, td)?)));

    /// [`MPI_Get`] with a request.
    fn MPI_Rget(into: *mut c_void, n: c_int, d: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, win: MPI_Win, request: *mut MPI_Request)
        call_in(win, |w| put_request(request, w.rget(room(into, n, d)?, there(rank, at, tn, td)?)));

    /// [`MPI_Accumulate`] with a request.
    fn MPI_Raccumulate(from: *const c_void, n: c_int, d: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, op: MPI_Op, win: MPI_Win, request: *mut MPI_Request)
        call_in(win, |w| put_request(request, w.raccumulate(sent(from, n, d)?, there(rank, at, tn, td)?, op.get())));

    /// [`MPI_Get_accumulate`] with a request.
    fn MPI_Rget_accumulate(from: *const c_void, n: c_int, d: MPI_Datatype, into: *mut c_void, rn: c_int, rd: MPI_Datatype, rank: c_int, at: MPI_Aint, tn: c_int, td: MPI_Datatype, op: MPI_Op, win: MPI_Win, request: *mut MPI_Request)
        call_in(win, |w| put_request(request, w.rget_accumulate(sent(from, n, d)?, room(into, rn, rd)?, there(rank, at, tn, td)?, op.get())));
}
