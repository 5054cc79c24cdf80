//! Memory of temporaries, kept for the next: a large one costs more to get from the kernel than to use.

use crate::limits::{SCRATCH_KEPT_BLOCKS, SCRATCH_KEPT_BYTES};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;

/// An owned block of initialised memory.
#[derive(Debug)]
pub(crate) struct Block {
    ptr: *mut u8,
    layout: Layout,
}

#[derive(Default)]
struct Pool {
    blocks: Vec<Block>,
    bytes: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

impl Block {
    /// A block of at least this layout, of a size above 0; `None` when there is no memory.
    pub fn get(layout: Layout) -> Option<Block> {
        assert!(layout.size() > 0, "an empty block");
        let kept = POOL.try_with(|pool| pool.borrow_mut().take(layout)).ok().flatten();
        kept.or_else(|| {
            // SAFETY: the size is not zero.
            let ptr = unsafe { alloc_zeroed(layout) };
            (!ptr.is_null()).then_some(Block { ptr, layout })
        })
    }

    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Keeps the block for the next, if there is room.
    pub fn give_back(self) {
        // Without a pool (the thread is ending) the block is dropped with the closure.
        let _ = POOL.try_with(move |pool| pool.borrow_mut().keep(self));
    }
}

impl Pool {
    /// The tightest kept block that fits and is not much too large.
    fn take(&mut self, layout: Layout) -> Option<Block> {
        let fits = |b: &Block| {
            b.layout.align() == layout.align()
                && b.layout.size() >= layout.size()
                && b.layout.size() / 4 <= layout.size()
        };
        let best = (0..self.blocks.len())
            .filter(|i| fits(&self.blocks[*i]))
            .min_by_key(|i| self.blocks[*i].layout.size());
        let block = self.blocks.swap_remove(best?);
        self.bytes -= block.layout.size();
        Some(block)
    }

    fn keep(&mut self, block: Block) {
        if self.blocks.len() == SCRATCH_KEPT_BLOCKS {
            let oldest = self.blocks.remove(0);
            self.bytes -= oldest.layout.size();
        }
        if self.bytes + block.layout.size() <= SCRATCH_KEPT_BYTES {
            self.bytes += block.layout.size();
            self.blocks.push(block);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `get`.
        unsafe { dealloc(self.ptr, self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_are_bounded() {
        let get = |n| Block::get(Layout::from_size_align(n, 64).unwrap()).unwrap();
        let first = get(1000);
        let at = first.ptr();
        first.give_back();
        let again = get(900);
        assert_eq!(again.ptr(), at);
        again.give_back();
        assert_ne!(get(10).ptr(), at, "far too large for ten bytes");
        (1..100).for_each(|i| get(64 << (i % 20)).give_back());
        let many: Vec<Block> = (0..40).map(|_| get(4 << 20)).collect();
        many.into_iter().for_each(Block::give_back);
        POOL.with(|p| {
            let p = p.borrow();
            assert!(p.blocks.len() <= SCRATCH_KEPT_BLOCKS && p.bytes <= SCRATCH_KEPT_BYTES);
            assert_eq!(p.bytes, p.blocks.iter().map(|b| b.layout.size()).sum::<usize>());
        });
    }
}
