//! What can be wrong with a datatype, a buffer or an operation.

/// An error of this crate. Every variant but [`DatatypeError::Value`] (the peer's) and
/// [`DatatypeError::Memory`] is the caller's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DatatypeError {
    /// A size, extent or displacement does not fit 63 bits.
    #[error("{what} does not fit the address space")]
    Overflow {
        /// Which quantity.
        what: &'static str,
    },
    /// Arrays that go together have different lengths.
    #[error("{what}: {left} {left_name} but {right} {right_name}")]
    Lengths {
        /// The constructor.
        what: &'static str,
        /// Length of the first array.
        left: usize,
        /// Its name.
        left_name: &'static str,
        /// Length of the second array.
        right: usize,
        /// Its name.
        right_name: &'static str,
    },
    /// A constructor's argument is out of range.
    #[error("{what}: {detail}")]
    Argument {
        /// The constructor.
        what: &'static str,
        /// The fact.
        detail: String,
    },
    /// Constructors are nested too deep.
    #[error("datatype nested {levels} levels deep, the limit is {limit}")]
    Nesting {
        /// Levels asked for.
        levels: usize,
        /// [`MAX_NESTING_LEVELS`](crate::limits::MAX_NESTING_LEVELS).
        limit: usize,
    },
    /// More data than room.
    #[error("{have} bytes of data, room for {room}")]
    Truncated {
        /// Bytes of data.
        have: usize,
        /// Bytes of room.
        room: usize,
    },
    /// Two sides of a transfer, or the two operands of a reduction, differ in type.
    #[error("data of type {from} does not go to elements of type {to}")]
    Mismatch {
        /// Type of the data.
        from: String,
        /// Type of the elements it should go to.
        to: String,
    },
    /// The standard does not define the operation on this type (MPI 5.0, section 6.9.2).
    #[error("operation {op} is not defined for elements of type {datatype}")]
    Op {
        /// The operation.
        op: &'static str,
        /// The type.
        datatype: String,
    },
    /// A temporary could not be had.
    #[error("no memory for a temporary of {bytes} bytes")]
    Memory {
        /// Its size.
        bytes: usize,
    },
    /// A peer sent bytes that are no value of the type.
    #[error("received {value:#x}, which is no {what}")]
    Value {
        /// `bool`, `char`, or the name of an enum.
        what: &'static str,
        /// What came instead.
        value: u64,
    },
}
