//! MPI's error classes, and the one error of this crate.

/// An error class of MPI. Discriminants are those of the MPI-5 ABI (MPI 5.0, section 20).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum ErrorClass {
    Success = 0,
    Buffer = 1,
    Count = 2,
    Type = 3,
    Tag = 4,
    Comm = 5,
    Rank = 6,
    Request = 7,
    Root = 8,
    Group = 9,
    Op = 10,
    Topology = 11,
    Dims = 12,
    Arg = 13,
    Unknown = 14,
    Truncate = 15,
    Other = 16,
    Intern = 17,
    Pending = 18,
    InStatus = 19,
    Access = 20,
    Amode = 21,
    Assert = 22,
    BadFile = 23,
    Base = 24,
    Conversion = 25,
    Disp = 26,
    DupDatarep = 27,
    FileExists = 28,
    FileInUse = 29,
    File = 30,
    InfoKey = 31,
    InfoNokey = 32,
    InfoValue = 33,
    Info = 34,
    Io = 35,
    Keyval = 36,
    Locktype = 37,
    Name = 38,
    NoMem = 39,
    NotSame = 40,
    NoSpace = 41,
    NoSuchFile = 42,
    Port = 43,
    Quota = 44,
    ReadOnly = 45,
    RmaAttach = 46,
    RmaConflict = 47,
    RmaRange = 48,
    RmaShared = 49,
    RmaSync = 50,
    Service = 51,
    Size = 52,
    Spawn = 53,
    UnsupportedDatarep = 54,
    UnsupportedOperation = 55,
    Win = 56,
    RmaFlavor = 57,
    ProcAborted = 58,
    ValueTooLarge = 59,
    Session = 60,
    Errhandler = 61,
    Abi = 62,
    /// User-level failure mitigation: the peer of the operation is gone.
    ProcFailed = 100,
    /// User-level failure mitigation: a possible peer of a receive from any source is gone.
    ProcFailedPending = 101,
    /// User-level failure mitigation: the communicator was revoked.
    Revoked = 102,
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
        Error(Box::new(ErrorFacts { class, op, comm: None, peer: None, tag: None, detail, outgoing: false }))
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
                write!(f, " on \"{name}\"")?;
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
