//! The portable form `external32` (MPI-4.1 §14.5.2): big-endian, the same on every machine, as other MPIs write it to
//! files and into messages.

use super::Error;
use crate::datatype::traits::*;
use crate::datatype::{recv_buf, send_buf};
use mpi_p2p::{Error as Core, ErrorClass};

/// The buffer's data in the form `external32` (`MPI_Pack_external`).
///
/// ```
/// assert_eq!(mpi::ext::pack_external(&[1_u16, 0x0203][..]), [0, 1, 2, 3]);
/// ```
#[must_use]
pub fn pack_external<B: Buffer + ?Sized>(buf: &B) -> Vec<u8> {
    let datatype = buf.as_datatype();
    let data = send_buf(buf, &datatype);
    let mut bytes = vec![0; data.bytes()];
    data.pack_external(&mut bytes);
    bytes
}

/// Fills the buffer from the beginning of `bytes`, which are in the form `external32`; how many it took
/// (`MPI_Unpack_external`).
///
/// # Errors
/// Class `Truncate` if there are not bytes enough, and nothing is changed; class `Type` if a value is none of its type
/// (a `bool` of 7, a `char` that is none), which then is `false` or `'\0'`.
#[track_caller]
pub fn unpack_external<B: BufferMut + ?Sized>(bytes: &[u8], buf: &mut B) -> Result<usize, Error> {
    let datatype = buf.as_datatype();
    let room = recv_buf(buf, &datatype);
    let need = room.bytes();
    if need > bytes.len() {
        let detail = format!("{need} bytes are wanted, and {} are there", bytes.len());
        return Err(Core::new(ErrorClass::Truncate, "unpack", detail).into());
    }
    room.unpack_external(bytes);
    room.sanitize(need).map_err(|fault| Core::new(ErrorClass::Type, "unpack", fault.to_string()))?;
    Ok(need)
}
