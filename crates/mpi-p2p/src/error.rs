//! MPI's error classes, and the one error of this crate.

macro_rules! classes {
    ($($class:ident = $number:literal, $name:ident, $text:literal;)*) => {
        /// An error class of MPI. Discriminants are those of the MPI-5 ABI (MPI 5.0, section 20).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(i32)]
        pub enum ErrorClass {
            $(#[doc = $text] $class = $number,)*
        }

        impl ErrorClass {
            /// The name of the C binding: `MPI_ERR_TRUNCATE`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorClass::$class => stringify!($name),)*
                }
            }

            /// What it means, in a few words.
            pub const fn text(self) -> &'static str {
                match self {
                    $(ErrorClass::$class => $text,)*
                }
            }

            /// The class of a number of the C binding.
            pub const fn from_code(code: i32) -> Option<ErrorClass> {
                match code {
                    $($number => Some(ErrorClass::$class),)*
                    _ => None,
                }
            }
        }
    };
}

classes! {
    Success = 0, MPI_SUCCESS, "no error";
    Buffer = 1, MPI_ERR_BUFFER, "invalid buffer";
    Count = 2, MPI_ERR_COUNT, "invalid count";
    Type = 3, MPI_ERR_TYPE, "invalid datatype, or one that differs from the sender's";
    Tag = 4, MPI_ERR_TAG, "invalid tag";
    Comm = 5, MPI_ERR_COMM, "invalid communicator";
    Rank = 6, MPI_ERR_RANK, "invalid rank";
    Request = 7, MPI_ERR_REQUEST, "invalid request";
    Root = 8, MPI_ERR_ROOT, "invalid root";
    Group = 9, MPI_ERR_GROUP, "invalid group";
    Op = 10, MPI_ERR_OP, "invalid reduction operation";
    Topology = 11, MPI_ERR_TOPOLOGY, "invalid topology";
    Dims = 12, MPI_ERR_DIMS, "invalid dimensions";
    Arg = 13, MPI_ERR_ARG, "invalid argument of another kind";
    Unknown = 14, MPI_ERR_UNKNOWN, "unknown error";
    Truncate = 15, MPI_ERR_TRUNCATE, "the message is longer than the room for it";
    Other = 16, MPI_ERR_OTHER, "another known error";
    Intern = 17, MPI_ERR_INTERN, "an error inside the library";
    Pending = 18, MPI_ERR_PENDING, "the request is neither complete nor failed";
    InStatus = 19, MPI_ERR_IN_STATUS, "the error is in the status";
    Access = 20, MPI_ERR_ACCESS, "permission denied";
    Amode = 21, MPI_ERR_AMODE, "invalid access mode";
    Assert = 22, MPI_ERR_ASSERT, "invalid assertion";
    BadFile = 23, MPI_ERR_BAD_FILE, "invalid file name";
    Base = 24, MPI_ERR_BASE, "invalid base address";
    Conversion = 25, MPI_ERR_CONVERSION, "error in a data conversion function";
    Disp = 26, MPI_ERR_DISP, "invalid displacement";
    DupDatarep = 27, MPI_ERR_DUP_DATAREP, "the data representation is defined already";
    FileExists = 28, MPI_ERR_FILE_EXISTS, "the file exists";
    FileInUse = 29, MPI_ERR_FILE_IN_USE, "the file is open";
    File = 30, MPI_ERR_FILE, "invalid file handle";
    InfoKey = 31, MPI_ERR_INFO_KEY, "invalid key of an info object";
    InfoNokey = 32, MPI_ERR_INFO_NOKEY, "no such key in the info object";
    InfoValue = 33, MPI_ERR_INFO_VALUE, "invalid value for an info object";
    Info = 34, MPI_ERR_INFO, "invalid info object";
    Io = 35, MPI_ERR_IO, "error in input or output";
    Keyval = 36, MPI_ERR_KEYVAL, "invalid attribute key";
    Locktype = 37, MPI_ERR_LOCKTYPE, "invalid type of lock";
    Name = 38, MPI_ERR_NAME, "the service name is not published";
    NoMem = 39, MPI_ERR_NO_MEM, "out of memory";
    NotSame = 40, MPI_ERR_NOT_SAME, "an argument differs between processes";
    NoSpace = 41, MPI_ERR_NO_SPACE, "no space left";
    NoSuchFile = 42, MPI_ERR_NO_SUCH_FILE, "no such file";
    Port = 43, MPI_ERR_PORT, "invalid port name";
    Quota = 44, MPI_ERR_QUOTA, "quota exceeded";
    ReadOnly = 45, MPI_ERR_READ_ONLY, "read-only file";
    RmaAttach = 46, MPI_ERR_RMA_ATTACH, "the memory cannot be attached";
    RmaConflict = 47, MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window";
    RmaRange = 48, MPI_ERR_RMA_RANGE, "outside of the window";
    RmaShared = 49, MPI_ERR_RMA_SHARED, "the memory cannot be shared";
    RmaSync = 50, MPI_ERR_RMA_SYNC, "wrong synchronisation of a window";
    Service = 51, MPI_ERR_SERVICE, "invalid service name";
    Size = 52, MPI_ERR_SIZE, "invalid size";
    Spawn = 53, MPI_ERR_SPAWN, "processes could not be started";
    UnsupportedDatarep = 54, MPI_ERR_UNSUPPORTED_DATAREP, "unsupported data representation";
    UnsupportedOperation = 55, MPI_ERR_UNSUPPORTED_OPERATION, "unsupported operation";
    Win = 56, MPI_ERR_WIN, "invalid window";
    RmaFlavor = 57, MPI_ERR_RMA_FLAVOR, "wrong flavour of window";
    ProcAborted = 58, MPI_ERR_PROC_ABORTED, "a process aborted";
    ValueTooLarge = 59, MPI_ERR_VALUE_TOO_LARGE, "the value does not fit";
    Session = 60, MPI_ERR_SESSION, "invalid session";
    Errhandler = 61, MPI_ERR_ERRHANDLER, "invalid error handler";
    Abi = 62, MPI_ERR_ABI, "error of the binary interface";
    ProcFailed = 100, MPIX_ERR_PROC_FAILED, "the peer of the operation is gone (user-level failure mitigation)";
    ProcFailedPending = 101, MPIX_ERR_PROC_FAILED_PENDING, "a possible peer of a receive from any source is gone";
    Revoked = 102, MPIX_ERR_REVOKED, "the communicator was revoked";
}

/// An operation did not succeed: whose and which, and every known fact.
///
/// One word, so that results travel in registers: one that is returned through memory is written in
/// small pieces and read back in large ones, for which the processor waits until every store before has
/// gone out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(Box<ErrorFacts>);

/// What an [`Error`] knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorFacts {
    /// MPI's class.
    pub class: ErrorClass,
    /// The operation, as people say it: `receive`, `send`, `wait`.
    pub op: &'static str,
    /// Name and context id of the communicator.
    pub comm: Option<(String, u32)>,
    /// Rank of the other side in the communicator; negative for any source.
    pub peer: Option<i32>,
    /// Tag; negative for any tag.
    pub tag: Option<i32>,
    /// Bytes of the message, where that is known.
    pub bytes: Option<u64>,
    /// Bytes that the receiver has room for, where that is known.
    pub room: Option<u64>,
    /// The fact.
    pub detail: String,
    /// True when the peer is where the message goes, false where it comes from.
    pub outgoing: bool,
}

impl Error {
    /// An error that concerns no peer.
    #[cold]
    pub fn new(class: ErrorClass, op: &'static str, detail: impl Into<String>) -> Error {
        let detail = detail.into();
        Error(Box::new(ErrorFacts {
            class,
            op,
            comm: None,
            peer: None,
            tag: None,
            bytes: None,
            room: None,
            detail,
            outgoing: false,
        }))
    }

    /// The same error under the communicator's name and context id.
    #[must_use]
    pub fn on(mut self, name: impl Into<String>, context: u32) -> Error {
        self.comm = Some((name.into(), context));
        self
    }
}

impl std::ops::Deref for Error {
    type Target = ErrorFacts;
    fn deref(&self) -> &ErrorFacts {
        &self.0
    }
}

impl std::ops::DerefMut for Error {
    fn deref_mut(&mut self) -> &mut ErrorFacts {
        &mut self.0
    }
}

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.op)?;
        if let Some((name, context)) = &self.comm {
            if name.is_empty() {
                write!(f, " on communicator {context}")?;
            } else {
                write!(f, " on {name:?}")?;
            }
        }
        match self.peer {
            Some(peer) if peer >= 0 => {
                write!(f, " {} rank {peer}", if self.outgoing { "to" } else { "from" })?
            }
            Some(_) => f.write_str(" from any rank")?,
            None => {}
        }
        match self.tag {
            Some(tag) if tag >= 0 => write!(f, " tag {tag}")?,
            Some(_) => f.write_str(" any tag")?,
            None => {}
        }
        write!(f, ": {}", self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_operation_communicator_peer_tag_and_fact() {
        let mut e =
            Error::new(ErrorClass::Truncate, "receive", "message of 104 bytes, room for 80").on("grid", 2);
        e.peer = Some(3);
        e.tag = Some(7);
        assert_eq!(e.to_string(), "receive on \"grid\" from rank 3 tag 7: message of 104 bytes, room for 80");
        e.outgoing = true;
        e.op = "send";
        e.tag = Some(-1);
        assert_eq!(e.to_string(), "send on \"grid\" to rank 3 any tag: message of 104 bytes, room for 80");
        assert_eq!(Error::new(ErrorClass::Buffer, "attach buffer", "x").to_string(), "attach buffer: x");
    }
}
