//! Boards: on each, every rank of the node has a place that it alone writes and all others read.
//!
//! What is written bears numbers that count up by one. A place has two sides, written by turns, so
//! number `k + 2` takes the place of number `k`. **The rule of use**: who writes number `k + 1` has
//! read everybody's number `k`, and has therefore seen that everybody is done with number `k - 1`.
//! Then nobody reads a side that is being written. A rank that breaks the rule damages what the
//! others read and nothing else: every word is atomic, no length is trusted.
//!
//! A rank may also *feed* pieces to all others without waiting for them: lines that it uses by turns, [`FEED_PIECES`] of
//! them, each bearing the piece's number. All ranks count the pieces of all alike. **The rule of use**: who feeds piece `k`
//! has seen that everybody is [done](Done) with piece `k - FEED_PIECES`.
//!
//! [`FEED_PIECES`]: crate::limits::FEED_PIECES
//!
//! A side is one cache line, and the lines of all ranks stand one behind the other, so that a reader of
//! all walks over one page.

use crate::primitive::{AtomicU64, Ordering};

/// Bytes that can be published at once.
pub const BOARD_BYTES: usize = WORDS * 8;
const WORDS: usize = 6;

/// What a rank published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posting {
    /// A word of the writer's.
    pub word: u32,
    length: u32,
    bytes: [u8; BOARD_BYTES],
}

impl Posting {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..(self.length as usize).min(BOARD_BYTES)]
    }
}

/// One side of a rank's place. All zero at first; numbers begin at 1.
#[repr(C, align(64))]
pub(crate) struct Side {
    number: AtomicU64,
    /// The writer's word, and the length in the low half.
    about: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Side {
    /// Writes a number. Only the owner, by the rule of use.
    #[inline]
    pub(crate) fn publish(&self, number: u64, word: u32, bytes: &[u8]) {
        assert!(bytes.len() <= BOARD_BYTES, "{} bytes do not fit a board", bytes.len());
        let mut whole = [0; BOARD_BYTES];
        whole[..bytes.len()].copy_from_slice(bytes);
        for (to, from) in self.words.iter().zip(whole.chunks_exact(8)).take(bytes.len().div_ceil(8)) {
            to.store(u64::from_ne_bytes(core::array::from_fn(|i| from[i])), Ordering::Relaxed);
        }
        self.about.store(u64::from(word) << 32 | bytes.len() as u64, Ordering::Relaxed);
        // SYNC POINT: pairs with the acquire in `has`. What this rank read before is read by now, so
        // whoever sees the number may write over it.
        self.number.store(number, Ordering::Release);
    }

    /// True once the number is there.
    #[inline]
    pub(crate) fn has(&self, number: u64) -> bool {
        self.number.load(Ordering::Acquire) == number
    }

    /// Reads what was seen to be there.
    #[inline]
    pub(crate) fn read(&self) -> Posting {
        let about = self.about.load(Ordering::Relaxed);
        let mut bytes = [0; BOARD_BYTES];
        for (to, from) in bytes.chunks_exact_mut(8).zip(&self.words) {
            to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
        }
        Posting { word: (about >> 32) as u32, length: about as u32, bytes }
    }
}

/// How many pieces of all feeds a rank is done with.
#[repr(C, align(64))]
pub(crate) struct Done(AtomicU64);

impl Done {
    #[inline]
    pub(crate) fn store(&self, pieces: u64) {
        // SYNC POINT: pairs with the acquire in `load`. What was read of the pieces is read by now.
        self.0.store(pieces, Ordering::Release);
    }

    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        Side {
            number: AtomicU64::new(0),
            about: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn what_is_published_is_read() {
        let side = side();
        for length in 0..=BOARD_BYTES {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + 1) as u8).collect();
            let number = length as u64 + 1;
            assert!(!side.has(number));
            side.publish(number, 5, &bytes);
            assert!(side.has(number));
            assert_eq!((side.read().word, side.read().bytes()), (5, &bytes[..]));
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn a_length_that_is_none_reads_nothing_outside() {
        let side = side();
        side.about.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(side.read().bytes().len(), BOARD_BYTES);
    }

    /// Two lines used by turns: the feeder is never more than two pieces ahead.
    #[cfg(loom)]
    #[test]
    fn model_pieces_are_read_before_they_are_written_over() {
        loom::model(|| {
            let feed = loom::sync::Arc::new(([side(), side()], Done(AtomicU64::new(0))));
            let other = feed.clone();
            let reader = loom::thread::spawn(move || {
                for piece in 1..=3_u64 {
                    let line = &other.0[(piece % 2) as usize];
                    while !line.has(piece) {
                        loom::thread::yield_now();
                    }
                    assert_eq!(line.read().bytes(), [piece as u8]);
                    other.1.store(piece);
                }
            });
            for piece in 1..=3_u64 {
                while feed.1.load() + 2 < piece {
                    loom::thread::yield_now();
                }
                feed.0[(piece % 2) as usize].publish(piece, 0, &[piece as u8]);
            }
            reader.join().expect("joins");
        });
    }

    #[cfg(loom)]
    #[test]
    fn model_two_ranks_read_what_was_written_under_each_number() {
        loom::model(|| {
            let place = || [side(), side()];
            let places = loom::sync::Arc::new([place(), place()]);
            let other = places.clone();
            let rank = |me: usize, places: &[[Side; 2]; 2]| {
                for number in 1..=3_u64 {
                    let at = (number % 2) as usize;
                    places[me][at].publish(number, 0, &[number as u8 * 10 + me as u8]);
                    while !places[1 - me][at].has(number) {
                        loom::thread::yield_now();
                    }
                    let got = places[1 - me][at].read();
                    assert_eq!(got.bytes(), [number as u8 * 10 + 1 - me as u8]);
                }
            };
            let one = loom::thread::spawn(move || rank(1, &other));
            rank(0, &places);
            one.join().expect("joins");
        });
    }
}
