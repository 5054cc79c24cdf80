//! Which context ids this process has in use, and its side of agreeing on a new one.
//!
//! An id is agreed in two steps over all processes concerned (see [`crate::agreement`]). First
//! every process offers the ids that it has free, as a mask; the bitwise "and" of the masks gives
//! a candidate. Then every process tries to reserve the candidate and says whether it could. An id
//! is held only between the two steps, when all processes concerned are known to take part, so
//! agreements that run at the same time on several threads, in whatever order each process starts
//! them, can collide (and then try again) but never wait for each other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The ids of this process.
#[derive(Debug)]
pub(crate) struct ContextIds {
    taken: Mutex<Vec<u64>>,
    /// Where the next choice starts, behind the last id taken: one that was freed lately is used
    /// last, so that operations which still run on a freed communicator are left alone.
    hint: AtomicU32,
}

/// A part of the id space that is offered in one message. Most programs never leave the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    first_word: usize,
    words: usize,
}

impl Window {
    /// Words of 64 ids in the first window; each later one reaches four times as far.
    const FIRST_WORDS: usize = 4;

    /// The window that every agreement starts with.
    pub(crate) const FIRST: Window = Window { first_word: 0, words: Window::FIRST_WORDS };

    /// The next window, if the id space goes on.
    pub(crate) fn next(self) -> Option<Window> {
        let first_word = self.first_word + self.words;
        let end = (first_word * 4).min(ContextIds::MAX_IDS / 64);
        (first_word < end).then_some(Window { first_word, words: end - first_word })
    }

    /// Length of a mask of this window, in words.
    #[cfg(test)]
    pub(crate) fn words(self) -> usize {
        self.words
    }

    /// The id of a bit in a mask of this window.
    fn id(self, bit: u32) -> u32 {
        self.first_word as u32 * 64 + bit
    }
}

/// The set bit of `mask` that comes at or after `from`, around the end if need be.
fn set_bit_from(mask: &[u64], from: u32) -> Option<u32> {
    let bits = mask.len() as u32 * 64;
    let set = |bit: &u32| mask[*bit as usize / 64] >> (bit % 64) & 1 == 1;
    (0..bits).map(|step| (from + step) % bits).find(set)
}

impl ContextIds {
    /// Largest number of communicators that a process can have at once.
    pub(crate) const MAX_IDS: usize = crate::limits::MAX_COMMUNICATORS;

    /// All free but `reserved`.
    pub(crate) fn new(reserved: &[u32]) -> ContextIds {
        let ids = ContextIds { taken: Mutex::new(vec![0; Self::MAX_IDS / 64]), hint: AtomicU32::new(0) };
        for id in reserved {
            ids.reserve(*id);
        }
        ids
    }

    /// A mask of the free ids in a window: bit set means free.
    pub(crate) fn free_in(&self, window: Window) -> Vec<u64> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().skip(window.first_word).take(window.words).map(|word| !word).collect()
    }

    /// Chooses among the ids that are free everywhere; `None` if there are none. `attempt` counts
    /// collisions with agreements chosen elsewhere; from the second on the choice jumps about.
    pub(crate) fn choose(&self, window: Window, mask: &[u64], attempt: u32) -> Option<u32> {
        let bits = mask.len() as u32 * 64;
        let hint = self.hint.load(Ordering::Relaxed);
        let from = match attempt {
            0 => hint,
            _ => hint.wrapping_add(attempt).wrapping_mul(0x9E37_79B1).rotate_left(attempt % 32),
        };
        Some(window.id(set_bit_from(mask, from.wrapping_sub(window.id(0)) % bits)?))
    }

    /// The same on every process that asks alike.
    pub(crate) fn choose_alike(window: Window, mask: &[u64], attempt: u32) -> Option<u32> {
        let bits = (mask.len() as u32 * 64).max(1);
        Some(window.id(set_bit_from(mask, attempt.wrapping_mul(0x9E37_79B1) % bits)?))
    }

    /// Takes an id; `false` if it is taken already, or none at all.
    pub(crate) fn reserve(&self, id: u32) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let bit = 1u64 << (id % 64);
        match taken.get_mut(id as usize / 64) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                self.hint.store(id + 1, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }

    /// Gives an id back.
    pub(crate) fn release(&self, id: u32) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = taken.get_mut(id as usize / 64) {
            *word &= !(1u64 << (id % 64));
        }
    }

    /// Number of ids in use.
    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn windows_cover_every_id_once() {
        let (mut window, mut covered) = (Some(Window::FIRST), 0);
        while let Some(w) = window {
            assert_eq!(w.first_word, covered);
            covered += w.words;
            window = w.next();
        }
        assert_eq!(covered * 64, ContextIds::MAX_IDS);
    }

    #[test]
    fn ids_come_back_but_not_at_once() {
        let ids = ContextIds::new(&[0, 1]);
        let next = || ids.choose(Window::FIRST, &ids.free_in(Window::FIRST), 0).unwrap();
        let mut seen = Vec::new();
        for _ in 0..254 {
            let id = next();
            assert!(ids.reserve(id) && !ids.reserve(id));
            ids.release(id);
            seen.push(id);
        }
        assert_eq!(seen, (2..256).collect::<Vec<_>>());
        assert_eq!((next(), ids.in_use()), (2, 2));
    }

    #[test]
    fn a_full_window_leads_to_the_next() {
        let ids = ContextIds::new(&(0..256).collect::<Vec<_>>());
        assert_eq!(ids.choose(Window::FIRST, &ids.free_in(Window::FIRST), 0), None);
        let second = Window::FIRST.next().unwrap();
        assert_eq!(ids.choose(second, &ids.free_in(second), 0), Some(256));
    }

    #[test]
    fn an_id_outside_the_space_is_never_had() {
        let ids = ContextIds::new(&[]);
        assert!(!ids.reserve(ContextIds::MAX_IDS as u32));
        ids.release(u32::MAX);
    }

    proptest! {
        /// Processes with different sets in use agree on an id that is free on all of them.
        #[test]
        fn the_candidate_is_free_everywhere(
            used in proptest::collection::vec(proptest::collection::vec(0u32..256, 0..200), 1..6),
            attempt in 0u32..10,
        ) {
            let processes: Vec<ContextIds> = used.iter().map(|u| ContextIds::new(u)).collect();
            let mut mask = vec![u64::MAX; Window::FIRST.words()];
            for process in &processes {
                for (all, one) in mask.iter_mut().zip(process.free_in(Window::FIRST)) {
                    *all &= one;
                }
            }
            match processes[0].choose(Window::FIRST, &mask, attempt) {
                Some(id) => for process in &processes {
                    prop_assert!(process.reserve(id));
                },
                None => prop_assert!((0..256).all(|id| used.iter().any(|u| u.contains(&id)))),
            }
        }
    }
}
