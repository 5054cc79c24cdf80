//! The constants of MPI, with the numbers of the MPI-5 standard ABI (MPI-5.0 §20).

use std::os::raw::{c_int, c_uint};

use super::handles::*;

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident: $ty:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $ty = $value;)*
    };
}

constants! {
    /// The call succeeded.
    MPI_SUCCESS: c_uint = 0;
    /// "No value": no colour, a rank that is not in a group, a count that does not fit.
    MPI_UNDEFINED: c_int = -32766;
    /// Receive from whoever sends (§3.2.4).
    MPI_ANY_SOURCE: c_int = -1;
    /// Receive whatever the tag (§3.2.4).
    MPI_ANY_TAG: c_int = -2;
    /// A peer that does not exist: sending to it and receiving from it do nothing (§3.11).
    MPI_PROC_NULL: c_int = -3;
    /// The root of an inter-communicator's collective, in its own group (§6.2.3).
    MPI_ROOT: c_int = -4;
    /// Longest processor name, in bytes.
    MPI_MAX_PROCESSOR_NAME: c_uint = 256;
    /// Longest text that describes an error, in bytes.
    MPI_MAX_ERROR_STRING: c_uint = 512;
    /// Longest name of an object, in bytes.
    MPI_MAX_OBJECT_NAME: c_uint = 128;
    /// Longest version text, in bytes.
    MPI_MAX_LIBRARY_VERSION_STRING: c_uint = 8192;
    /// Longest key of an info object, in bytes.
    MPI_MAX_INFO_KEY: c_uint = 256;
    /// Longest value of an info object, in bytes.
    MPI_MAX_INFO_VAL: c_uint = 1024;
    /// Longest port name, in bytes.
    MPI_MAX_PORT_NAME: c_uint = 1024;
    /// What one buffered message takes of the attached buffer beside its data, in bytes (§3.6).
    MPI_BSEND_OVERHEAD: c_uint = 512;
    /// No attribute key.
    MPI_KEYVAL_INVALID: c_int = 0;
    /// Attribute: the largest tag.
    MPI_TAG_UB: c_uint = 501;
    /// Attribute: which rank may do input and output.
    MPI_IO: c_uint = 502;
    /// Attribute: whether all ranks share one clock.
    MPI_WTIME_IS_GLOBAL: c_uint = 504;
    /// Attribute: how many processes the universe has room for.
    MPI_UNIVERSE_SIZE: c_uint = 505;
    /// Attribute: which program of the launch line this rank runs.
    MPI_APPNUM: c_uint = 506;
    /// The version of the standard that is followed.
    MPI_VERSION: c_uint = 5;
    /// Its minor part.
    MPI_SUBVERSION: c_uint = 0;
}

macro_rules! error_classes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: c_uint = $value;)*
    };
}

error_classes! {
    MPI_ERR_BUFFER = 1, "Invalid buffer.";
    MPI_ERR_COUNT = 2, "Invalid count.";
    MPI_ERR_TYPE = 3, "Invalid datatype, or one that does not match the sender's.";
    MPI_ERR_TAG = 4, "Invalid tag.";
    MPI_ERR_COMM = 5, "Invalid communicator.";
    MPI_ERR_RANK = 6, "Invalid rank.";
    MPI_ERR_REQUEST = 7, "Invalid request.";
    MPI_ERR_ROOT = 8, "Invalid root.";
    MPI_ERR_GROUP = 9, "Invalid group.";
    MPI_ERR_OP = 10, "Invalid operation.";
    MPI_ERR_TOPOLOGY = 11, "Invalid topology.";
    MPI_ERR_DIMS = 12, "Invalid dimensions.";
    MPI_ERR_ARG = 13, "Invalid argument of another kind.";
    MPI_ERR_UNKNOWN = 14, "Unknown error.";
    MPI_ERR_TRUNCATE = 15, "The message is longer than the receive's room.";
    MPI_ERR_OTHER = 16, "Another known error.";
    MPI_ERR_INTERN = 17, "An error inside this library.";
    MPI_ERR_PENDING = 18, "The request is neither complete nor failed.";
    MPI_ERR_IN_STATUS = 19, "The error is in the status.";
}

/// Constants of a C library are foreign statics, so programs read them inside of `unsafe`. These are declared the same
/// way, and defined here under a name that meets no other library's.
macro_rules! externs {
    ($($name:ident: $ty:ty = $value:expr, $text:literal;)*) => {
        #[allow(improper_ctypes, reason = "both sides are this crate")]
        unsafe extern "C" {
            $(
                #[doc = $text]
                #[link_name = concat!("mpi_rust_", env!("CARGO_PKG_VERSION"), "_", stringify!($name))]
                pub static $name: $ty;
            )*
        }
        mod definitions {
            use super::*;
            $(
                // SAFETY: the name is this crate's and version's own.
                #[unsafe(export_name = concat!("mpi_rust_", env!("CARGO_PKG_VERSION"), "_", stringify!($name)))]
                static $name: $ty = $value;
            )*
        }
    };
}

externs! {
    RSMPI_C_BOOL: MPI_Datatype = MPI_Datatype::BOOL, "`bool`.";
    RSMPI_FLOAT: MPI_Datatype = MPI_Datatype::F32, "`f32`.";
    RSMPI_DOUBLE: MPI_Datatype = MPI_Datatype::F64, "`f64`.";
    RSMPI_INT8_T: MPI_Datatype = MPI_Datatype::I8, "`i8`.";
    RSMPI_INT16_T: MPI_Datatype = MPI_Datatype::I16, "`i16`.";
    RSMPI_INT32_T: MPI_Datatype = MPI_Datatype::I32, "`i32`.";
    RSMPI_INT64_T: MPI_Datatype = MPI_Datatype::I64, "`i64`.";
    RSMPI_UINT8_T: MPI_Datatype = MPI_Datatype::U8, "`u8`.";
    RSMPI_UINT16_T: MPI_Datatype = MPI_Datatype::U16, "`u16`.";
    RSMPI_UINT32_T: MPI_Datatype = MPI_Datatype::U32, "`u32`.";
    RSMPI_UINT64_T: MPI_Datatype = MPI_Datatype::U64, "`u64`.";
    RSMPI_FLOAT_COMPLEX: MPI_Datatype = MPI_Datatype::COMPLEX32, "A complex number of two `f32`.";
    RSMPI_DOUBLE_COMPLEX: MPI_Datatype = MPI_Datatype::COMPLEX64, "A complex number of two `f64`.";
    RSMPI_DATATYPE_NULL: MPI_Datatype = MPI_Datatype::NULL, "No datatype.";
    RSMPI_COMM_WORLD: MPI_Comm = MPI_Comm::WORLD, "All ranks that started together.";
    RSMPI_COMM_NULL: MPI_Comm = MPI_Comm::NULL, "No communicator.";
    RSMPI_COMM_SELF: MPI_Comm = MPI_Comm::SELF, "This rank alone.";
    RSMPI_COMM_TYPE_SHARED: c_int = 221, "Split by shared memory (§7.4.2).";
    RSMPI_GROUP_EMPTY: MPI_Group = MPI_Group::EMPTY, "The group of no process.";
    RSMPI_GROUP_NULL: MPI_Group = MPI_Group::NULL, "No group.";
    RSMPI_UNDEFINED: c_int = MPI_UNDEFINED, "\"No value\".";
    RSMPI_PROC_NULL: c_int = MPI_PROC_NULL, "The peer that does not exist (§3.11).";
    RSMPI_ANY_SOURCE: c_int = MPI_ANY_SOURCE, "Whoever sends.";
    RSMPI_ANY_TAG: c_int = MPI_ANY_TAG, "Whatever the tag.";
    RSMPI_MESSAGE_NULL: MPI_Message = MPI_Message::NULL, "No message.";
    RSMPI_MESSAGE_NO_PROC: MPI_Message = MPI_Message::NO_PROC, "The message of the null process (§3.8.2).";
    RSMPI_REQUEST_NULL: MPI_Request = MPI_Request::NULL, "No request.";
    RSMPI_IDENT: c_int = 201, "Comparison: the same object.";
    RSMPI_CONGRUENT: c_int = 202, "Comparison: the same ranks in another context.";
    RSMPI_SIMILAR: c_int = 203, "Comparison: the same processes in another order.";
    RSMPI_UNEQUAL: c_int = 204, "Comparison: otherwise.";
    RSMPI_THREAD_SINGLE: c_int = 0, "Thread level: one thread.";
    RSMPI_THREAD_FUNNELED: c_int = 1024, "Thread level: only the main thread calls.";
    RSMPI_THREAD_SERIALIZED: c_int = 2048, "Thread level: one thread calls at a time.";
    RSMPI_THREAD_MULTIPLE: c_int = 4096, "Thread level: any thread at any time.";
    RSMPI_GRAPH: c_int = 212, "A graph topology.";
    RSMPI_CART: c_int = 211, "A Cartesian topology.";
    RSMPI_DIST_GRAPH: c_int = 213, "A distributed graph topology.";
    RSMPI_MAX_LIBRARY_VERSION_STRING: c_int = 8192, "Longest version text, in bytes.";
    RSMPI_MAX_PROCESSOR_NAME: c_int = 256, "Longest processor name, in bytes.";
    RSMPI_MAX: MPI_Op = MPI_Op::MAX, "The greater.";
    RSMPI_MIN: MPI_Op = MPI_Op::MIN, "The lesser.";
    RSMPI_SUM: MPI_Op = MPI_Op::SUM, "The sum.";
    RSMPI_PROD: MPI_Op = MPI_Op::PROD, "The product.";
    RSMPI_LAND: MPI_Op = MPI_Op::LAND, "Logical and.";
    RSMPI_BAND: MPI_Op = MPI_Op::BAND, "Bitwise and.";
    RSMPI_LOR: MPI_Op = MPI_Op::LOR, "Logical or.";
    RSMPI_BOR: MPI_Op = MPI_Op::BOR, "Bitwise or.";
    RSMPI_LXOR: MPI_Op = MPI_Op::LXOR, "Logical exclusive or.";
    RSMPI_BXOR: MPI_Op = MPI_Op::BXOR, "Bitwise exclusive or.";
    RSMPI_REPLACE: MPI_Op = MPI_Op::REPLACE, "The new value, in windows.";
    RSMPI_NO_OP: MPI_Op = MPI_Op::NO_OP, "Nothing, in windows.";
    RSMPI_ERRORS_ARE_FATAL: MPI_Errhandler = MPI_Errhandler::FATAL, "An error ends the job.";
    RSMPI_ERRORS_RETURN: MPI_Errhandler = MPI_Errhandler::RETURN, "An error is returned.";
    RSMPI_ERRORS_ABORT: MPI_Errhandler = MPI_Errhandler::ABORT, "An error ends the processes of the communicator.";
    RSMPI_ERRHANDLER_NULL: MPI_Errhandler = MPI_Errhandler::NULL, "No error handler.";
    RSMPI_FILE_NULL: MPI_File = MPI_File::NULL, "No file.";
    RSMPI_INFO_NULL: MPI_Info = MPI_Info::NULL, "No info object.";
    RSMPI_WIN_NULL: MPI_Win = MPI_Win::NULL, "No window.";
}

/// Bytes without meaning.
pub const MPI_BYTE: MPI_Datatype = MPI_Datatype::BYTE;
/// The edges of a distributed graph have no weights (§8.5.4).
pub const MPI_UNWEIGHTED: *mut c_int = std::ptr::without_provenance_mut(10);
/// The edges of a distributed graph have weights, and this process gives none (§8.5.4).
pub const MPI_WEIGHTS_EMPTY: *mut c_int = std::ptr::without_provenance_mut(11);
/// What packing makes.
pub const MPI_PACKED: MPI_Datatype = MPI_Datatype::PACKED;

#[allow(improper_ctypes, reason = "both sides are this crate")]
unsafe extern "C" {
    /// The caller wants no status.
    #[link_name = concat!("mpi_rust_", env!("CARGO_PKG_VERSION"), "_NOWHERE")]
    pub static RSMPI_STATUS_IGNORE: *mut MPI_Status;
    /// The caller wants no statuses.
    #[link_name = concat!("mpi_rust_", env!("CARGO_PKG_VERSION"), "_NOWHERE")]
    pub static RSMPI_STATUSES_IGNORE: *mut MPI_Status;
}
/// The null pointer, as a number, since a static must not hold a pointer.
// SAFETY: the name is this crate's and version's own.
#[unsafe(export_name = concat!("mpi_rust_", env!("CARGO_PKG_VERSION"), "_NOWHERE"))]
static NOWHERE: usize = 0;
