//! Frames between a rank and its launcher, cut into pieces of any size: what decodes encodes to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_wire::startup::{Frames, ToLauncher, ToRank};

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let mut frames = Frames::default();
    for part in bytes.chunks(usize::from(piece).max(1)) {
        frames.push(part);
        loop {
            match frames.pop() {
                Ok(Some(body)) => look_at(body),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});

fn look_at(body: &[u8]) {
    if let Ok(message) = ToLauncher::decode(body) {
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(ToLauncher::decode(body_of(&out)), Ok(message));
    }
    if let Ok(message) = ToRank::decode(body) {
        let mut out = Vec::new();
        message.encode(&mut out);
        assert_eq!(ToRank::decode(body_of(&out)), Ok(message));
    }
}

/// Without the length in front.
fn body_of(frame: &[u8]) -> &[u8] {
    &frame[4..]
}
