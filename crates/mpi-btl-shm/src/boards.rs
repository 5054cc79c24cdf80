//! The node's boards, as the boundary knows them.

use crate::shared::Shared;
use mpi_btl::{Boards, Span};
use mpi_node::BOARD_BYTES;
use mpi_node::limits::BOARDS;
use std::sync::Arc;

/// A view of the segment.
pub(crate) struct NodeBoards(pub(crate) Arc<Shared>);

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
        let posting = self.0.segment.posting(board, place, number);
        let bytes = posting.bytes();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        (posting.word, bytes.len())
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
