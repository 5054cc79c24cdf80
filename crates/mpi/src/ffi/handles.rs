//! The handles: `Copy` names of reference-counted objects.

use std::borrow::Cow;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::raw::c_int;
use std::ptr;

use mpi_comm::{Comm, Matched};
use mpi_datatype::{Datatype, Op, Primitive};
use mpi_p2p::{Error, ErrorClass, RequestId};

use super::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL};

/// An address or a distance between two, in bytes.
pub type MPI_Aint = isize;
/// A count without the limit of a C `int`.
pub type MPI_Count = i64;
/// A position in a file, in bytes.
pub type MPI_Offset = i64;
/// An integer of Fortran.
pub type MPI_Fint = c_int;
/// An integer of Fortran.
pub type RSMPI_Fint = MPI_Fint;

macro_rules! pointer_handle {
    ($(#[$doc:meta])* $name:ident => $target:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub(crate) *const $target);

        // SAFETY: the handle is a name; what it names is `Send` and `Sync`, and following it is unsafe.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:p})"), self.0)
            }
        }
    };
}

pointer_handle!(
    /// Names a datatype. Two handles are equal when they name the same object.
    MPI_Datatype => Datatype
);
pointer_handle!(
    /// Names a reduction operation.
    MPI_Op => Op
);
pointer_handle!(
    /// Names a communicator.
    MPI_Comm => ()
);
pointer_handle!(
    /// Names a group of processes.
    MPI_Group => mpi_comm::Group
);
pointer_handle!(
    /// Names a message that a matched probe has set aside.
    MPI_Message => MessageObject
);
pointer_handle!(
    /// Names an info object.
    MPI_Info => mpi_comm::Info
);
pointer_handle!(
    /// Names an error handler.
    MPI_Errhandler => mpi_comm::ErrorHandler
);
pointer_handle!(
    /// Names a window of one-sided communication.
    MPI_Win => super::window::WindowObject
);
pointer_handle!(
    /// Names an open file.
    MPI_File => ()
);

/// What a message handle names: the message, and the communicator that it belongs to.
#[derive(Debug)]
pub struct MessageObject {
    pub(crate) comm: Comm,
    pub(crate) matched: Matched,
}

impl MessageObject {
    /// What it is, for people.
    pub(crate) fn describe(&self) -> String {
        let found = match &self.matched {
            Matched::Message(message) => self.comm.engine().matched(message),
            Matched::Null => None,
        };
        let name = self.comm.name();
        found.map_or_else(
            || format!("a message on {name:?}"),
            |s| format!("{} bytes on {name:?} from rank {} tag {}", s.bytes, s.source, s.tag),
        )
    }
}

/// Names a running operation; all zero is "no request".
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MPI_Request(pub(crate) Option<RequestId>);

/// What is known of a message that was received or probed (MPI-4.1 §3.2.5).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MPI_Status {
    /// The sender's rank, or `MPI_ANY_SOURCE` where there was none.
    pub MPI_SOURCE: c_int,
    /// The message's tag.
    pub MPI_TAG: c_int,
    /// The error class of this request, where several complete together.
    pub MPI_ERROR: c_int,
    pub(crate) cancelled: c_int,
    /// Length of the message in bytes, packed.
    pub(crate) bytes: u64,
}

macro_rules! predefined_datatypes {
    ($($name:ident = $primitive:ident;)*) => {
        mod primitive {
            use super::{Datatype, Primitive};
            $(pub(super) static $name: Datatype = Datatype::predefined(Primitive::$primitive);)*
        }
        impl MPI_Datatype {
            $(pub(crate) const $name: MPI_Datatype = MPI_Datatype(&raw const primitive::$name);)*

            /// Whether it is one of the library's own, which nobody frees.
            pub(crate) fn is_predefined(self) -> bool {
                [$(Self::$name),*].contains(&self)
            }
        }
    };
}

predefined_datatypes! {
    BOOL = Bool;
    F32 = F32;
    F64 = F64;
    I8 = I8;
    I16 = I16;
    I32 = I32;
    I64 = I64;
    U8 = U8;
    U16 = U16;
    U32 = U32;
    U64 = U64;
    COMPLEX32 = Complex32;
    COMPLEX64 = Complex64;
    BYTE = Byte;
    PACKED = Packed;
    CHAR = Char;
}

macro_rules! predefined_ops {
    ($($name:ident = $op:ident;)*) => {
        mod op {
            use super::Op;
            $(pub(super) static $name: Op = Op::$op;)*
        }
        impl MPI_Op {
            $(pub(crate) const $name: MPI_Op = MPI_Op(&raw const op::$name);)*

            /// Whether it is one of the library's own, which nobody frees.
            pub(crate) fn is_predefined(self) -> bool {
                [$(Self::$name),*].contains(&self)
            }
        }
    };
}

predefined_ops! {
    MAX = Max;
    MIN = Min;
    SUM = Sum;
    PROD = Prod;
    LAND = Land;
    BAND = Band;
    LOR = Lor;
    BOR = Bor;
    LXOR = Lxor;
    BXOR = Bxor;
    REPLACE = Replace;
    NO_OP = NoOp;
}

/// A handle that names no object but has a meaning of its own: a number that no address can be.
const fn mark<T>(number: usize) -> *const T {
    ptr::without_provenance(number)
}

impl MPI_Datatype {
    pub(crate) const NULL: MPI_Datatype = MPI_Datatype(ptr::null());

    /// Hands an owned datatype out by its handle; [`MPI_Datatype::take`] takes it back.
    pub(crate) fn give(datatype: Datatype) -> MPI_Datatype {
        MPI_Datatype(Box::into_raw(Box::new(datatype)))
    }

    /// Takes back what [`MPI_Datatype::give`] handed out.
    ///
    /// # Safety
    /// The handle came from `give` and is not used again.
    pub(crate) unsafe fn take(self) -> Datatype {
        // SAFETY: the caller's promise.
        *unsafe { Box::from_raw(self.0.cast_mut()) }
    }

    /// A handle for a datatype that something else owns.
    pub(crate) fn naming(datatype: &Datatype) -> MPI_Datatype {
        MPI_Datatype(datatype)
    }

    /// The datatype that the handle names.
    ///
    /// # Safety
    /// It lives for `'a` and is not null.
    #[inline(always)]
    pub(crate) unsafe fn get<'a>(self) -> &'a Datatype {
        // SAFETY: the caller's promise.
        unsafe { &*self.0 }
    }
}

impl MPI_Op {
    pub(crate) const NULL: MPI_Op = MPI_Op(ptr::null());

    pub(crate) fn give(op: Op) -> MPI_Op {
        MPI_Op(Box::into_raw(Box::new(op)))
    }

    /// # Safety
    /// The handle came from `give` and is not used again.
    pub(crate) unsafe fn take(self) -> Op {
        // SAFETY: the caller's promise.
        *unsafe { Box::from_raw(self.0.cast_mut()) }
    }

    /// # Safety
    /// The operation lives for `'a` and is not null.
    #[inline(always)]
    pub(crate) unsafe fn get<'a>(self) -> &'a Op {
        // SAFETY: the caller's promise.
        unsafe { &*self.0 }
    }
}

impl MPI_Comm {
    pub(crate) const NULL: MPI_Comm = MPI_Comm(mark(0x100));
    pub(crate) const WORLD: MPI_Comm = MPI_Comm(mark(0x101));
    pub(crate) const SELF: MPI_Comm = MPI_Comm(mark(0x102));

    /// A handle for a communicator that something else owns.
    pub(crate) fn naming(comm: &Comm) -> MPI_Comm {
        MPI_Comm(comm.as_raw())
    }

    /// Hands out an owned communicator.
    pub(crate) fn give(comm: Comm) -> MPI_Comm {
        MPI_Comm(comm.into_raw())
    }

    /// The communicator that the handle names.
    ///
    /// # Safety
    /// It is null or predefined, or names an object that lives as long as the result.
    pub(crate) unsafe fn get(self) -> Result<Lent, Error> {
        match self {
            MPI_Comm::NULL => Err(Error::new(ErrorClass::Comm, "call", "the null communicator has no ranks")),
            MPI_Comm::WORLD => mpi_comm::try_world().map(Lent::Counted),
            MPI_Comm::SELF => mpi_comm::try_self_comm().map(Lent::Counted),
            // SAFETY: the caller's promise; the second owner is never dropped.
            made => Ok(Lent::Borrowed(ManuallyDrop::new(unsafe { Comm::from_raw(made.0) }))),
        }
    }

    /// Lets go of what the handle names, if the program made it.
    ///
    /// # Safety
    /// The handle came from `give` or a communicator that is never used again.
    pub(crate) unsafe fn drop_object(self) {
        if !matches!(self, MPI_Comm::NULL | MPI_Comm::WORLD | MPI_Comm::SELF) {
            // SAFETY: the caller's promise.
            drop(unsafe { Comm::from_raw(self.0) });
        }
    }
}

/// A communicator for the length of a call.
pub(crate) enum Lent {
    Counted(Comm),
    Borrowed(ManuallyDrop<Comm>),
}

impl Deref for Lent {
    type Target = Comm;
    fn deref(&self) -> &Comm {
        match self {
            Lent::Counted(comm) => comm,
            Lent::Borrowed(comm) => comm,
        }
    }
}

impl MPI_Status {
    #[inline]
    pub(crate) fn from_core(status: mpi_p2p::Status) -> MPI_Status {
        let source = match status.source {
            mpi_comm::NULL_SOURCE => MPI_PROC_NULL,
            source if source < 0 => MPI_ANY_SOURCE,
            source => source,
        };
        MPI_Status {
            MPI_SOURCE: source,
            MPI_TAG: if status.tag < 0 { MPI_ANY_TAG } else { status.tag },
            MPI_ERROR: status.error as c_int,
            cancelled: c_int::from(status.cancelled),
            bytes: status.bytes,
        }
    }
}

impl MPI_Group {
    pub(crate) const NULL: MPI_Group = MPI_Group(mark(0x108));
    pub(crate) const EMPTY: MPI_Group = MPI_Group(mark(0x109));

    pub(crate) fn give(group: mpi_comm::Group) -> MPI_Group {
        MPI_Group(Box::into_raw(Box::new(group)))
    }

    /// The group that the handle names.
    ///
    /// # Safety
    /// It is null or predefined, or names an object that lives for `'a`.
    pub(crate) unsafe fn get<'a>(self) -> Result<Cow<'a, mpi_comm::Group>, Error> {
        match self {
            MPI_Group::NULL => Err(Error::new(ErrorClass::Group, "call", "the null group has no processes")),
            MPI_Group::EMPTY => Ok(Cow::Owned(mpi_comm::Group::empty())),
            // SAFETY: the caller's promise.
            made => Ok(Cow::Borrowed(unsafe { &*made.0 })),
        }
    }

    /// Drops what the handle names, if the program made it.
    ///
    /// # Safety
    /// The handle came from `give` and is not used again.
    pub(crate) unsafe fn drop_object(self) {
        if !matches!(self, MPI_Group::NULL | MPI_Group::EMPTY) {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(self.0.cast_mut()) });
        }
    }
}

impl MPI_Message {
    pub(crate) const NULL: MPI_Message = MPI_Message(ptr::null());
    pub(crate) const NO_PROC: MPI_Message = MPI_Message(mark(0x129));

    /// Hands out a message of a communicator.
    pub(crate) fn of(comm: &Comm, matched: Matched) -> MPI_Message {
        match matched {
            Matched::Null => MPI_Message::NO_PROC,
            matched => MPI_Message(Box::into_raw(Box::new(MessageObject { comm: comm.clone(), matched }))),
        }
    }

    /// The message; `None` for the null handle and that of the null process.
    ///
    /// # Safety
    /// The handle is one of these, or came from `of` and was not taken; the object lives for `'a`.
    pub(crate) unsafe fn object<'a>(self) -> Option<&'a MessageObject> {
        // SAFETY: the caller's promise.
        (!matches!(self, Self::NULL | Self::NO_PROC)).then(|| unsafe { &*self.0 })
    }

    /// The message; `None` for that of the null process.
    ///
    /// # Safety
    /// The handle came from `of` and is not used again.
    pub(crate) unsafe fn take(self) -> Option<MessageObject> {
        if self == Self::NO_PROC {
            return None;
        }
        // SAFETY: the caller's promise.
        Some(*unsafe { Box::from_raw(self.0.cast_mut()) })
    }
}

impl MPI_Request {
    pub(crate) const NULL: MPI_Request = MPI_Request(None);
}

impl MPI_Info {
    pub(crate) const NULL: MPI_Info = MPI_Info(mark(0x130));

    pub(crate) fn give(info: mpi_comm::Info) -> MPI_Info {
        MPI_Info(Box::into_raw(Box::new(info)))
    }

    /// The info object.
    ///
    /// # Safety
    /// The handle is null, or came from `give` and lives for `'a`.
    pub(crate) unsafe fn get<'a>(self) -> Result<&'a mpi_comm::Info, Error> {
        match self {
            MPI_Info::NULL => Err(Self::null()),
            // SAFETY: the caller's promise.
            made => Ok(unsafe { &*made.0 }),
        }
    }

    /// The info object, to be changed.
    ///
    /// # Safety
    /// As [`get`](Self::get), and nothing else uses it for `'a`.
    pub(crate) unsafe fn get_mut<'a>(self) -> Result<&'a mut mpi_comm::Info, Error> {
        match self {
            MPI_Info::NULL => Err(Self::null()),
            // SAFETY: the caller's promise.
            made => Ok(unsafe { &mut *made.0.cast_mut() }),
        }
    }

    fn null() -> Error {
        Error::new(ErrorClass::Info, "call", "the null info object holds no hints")
    }

    /// Drops what the handle names, if the program made it.
    ///
    /// # Safety
    /// The handle came from `give` and is not used again.
    pub(crate) unsafe fn drop_object(self) {
        if self != Self::NULL {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(self.0.cast_mut()) });
        }
    }
}

impl MPI_Errhandler {
    pub(crate) const NULL: MPI_Errhandler = MPI_Errhandler(mark(0x140));
    pub(crate) const FATAL: MPI_Errhandler = MPI_Errhandler(mark(0x141));
    pub(crate) const RETURN: MPI_Errhandler = MPI_Errhandler(mark(0x142));
    pub(crate) const ABORT: MPI_Errhandler = MPI_Errhandler(mark(0x143));

    /// Hands out a handler; the predefined ones have handles of their own.
    pub(crate) fn give(handler: mpi_comm::ErrorHandler) -> MPI_Errhandler {
        match handler {
            mpi_comm::ErrorHandler::Fatal => Self::FATAL,
            mpi_comm::ErrorHandler::Abort => Self::ABORT,
            mpi_comm::ErrorHandler::Return => Self::RETURN,
            made => MPI_Errhandler(Box::into_raw(Box::new(made))),
        }
    }

    /// The handler.
    ///
    /// # Safety
    /// The handle is null or predefined, or came from `give` and was not dropped.
    pub(crate) unsafe fn get(self) -> Result<mpi_comm::ErrorHandler, Error> {
        match self {
            Self::NULL => {
                Err(Error::new(ErrorClass::Errhandler, "call", "the null error handler handles nothing"))
            }
            Self::FATAL => Ok(mpi_comm::ErrorHandler::Fatal),
            Self::ABORT => Ok(mpi_comm::ErrorHandler::Abort),
            Self::RETURN => Ok(mpi_comm::ErrorHandler::Return),
            // SAFETY: the caller's promise.
            made => Ok(unsafe { &*made.0 }.clone()),
        }
    }

    /// Drops what the handle names, if the program made it.
    ///
    /// # Safety
    /// The handle came from `give` and is not used again.
    pub(crate) unsafe fn drop_object(self) {
        if !matches!(self, Self::NULL | Self::FATAL | Self::ABORT | Self::RETURN) {
            // SAFETY: the caller's promise.
            drop(unsafe { Box::from_raw(self.0.cast_mut()) });
        }
    }
}

impl MPI_Win {
    pub(crate) const NULL: MPI_Win = MPI_Win(mark(0x110));
}

impl MPI_File {
    pub(crate) const NULL: MPI_File = MPI_File(mark(0x118));
}
