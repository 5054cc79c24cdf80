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

/// Pieces that may be fed before the first is done with: few, so that feeders wait often.
const FEED_PIECES: u64 = 3;
/// Words of a piece.
const PIECE_WORDS: usize = 12;

/// Number, word and line of a piece.
type Fed = (u64, u32, Vec<u8>);

/// What was fed and is done with, on all boards.
#[derive(Debug, Default)]
struct Feeds {
    /// Each rank's last pieces, by board and rank.
    fed: HashMap<(u32, u32), Vec<Fed>>,
    /// How many each rank is done with.
    done: HashMap<(u32, u32), u64>,
    /// What stands beside the lines, by board, rank and place.
    pieces: HashMap<(u32, u32, u64), Box<[AtomicU64; PIECE_WORDS]>>,
}

/// What all endpoints share.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<Places>, Mutex<Stages>, Mutex<Feeds>);

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

    fn with_feeds<T>(&self, f: impl FnOnce(&mut Feeds) -> T) -> T {
        f(&mut self.table.2.lock().unwrap_or_else(PoisonError::into_inner))
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

    fn feed_pieces(&self) -> u64 {
        FEED_PIECES
    }

    fn piece_bytes(&self) -> usize {
        PIECE_WORDS * 8
    }

    fn feed(&self, board: u32, piece: u64, word: u32, bytes: &[u8]) {
        assert!(bytes.len() <= CAPACITY, "{} bytes do not fit", bytes.len());
        self.with_feeds(|feeds| {
            let done = feeds.done.get(&(board, self.me)).copied().unwrap_or(0);
            assert!(piece > done, "piece {piece} after {done} were done with");
            let fed = feeds.fed.entry((board, self.me)).or_default();
            assert!(fed.last().is_none_or(|(last, ..)| *last < piece), "pieces are counted up");
            // What it writes over.
            fed.retain(|(number, ..)| number + FEED_PIECES > piece);
            fed.push((piece, word, bytes.to_vec()));
        });
    }

    fn has_fed(&self, board: u32, place: u32, piece: u64) -> bool {
        self.with_feeds(|feeds| {
            let fed = feeds.fed.get(&(board, place)).map_or(&[][..], Vec::as_slice);
            let over = fed.iter().any(|(number, ..)| *number >= piece + FEED_PIECES);
            assert!(!over, "piece {piece} of {place} was written over");
            fed.iter().any(|(number, ..)| *number == piece)
        })
    }

    fn fed(&self, board: u32, place: u32, piece: u64, into: &mut [u8]) -> (u32, usize) {
        self.with_feeds(|feeds| {
            let found = feeds.fed[&(board, place)].iter().find(|(number, ..)| *number == piece);
            let (_, word, bytes) = found.expect("what is read was fed, and is there");
            let len = bytes.len().min(into.len());
            into[..len].copy_from_slice(&bytes[..len]);
            (*word, bytes.len())
        })
    }

    fn piece(&self, board: u32, place: Option<u32>, piece: u64) -> Option<Span> {
        self.with_feeds(|feeds| {
            let place = (board, place.unwrap_or(self.me), piece % FEED_PIECES);
            let words = feeds.pieces.entry(place);
            let words = words.or_insert_with(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
            Some(Span::new(words.as_ptr().cast_mut().cast(), PIECE_WORDS * 8))
        })
    }

    fn done_with(&self, board: u32, piece: u64) {
        self.with_feeds(|feeds| {
            let before = feeds.done.insert((board, self.me), piece);
            assert!(before.unwrap_or(0) < piece, "pieces are counted up");
        });
    }

    fn is_done_with(&self, board: u32, place: u32, piece: u64) -> bool {
        self.with_feeds(|feeds| feeds.done.get(&(board, place)).copied().unwrap_or(0) >= piece)
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
