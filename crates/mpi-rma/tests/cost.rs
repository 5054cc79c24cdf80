//! What a window costs in memory, counted by the allocator: the same whatever the number of ranks. Each rank is alone on its
//! node here: what it has in front of its data comes on top.

mod common;

use common::world_of;
use mpi_btl_sim::SimConfig;
use mpi_rma::limits::{FRONT_ALONE_BYTES, OVERHEAD_MAX_BYTES};
use mpi_rma::{Options, Window};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};

/// What the ranks do together.
const MAKE_WINDOWS: usize = 1;
const FREE_WINDOWS: usize = 2;
static PHASE: AtomicUsize = AtomicUsize::new(0);

/// Blocks that were allocated while windows were made, and given back when these were freed, by size in words; larger ones
/// in the last place.
static OF_WINDOWS: [AtomicUsize; BLOCK_MAX_WORDS + 1] = [const { AtomicUsize::new(0) }; BLOCK_MAX_WORDS + 1];
/// Far more than a table with a few words for each of 4,096 ranks has.
const BLOCK_MAX_WORDS: usize = 1 << 15;

thread_local! {
    /// This thread is a rank, not the network.
    static IS_RANK: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator; in front of every block stands the phase that it comes from.
struct Counting;

/// Room for that which keeps the block aligned.
fn with_front(layout: Layout) -> (Layout, usize) {
    let front = layout.align().max(align_of::<usize>());
    (Layout::from_size_align(front + layout.size(), front).unwrap_or(layout), front)
}

// SAFETY: blocks of the system's allocator behind a front of their own alignment, whose first word is the phase; the
// counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (whole, front) = with_front(layout);
        // SAFETY: a layout that is not empty.
        let at = unsafe { System.alloc(whole) };
        if at.is_null() {
            return at;
        }
        // SAFETY: the block has room for the front, which is aligned for a word.
        unsafe {
            at.cast::<usize>().write(PHASE.load(Ordering::Relaxed));
            at.add(front)
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let (whole, front) = with_front(layout);
        // SAFETY: `alloc` returned it: the front stands before it.
        let (at, born) = unsafe { (at.sub(front), at.sub(front).cast::<usize>().read()) };
        // A thread that is ending counts no more.
        let is_rank = IS_RANK.try_with(Cell::get).unwrap_or(false);
        if is_rank && born == MAKE_WINDOWS && PHASE.load(Ordering::Relaxed) == FREE_WINDOWS {
            let words = layout.size().div_ceil(size_of::<usize>()).min(BLOCK_MAX_WORDS);
            OF_WINDOWS[words].fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the block and the layout that `alloc` had.
        unsafe { System.dealloc(at, whole) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Windows that are freed one after the other: the mean counts.
const WINDOWS: usize = 64;
/// The same in a large world.
const FEW_WINDOWS: usize = 1;
/// What the mean may differ by, in bytes: queues of the simulated network grow now and then.
const SLACK_BYTES: usize = 100;

/// Ranks of the large world; `MPI_TEST_RANKS` sets another number. Each is a thread.
const RANKS: u32 = 4096;

/// What a rank of a world of `size` holds on the heap per window beside its data, in the mean.
fn bytes_per_window(size: u32, windows: usize) -> usize {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock();
    OF_WINDOWS.iter().for_each(|blocks| blocks.store(0, Ordering::SeqCst));
    // Who is through with a window has taken what was sent to it; messages that are under way are no window's.
    let together = Barrier::new(size as usize);
    let enter = move |phase: usize| {
        if together.wait().is_leader() {
            PHASE.store(phase, Ordering::SeqCst);
        }
        together.wait();
    };
    world_of(1, SimConfig::calm(size as usize), size, move |world, _| {
        let make = || Window::allocate(&world, &Options::new(8, 8)).unwrap();
        IS_RANK.set(true);
        // The first keeps what all windows of a communicator share.
        let first = make();
        enter(MAKE_WINDOWS);
        let windows: Vec<Window> = (0..windows).map(|_| make()).collect();
        enter(FREE_WINDOWS);
        for window in windows {
            window.free().unwrap();
        }
        enter(0);
        first.free().unwrap();
    });
    // Each rank has what a window needs; queues of the network, and tables of the process, grow here and there.
    let all = windows * size as usize;
    let counted = OF_WINDOWS.iter().map(|blocks| blocks.load(Ordering::SeqCst)).enumerate();
    counted
        .filter(|(_, blocks)| *blocks >= all / 2)
        .map(|(words, blocks)| words * size_of::<usize>() * blocks)
        .sum::<usize>()
        / all
}

#[test]
fn a_window_costs_the_same_in_worlds_of_every_size() {
    let few = bytes_per_window(2, WINDOWS);
    for size in [8, 24] {
        let many = bytes_per_window(size, WINDOWS);
        assert!(many + FRONT_ALONE_BYTES < OVERHEAD_MAX_BYTES, "{many} bytes per window of {size} ranks");
        // Sends that wait for their turn in the simulated network are not the window's.
        assert!(many <= few + SLACK_BYTES, "{few} bytes in a world of 2, {many} in one of {size}");
    }
}

/// Each rank has an engine and a thread of its own, which sleeps until something comes.
#[test]
fn a_window_costs_the_same_in_a_world_of_many_ranks() {
    let ranks = std::env::var("MPI_TEST_RANKS").ok().and_then(|n| n.parse().ok()).unwrap_or(RANKS);
    let (few, many) = (bytes_per_window(2, FEW_WINDOWS), bytes_per_window(ranks, FEW_WINDOWS));
    println!("{few} bytes per rank and window of 2 ranks, {many} of {ranks}");
    assert!(many + FRONT_ALONE_BYTES < OVERHEAD_MAX_BYTES, "{many} bytes per window of {ranks} ranks");
    assert!(many <= few + SLACK_BYTES, "{few} bytes in a world of 2, {many} in one of {ranks}");
}
