//! Reduction operations: what is defined on what (MPI 5.0, sections 6.9.2 to 6.9.5), and their application.

use crate::layout::{Kind, Visit};
use crate::{Datatype, DatatypeError, Primitive, RecvBuf, Scratch, SendBuf, kernels, pack};
use std::fmt;
use std::sync::Arc;

/// What a user's function gets: address of the input, address of the input and output, number of elements, their
/// datatype. Elements are laid out by extent. It computes `inout[i] = input[i] op inout[i]`.
pub type UserFn = dyn Fn(*const u8, *mut u8, usize, &Datatype) + Send + Sync;

/// As [`UserFn`], on packed elements: input, then input and output.
pub type PackedFn = dyn Fn(&[u8], &mut [u8]) + Send + Sync;

/// A user's operation (`MPI_Op_create`). Associative by contract.
pub struct UserOp {
    function: Function,
    commutes: bool,
}

enum Function {
    Raw(Box<UserFn>),
    Packed(Box<PackedFn>),
}

impl UserOp {
    /// An operation of `function`; `commutes` allows any order of operands. The function answers for what it does
    /// with the addresses.
    pub fn new(function: Box<UserFn>, commutes: bool) -> UserOp {
        UserOp { function: Function::Raw(function), commutes }
    }

    /// An operation on elements as packed bytes.
    pub fn on_packed(function: Box<PackedFn>, commutes: bool) -> UserOp {
        UserOp { function: Function::Packed(function), commutes }
    }

    fn apply(&self, input: SendBuf<'_>, inout: RecvBuf<'_>) {
        match &self.function {
            Function::Raw(function) => function(input.ptr(), inout.ptr(), inout.count(), inout.datatype()),
            Function::Packed(function) => {
                let packed = |buf: SendBuf<'_>| {
                    let mut bytes = vec![0; buf.bytes()];
                    buf.pack(0, &mut bytes);
                    bytes
                };
                let mut bytes = packed(inout.as_send());
                function(&packed(input), &mut bytes);
                inout.unpack(0, &bytes);
            }
        }
    }
}

impl fmt::Debug for UserOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserOp").field("commutes", &self.commutes).finish_non_exhaustive()
    }
}

/// A reduction operation.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Sum,
    Prod,
    Max,
    Min,
    /// Logical and, or, exclusive or.
    Land,
    Lor,
    Lxor,
    /// Bitwise and, or, exclusive or.
    Band,
    Bor,
    Bxor,
    /// Least or greatest value with its index; the least index among equals.
    MinLoc,
    MaxLoc,
    /// The input (one-sided access only).
    Replace,
    /// Nothing (one-sided access only).
    NoOp,
    User(Arc<UserOp>),
}

impl Op {
    /// True when operands may change places.
    pub fn commutes(&self) -> bool {
        match self {
            Op::Replace | Op::NoOp => false,
            Op::User(user) => user.commutes,
            _ => true,
        }
    }

    /// Its name, as errors print it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Sum => "sum",
            Op::Prod => "product",
            Op::Max => "maximum",
            Op::Min => "minimum",
            Op::Land => "logical and",
            Op::Lor => "logical or",
            Op::Lxor => "logical exclusive or",
            Op::Band => "bitwise and",
            Op::Bor => "bitwise or",
            Op::Bxor => "bitwise exclusive or",
            Op::MinLoc => "minimum and location",
            Op::MaxLoc => "maximum and location",
            Op::Replace => "replace",
            Op::NoOp => "no operation",
            Op::User(_) => "user-defined",
        }
    }

    /// True when the standard defines the operation on the primitive.
    pub fn defined_on(&self, p: Primitive) -> bool {
        use Primitive::*;
        let integer = matches!(p, I8 | U8 | I16 | U16 | I32 | U32 | I64 | U64);
        let float = matches!(p, F32 | F64);
        match self {
            Op::Max | Op::Min => integer || float,
            Op::Sum | Op::Prod => integer || float || matches!(p, Complex32 | Complex64),
            Op::Land | Op::Lor | Op::Lxor => integer || p == Bool,
            Op::Band | Op::Bor | Op::Bxor => integer || p == Byte,
            Op::MinLoc | Op::MaxLoc => p.pair().is_some(),
            Op::Replace | Op::NoOp | Op::User(_) => true,
        }
    }

    /// A predefined operation, defined on the primitive, which has no gaps.
    #[inline]
    fn is_arithmetic_on(&self, p: Primitive) -> bool {
        p.is_dense() && !matches!(self, Op::Replace | Op::NoOp | Op::User(_)) && self.defined_on(p)
    }

    /// Checks that the operation is defined on a datatype. Beyond the standard, a predefined operation also
    /// works, entry by entry, on a derived type whose entries are all of one primitive.
    ///
    /// # Errors
    /// [`DatatypeError::Op`].
    pub fn check(&self, datatype: &Datatype) -> Result<(), DatatypeError> {
        let defined = match self {
            Op::Replace | Op::NoOp | Op::User(_) => true,
            _ if datatype.size() == 0 => true,
            // The sum of two values of an enum need not be one.
            _ => datatype.homogeneous().is_some_and(|p| {
                self.defined_on(p) && (p == Primitive::Bool || !datatype.needs_validation())
            }),
        };
        if defined { Ok(()) } else { Err(DatatypeError::Op { op: self.name(), datatype: datatype.name() }) }
    }

    /// `inout[i] = input[i] op inout[i]` for every element. The buffers do not overlap.
    ///
    /// # Errors
    /// Buffers that differ in count or type; an operation that is not defined on the type.
    pub fn apply(&self, input: SendBuf<'_>, inout: RecvBuf<'_>) -> Result<(), DatatypeError> {
        let (from, to) = (input.datatype(), inout.datatype());
        if let (Datatype::Predefined(p), Datatype::Predefined(q)) = (from, to) {
            if p == q && input.count() == inout.count() && self.is_arithmetic_on(*p) {
                // SAFETY: both buffers are `count` touching primitives, by their promises.
                unsafe { kernels::combine(self, *p, input.ptr(), inout.ptr(), input.count()) };
                return Ok(());
            }
        }
        if input.count() != inout.count() || from.signature() != to.signature() || from.size() != to.size() {
            let side = |count: usize, d: &Datatype| format!("{count} × {}", d.name());
            return Err(DatatypeError::Mismatch {
                from: side(input.count(), from),
                to: side(inout.count(), to),
            });
        }
        match self {
            Op::NoOp => return Ok(()),
            Op::Replace => return pack::copy(input, inout),
            _ => self.check(to)?,
        }
        let alike = from.same(to) || (from.is_dense() && to.is_dense());
        if !alike {
            let moved = Scratch::new(inout.count(), to)?;
            pack::copy(input, moved.recv())?;
            return self.apply(moved.send(), inout);
        }
        if inout.bytes() == 0 {
            return Ok(());
        }
        if let Op::User(user) = self {
            user.apply(input, inout);
            return Ok(());
        }
        if let Some(p) = to.as_primitive().filter(|p| p.pair().is_some()) {
            // SAFETY: both buffers are `count` elements of this primitive, by their promises.
            unsafe { kernels::locate(self, p, input.ptr(), inout.ptr(), inout.count()) };
            return Ok(());
        }
        let Some(p) = to.homogeneous() else { return Ok(()) };
        let mut each = Each { op: self, primitive: p, input: input.ptr(), inout: inout.ptr() };
        pack::walk(to, inout.count(), 0, inout.bytes(), &mut each);
        Ok(())
    }
}

/// Applies an operation to every block of one layout at two addresses.
struct Each<'a> {
    op: &'a Op,
    primitive: Primitive,
    input: *const u8,
    inout: *mut u8,
}

impl Visit for Each<'_> {
    fn blocks(&mut self, offset: isize, stride: isize, count: usize, len: usize, kind: Kind) {
        (0..count).for_each(|i| self.part(offset + stride * i as isize, 0, len, kind));
    }

    fn part(&mut self, offset: isize, skip: usize, len: usize, _: Kind) {
        let (input, inout) = (self.input.wrapping_offset(offset), self.inout.wrapping_offset(offset));
        let n = len / self.primitive.size();
        // SAFETY: whole primitives of the type map (the walk covers all of it), which both promises cover.
        unsafe {
            kernels::combine(self.op, self.primitive, input.wrapping_add(skip), inout.wrapping_add(skip), n)
        };
    }
}
