//! Reductions whose result goes to integers of another width.
//!
//! rsmpi passes the operands' datatype only, so its programs may give a result variable of another type: a sum of
//! `usize` into an `i32`, for instance. A C library then writes eight bytes over four. Here the result is converted,
//! and a value that does not fit is an error.

use mpi_comm::Comm;
use mpi_datatype::{Datatype, Primitive, RecvBuf, Scratch, SendBuf};
use mpi_p2p::{Error, ErrorClass};

/// Runs a reduction of operands of the type of `operands` with a result at `result`.
#[inline(always)]
pub(super) fn reduce_into(
    comm: &Comm,
    operands: &Datatype,
    result: RecvBuf<'_>,
    run: impl FnOnce(RecvBuf<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    if operands.size() == result.datatype().size() {
        return run(result);
    }
    converted(comm, operands, result, run)
}

#[cold]
fn converted(
    comm: &Comm,
    operands: &Datatype,
    result: RecvBuf<'_>,
    run: impl FnOnce(RecvBuf<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (Some(wide), Some(narrow)) = (Int::of(operands), Int::of(result.datatype())) else {
        return run(result); // not for us: the operation finds what is wrong
    };
    let scratch = Scratch::new(result.count(), operands).map_err(|fault| fail(comm, fault.to_string()))?;
    // An exclusive scan leaves the first rank's variable as it is, so the scratch starts with its value.
    translate(result.as_send(), narrow, scratch.recv(), wide);
    run(scratch.recv())?;
    match translate(scratch.send(), wide, result, narrow) {
        None => Ok(()),
        Some(value) => {
            let (from, to) = (operands.name(), result.datatype().name());
            Err(fail(
                comm,
                format!("the result {value}, of type {from}, does not fit a variable of type {to}"),
            ))
        }
    }
}

fn fail(comm: &Comm, detail: String) -> Error {
    Error::new(ErrorClass::Type, "reduction", detail).on(comm.name(), comm.context().id())
}

/// A primitive integer: its width in bytes, and whether it has a sign.
#[derive(Clone, Copy)]
struct Int {
    bytes: usize,
    signed: bool,
}

impl Int {
    fn of(datatype: &Datatype) -> Option<Int> {
        let signed = match datatype.as_primitive()? {
            Primitive::I8 | Primitive::I16 | Primitive::I32 | Primitive::I64 => true,
            Primitive::U8 | Primitive::U16 | Primitive::U32 | Primitive::U64 => false,
            _ => return None,
        };
        Some(Int { bytes: datatype.size(), signed })
    }

    /// The value of packed bytes, which are little-endian.
    fn read(self, packed: &[u8]) -> i128 {
        let negative = self.signed && packed.last().is_some_and(|top| top & 0x80 != 0);
        let mut wide = if negative { [0xFF; 16] } else { [0; 16] };
        wide[..packed.len()].copy_from_slice(packed);
        i128::from_le_bytes(wide)
    }

    /// Whether the value is one of this type.
    fn holds(self, value: i128) -> bool {
        let bits = 8 * self.bytes as u32;
        let (low, high) =
            if self.signed { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1_i128 << bits) - 1) };
        (low..=high).contains(&value)
    }
}

/// Copies values from one type to another; returns the first that did not fit.
fn translate(from: SendBuf<'_>, source: Int, to: RecvBuf<'_>, target: Int) -> Option<i128> {
    let mut packed = vec![0; from.bytes()];
    from.pack(0, &mut packed);
    let values: Vec<i128> = packed.chunks_exact(source.bytes).map(|bytes| source.read(bytes)).collect();
    let out: Vec<u8> =
        values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(target.bytes)).collect();
    to.unpack(0, &out);
    values.into_iter().find(|&value| !target.holds(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_and_bounded() {
        let (short, byte) = (Int { bytes: 2, signed: true }, Int { bytes: 1, signed: false });
        assert_eq!(short.read(&[0xFE, 0xFF]), -2);
        assert_eq!(byte.read(&[0xFE]), 254);
        assert!(short.holds(-32768) && short.holds(32767) && !short.holds(32768));
        assert!(byte.holds(0) && byte.holds(255) && !byte.holds(-1) && !byte.holds(256));
        let word = Int { bytes: 8, signed: false };
        assert!(word.holds(u64::MAX.into()) && !word.holds(i128::from(u64::MAX) + 1));
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        let (wide, narrow) = (Datatype::predefined(Primitive::I64), Datatype::predefined(Primitive::U8));
        let (from, to) = (Scratch::new(2, &wide).unwrap(), Scratch::new(2, &narrow).unwrap());
        let (w, n) = (Int::of(&wide).unwrap(), Int::of(&narrow).unwrap());
        let bytes: Vec<u8> = [7_i64, 300].iter().flat_map(|v| v.to_le_bytes()).collect();
        from.recv().unpack(0, &bytes);
        assert_eq!(translate(from.send(), w, to.recv(), n), Some(300));
        let mut out = [0; 2];
        to.send().pack(0, &mut out);
        assert_eq!(out, [7, 44]);
    }
}
