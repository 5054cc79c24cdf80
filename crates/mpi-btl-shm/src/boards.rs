//! The node's boards, as the boundary knows them.

use crate::shared::Shared;
use mpi_btl::{Boards, Span};
use mpi_node::limits::{BOARDS, FEED_PIECES};
use mpi_node::{BOARD_BYTES, Posting};
use std::sync::Arc;

/// A view of the segment.
pub(crate) struct NodeBoards(pub(crate) Arc<Shared>);

#[inline]
fn read(posting: &Posting, into: &mut [u8]) -> (u32, usize) {
    let bytes = posting.bytes();
    let len = bytes.len().min(into.len());
    into[..len].copy_from_slice(&bytes[..len]);
    (posting.word, bytes.len())
}

impl Boards for NodeBoards {
    fn count(&self) -> u32 {
        BOARDS
    }

    fn capacity(&self) -> usize {
        BOARD_BYTES
    }

    fn publish(&self, board: u32, number: u64, word: u32, bytes: &[u8]) {
        self.0.segment.publish(board, number, word, bytes);
    }

    fn has_published(&self, board: u32, place: u32, number: u64) -> bool {
        self.0.segment.has_published(board, place, number)
    }

    fn read(&self, board: u32, place: u32, number: u64, into: &mut [u8]) -> (u32, usize) {
        read(&self.0.segment.posting(board, place, number), into)
    }

    fn stage_bytes(&self) -> usize {
        self.0.segment.stage_bytes()
    }

    fn ready_stages(&self, board: u32) -> bool {
        self.0.segment.reserve_stages(board).is_ok()
    }

    #[inline]
    fn stage(&self, board: u32, place: Option<u32>, number: u64) -> Option<Span> {
        let segment = &self.0.segment;
        let stage = segment.stage(board, place.unwrap_or(segment.slot()), number);
        Some(Span::new(stage, segment.stage_bytes()))
    }

    fn feed_pieces(&self) -> u64 {
        FEED_PIECES
    }

    fn piece_bytes(&self) -> usize {
        self.0.segment.piece_bytes()
    }

    fn feed(&self, board: u32, piece: u64, word: u32, bytes: &[u8]) {
        self.0.segment.feed(board, piece, word, bytes);
    }

    fn has_fed(&self, board: u32, place: u32, piece: u64) -> bool {
        self.0.segment.has_fed(board, place, piece)
    }

    fn fed(&self, board: u32, place: u32, piece: u64, into: &mut [u8]) -> (u32, usize) {
        read(&self.0.segment.fed(board, place, piece), into)
    }

    #[inline]
    fn piece(&self, board: u32, place: Option<u32>, piece: u64) -> Option<Span> {
        let segment = &self.0.segment;
        let at = segment.piece(board, place.unwrap_or(segment.slot()), piece);
        Some(Span::new(at, segment.piece_bytes()))
    }

    fn done_with(&self, board: u32, piece: u64) {
        self.0.segment.done_with(board, piece);
    }

    fn is_done_with(&self, board: u32, place: u32, piece: u64) -> bool {
        self.0.segment.is_done_with(board, place, piece)
    }

    fn reaches(&self, place: u32) -> bool {
        self.0.cross_copy && self.0.segment.may_cross_copy(place)
    }

    unsafe fn fetch(&self, place: u32, address: u64, into: Span) -> Result<(), String> {
        // SAFETY: handed on to the caller.
        let read = unsafe { self.0.segment.read_memory(place, address, into.ptr(), into.len()) };
        read.map_err(|e| e.to_string())
    }

    unsafe fn store(&self, place: u32, address: u64, from: Span) -> Result<(), String> {
        // SAFETY: handed on to the caller.
        let written = unsafe { self.0.segment.write_memory(place, address, from.ptr(), from.len()) };
        written.map_err(|e| e.to_string())
    }
}
