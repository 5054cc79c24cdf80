//! Messages of one-sided communication: what decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_wire::rma::Rma;

fuzz_target!(|body: &[u8]| {
    if let Ok(message) = Rma::decode(body) {
        let mut again = Vec::new();
        message.encode_head(&mut again);
        again.extend_from_slice(message.data());
        assert_eq!(again, body);
    }
});
