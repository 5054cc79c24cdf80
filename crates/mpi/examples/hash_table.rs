//! A hash table spread over all ranks, filled by all at once without a word from the owners.
//!
//! A slot is a key and a count. Whoever finds a free slot claims it with one compare-and-swap; counts are added to
//! atomically. In the end every rank looks every key up and compares with what it must be.

use mpi::collective::SystemOperation;
use mpi::traits::*;
use mpi::window::{Passive, Window};

const SLOTS_PER_RANK: usize = 512;
const KEYS: u64 = 150;
const TIMES: u64 = 3;

/// Where the search for a key begins: a slot of all ranks' together (Fibonacci hashing).
fn home(key: u64, slots: usize) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize % slots
}

/// Rank and word of a slot's key; its count is the word behind.
fn place(slot: usize) -> (i32, usize) {
    ((slot / SLOTS_PER_RANK) as i32, slot % SLOTS_PER_RANK * 2)
}

/// Adds to the count of a key, which is not 0.
fn add(table: &Passive<'_, '_, u64>, slots: usize, key: u64, count: u64) {
    let mut slot = home(key, slots);
    loop {
        let (rank, word) = place(slot);
        let found = table.compare_and_swap(rank, word, 0, key);
        if found == 0 || found == key {
            table.fetch_and_op(rank, word + 1, count, SystemOperation::sum());
            return;
        }
        slot = (slot + 1) % slots;
    }
}

/// The count of a key, 0 when it is not there.
fn look_up(table: &Passive<'_, '_, u64>, slots: usize, key: u64) -> u64 {
    let mut slot = home(key, slots);
    loop {
        let (rank, word) = place(slot);
        match table.fetch_value(rank, word) {
            0 => return 0,
            found if found == key => return table.fetch_value(rank, word + 1),
            _ => slot = (slot + 1) % slots,
        }
    }
}

pub(crate) fn main() {
    let universe = mpi::initialize().expect("MPI starts");
    let world = universe.world();
    let slots = SLOTS_PER_RANK * world.size() as usize;
    let mut window = Window::<u64>::allocate(&world, SLOTS_PER_RANK * 2);
    window.set_name("hash table");

    // Every rank adds its number plus one to every key, in an order of its own.
    let mine = world.rank() as u64 + 1;
    window.lock_all(|table| {
        for i in 0..KEYS * TIMES {
            let key = 1 + (i * mine) % KEYS;
            add(table, slots, key, mine);
        }
    });
    world.barrier();

    let mut expected = vec![0; KEYS as usize + 1];
    for rank in 1..=world.size() as u64 {
        (0..KEYS * TIMES).for_each(|i| expected[(1 + (i * rank) % KEYS) as usize] += rank);
    }
    window.lock_all(|table| {
        for (key, expected) in expected.iter().enumerate().skip(1) {
            assert_eq!(look_up(table, slots, key as u64), *expected, "the count of key {key}");
        }
        assert_eq!(look_up(table, slots, KEYS + 1), 0, "a key that nobody added");
    });
    world.barrier();
    if world.rank() == 0 {
        println!("{KEYS} keys of {} ranks are all there", world.size());
    }
    window.free();
}
