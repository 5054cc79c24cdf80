//! Values of the program's own that a communicator carries (MPI-4.1 §7.7).
//!
//! A type that implements [`CommAttribute`] can be kept on a communicator with
//! [`set_attr`](crate::topology::AnyCommunicator::set_attr), one value of each type. It is dropped with the
//! communicator, and copied by duplication where [`CLONE_ON_DUP`](CommAttribute::CLONE_ON_DUP) says so.
//!
//! A reference to a value is good for as long as the communicator that it was asked of: a value that is replaced through
//! one of several names of a communicator stays in memory until the last of them is dropped.
//!
//! A type need not be `Send` or `Sync`, so a value is for the thread that set it: another thread that asks for it
//! panics, and so does one that would copy it by duplicating the communicator. Where another thread drops the last name
//! of the communicator, the value is not dropped. For all threads there is
//! [`set_shared_attr`](crate::ext::SharedAttributes::set_shared_attr).
//!
//! ```no_run
//! use mpi::traits::*;
//!
//! #[derive(Clone)]
//! struct Timeout(f64);
//! impl CommAttribute for Timeout {
//!     const CLONE_ON_DUP: bool = true;
//! }
//!
//! let universe = mpi::initialize().unwrap();
//! let mut world = universe.world();
//! world.set_attr(Timeout(1.5));
//! assert_eq!(world.duplicate().get_attr::<Timeout>().map(|t| t.0), Some(1.5));
//! ```

use std::any::{Any, TypeId, type_name};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::os::raw::c_int;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::{PoisonError, RwLock};
use std::thread::{self, ThreadId};

use mpi_comm::{Comm, Keyval, OnCopy};
use mpi_p2p::ErrorClass;

use crate::ffi::MPI_Comm;
use crate::raw::traits::*;
use crate::{error, ffi};

/// The trait of this module, for a glob import.
pub mod traits {
    pub use super::CommAttribute;
}

/// The key of each attribute type.
static KEYS: RwLock<Option<HashMap<TypeId, AttributeKey>>> = RwLock::new(None);

/// A type whose values a communicator can carry.
pub trait CommAttribute
where
    Self: 'static + Sized + Clone,
{
    /// Whether a duplicate of the communicator gets a clone of the value. Otherwise it has none.
    const CLONE_ON_DUP: bool = false;

    /// Called when the attribute is replaced or its communicator freed: drops the value.
    ///
    /// # Safety
    /// `val` points to a boxed value that nothing uses any more.
    unsafe extern "C" fn comm_delete_attr_fn(
        _comm: ffi::MPI_Comm,
        _key: c_int,
        val: *mut c_void,
        _extra_state: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller's promise.
        held_back(|| drop(unsafe { Box::from_raw(val.cast::<Self>()) }))
    }

    /// Called when the communicator is duplicated: boxes a clone, or sets `flag` to 0.
    ///
    /// # Safety
    /// `val_in` points to a value; `val_out` to room for a pointer; `flag` to room for a number.
    unsafe extern "C" fn comm_copy_attr_fn(
        _old_comm: ffi::MPI_Comm,
        _key: c_int,
        _extra_state: *mut c_void,
        val_in: *mut c_void,
        val_out: *mut c_void,
        flag: *mut c_int,
    ) -> c_int {
        // SAFETY: the caller's promise.
        held_back(|| unsafe {
            if Self::CLONE_ON_DUP {
                let copy = Box::new((*val_in.cast::<Self>()).clone());
                *val_out.cast::<*mut Self>() = Box::into_raw(copy);
            }
            *flag = c_int::from(Self::CLONE_ON_DUP);
        })
    }

    /// The key of this type's attribute, made on first use.
    fn get_key() -> AttributeKey {
        let id = TypeId::of::<Self>();
        let known = KEYS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.as_ref().and_then(|keys| keys.get(&id)) {
            return key.clone();
        }
        drop(known);
        let mut keys = KEYS.write().unwrap_or_else(PoisonError::into_inner);
        keys.get_or_insert_default().entry(id).or_insert_with(make_key::<Self>).clone()
    }
}

thread_local! {
    /// A panic of a value's, on its way through functions of the C binding.
    static HELD_BACK: Cell<Option<Box<dyn Any + Send>>> = const { Cell::new(None) };
}

/// Runs what may panic in a function through which no panic may unwind; [`let_go`] carries a panic on.
fn held_back(body: impl FnOnce()) -> c_int {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(()) => ffi::MPI_SUCCESS as c_int,
        Err(panic) => {
            HELD_BACK.set(Some(panic));
            ErrorClass::Other as c_int
        }
    }
}

fn let_go() {
    if let Some(panic) = HELD_BACK.take() {
        error::abort_if_unwinding("an attribute of a communicator panicked, too");
        panic::resume_unwind(panic);
    }
}

/// # Panics
/// If the value is for another thread.
#[track_caller]
fn assert_may_see<A>(owner: Option<ThreadId>) {
    assert!(
        owner.is_none_or(|owner| owner == thread::current().id()),
        "the attribute `{}` is for the thread that set it, which is another: set_shared_attr sets one for all threads",
        type_name::<A>()
    );
}

fn make_key<A: CommAttribute>() -> AttributeKey {
    let copy = |comm: &Comm, key: Keyval, value: usize| {
        if A::CLONE_ON_DUP {
            let found = comm.attribute_with_owner(key).ok().flatten();
            assert_may_see::<A>(found.and_then(|(_, owner)| owner));
        }
        let (mut out, mut flag) = (ptr::null_mut::<A>(), 0);
        // SAFETY: `set` put the address of a boxed `A` there; the other two point to room of the right type.
        let code = unsafe {
            A::comm_copy_attr_fn(
                MPI_Comm::naming(comm),
                key.0 as c_int,
                ptr::null_mut(),
                ptr::with_exposed_provenance_mut(value),
                (&raw mut out).cast(),
                &mut flag,
            )
        };
        let_go();
        if code != 0 { Err(code) } else { Ok((flag != 0).then(|| out.expose_provenance())) }
    };
    let delete = |comm: &Comm, key: Keyval, value: usize| {
        // SAFETY: `set` put the address of a boxed `A` there, and the communicator lets go of it.
        let code = unsafe {
            A::comm_delete_attr_fn(
                MPI_Comm::naming(comm),
                key.0 as c_int,
                ptr::with_exposed_provenance_mut(value),
                ptr::null_mut(),
            )
        };
        let_go();
        if code != 0 { Err(code) } else { Ok(()) }
    };
    let key = mpi_comm::create_lent_keyval(OnCopy::Call(Box::new(copy)), Box::new(delete));
    AttributeKey { number: key.0 as c_int, of: Some(TypeId::of::<A>()) }
}

/// The attribute of type `A`, if it was set.
#[track_caller]
pub(crate) fn get<A: CommAttribute>(comm: &Comm) -> Option<&A> {
    let (value, owner) = error::ok(comm, comm.attribute_with_owner(A::get_key().keyval::<A>()))?;
    assert_may_see::<A>(owner);
    // SAFETY: under this key there are only boxed `A`s, which this thread may see. The communicator keeps it while a
    // handle to it is borrowed, though it be replaced.
    unsafe { ptr::with_exposed_provenance::<A>(value).as_ref() }
}

/// Sets the attribute of type `A`, for one thread where an owner is given. `alone` says that nothing is borrowed through
/// this handle.
#[track_caller]
pub(crate) fn set<A: CommAttribute>(comm: &Comm, value: A, owner: Option<ThreadId>, alone: bool) {
    let key = A::get_key().keyval::<A>();
    let value = Box::into_raw(Box::new(value)).expose_provenance();
    error::ok(comm, comm.set_attribute_for(key, value, owner, alone));
}

/// The key under which a communicator keeps an attribute.
#[allow(missing_copy_implementations)]
#[derive(Debug, Clone)]
pub struct AttributeKey {
    number: c_int,
    /// The type whose values are under it, where that is known and not a promise.
    of: Option<TypeId>,
}

impl AttributeKey {
    /// The key of the given number.
    ///
    /// # Safety
    /// There must be such a key, and its values must be boxed values of the type that uses it, which stay where they are
    /// while a communicator that has one is borrowed.
    pub unsafe fn new_unchecked(k: i32) -> Self {
        Self { number: k, of: None }
    }

    /// # Panics
    /// If the key is another type's.
    #[track_caller]
    fn keyval<A: 'static>(&self) -> Keyval {
        let own = self.of.is_none_or(|of| of == TypeId::of::<A>());
        assert!(own, "the attribute `{}` has the key of another type", type_name::<A>());
        Keyval(self.number as u32)
    }
}

// SAFETY: keys live for ever.
unsafe impl AsRaw for AttributeKey {
    type Raw = c_int;
    fn as_raw(&self) -> Self::Raw {
        self.number
    }
}
