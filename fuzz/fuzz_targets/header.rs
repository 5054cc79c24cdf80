//! What decodes as a header encodes to the same bytes and keeps within the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_wire::{HEADER_LEN, Header};

fuzz_target!(|bytes: [u8; HEADER_LEN]| {
    if let Ok(header) = Header::decode(&bytes) {
        assert!(header.length <= Header::MAX_LENGTH);
        assert_eq!(header.encode(), bytes);
    }
});
