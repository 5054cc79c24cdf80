//! Whatever a capture holds, it becomes lines; how a stream is cut makes no difference.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_dissect::{Stream, dissect};

fuzz_target!(|input: (Vec<u8>, u16)| {
    let (bytes, cut) = input;
    let _ = dissect(&bytes);
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    let mut stream = Stream::default();
    stream.push(&bytes, &mut whole);
    stream.end(&mut whole);
    let (front, back) = bytes.split_at(usize::from(cut).min(bytes.len()));
    stream.push(front, &mut parts);
    stream.push(back, &mut parts);
    stream.end(&mut parts);
    assert_eq!(whole, parts);
});
