//! Frames between the launcher and its daemons: any bytes are messages or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_wire::daemon::{Frames, FromDaemon, ToDaemon, host_of};
use mpi_wire::limits::DAEMON_FRAME_MAX_BYTES;

fuzz_target!(|bytes: &[u8]| {
    let mut frames = Frames::up_to(DAEMON_FRAME_MAX_BYTES);
    frames.push(bytes);
    while let Ok(Some(body)) = frames.pop() {
        let Ok((host, message)) = host_of(body) else { continue };
        let mut again = Vec::new();
        if let Ok(message) = ToDaemon::decode(message) {
            message.encode(host, &mut again);
            assert_eq!(&again[4..], body);
        }
        again.clear();
        if let Ok(message) = FromDaemon::decode(message) {
            message.encode(host, &mut again);
            assert_eq!(&again[4..], body);
        }
    }
});
