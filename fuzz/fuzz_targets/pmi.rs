//! Lines of PMI-1, messages of PMI-2, the requests of both to spawn, and the process mapping: what decodes encodes to
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_wire::pmi1_spawn::Spawn;
use mpi_wire::{pmi1, pmi2, pmi2_spawn};

/// Ranks in the job whose mapping is read.
const RANKS: u32 = 64;

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    lines(piece, bytes);
    messages(piece, bytes);
    if let Some(spawn) = std::str::from_utf8(bytes).ok().and_then(|text| Spawn::decode(text).ok()) {
        assert_eq!(spawn.encode().ok().map(|text| Spawn::decode(&text)), Some(Ok(spawn)));
    }
    if let Some(nodes) =
        std::str::from_utf8(bytes).ok().and_then(|text| pmi1::process_mapping(text, RANKS).ok())
    {
        assert!(nodes.len() <= RANKS as usize);
    }
});

fn lines(piece: u8, bytes: &[u8]) {
    let mut lines = pmi1::Lines::default();
    for part in bytes.chunks(usize::from(piece).max(1)) {
        lines.push(part);
        while let Ok(Some(line)) = lines.pop() {
            assert_eq!(pmi1::Line::decode(line.encode().trim_end_matches('\n').as_bytes()), Ok(line));
        }
    }
}

fn messages(piece: u8, bytes: &[u8]) {
    let mut messages = pmi2::Messages::default();
    for part in bytes.chunks(usize::from(piece).max(1)) {
        messages.push(part);
        while let Ok(Some(message)) = messages.pop() {
            if let Ok(spawn) = pmi2_spawn::decode(&message) {
                assert_eq!(pmi2_spawn::encode(&spawn).map(|m| pmi2_spawn::decode(&m)), Ok(Ok(spawn)));
            }
            assert_eq!(message.encode().len(), pmi2::LENGTH_LEN + message.length());
            assert_eq!(pmi2::Message::decode(&message.encode().as_bytes()[pmi2::LENGTH_LEN..]), Ok(message));
        }
    }
}
