//! Which Rust types are elements of messages.

use super::{Datatype, DatatypeRef, SystemDatatype};
use crate::ffi::MPI_Datatype;
use crate::raw::traits::*;

/// A Rust type that a datatype describes, so that values of it can be sent and received.
///
/// # Safety
/// The datatype must name the fields at the offsets and with the types that they have, and stay inside the value.
/// Every value that a sender of the same datatype can produce must be a valid value of the type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element that MPI can send or receive",
    note = "derive `Equivalence` for it (feature `derive`), or send a slice, array or vector of a type that has it"
)]
pub unsafe trait Equivalence {
    /// The datatype, owned or borrowed.
    type Out: Datatype;
    /// The datatype that describes one value.
    fn equivalent_datatype() -> Self::Out;
}

macro_rules! equivalent_system_datatype {
    ($rstype:path, $mpitype:ident) => {
        // SAFETY: the predefined datatype is this very type.
        unsafe impl Equivalence for $rstype {
            type Out = SystemDatatype;
            #[inline(always)]
            fn equivalent_datatype() -> Self::Out {
                // SAFETY: predefined datatypes live for ever.
                unsafe { DatatypeRef::from_raw(MPI_Datatype::$mpitype) }
            }
        }
    };
}

equivalent_system_datatype!(bool, BOOL);
equivalent_system_datatype!(f32, F32);
equivalent_system_datatype!(f64, F64);
equivalent_system_datatype!(i8, I8);
equivalent_system_datatype!(i16, I16);
equivalent_system_datatype!(i32, I32);
equivalent_system_datatype!(i64, I64);
equivalent_system_datatype!(u8, U8);
equivalent_system_datatype!(u16, U16);
equivalent_system_datatype!(u32, U32);
equivalent_system_datatype!(u64, U64);
equivalent_system_datatype!(char, CHAR);

#[cfg(target_pointer_width = "32")]
equivalent_system_datatype!(usize, U32);
#[cfg(target_pointer_width = "32")]
equivalent_system_datatype!(isize, I32);
#[cfg(target_pointer_width = "64")]
equivalent_system_datatype!(usize, U64);
#[cfg(target_pointer_width = "64")]
equivalent_system_datatype!(isize, I64);

/// The complex numbers of `num-complex` as elements (feature `complex`).
#[cfg(feature = "complex")]
pub mod complex_datatype {
    use num_complex::{Complex32, Complex64};

    use super::{DatatypeRef, Equivalence, FromRaw, MPI_Datatype, SystemDatatype};

    equivalent_system_datatype!(Complex32, COMPLEX32);
    equivalent_system_datatype!(Complex64, COMPLEX64);
}

/// Support for the derive macro.
pub(crate) mod derived {
    use std::any::TypeId;
    use std::collections::HashMap;
    use std::sync::{OnceLock, RwLock};

    pub use mpi_datatype::Values;
    use mpi_datatype::{Datatype, DatatypeError, Primitive};

    use crate::datatype::{DatatypeRef, Equivalence, UserDatatype, core_type};
    use crate::ffi::MPI_Datatype;
    use crate::raw::traits::*;
    use crate::{environment, error};

    /// The datatype of a type or a part of one, while it is being built.
    pub struct Layout(Datatype);

    impl Layout {
        /// That of an equivalent type.
        pub fn of<T: Equivalence>() -> Layout {
            Layout(core_type(&T::equivalent_datatype()).clone())
        }

        /// `len` elements one after another.
        pub fn of_array(len: usize, element: Layout) -> Layout {
            Layout(built(Datatype::contiguous(len, &element.0)))
        }

        /// That of a field-less enum: the integer `T`, of which only some values may be received.
        pub fn of_enum<T: Equivalence>(values: &'static Values) -> Layout {
            let integer = core_type(&T::equivalent_datatype()).as_primitive();
            Layout(built(Datatype::one_of(integer.unwrap_or(Primitive::Packed), values)))
        }

        /// Fields at their offsets in bytes, as large as `T` so that many follow each other as `T`s do.
        pub fn of_struct<T>(fields: Vec<(usize, Layout)>) -> Layout {
            let offsets: Vec<isize> = fields.iter().map(|(offset, _)| *offset as isize).collect();
            let types: Vec<Datatype> = fields.into_iter().map(|(_, layout)| layout.0).collect();
            let plain = built(Datatype::structured(&vec![1; types.len()], &offsets, &types));
            let extent = size_of::<T>() as isize;
            if plain.lb() == 0 && plain.extent() == extent {
                return Layout(plain);
            }
            Layout(built(Datatype::resized(&plain, 0, extent)))
        }

        /// Makes it fit for communication.
        pub fn commit(self) -> UserDatatype {
            // SAFETY: the handle is new and owned by nobody else.
            unsafe { UserDatatype::from_raw(MPI_Datatype::give(self.0.commit())) }
        }
    }

    #[track_caller]
    fn built(made: Result<Datatype, DatatypeError>) -> Datatype {
        match made {
            Ok(datatype) => datatype,
            Err(fault) => error::refused_datatype("derived datatype", &fault),
        }
    }

    /// The datatype of one derived type, built on first use and kept for the life of the process.
    pub struct Slot(OnceLock<UserDatatype>);

    impl Slot {
        /// An empty slot, for a `static` in the generated code.
        #[allow(clippy::new_without_default)]
        pub const fn new() -> Slot {
            Slot(OnceLock::new())
        }

        /// The datatype; the first call builds it.
        ///
        /// # Panics
        /// On the first call, outside of initialise and finalise, where a datatype cannot be made.
        #[inline]
        pub fn get_or_build(
            &'static self,
            type_name: &str,
            build: impl FnOnce() -> UserDatatype,
        ) -> DatatypeRef<'static> {
            self.0
                .get_or_init(|| {
                    environment::check_can_build(type_name);
                    build()
                })
                .as_ref()
        }
    }

    /// What rsmpi's own macro asks before it builds a datatype.
    ///
    /// # Panics
    /// Outside of initialise and finalise, where a datatype cannot be made.
    pub fn check_derive_equivalence_universe_state(type_name: &str) {
        environment::check_can_build(type_name);
    }

    /// The slot of a generic type, which cannot have a `static` of its own for each instance.
    pub fn slot_of<T: 'static>() -> &'static Slot {
        static SLOTS: RwLock<Option<HashMap<TypeId, &'static Slot>>> = RwLock::new(None);
        let key = TypeId::of::<T>();
        if let Some(slot) = SLOTS.read().ok().and_then(|slots| slots.as_ref()?.get(&key).copied()) {
            return slot;
        }
        let mut slots = SLOTS.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        slots.get_or_insert_default().entry(key).or_insert_with(|| Box::leak(Box::new(Slot::new())))
    }
}
