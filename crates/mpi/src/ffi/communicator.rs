//! Communicators, groups and attributes under their C names (MPI-4.1 §7).

use std::ffi::{CStr, c_void};
use std::os::raw::{c_char, c_int};
use std::ptr;

use mpi_comm::{Comm, Keyval, OnCopy, Relation, SplitKind};
use mpi_p2p::{Error, ErrorClass};

use super::call::*;
use super::constants::*;
use super::handles::*;

/// Hands out a communicator that was made, or the null handle.
pub(super) fn made(comm: Option<Comm>) -> MPI_Comm {
    comm.map_or(MPI_Comm::NULL, MPI_Comm::give)
}

fn relation(relation: Relation) -> c_int {
    match relation {
        Relation::Identical => 201,
        Relation::Congruent => 202,
        Relation::Similar => 203,
        Relation::Unequal => 204,
    }
}

macro_rules! comm_numbers {
    ($($(#[$doc:meta])* $name:ident = |$comm:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The communicator lives; `result` is writable.
        pub unsafe extern "C" fn $name(comm: MPI_Comm, result: *mut c_int) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |$comm| {
                    put(result, $value as c_int);
                    Ok(())
                })
            }
        }
    )*};
}

pub(super) use comm_numbers;

comm_numbers! {
    /// How many processes are in this process's group.
    MPI_Comm_size = |comm| comm.size();
    /// The calling process's rank.
    MPI_Comm_rank = |comm| comm.rank();
    /// How many processes the other group of an inter-communicator has.
    MPI_Comm_remote_size = |comm| comm.remote_size();
    /// Whether it is an inter-communicator.
    MPI_Comm_test_inter = |comm| comm.is_inter();
}

fn remote<T>(comm: &Comm, get: impl FnOnce(&Comm) -> Option<T>) -> Outcome<T> {
    let fault =
        || Error::new(ErrorClass::Comm, "inquiry", "there is no other group in an intra-communicator");
    get(comm).ok_or_else(fault)
}

/// How two communicators relate.
///
/// # Safety
/// Both live; `result` is writable.
pub unsafe extern "C" fn MPI_Comm_compare(a: MPI_Comm, b: MPI_Comm, result: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(a, |a| {
            put(result, relation(a.compare(&*b.get()?)));
            Ok(())
        })
    }
}

macro_rules! comm_makers {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = |$comm:ident| $made:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Communicator and group live; the result's place is writable.
        pub unsafe extern "C" fn $name(comm: MPI_Comm, $($arg: $ty,)* newcomm: *mut MPI_Comm) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call_on(comm, |$comm| {
                    put(newcomm, made($made));
                    Ok(())
                })
            }
        }
    )*};
}

comm_makers! {
    /// The same processes in a context of their own.
    MPI_Comm_dup() = |comm| Some(comm.dup()?);
    /// One communicator for each color.
    MPI_Comm_split(color: c_int, key: c_int) =
        |comm| comm.split((color != MPI_UNDEFINED).then_some(color), key)?;
    /// One communicator for the processes of each machine.
    MPI_Comm_split_type(kind: c_int, key: c_int, _info: MPI_Info) = |comm| match kind {
        MPI_UNDEFINED => comm.split(None, key)?,
        _ => Some(comm.split_type(SplitKind::Shared, key)?),
    };
    /// A communicator for the processes of a group; collective over all.
    MPI_Comm_create(group: MPI_Group) = |comm| comm.create(&*group.get()?)?;
    /// A communicator for the processes of a group; collective over these.
    MPI_Comm_create_group(group: MPI_Group, tag: c_int) = |comm| comm.create_group(&*group.get()?, tag)?;
    /// Both groups of an inter-communicator as one.
    MPI_Intercomm_merge(high: c_int) = |comm| Some(comm.merge(high != 0)?);
}

/// Frees a communicator; its handle becomes null. A predefined one cannot be freed.
///
/// # Safety
/// `comm` holds a communicator that the program owns, or a handle that is null or predefined.
pub unsafe extern "C" fn MPI_Comm_free(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: the caller's promise.
    let handle = unsafe { comm.read() };
    if matches!(handle, MPI_Comm::NULL | MPI_Comm::WORLD | MPI_Comm::SELF) {
        let fault = || Error::new(ErrorClass::Comm, "free", "a predefined communicator cannot be freed");
        // SAFETY: the caller's promise.
        return unsafe { call_on(handle, |comm| Err(fault().on(comm.name(), comm.context().id()))) };
    }
    // SAFETY: the caller's promise.
    unsafe { comm.write(MPI_Comm::NULL) };
    if mpi_comm::parent().is_some_and(|parent| MPI_Comm::naming(&parent) == handle) {
        // It belongs to the process, which lent its handle.
        mpi_comm::disconnect_parent();
    } else {
        // SAFETY: the caller's promise.
        unsafe { handle.drop_object() };
    }
    MPI_SUCCESS as c_int
}

/// Frees a communicator once its messages are through; its handle becomes null.
///
/// # Safety
/// As [`MPI_Comm_free`].
pub unsafe extern "C" fn MPI_Comm_disconnect(comm: *mut MPI_Comm) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { MPI_Comm_free(comm) }
}

/// The way to the processes that spawned this one, or the null handle.
///
/// # Safety
/// `parent` is writable.
pub unsafe extern "C" fn MPI_Comm_get_parent(parent: *mut MPI_Comm) -> c_int {
    let handle = mpi_comm::parent().map(|comm| MPI_Comm::naming(&comm));
    // SAFETY: the caller's promise.
    unsafe { put(parent, handle.unwrap_or(MPI_Comm::NULL)) };
    MPI_SUCCESS as c_int
}

/// Gives the communicator a name.
///
/// # Safety
/// The communicator lives; `name` is a text with its closing 0.
pub unsafe extern "C" fn MPI_Comm_set_name(comm: MPI_Comm, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            comm.set_name(&CStr::from_ptr(name).to_string_lossy());
            Ok(())
        })
    }
}

/// The communicator's name.
///
/// # Safety
/// The communicator lives; `name` has room for `MPI_MAX_OBJECT_NAME` bytes; `len` is writable.
pub unsafe extern "C" fn MPI_Comm_get_name(comm: MPI_Comm, name: *mut c_char, len: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put_text(&comm.name(), name, MPI_MAX_OBJECT_NAME as usize, len);
            Ok(())
        })
    }
}

/// Ends the job.
///
/// # Safety
/// The communicator lives.
pub unsafe extern "C" fn MPI_Abort(comm: MPI_Comm, code: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call_on(comm, |comm| crate::error::abort_called(comm, code)) }
}

/// This process's group.
///
/// # Safety
/// The communicator lives; `group` is writable.
pub unsafe extern "C" fn MPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put(group, MPI_Group::give(comm.group()));
            Ok(())
        })
    }
}

/// The other group of an inter-communicator.
///
/// # Safety
/// The communicator lives; `group` is writable.
pub unsafe extern "C" fn MPI_Comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            put(group, MPI_Group::give(remote(comm, Comm::remote_group)?));
            Ok(())
        })
    }
}

macro_rules! group_sets {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Both groups live; `result` is writable.
        pub unsafe extern "C" fn $name(a: MPI_Group, b: MPI_Group, result: *mut MPI_Group) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call(|| {
                    put(result, MPI_Group::give(a.get()?.$method(&*b.get()?)));
                    Ok(())
                })
            }
        }
    )*};
}

group_sets! {
    /// The processes of either group.
    MPI_Group_union = union;
    /// The processes of both groups.
    MPI_Group_intersection = intersection;
    /// The processes of the first group that are not in the second.
    MPI_Group_difference = difference;
}

macro_rules! group_picks {
    ($($(#[$doc:meta])* $name:ident = $method:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The group lives; there are `n` ranks; `result` is writable.
        pub unsafe extern "C" fn $name(
            group: MPI_Group,
            n: c_int,
            ranks: *const c_int,
            result: *mut MPI_Group,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call(|| {
                    put(result, MPI_Group::give(group.get()?.$method(slice(ranks, count(n)?))?));
                    Ok(())
                })
            }
        }
    )*};
}

group_picks! {
    /// The processes of the given ranks.
    MPI_Group_incl = include;
    /// All processes but those of the given ranks.
    MPI_Group_excl = exclude;
}

macro_rules! group_numbers {
    ($($(#[$doc:meta])* $name:ident = |$group:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The group lives; `result` is writable.
        pub unsafe extern "C" fn $name(group: MPI_Group, result: *mut c_int) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                call(|| {
                    let $group = group.get()?;
                    put(result, $value);
                    Ok(())
                })
            }
        }
    )*};
}

group_numbers! {
    /// How many processes there are.
    MPI_Group_size = |group| group.size() as c_int;
    /// The calling process's rank, or `MPI_UNDEFINED`.
    MPI_Group_rank = |group| group.rank().map_or(MPI_UNDEFINED, |rank| rank as c_int);
}

/// How two groups relate.
///
/// # Safety
/// Both live; `result` is writable.
pub unsafe extern "C" fn MPI_Group_compare(a: MPI_Group, b: MPI_Group, result: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            put(result, relation(a.get()?.compare(&*b.get()?)));
            Ok(())
        })
    }
}

/// The ranks in one group of processes that have given ranks in another.
///
/// # Safety
/// Both groups live; there are `n` ranks, and room for as many.
pub unsafe extern "C" fn MPI_Group_translate_ranks(
    a: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    b: MPI_Group,
    result: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call(|| {
            let n = count(n)?;
            let there = a.get()?.translate_all(slice(ranks, n), &*b.get()?)?;
            for (place, rank) in slice_mut(result, n).iter_mut().zip(there) {
                *place = rank.map_or(MPI_UNDEFINED, |rank| rank as c_int);
            }
            Ok(())
        })
    }
}

/// Frees a group; its handle becomes null. That of no process may be given too: other libraries return it from
/// operations on groups, so that programs free it.
///
/// # Safety
/// `group` holds a group that the program owns, or a handle that is null or predefined.
pub unsafe extern "C" fn MPI_Group_free(group: *mut MPI_Group) -> c_int {
    // SAFETY: the caller's promise.
    call(|| unsafe {
        group.read().get()?;
        group.replace(MPI_Group::NULL).drop_object();
        Ok(())
    })
}

/// Decides what a duplicate gets of an attribute.
pub type MPI_Comm_copy_attr_function =
    Option<unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int>;
/// Told that an attribute is deleted.
pub type MPI_Comm_delete_attr_function =
    Option<unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int>;

/// Makes an attribute key.
///
/// # Safety
/// The functions are good for the values that are set under the key; `key` is writable.
pub unsafe extern "C" fn MPI_Comm_create_keyval(
    copy: MPI_Comm_copy_attr_function,
    delete: MPI_Comm_delete_attr_function,
    key: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let extra = extra_state.expose_provenance();
    let on_copy = copy.map_or(OnCopy::Leave, |copy| {
        OnCopy::Call(Box::new(move |comm, key, value| {
            let (mut out, mut flag) = (ptr::null_mut::<c_void>(), 0);
            // SAFETY: the maker of the key promised that the function is good for its values.
            let code = unsafe {
                copy(
                    MPI_Comm::naming(comm),
                    key.0 as c_int,
                    ptr::with_exposed_provenance_mut(extra),
                    ptr::with_exposed_provenance_mut(value),
                    (&raw mut out).cast(),
                    &mut flag,
                )
            };
            if code != 0 { Err(code) } else { Ok((flag != 0).then(|| out.expose_provenance())) }
        }))
    });
    let on_delete = delete.map(|delete| -> mpi_comm::DeleteCallback {
        Box::new(move |comm, key, value| {
            // SAFETY: as above.
            let code = unsafe {
                delete(
                    MPI_Comm::naming(comm),
                    key.0 as c_int,
                    ptr::with_exposed_provenance_mut(value),
                    ptr::with_exposed_provenance_mut(extra),
                )
            };
            if code != 0 { Err(code) } else { Ok(()) }
        })
    });
    // SAFETY: the caller's promise.
    unsafe { put(key, mpi_comm::create_keyval(on_copy, on_delete).0 as c_int) };
    MPI_SUCCESS as c_int
}

/// Frees an attribute key.
///
/// # Safety
/// `key` holds a key.
pub unsafe extern "C" fn MPI_Comm_free_keyval(key: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let value = unsafe { key.replace(MPI_KEYVAL_INVALID) };
    call(|| mpi_comm::free_keyval(Keyval(value as u32)))
}

/// Sets an attribute.
///
/// # Safety
/// The communicator lives; the value is what the key's functions take.
pub unsafe extern "C" fn MPI_Comm_set_attr(comm: MPI_Comm, key: c_int, value: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call_on(comm, |comm| comm.set_attribute(Keyval(key as u32), value.expose_provenance())) }
}

/// An attribute, if it was set.
///
/// # Safety
/// The communicator lives; `value` has room for a pointer, `flag` for a number.
pub unsafe extern "C" fn MPI_Comm_get_attr(
    comm: MPI_Comm,
    key: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        call_on(comm, |comm| {
            let found = comm.attribute(Keyval(key as u32))?;
            put(flag, c_int::from(found.is_some()));
            if let Some(found) = found {
                value.cast::<*mut c_void>().write(ptr::with_exposed_provenance_mut(found));
            }
            Ok(())
        })
    }
}

/// Deletes an attribute.
///
/// # Safety
/// The communicator lives.
pub unsafe extern "C" fn MPI_Comm_delete_attr(comm: MPI_Comm, key: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { call_on(comm, |comm| comm.delete_attribute(Keyval(key as u32))) }
}
