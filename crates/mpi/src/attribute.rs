//! Values of the program's own that a communicator carries (MPI-4.1 §7.7).
//!
//! A type that implements [`CommAttribute`] can be kept on a communicator with
//! [`set_attr`](crate::topology::AnyCommunicator::set_attr), one value of each type. It is dropped with the
//! communicator, and copied by duplication where [`CLONE_ON_DUP`](CommAttribute::CLONE_ON_DUP) says so.
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

use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::c_void;
use std::os::raw::c_int;
use std::ptr;
use std::sync::{PoisonError, RwLock};

use mpi_comm::{Comm, Keyval, OnCopy};

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
        drop(unsafe { Box::from_raw(val.cast::<Self>()) });
        ffi::MPI_SUCCESS as c_int
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
        unsafe {
            if Self::CLONE_ON_DUP {
                let copy = Box::new((*val_in.cast::<Self>()).clone());
                *val_out.cast::<*mut Self>() = Box::into_raw(copy);
            }
            *flag = c_int::from(Self::CLONE_ON_DUP);
        }
        ffi::MPI_SUCCESS as c_int
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

fn make_key<A: CommAttribute>() -> AttributeKey {
    let copy = |comm: &Comm, key: Keyval, value: usize| {
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
        if code != 0 { Err(code) } else { Ok(()) }
    };
    let key = mpi_comm::create_keyval(OnCopy::Call(Box::new(copy)), Some(Box::new(delete)));
    AttributeKey(key.0 as c_int)
}

/// The attribute of type `A`, if it was set.
pub(crate) fn get<A: CommAttribute>(comm: &Comm) -> Option<&A> {
    let value = error::ok(comm, comm.attribute(A::get_key().keyval()))?;
    // SAFETY: under this key there are only boxed `A`s. The communicator keeps it while it is borrowed: replacing
    // takes it mutably.
    unsafe { ptr::with_exposed_provenance::<A>(value).as_ref() }
}

/// Sets the attribute of type `A`.
pub(crate) fn set<A: CommAttribute>(comm: &Comm, value: A) {
    let value = Box::into_raw(Box::new(value)).expose_provenance();
    error::ok(comm, comm.set_attribute(A::get_key().keyval(), value));
}

/// The key under which a communicator keeps an attribute.
#[allow(missing_copy_implementations)]
#[derive(Debug, Clone)]
pub struct AttributeKey(i32);

impl AttributeKey {
    /// The key of the given number.
    ///
    /// # Safety
    /// There must be such a key, and its values must be boxed values of the type that uses it.
    pub unsafe fn new_unchecked(k: i32) -> Self {
        Self(k)
    }

    fn keyval(&self) -> Keyval {
        Keyval(self.0 as u32)
    }
}

// SAFETY: keys live for ever.
unsafe impl AsRaw for AttributeKey {
    type Raw = c_int;
    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}
