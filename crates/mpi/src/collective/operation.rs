//! Reduction operations (MPI-4.1 §6.9.2, §6.9.5).

use std::fmt;
use std::os::raw::{c_int, c_void};
#[cfg(feature = "user-operations")]
use std::sync::Arc;

use mpi_datatype::Op;
#[cfg(feature = "user-operations")]
use mpi_datatype::{Datatype, UserOp};

#[cfg(feature = "user-operations")]
use crate::datatype::{DatatypeRef, DynBuffer, DynBufferMut};
use crate::ffi::{self, MPI_Datatype, MPI_Op};
use crate::raw::traits::*;

/// An operation that reductions combine elements with. It is associative.
pub trait Operation: AsRaw<Raw = MPI_Op> {
    /// Whether operands may change places (`MPI_Op_commutative`).
    fn is_commutative(&self) -> bool {
        core_op(self).commutes()
    }
}
impl<'a, T: 'a + Operation> Operation for &'a T {}

/// The operation of the layers below that a typed one stands for.
#[inline(always)]
pub(crate) fn core_op<O: Operation + ?Sized>(operation: &O) -> &Op {
    // SAFETY: `AsRaw` promises that the object lives as long as `operation` does.
    unsafe { operation.as_raw().get() }
}

/// A predefined operation (MPI-4.1 §6.9.2).
#[derive(Copy, Clone)]
pub struct SystemOperation(MPI_Op);

macro_rules! system_operations {
    ($($name:ident = $op:ident, $text:literal;)*) => {
        impl SystemOperation {
            $(
                #[doc = $text]
                pub fn $name() -> SystemOperation {
                    SystemOperation(MPI_Op::$op)
                }
            )*
        }
    };
}

system_operations! {
    max = MAX, "The greater of two.";
    min = MIN, "The lesser of two.";
    sum = SUM, "The sum.";
    product = PROD, "The product.";
    logical_and = LAND, "Whether both are true, or not zero.";
    bitwise_and = BAND, "The bits that both have.";
    logical_or = LOR, "Whether one is true, or not zero.";
    bitwise_or = BOR, "The bits that one has.";
    logical_xor = LXOR, "Whether exactly one is true, or not zero.";
    bitwise_xor = BXOR, "The bits that exactly one has.";
}

// SAFETY: predefined operations live for ever.
unsafe impl AsRaw for SystemOperation {
    type Raw = MPI_Op;
    #[inline(always)]
    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl Operation for SystemOperation {}

/// An operation of the program's own, from a closure.
///
/// ```no_run
/// use mpi::collective::UserOperation;
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let longest = UserOperation::commutative(|input, output| {
///     let (input, output) = (input.downcast::<f64>().unwrap(), output.downcast::<f64>().unwrap());
///     for (a, b) in input.iter().zip(output) {
///         *b = a.abs().max(b.abs());
///     }
/// });
/// let mut result = 0.0;
/// world.all_reduce_into(&-1.5, &mut result, &longest);
/// ```
#[cfg(feature = "user-operations")]
pub struct UserOperation<'a> {
    op: MPI_Op,
    _anchor: Box<dyn Anchor + 'a>, // what the operation calls, kept alive
}

/// Anything at all, owned.
#[cfg(feature = "user-operations")]
trait Anchor {}
#[cfg(feature = "user-operations")]
impl<T> Anchor for T {}

#[cfg(feature = "user-operations")]
impl fmt::Debug for UserOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UserOperation").field(&self.op).finish()
    }
}

#[cfg(feature = "user-operations")]
impl Drop for UserOperation<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the object, and nothing uses the handle after it.
        drop(unsafe { self.op.take() });
    }
}

// SAFETY: the object lives as long as this value.
#[cfg(feature = "user-operations")]
unsafe impl AsRaw for UserOperation<'_> {
    type Raw = MPI_Op;
    fn as_raw(&self) -> Self::Raw {
        self.op
    }
}

#[cfg(feature = "user-operations")]
impl Operation for &UserOperation<'_> {}

/// The address of a closure that its owner keeps in place and alive.
#[cfg(feature = "user-operations")]
struct ClosureAt<F>(*const F);
// SAFETY: the closure is `Sync`, and through the address it is only called.
#[cfg(feature = "user-operations")]
unsafe impl<F: Sync> Send for ClosureAt<F> {}
// SAFETY: as above.
#[cfg(feature = "user-operations")]
unsafe impl<F: Sync> Sync for ClosureAt<F> {}

#[cfg(feature = "user-operations")]
impl<'a> UserOperation<'a> {
    /// An operation whose operands may not change places.
    ///
    /// The closure gets the left operands and the right ones, and writes the results over the right ones.
    pub fn associative<F>(function: F) -> Self
    where
        F: Fn(DynBuffer, DynBufferMut) + Sync + 'a,
    {
        Self::new(false, function)
    }

    /// An operation whose operands may change places.
    ///
    /// The closure gets the left operands and the right ones, and writes the results over the right ones.
    pub fn commutative<F>(function: F) -> Self
    where
        F: Fn(DynBuffer, DynBufferMut) + Sync + 'a,
    {
        Self::new(true, function)
    }

    /// An operation from a closure (`MPI_Op_create`).
    pub fn new<F>(commute: bool, function: F) -> Self
    where
        F: Fn(DynBuffer, DynBufferMut) + Sync + 'a,
    {
        let anchor = Box::new(function);
        let closure = ClosureAt(&raw const *anchor);
        let call = move |input: *const u8, inout: *mut u8, len: usize, datatype: &Datatype| {
            let closure = &closure;
            let (input, inout) =
                if len == 0 { (std::ptr::dangling(), std::ptr::dangling_mut()) } else { (input, inout) };
            // SAFETY: the anchor outlives every operation that uses this one, as requests borrow it. The two arrays
            // hold `len` elements of the datatype and do not overlap.
            unsafe {
                let datatype = DatatypeRef::from_raw(MPI_Datatype::naming(datatype));
                (*closure.0)(
                    DynBuffer::from_parts(input.cast(), len, datatype),
                    DynBufferMut::from_parts(inout.cast(), len, datatype),
                );
            }
        };
        // SAFETY: only the lifetime changes; what the closure refers to is kept alive by the anchor, and dropping it
        // touches nothing, for it holds an address.
        let call = unsafe { erase_lifetime(Box::new(call)) };
        let op = MPI_Op::give(Op::User(Arc::new(UserOp::new(call, commute))));
        UserOperation { op, _anchor: anchor }
    }

    /// Takes over an operation and keeps `anchor`, which it uses, alive.
    ///
    /// # Safety
    /// `op` must name an operation that nothing else will free, and use nothing that ends before `anchor` does.
    pub unsafe fn from_raw<T: 'a>(op: MPI_Op, anchor: Box<T>) -> Self {
        Self { op, _anchor: anchor }
    }
}

#[cfg(feature = "user-operations")]
type Call<'a> = dyn Fn(*const u8, *mut u8, usize, &Datatype) + Send + Sync + 'a;

/// # Safety
/// The closure is neither called nor looked into after `'a`.
#[cfg(feature = "user-operations")]
unsafe fn erase_lifetime<'a>(call: Box<Call<'a>>) -> Box<Call<'static>> {
    // SAFETY: the two differ in their lifetime only; the caller promises the rest.
    unsafe { std::mem::transmute(call) }
}

/// An operation of the program's own, from a function in the form of the C binding.
pub struct UnsafeUserOperation {
    op: MPI_Op,
}

impl fmt::Debug for UnsafeUserOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UnsafeUserOperation").field(&self.op).finish()
    }
}

impl Drop for UnsafeUserOperation {
    fn drop(&mut self) {
        // SAFETY: this value owns the object, and nothing uses the handle after it.
        drop(unsafe { self.op.take() });
    }
}

// SAFETY: the object lives as long as this value.
unsafe impl AsRaw for UnsafeUserOperation {
    type Raw = MPI_Op;
    fn as_raw(&self) -> Self::Raw {
        self.op
    }
}

impl Operation for &UnsafeUserOperation {}

/// A reduction in the form of the C binding: left operands, right operands and results, how many, their datatype.
pub type UnsafeUserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);

impl UnsafeUserOperation {
    /// An operation whose operands may not change places.
    ///
    /// # Safety
    /// The function must write nothing but the results, and be good for the elements that it is used with.
    pub unsafe fn associative(function: UnsafeUserFunction) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::new(false, function) }
    }

    /// An operation whose operands may change places.
    ///
    /// # Safety
    /// The function must write nothing but the results, and be good for the elements that it is used with.
    pub unsafe fn commutative(function: UnsafeUserFunction) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::new(true, function) }
    }

    /// An operation from a function (`MPI_Op_create`).
    ///
    /// # Safety
    /// The function must write nothing but the results, and be good for the elements that it is used with.
    pub unsafe fn new(commute: bool, function: UnsafeUserFunction) -> Self {
        // SAFETY: the caller's promise.
        UnsafeUserOperation { op: unsafe { ffi::user_op(function, commute) } }
    }
}
