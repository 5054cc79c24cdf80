//! The node's boards, as the boundary knows them.

use mpi_btl::Boards;
use mpi_node::BOARD_BYTES;
use mpi_node::limits::BOARDS;
use mpi_node::segment::Segment;
use std::sync::Arc;

/// A view of the segment.
pub(crate) struct NodeBoards(pub(crate) Arc<Segment>);

impl Boards for NodeBoards {
    fn count(&self) -> u32 {
        BOARDS
    }

    fn capacity(&self) -> usize {
        BOARD_BYTES
    }

    fn publish(&self, board: u32, number: u64, word: u32, bytes: &[u8]) {
        self.0.publish(board, number, word, bytes);
    }

    fn has_published(&self, board: u32, place: u32, number: u64) -> bool {
        self.0.has_published(board, place, number)
    }

    fn read(&self, board: u32, place: u32, number: u64, into: &mut [u8]) -> (u32, usize) {
        let posting = self.0.posting(board, place, number);
        let bytes = posting.bytes();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        (posting.word, bytes.len())
    }
}
