//! The expensive half of an asymmetric fence: the kernel runs a full barrier on the processors
//! that run the other side, so that the other side needs none.
//!
//! Source: membarrier(2); `Documentation/scheduler/membarrier.rst` of Linux.

use std::sync::OnceLock;

#[cfg(not(loom))]
use crate::faults::{self, Fault};

const QUERY: libc::c_int = 0;
const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// What the kernel lets this process do. Found once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Barriers over the threads of this process.
    pub private: bool,
    /// Barriers over all processes that registered.
    pub global: bool,
}

fn call(command: libc::c_int) -> libc::c_long {
    // SAFETY: membarrier takes integers only and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Registers this process for both kinds of barrier, once, and says which work. Cheap while the
/// process has one thread, milliseconds later: initialisation calls it first.
pub fn register() -> Abilities {
    static FOUND: OnceLock<Abilities> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let offered = supported();
        Abilities {
            private: offered.private && call(REGISTER_PRIVATE_EXPEDITED) == 0,
            global: offered.global && call(REGISTER_GLOBAL_EXPEDITED) == 0,
        }
    })
}

/// What the kernel offers, without registering.
pub fn supported() -> Abilities {
    #[cfg(not(loom))]
    if faults::on() && faults::strikes(Fault::Membarrier) {
        return Abilities { private: false, global: false };
    }
    let mask = call(QUERY);
    let offers = |bits: libc::c_int| mask >= 0 && mask & libc::c_long::from(bits) == libc::c_long::from(bits);
    Abilities {
        private: offers(PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED),
        global: offers(GLOBAL_EXPEDITED | REGISTER_GLOBAL_EXPEDITED),
    }
}

/// A full barrier on every processor that runs a thread of this process. Needs
/// [`register`]`().private`.
pub(crate) fn private() {
    // A registered process cannot be refused: the answer says nothing new.
    let answer = call(PRIVATE_EXPEDITED);
    debug_assert_eq!(answer, 0, "membarrier refused after registration");
}

/// A full barrier on every processor that runs a registered process. Needs
/// [`register`]`().global`.
pub fn global() {
    let answer = call(GLOBAL_EXPEDITED);
    debug_assert_eq!(answer, 0, "membarrier refused after registration");
}

#[cfg(test)]
mod tests {
    #[test]
    fn registering_agrees_with_what_is_offered() {
        let offered = super::supported();
        let got = super::register();
        assert!(!got.private || offered.private);
        assert!(!got.global || offered.global);
        if got.private {
            super::private();
        }
        if got.global {
            super::global();
        }
    }
}
