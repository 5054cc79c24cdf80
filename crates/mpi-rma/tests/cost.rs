//! What a window costs in memory, counted by the allocator: the same whatever the number of ranks. What it has in the
//! node's memory is computed for 4,096 ranks beside its definition, in `window.rs`.

mod common;

use common::world_of;
use mpi_btl_sim::SimConfig;
use mpi_rma::limits::OVERHEAD_MAX_BYTES;
use mpi_rma::{Options, Window};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
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

/// What a rank of a world of `size` holds per window beside its data, in the mean: a message that one rank allocates is
/// freed by another.
fn bytes_per_window(size: u32) -> usize {
    static ALL: AtomicIsize = AtomicIsize::new(0);
    ALL.store(0, Ordering::SeqCst);
    world_of(1, SimConfig::calm(size as usize), size, move |world, _| {
        let make = || Window::allocate(&world, &Options::new(8, 8)).unwrap();
        // The first make what all windows of a communicator share, and what peers that talk have of each other.
        let first: Vec<Window> = (0..WINDOWS).map(|_| make()).collect();
        let before = HELD.get();
        let windows: Vec<Window> = (0..WINDOWS).map(|_| make()).collect();
        ALL.fetch_add(HELD.get() - before, Ordering::SeqCst);
        windows.iter().chain(&first).for_each(|window| window.free().unwrap());
    });
    usize::try_from(ALL.load(Ordering::SeqCst)).unwrap() / WINDOWS / size as usize
}

#[test]
fn a_window_costs_the_same_in_worlds_of_every_size() {
    let few = bytes_per_window(2);
    for size in [8, 24] {
        let many = bytes_per_window(size);
        assert!(many < OVERHEAD_MAX_BYTES, "{many} bytes per window of {size} ranks");
        // Sends that wait for their turn in the simulated network are not the window's.
        assert!(many <= few + 100, "{few} bytes in a world of 2, {many} in one of {size}");
    }
}
