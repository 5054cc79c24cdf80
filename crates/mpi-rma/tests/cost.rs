//! What a window costs in memory, counted by the allocator: the same whatever the number of ranks. What ranks of one node
//! have in its memory follows from the layout, beside its definition in `window.rs`.

mod common;

use common::world_of;
use mpi_btl_sim::SimConfig;
use mpi_rma::limits::OVERHEAD_MAX_BYTES;
use mpi_rma::{Options, Window};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that is ending counts no more.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: the system's allocator, and a counter that allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Windows made one after the other: lists grow by doubling, which comes out in the mean.
const WINDOWS: usize = 64;

/// The same in a large world.
const FEW_WINDOWS: usize = 4;
/// Ranks of the large world; `MPI_TEST_RANKS` sets another number. Each is a thread that polls.
const RANKS: u32 = 256;

/// What a rank of a world of `size` holds on the heap per window beside its data, in the mean: a message that one rank
/// allocates is freed by another.
fn bytes_per_window(size: u32, windows: usize) -> usize {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    static ALL: AtomicIsize = AtomicIsize::new(0);
    let _alone = ONE_AT_A_TIME.lock();
    ALL.store(0, Ordering::SeqCst);
    world_of(1, SimConfig::calm(size as usize), size, move |world, _| {
        let make = || Window::allocate(&world, &Options::new(8, 8)).unwrap();
        // The first make what all windows of a communicator share, and what peers that talk have of each other.
        let first: Vec<Window> = (0..windows).map(|_| make()).collect();
        let before = HELD.get();
        let windows: Vec<Window> = (0..windows).map(|_| make()).collect();
        ALL.fetch_add(HELD.get() - before, Ordering::SeqCst);
        windows.iter().chain(&first).for_each(|window| window.free().unwrap());
    });
    usize::try_from(ALL.load(Ordering::SeqCst)).unwrap() / windows / size as usize
}

#[test]
fn a_window_costs_the_same_in_worlds_of_every_size() {
    let few = bytes_per_window(2, WINDOWS);
    for size in [8, 24] {
        let many = bytes_per_window(size, WINDOWS);
        assert!(many < OVERHEAD_MAX_BYTES, "{many} bytes per window of {size} ranks");
        // Sends that wait for their turn in the simulated network are not the window's.
        assert!(many <= few + 100, "{few} bytes in a world of 2, {many} in one of {size}");
    }
}

/// Each rank has an engine and a thread of its own.
#[test]
fn a_window_costs_the_same_in_a_world_of_many_ranks() {
    let ranks = std::env::var("MPI_TEST_RANKS").ok().and_then(|n| n.parse().ok()).unwrap_or(RANKS);
    let (few, many) = (bytes_per_window(2, FEW_WINDOWS), bytes_per_window(ranks, FEW_WINDOWS));
    println!("{few} bytes per rank and window of 2 ranks, {many} of {ranks}");
    assert!(many < OVERHEAD_MAX_BYTES, "{many} bytes per window of {ranks} ranks");
    assert!(many <= few + 100, "{few} bytes in a world of 2, {many} in one of {ranks}");
}
