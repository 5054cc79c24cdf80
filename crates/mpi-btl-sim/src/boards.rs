//! Boards of the simulated node, with the rule of their use checked.

use crate::memory;
use mpi_btl::{Boards, Span};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Boards that there are.
const BOARDS: u32 = 3;
/// Bytes that fit one.
const CAPACITY: usize = 40;

/// Number, word and bytes of the two sides of a place, by board and rank.
type Places = HashMap<(u32, u32), [(u64, u32, Vec<u8>); 2]>;

/// Bytes of a stage: little, so that vectors take many.
const STAGE_WORDS: usize = 64;

/// What an endpoint stages, by board, rank and side.
type Stages = HashMap<(u32, u32, u64), Box<[AtomicU64; STAGE_WORDS]>>;

/// What all endpoints share.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<Places>, Mutex<Stages>);

/// The table as endpoint `me` sees it.
pub(crate) struct View {
    pub table: Arc<Table>,
    pub me: u32,
    /// The memory of the others is within reach.
    pub reach: bool,
}

impl View {
    fn with<T>(&self, f: impl FnOnce(&mut Places) -> T) -> T {
        f(&mut self.table.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Boards for View {
    fn count(&self) -> u32 {
        BOARDS
    }

    fn capacity(&self) -> usize {
        CAPACITY
    }

    fn publish(&self, board: u32, number: u64, word: u32, bytes: &[u8]) {
        assert!(bytes.len() <= CAPACITY, "{} bytes do not fit", bytes.len());
        self.with(|places| {
            let sides = places.entry((board, self.me)).or_default();
            let last = sides.iter().map(|side| side.0).max();
            assert_eq!(last, Some(number - 1), "numbers count up by one");
            sides[(number % 2) as usize] = (number, word, bytes.to_vec());
        });
    }

    fn has_published(&self, board: u32, place: u32, number: u64) -> bool {
        self.with(|places| {
            let Some(sides) = places.get(&(board, place)) else { return false };
            let there = sides[(number % 2) as usize].0;
            assert!(there <= number, "number {number} of {place} was written over");
            there == number
        })
    }

    fn read(&self, board: u32, place: u32, number: u64, into: &mut [u8]) -> (u32, usize) {
        self.with(|places| {
            let (there, word, bytes) = &places[&(board, place)][(number % 2) as usize];
            assert_eq!(*there, number, "what is read was published, and is there");
            let len = bytes.len().min(into.len());
            into[..len].copy_from_slice(&bytes[..len]);
            (*word, bytes.len())
        })
    }

    fn stage_bytes(&self) -> usize {
        STAGE_WORDS * 8
    }

    fn ready_stages(&self, _: u32) -> bool {
        true
    }

    fn stage(&self, board: u32, place: Option<u32>, number: u64) -> Option<Span> {
        let mut stages = self.table.1.lock().unwrap_or_else(PoisonError::into_inner);
        let words = stages
            .entry((board, place.unwrap_or(self.me), number % 2))
            .or_insert_with(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
        // Atomics may be written through a shared reference; the box stays where it is.
        Some(Span::new(words.as_ptr().cast_mut().cast(), STAGE_WORDS * 8))
    }

    fn reaches(&self, _: u32) -> bool {
        self.reach
    }

    unsafe fn fetch(&self, _: u32, address: u64, into: Span) -> Result<(), String> {
        memory::move_bytes(address as *const u8, into.ptr(), into.len());
        Ok(())
    }

    unsafe fn store(&self, _: u32, address: u64, from: Span) -> Result<(), String> {
        memory::move_bytes(from.ptr(), address as *mut u8, from.len());
        Ok(())
    }
}
