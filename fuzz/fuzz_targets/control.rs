//! Bodies of control messages: what decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_wire::control::*;

fuzz_target!(|body: &[u8]| {
    if let Ok((announcement, inline)) = Announcement::decode(body) {
        assert!(inline.len() as u64 <= announcement.total);
        let again = announcement.encode();
        let (same, nothing) = Announcement::decode(&again).expect("our own encoding");
        assert_eq!((same, nothing.len()), (announcement, 0));
    }
    if let Ok(clear) = ClearToSend::decode(body) {
        assert_eq!(ClearToSend::decode(&clear.encode()), Ok(clear));
    }
    if let Ok(acknowledge) = Acknowledge::decode(body) {
        assert_eq!(Acknowledge::decode(&acknowledge.encode()), Ok(acknowledge));
    }
    if let Ok(flow) = Flow::decode(body) {
        assert_eq!(Flow::decode(&flow.encode()), Ok(flow));
    }
    if let Ok(text) = abort_text(body) {
        assert!(text.len() <= body.len());
    }
});
