//! Where everything lies in a node segment. Offsets in bytes from its start, never pointers.
//!
//! ```text
//! header page | boards | rank 0: control, inbox | rank 1: … | rings into rank 0 | rings into rank 1 | … | stages
//! ```
//! The header, the boards, the controls and the inboxes have memory from the start; a ring's memory is reserved
//! by the sender that claims it, a stage's by the rank that it belongs to.

use crate::board::{Done, Side};
use crate::limits::{
    BOARDS, FEED_PIECES, FEW_RANKS, INBOX_BYTES, MAX_RANKS, REGION_SLOTS, RING_BODY_BYTES_FEW,
    RING_BODY_BYTES_MANY, RING_CELLS, RINGS_PER_RANK, STAGE_BYTES_FEW, STAGE_BYTES_MANY,
};
use crate::segment::control::RankControl;
use crate::segment::region::RegionSlot;

/// Size of a page as far as the layout is concerned; a multiple of it is what is reserved.
pub(crate) const PAGE: usize = 4096;

/// Size of one cell of a ring, a cache line.
pub(crate) const CELL: usize = 64;

/// Sizes of the parts; a function of the number of ranks alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) ranks: u32,
    /// Rings that may lead into one rank.
    pub(crate) rings_per_rank: usize,
    /// Body bytes of one ring.
    pub(crate) ring_body: usize,
    /// Bytes of one side of a stage.
    pub(crate) stage: usize,
}

const fn round_up(n: usize, to: usize) -> usize {
    n.div_ceil(to) * to
}

const CONTROL: usize = round_up(size_of::<RankControl>(), 64);
const REGIONS: usize = REGION_SLOTS * size_of::<RegionSlot>();
/// What a rank has from the start: control, region slots, inbox.
pub(crate) const RANK_BYTES: usize = round_up(CONTROL + REGIONS, PAGE) + INBOX_BYTES;

impl Layout {
    pub(crate) fn new(ranks: u32) -> Option<Layout> {
        if ranks == 0 || ranks > MAX_RANKS {
            return None;
        }
        Some(Layout {
            ranks,
            rings_per_rank: (ranks as usize - 1).min(RINGS_PER_RANK),
            ring_body: if ranks <= FEW_RANKS { RING_BODY_BYTES_FEW } else { RING_BODY_BYTES_MANY },
            stage: if ranks <= FEW_RANKS { STAGE_BYTES_FEW } else { STAGE_BYTES_MANY },
        })
    }

    /// Bytes that have memory from the start.
    pub(crate) fn reserved(&self) -> usize {
        self.control_base() + self.ranks as usize * RANK_BYTES
    }

    /// One side of a rank's place on a board. Those of all ranks stand one behind the other.
    pub(crate) fn side(&self, board: u32, side: usize, rank: u32) -> usize {
        assert!(
            board < BOARDS && side < 2 && rank < self.ranks,
            "side {side} of slot {rank} on board {board} does not exist"
        );
        PAGE + ((board as usize * 2 + side) * self.ranks as usize + rank as usize) * size_of::<Side>()
    }

    fn control_base(&self) -> usize {
        PAGE + round_up(BOARDS as usize * 2 * self.ranks as usize * size_of::<Side>(), PAGE)
    }

    /// Size of one ring: a page for its index, cells, body.
    pub(crate) fn ring_bytes(&self) -> usize {
        PAGE + RING_CELLS * CELL + self.ring_body
    }

    pub(crate) fn total(&self) -> usize {
        self.stages() + BOARDS as usize * self.ranks as usize * self.stages_bytes()
    }

    fn stages(&self) -> usize {
        self.reserved() + self.ranks as usize * self.rings_per_rank * self.ring_bytes()
    }

    /// What a rank has beside its place on a board: both sides of its stage, the lines of its feed, the pieces.
    pub(crate) fn stages_bytes(&self) -> usize {
        2 * self.stage + PAGE + self.feed_bytes()
    }

    fn feed_bytes(&self) -> usize {
        FEED_PIECES as usize * self.piece_bytes()
    }

    /// Bytes of one piece of a feed: all of them take as much as both sides of the stage.
    pub(crate) fn piece_bytes(&self) -> usize {
        2 * self.stage / FEED_PIECES as usize
    }

    /// The line of a piece that a rank feeds to the others.
    pub(crate) fn feed_line(&self, board: u32, rank: u32, piece: u64) -> usize {
        let line = (piece % FEED_PIECES) as usize * size_of::<Side>();
        self.stages_of(board, rank) + 2 * self.stage + line
    }

    /// Where a rank says how many pieces it is done with, behind the lines.
    pub(crate) fn feed_done(&self, board: u32, rank: u32) -> usize {
        self.stages_of(board, rank) + 2 * self.stage + FEED_PIECES as usize * size_of::<Side>()
    }

    /// What stands beside the line of a piece.
    pub(crate) fn feed_piece(&self, board: u32, rank: u32, piece: u64) -> usize {
        let first = self.stages_of(board, rank) + 2 * self.stage + PAGE;
        first + (piece % FEED_PIECES) as usize * self.piece_bytes()
    }

    /// Both sides of what a rank stages beside its place on a board, one behind the other.
    pub(crate) fn stages_of(&self, board: u32, rank: u32) -> usize {
        assert!(board < BOARDS && rank < self.ranks, "stage of slot {rank} on board {board} does not exist");
        self.stages() + (board as usize * self.ranks as usize + rank as usize) * self.stages_bytes()
    }

    pub(crate) fn control(&self, rank: u32) -> usize {
        assert!(rank < self.ranks, "slot {rank} outside a segment of {} ranks", self.ranks);
        self.control_base() + rank as usize * RANK_BYTES
    }

    pub(crate) fn regions(&self, rank: u32) -> usize {
        self.control(rank) + CONTROL
    }

    pub(crate) fn inbox(&self, rank: u32) -> usize {
        self.control(rank) + RANK_BYTES - INBOX_BYTES
    }

    /// Ring number `index` into `rank`.
    pub(crate) fn ring(&self, rank: u32, index: usize) -> usize {
        assert!(
            rank < self.ranks && index < self.rings_per_rank,
            "ring {index} into slot {rank} does not exist"
        );
        self.reserved() + (rank as usize * self.rings_per_rank + index) * self.ring_bytes()
    }
}

const _: () = {
    assert!(size_of::<RankControl>() % 64 == 0);
    assert!(size_of::<RegionSlot>() == 128);
    assert!(size_of::<Side>() == 64);
    assert!(FEED_PIECES.is_power_of_two());
    assert!(FEED_PIECES as usize * size_of::<Side>() + size_of::<Done>() <= PAGE);
    assert!(2 * STAGE_BYTES_MANY % (FEED_PIECES as usize * 64) == 0 && STAGE_BYTES_MANY <= STAGE_BYTES_FEW);
    assert!(INBOX_BYTES % PAGE == 0);
    assert!(RING_CELLS.is_power_of_two());
    assert!((RING_CELLS * CELL) % PAGE == 0);
    assert!(RING_BODY_BYTES_FEW % PAGE == 0 && RING_BODY_BYTES_MANY % PAGE == 0);
    // Memory per rank stays bounded, by name: rings, control and inbox below 8 MiB.
    assert!(RINGS_PER_RANK * (PAGE + RING_CELLS * CELL + RING_BODY_BYTES_MANY) + RANK_BYTES < 8 << 20);
    assert!(FEW_RANKS as usize * (PAGE + RING_CELLS * CELL + RING_BODY_BYTES_FEW) + RANK_BYTES < 8 << 20);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        for ranks in [1, 2, 16, 17, 64, 512] {
            let layout = Layout::new(ranks).expect("in range");
            assert_eq!(layout.control(0) % PAGE, 0);
            assert!(layout.side(BOARDS - 1, 1, ranks - 1) + size_of::<Side>() <= layout.control(0));
            assert_eq!(layout.stages_of(0, 0) % PAGE, 0);
            let end = layout.stages_of(BOARDS - 1, ranks - 1) + layout.stages_bytes();
            assert_eq!(end, layout.total());
            assert_eq!(layout.feed_piece(BOARDS - 1, ranks - 1, FEED_PIECES - 1) + layout.piece_bytes(), end);
            assert!(layout.feed_done(0, 0) + size_of::<Done>() <= layout.feed_piece(0, 0, 0));
            assert!(layout.feed_line(0, 0, FEED_PIECES - 1) < layout.feed_done(0, 0));
            for rank in 0..ranks {
                assert!(layout.regions(rank) + REGIONS <= layout.inbox(rank));
                assert_eq!(layout.regions(rank) % 64, 0);
                assert_eq!(layout.inbox(rank) % PAGE, 0);
            }
            assert!(layout.inbox(ranks - 1) + INBOX_BYTES <= layout.reserved());
            if layout.rings_per_rank > 0 {
                let last = layout.ring(ranks - 1, layout.rings_per_rank - 1);
                assert!(last + layout.ring_bytes() <= layout.stages_of(0, 0));
                assert_eq!(last % PAGE, 0);
            }
        }
        assert!(Layout::new(0).is_none());
        assert!(Layout::new(MAX_RANKS + 1).is_none());
    }
}
