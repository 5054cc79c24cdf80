//! Boards: memory of one node in which each rank has a place that it writes and all others read.

use crate::Span;

/// The boards of a node, as one of its ranks sees them.
///
/// What a rank publishes on a board bears numbers that begin at 1 and count up by one. Number `k + 1`
/// is published only after everybody's number `k` was read: then what is read is never written over.
pub trait Boards: Send + Sync {
    /// How many there are.
    fn count(&self) -> u32;
    /// Bytes that can be published at once.
    fn capacity(&self) -> usize;
    /// Publishes a word and up to [`capacity`](Boards::capacity) bytes. Whoever may sleep is to be
    /// [woken](crate::BtlTx::wake) afterwards.
    fn publish(&self, board: u32, number: u64, word: u32, bytes: &[u8]);
    /// True once number `number` of the rank at `place` is there.
    fn has_published(&self, board: u32, place: u32, number: u64) -> bool;
    /// Reads what is there: the bytes, as far as `into` has room, the word, and the length in bytes.
    fn read(&self, board: u32, place: u32, number: u64, into: &mut [u8]) -> (u32, usize);

    /// Bytes that a rank can stage with each number, beside what it publishes; 0 without such memory.
    fn stage_bytes(&self) -> usize {
        0
    }

    /// Makes this rank's stages of a board ready. False when there is no memory for them: then nobody may touch them.
    fn ready_stages(&self, _board: u32) -> bool {
        false
    }

    /// Where the rank at `place`, this one for `None`, stages what goes with number `number`. Its owner writes it before
    /// it publishes the number; after that whoever the ranks agree on. Number `k + 2` takes the place of number `k`.
    fn stage(&self, _board: u32, _place: Option<u32>, _number: u64) -> Option<Span> {
        None
    }

    /// Pieces that a rank can feed to the others before the first is done with, on boards with stages that are
    /// [ready](Boards::ready_stages); 0 where there is no such thing.
    fn feed_pieces(&self) -> u64 {
        0
    }

    /// Bytes that a piece has beside what its line carries.
    fn piece_bytes(&self) -> usize {
        0
    }

    /// Feeds piece `piece` to all others, with a word and up to [`capacity`](Boards::capacity) bytes in its line. Pieces of
    /// all ranks are counted together, from 1 on, by all alike, and piece `k` is fed only once everybody is [done
    /// with](Boards::is_done_with) piece `k - feed_pieces`. Whoever may sleep is to be [woken](crate::BtlTx::wake).
    fn feed(&self, _board: u32, _piece: u64, _word: u32, _bytes: &[u8]) {}

    /// True once the rank at `place` has fed piece `piece`.
    fn has_fed(&self, _board: u32, _place: u32, _piece: u64) -> bool {
        false
    }

    /// Reads the line of a piece that is there, as [`read`](Boards::read) does.
    fn fed(&self, _board: u32, _place: u32, _piece: u64, _into: &mut [u8]) -> (u32, usize) {
        (0, 0)
    }

    /// Where the rank at `place`, this one for `None`, has what goes with piece `piece`. Its owner writes it before it
    /// feeds the piece.
    fn piece(&self, _board: u32, _place: Option<u32>, _piece: u64) -> Option<Span> {
        None
    }

    /// Says that this rank is done with all pieces up to `piece`. Whoever may sleep is to be woken.
    fn done_with(&self, _board: u32, _piece: u64) {}

    /// True once the rank at `place` is done with all pieces up to `piece`.
    fn is_done_with(&self, _board: u32, _place: u32, _piece: u64) -> bool {
        false
    }

    /// True when this process may copy from and to the memory of the rank at `place`, which has published
    /// something or sent a message.
    fn reaches(&self, _place: u32) -> bool {
        false
    }

    /// Copies memory of the rank at `place`, from its `address` on, to all of `into`.
    ///
    /// # Safety
    /// `into` is valid for writes and nobody else touches it.
    ///
    /// # Errors
    /// Why that is not possible. What is in `into` then is unspecified.
    unsafe fn fetch(&self, _place: u32, _address: u64, _into: Span) -> Result<(), String> {
        Err("there is no way into its memory".to_owned())
    }

    /// Copies all of `from` into the memory of the rank at `place`, from its `address` on.
    ///
    /// # Safety
    /// `from` is valid for reads and nobody writes it. That rank has lent the memory at `address` for it.
    ///
    /// # Errors
    /// Why that is not possible. What is there then is unspecified.
    unsafe fn store(&self, _place: u32, _address: u64, _from: Span) -> Result<(), String> {
        Err("there is no way into its memory".to_owned())
    }
}
