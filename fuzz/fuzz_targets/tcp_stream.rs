//! What a proven peer may write on a TCP connection, cut into pieces of any size: nothing panics, and no more is
//! handed over than came in.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi_btl::{BulkId, Down, Ep, OpId, Place, Sink};
use mpi_btl_tcp::parser::{Parser, Stop};
use mpi_wire::Header;

/// Messages that one call may deliver.
const BUDGET: usize = 64;

#[derive(Default)]
struct Counting {
    /// Bytes of bodies so far.
    bytes: usize,
    messages: u64,
}

impl Sink for Counting {
    fn message(&mut self, _: Ep, header: &Header, have: &[u8], total: u64) -> Place {
        assert_eq!(header.length, total);
        assert!(have.len() as u64 <= total);
        self.bytes += have.len();
        self.messages += 1;
        if have.len() as u64 == total || self.messages % 2 == 0 {
            Place::Done
        } else {
            Place::Chunks(BulkId(self.messages))
        }
    }
    fn chunk(&mut self, _: Ep, _: BulkId, bytes: &[u8], _: bool) {
        self.bytes += bytes.len();
    }
    fn arrived(&mut self, _: Ep, _: BulkId) {}
    fn completed(&mut self, _: Ep, _: OpId, _: Result<(), String>) {}
    fn writable(&mut self, _: Ep) {}
    fn down(&mut self, _: Ep, _: Down) {}
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, bytes) = input;
    let mut parser = Parser::new(Ep(0));
    let mut sink = Counting::default();
    let mut kept: Vec<u8> = Vec::new();
    for part in bytes.chunks(usize::from(piece).max(1)) {
        kept.extend_from_slice(part);
        loop {
            let fed = parser.feed(&kept, &mut { BUDGET }, &mut sink);
            assert!(fed.consumed <= kept.len());
            kept.drain(..fed.consumed);
            match fed.stop {
                Stop::Budget => {}
                Stop::Needs(bytes) => {
                    assert!(bytes > 0);
                    break;
                }
                Stop::Goodbye | Stop::Bad(_) => return,
            }
        }
    }
    assert!(sink.bytes <= bytes.len());
});
