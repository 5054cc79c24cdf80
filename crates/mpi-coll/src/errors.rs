//! Errors in MPI's classes.

use crate::Team;
use mpi_datatype::{Datatype, DatatypeError, RecvBuf, Signature};
use mpi_p2p::{Context, Error, ErrorClass};

/// The class of what is wrong with a datatype, buffer or operation.
pub(crate) fn class(e: &DatatypeError) -> ErrorClass {
    match e {
        DatatypeError::Overflow { .. } => ErrorClass::Count,
        DatatypeError::Lengths { .. } | DatatypeError::Argument { .. } => ErrorClass::Arg,
        DatatypeError::Nesting { .. } | DatatypeError::Mismatch { .. } => ErrorClass::Type,
        DatatypeError::Truncated { .. } => ErrorClass::Truncate,
        DatatypeError::Op { .. } => ErrorClass::Op,
        DatatypeError::Memory { .. } => ErrorClass::NoMem,
        DatatypeError::Value { .. } => ErrorClass::Other,
    }
}

/// Where ranks disagree, the error of one of them is a consequence. Checked mode finds it before any data moves.
pub(crate) const DISAGREEMENT: &str = "; MPI_CHECK=1 names the ranks that disagree";

/// An error of a transfer inside a collective: under the collective's name, without the tag, which is internal.
#[cold]
pub(crate) fn of_transfer(op: &'static str, mut e: Error) -> Error {
    e.op = op;
    e.tag = None;
    if matches!(e.class, ErrorClass::Truncate | ErrorClass::Type) && !e.detail.ends_with(DISAGREEMENT) {
        e.detail.push_str(DISAGREEMENT);
    }
    e
}

/// A rank sent less than what was expected: arguments differ between ranks.
#[cold]
pub(crate) fn short(cx: &Context, op: &'static str, from: usize, bytes: u64, expected: usize) -> Error {
    let detail = format!("{bytes} bytes, expected {expected}: counts or types differ{DISAGREEMENT}");
    let mut e = Error::new(ErrorClass::Truncate, op, detail).on(cx.name(), cx.id());
    e.peer = Some(from as i32);
    e
}

/// What a rank says of its data, bytes and signature, is what this one expects in `into`.
pub(crate) fn check_data(
    team: &Team,
    op: &'static str,
    from: usize,
    (bytes, signature): (u64, u32),
    into: RecvBuf<'_>,
) -> Result<(), Error> {
    if bytes != into.bytes() as u64 {
        return Err(short(team.context(), op, from, bytes, into.bytes()));
    }
    if bytes > 0 && !Signature::agree(signature, into.datatype().signature()) {
        return Err(other_type(team, op, from, signature, into.datatype()));
    }
    Ok(())
}

/// How a rank tells the others that its part failed: the class of its error in one byte, 0 for none.
///
/// The class goes along because of what a face does with it: that a peer is gone waits for the launcher, who knows
/// which process died first; anything else ends the job at once, in the name of the rank that was only told.
#[inline]
pub(crate) fn fault<T>(part: &Result<T, Error>) -> u8 {
    match part {
        Ok(_) => 0,
        Err(e) => e.class as i32 as u8,
    }
}

/// The error of a rank that was told of another one's [`fault`].
#[cold]
pub(crate) fn theirs(team: &Team, op: &'static str, rank: usize, fault: u8, detail: &str) -> Error {
    let class = ErrorClass::from_code(fault.into()).unwrap_or(ErrorClass::Other);
    let mut e = team.error(op, class, detail);
    e.peer = Some(rank as i32);
    e
}

/// A rank sent data of another type than was expected.
#[cold]
fn other_type(team: &Team, op: &'static str, from: usize, signature: u32, expected: &Datatype) -> Error {
    let (have, want) = (Signature::describe(signature), Signature::describe(expected.signature()));
    let mut e =
        team.error(op, ErrorClass::Type, format!("data of type {have}, expected {want}{DISAGREEMENT}"));
    e.peer = Some(from as i32);
    e
}

impl Team {
    /// An error of a collective on this team.
    #[cold]
    pub(crate) fn error(&self, op: &'static str, class: ErrorClass, detail: impl Into<String>) -> Error {
        Error::new(class, op, detail).on(self.context().name(), self.context().id())
    }

    #[cold]
    pub(crate) fn datatype_error(&self, op: &'static str, e: &DatatypeError) -> Error {
        self.error(op, class(e), e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_fits_the_byte_that_tells_it() {
        for class in (1..=255).filter_map(ErrorClass::from_code) {
            assert_eq!(fault::<()>(&Err(Error::new(class, "test", ""))), class as i32 as u8);
        }
        assert!((256..2000).all(|code| ErrorClass::from_code(code).is_none()));
        assert_eq!(fault(&Ok(())), 0);
    }
}
