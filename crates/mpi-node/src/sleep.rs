//! Sleeping and waking across the ranks of a node.
//!
//! A rank's sleep word says whether it sleeps and on what. Whoever published something for a
//! rank reads the word, one plain load. The sleeper writes the word, runs the expensive half of
//! the fence, and looks once more for work before it sleeps; so either the sender sees the word or
//! the sleeper sees the message.

use crate::primitive::{AtomicU32, Ordering, Scope, fence, futex_wake, light_fence};

/// The rank runs.
pub(crate) const AWAKE: u32 = 0;
/// The rank sleeps on the word itself.
pub(crate) const ON_WORD: u32 = 1;
/// The rank sleeps on its doorbell.
pub(crate) const ON_BELL: u32 = 2;

/// What a rank must do for a peer it has published something for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wake {
    Nothing,
    Bell,
}

/// Call after publishing. `full_fence` where the node has no membarrier.
#[inline(always)]
pub(crate) fn is_asleep(word: &AtomicU32, full_fence: bool) -> bool {
    // SYNC POINT: publish, then read the word; against write the word, then look, in `fall_asleep`.
    if full_fence {
        fence(Ordering::SeqCst);
    } else {
        light_fence();
    }
    word.load(Ordering::Relaxed) != AWAKE
}

/// Wakes the owner of the word; answers what is left to do.
#[cold]
pub(crate) fn wake(word: &AtomicU32) -> Wake {
    match word.swap(AWAKE, Ordering::AcqRel) {
        ON_WORD => {
            futex_wake(word, u32::MAX, Scope::Machine);
            Wake::Nothing
        }
        ON_BELL => Wake::Bell,
        _ => Wake::Nothing,
    }
}

/// Announces that the owner is about to sleep. It must look for work after this.
pub(crate) fn fall_asleep(word: &AtomicU32, how: u32, full_fence: bool) {
    word.store(how, Ordering::Relaxed);
    heavy_fence(full_fence);
}

#[cfg(not(loom))]
pub(crate) fn heavy_fence(full_fence: bool) {
    fence(Ordering::SeqCst);
    if !full_fence {
        crate::membarrier::global();
    }
}

#[cfg(loom)]
pub(crate) fn heavy_fence(_: bool) {
    fence(Ordering::SeqCst);
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::primitive::futex_wait;
    use loom::sync::Arc;

    fn never_sleeps_through(full_fence: bool) {
        loom::model(move || {
            let word = Arc::new(AtomicU32::new(AWAKE));
            let message = Arc::new(AtomicU32::new(0));
            let (their_word, their_message) = (word.clone(), message.clone());
            let sender = loom::thread::spawn(move || {
                their_message.store(1, Ordering::Release);
                if is_asleep(&their_word, full_fence) {
                    wake(&their_word);
                }
            });
            fall_asleep(&word, ON_WORD, full_fence);
            if message.load(Ordering::Acquire) == 0 {
                // Ends only if the sender changes the word: loom reports it when that can fail.
                while word.load(Ordering::Acquire) == ON_WORD {
                    futex_wait(&word, ON_WORD, Scope::Machine, None);
                }
                assert_eq!(message.load(Ordering::Acquire), 1);
            }
            sender.join().unwrap();
        });
    }

    #[test]
    fn no_message_is_slept_through() {
        never_sleeps_through(false);
        never_sleeps_through(true);
    }
}
